/* SPDX-License-Identifier: MIT */
/*
 * Makes one pass over a symbol table and searches each symbol's range in the sorted addresses: a
 * table has a million symbols, a trace only some thousand addresses.
 */
#include "modules/symbols/symbol_table.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOLS_AT_ONCE 2048u
#define WORK_AT_ONCE 100000u
#define NAME_WORK 100u		/* cost of a name, relative to the check of an address */

/* From libstdc++, whose header for it is C++ only. */
char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status);

enum rank {
	RANK_NONE,
	RANK_LABEL,		/* without a size: extends to the next symbol */
	RANK_LOCAL,
	RANK_GLOBAL,
};

/* The best symbol so far for an address. */
struct rp_match {
	uint64_t start, end;
	uint64_t name;		/* offset in the file */
	enum rank rank;
	bool named;		/* by this table or an earlier one */
};

/* The last symbol that starts at or before an address and after the previous address. */
struct rp_edge {
	uint64_t start;
	uint64_t end;		/* of a label's section; 0: not a label */
	uint64_t name;
};

struct symbol_scan {
	struct rp_lookup *lookup;
	const struct rp_object_file *object;
	uint64_t names, names_bytes;	/* the string table */
	uint32_t work;			/* since the last call of is_over() */
	bool over;
};

/* A damaged table may have any number of symbols that contain every address. */
static bool work(struct symbol_scan *scan, uint32_t amount)
{
	const struct rp_symbols_query *query = scan->lookup->query;

	scan->work += amount;
	if (!scan->over && scan->work >= WORK_AT_ONCE) {
		scan->work = 0;
		scan->over = query->is_over(query->data);
	}
	return !scan->over;
}

int rp_lookup_init(struct rp_lookup *lookup, const struct rp_symbols_query *query)
{
	lookup->query = query;
	lookup->unnamed = query->address_count;
	lookup->matches = calloc(query->address_count, sizeof(*lookup->matches));
	lookup->edges = calloc(query->address_count, sizeof(*lookup->edges));
	return lookup->matches && lookup->edges ? 0 : -ENOMEM;
}

void rp_lookup_fini(struct rp_lookup *lookup)
{
	free(lookup->matches);
	free(lookup->edges);
}

/* Return: the index of the first address that is not below `address`. */
static uint32_t first_at(const struct rp_symbols_query *query, uint64_t address)
{
	uint32_t low = 0, high = query->address_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (query->addresses[middle] < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static size_t read_name(const struct symbol_scan *scan, uint64_t at, char *ret_name, size_t space)
{
	size_t size = rp_object_read(scan->object, at, ret_name, space - 1);

	ret_name[size] = '\0';
	return strlen(ret_name);
}

/* Whether a name is the more common of two for the same code: `write`, not `__GI___write`. */
static bool is_plainer(const struct symbol_scan *scan, uint64_t name, uint64_t than)
{
	char a[64], b[64];
	size_t a_size = read_name(scan, name, a, sizeof(a));
	size_t b_size = read_name(scan, than, b, sizeof(b));
	size_t a_lead = strspn(a, "_"), b_lead = strspn(b, "_");

	return a_lead != b_lead ? a_lead < b_lead : a_size < b_size;
}

static void offer(struct symbol_scan *scan, struct rp_match *match, const struct rp_match *with)
{
	if (match->named || with->rank < match->rank ||
	    (with->rank == match->rank && with->start < match->start) ||
	    (with->rank == match->rank && with->start == match->start &&
	     (!work(scan, NAME_WORK) || !is_plainer(scan, with->name, match->name))))
		return;
	*match = *with;
}

/* A label extends to the end of its section, unless another symbol starts before. */
static uint64_t label_end(const struct symbol_scan *scan, const ElfW(Sym) *symbol)
{
	GElf_Shdr section;
	Elf_Scn *own = symbol->st_shndx < SHN_LORESERVE ?
		       elf_getscn(scan->object->elf, symbol->st_shndx) : NULL;

	if (!own || !gelf_getshdr(own, &section) || !(section.sh_flags & SHF_EXECINSTR) ||
	    symbol->st_value - section.sh_addr >= section.sh_size)
		return 0;
	return section.sh_addr + section.sh_size;
}

static void take_symbol(struct symbol_scan *scan, const ElfW(Sym) *symbol)
{
	const struct rp_symbols_query *query = scan->lookup->query;
	unsigned int type = symbol->st_info & 0xf, binding = symbol->st_info >> 4;
	struct rp_match with = {
		.start = symbol->st_value,
		.end = symbol->st_value + symbol->st_size,
		.name = scan->names + symbol->st_name,
		.rank = binding == STB_LOCAL ? RANK_LOCAL : RANK_GLOBAL,
	};
	struct rp_edge *edge;
	uint32_t first;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
	    symbol->st_shndx == SHN_UNDEF || symbol->st_name >= scan->names_bytes)
		return;
	first = first_at(query, with.start);
	if (first == query->address_count)
		return;
	edge = &scan->lookup->edges[first];
	if (with.start > edge->start || (with.start == edge->start && symbol->st_size))
		*edge = (struct rp_edge){
			.start = with.start,
			.end = symbol->st_size ? 0 : label_end(scan, symbol),
			.name = with.name,
		};
	if (with.end < with.start)
		return;
	for (uint32_t i = first; i < query->address_count && query->addresses[i] < with.end &&
	     work(scan, 1); i++)
		offer(scan, &scan->lookup->matches[i], &with);
}

/* Assign addresses that no sized symbol contains to the label before them. */
static void take_labels(struct rp_lookup *lookup)
{
	const struct rp_symbols_query *query = lookup->query;
	struct rp_edge edge = { 0 };

	for (uint32_t i = 0; i < query->address_count; i++) {
		struct rp_match *match = &lookup->matches[i];

		if (lookup->edges[i].start > edge.start)
			edge = lookup->edges[i];
		if (match->named || match->rank || query->addresses[i] >= edge.end)
			continue;
		*match = (struct rp_match){
			.start = edge.start,
			.end = query->addresses[i] + 1,	/* the label's end is unknown */
			.name = edge.name,
			.rank = RANK_LABEL,
		};
	}
}

/* Demangle a C++ name, and remove the version that a symbol of a library may have. */
static char *readable_name(const struct symbol_scan *scan, uint64_t at)
{
	uint64_t left = scan->names + scan->names_bytes - at;
	size_t space = left < RP_SYMBOL_NAME_MAX * 4 ? (size_t)left : RP_SYMBOL_NAME_MAX * 4;
	char *name = malloc(space + 1), *plain;
	int status;

	if (!name)
		return NULL;
	(void)read_name(scan, at, name, space + 1);
	name[strcspn(name, "@")] = '\0';
	plain = strncmp(name, "_Z", 2) == 0 ? __cxa_demangle(name, NULL, NULL, &status) : NULL;
	if (plain) {
		free(name);
		name = plain;
	}
	if (strlen(name) > RP_SYMBOL_NAME_MAX)
		name[RP_SYMBOL_NAME_MAX] = '\0';
	return name;
}

/* Whether an address belongs to the same function as the previous one. */
static bool is_same(const struct rp_match *match, const struct rp_match *before)
{
	return match->start == before->start && match->rank == before->rank && !match->named;
}

/* Report the functions found, in the order of their addresses. */
static void emit(struct symbol_scan *scan)
{
	struct rp_lookup *lookup = scan->lookup;
	const struct rp_symbols_query *query = lookup->query;

	for (uint32_t i = 0, next; i < query->address_count; i = next) {
		struct rp_match *match = &lookup->matches[i];
		char *name;

		next = i + 1;
		if (match->named || !match->rank || !work(scan, NAME_WORK))
			continue;
		while (next < query->address_count && is_same(&lookup->matches[next], match))
			next++;
		name = readable_name(scan, match->name);
		if (name && *name) {
			query->found(query->data, match->start, lookup->matches[next - 1].end,
				     name);
			for (uint32_t at = i; at < next; at++)
				lookup->matches[at].named = true;
			lookup->unnamed -= next - i;
		}
		free(name);
	}
}

/* Discard the results of one table before the next. */
static void forget(struct rp_lookup *lookup)
{
	for (uint32_t i = 0; i < lookup->query->address_count; i++)
		lookup->matches[i].rank = RANK_NONE;
	memset(lookup->edges, 0, lookup->query->address_count * sizeof(*lookup->edges));
}

bool rp_lookup_table(struct rp_lookup *lookup, const struct rp_object_file *object, uint32_t type)
{
	struct symbol_scan scan = { .lookup = lookup, .object = object, .work = WORK_AT_ONCE };
	const size_t step = sizeof(ElfW(Sym));
	ElfW(Sym) symbols[SYMBOLS_AT_ONCE];
	GElf_Shdr table, strings;
	uint64_t end;
	size_t got;

	if (!rp_object_section(object, type, NULL, &table) || table.sh_entsize != step ||
	    !gelf_getshdr(elf_getscn(object->elf, table.sh_link), &strings) ||
	    strings.sh_type != SHT_STRTAB || strings.sh_offset > INT64_MAX ||
	    strings.sh_size > INT64_MAX)
		return false;
	scan.names = strings.sh_offset;
	scan.names_bytes = strings.sh_size;
	end = table.sh_offset + table.sh_size;
	for (uint64_t at = table.sh_offset; at < end && lookup->unnamed; at += got) {
		size_t wanted = end - at < sizeof(symbols) ? (size_t)(end - at) : sizeof(symbols);

		got = rp_object_read(object, at, symbols, wanted) / step * step;
		if (!got || !work(&scan, SYMBOLS_AT_ONCE))
			break;
		for (size_t i = 0; i < got / step; i++)
			take_symbol(&scan, &symbols[i]);
	}
	take_labels(lookup);
	emit(&scan);
	forget(lookup);
	return true;
}
