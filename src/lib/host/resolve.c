/* SPDX-License-Identifier: MIT */
#include "host/resolve.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include <ringpipe/types.h>

#include "base/array.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/text.h"
#include "base/thread.h"
#include "host/mappings.h"
#include "host/methods.h"
#include "host/symbols.h"
#include "host/uleb.h"

#define READ_NS 4000000000u		/* after this time: no further file or symbol */
#define HANG_NS 6000000000u		/* after this time: abandon the thread */
#define BYTES_MAX (16u << 20)
#define NOTE_BYTES 256u
/* Up to five integers, the length of the name, and the name. */
#define RECORD_BYTES (5u * RP_ULEB_BYTES + 2u + RP_SYMBOL_NAME_MAX)

enum resolve_state {
	STATE_WORKING,
	STATE_DONE,		/* set by the thread: the owner may read the results */
	STATE_LEFT,		/* set by the owner: the thread frees the struct */
};

struct record_header {
	uint32_t id;			/* enum rp_rundown_id */
	uint32_t payload_bytes;
};

struct rp_resolve {
	uint32_t state;
	pthread_t thread;
	uint64_t begun_ns, ended_ns;
	struct rp_address *addresses;	/* sorted */
	bool *taken;			/* the address is assigned to a mapping */
	size_t count;
	uint32_t named;
	const struct rp_mapping *mapping;	/* the current one */
	bool overlaps;			/* another mapping has had some of its addresses */
	uint64_t *own;			/* its addresses, as virtual addresses of the ELF file */
	size_t own_count;
	uint8_t *bytes;			/* repeated: struct record_header, payload */
	size_t size, capacity;
	uint32_t symbols;
	uint32_t module_count;		/* of the host, in the records */
	char note[NOTE_BYTES];
};

static void note(struct rp_resolve *resolve, const char *text)
{
	if (!*resolve->note)
		snprintf(resolve->note, sizeof(resolve->note), "%s", text);
}

static bool is_over(void *data)
{
	struct rp_resolve *resolve = data;

	if (rp_load_relaxed(&resolve->state) == STATE_WORKING &&
	    rp_clock_monotonic_ns() < resolve->begun_ns + READ_NS)
		return false;
	note(resolve, "reading symbols took too long");
	return true;
}

static bool make_space(struct rp_resolve *resolve)
{
	size_t capacity = resolve->capacity ? 2 * resolve->capacity : 64u << 10;
	uint8_t *grown;

	if (resolve->capacity - resolve->size >= sizeof(struct record_header) + RECORD_BYTES)
		return true;
	grown = capacity <= BYTES_MAX ? rp_heap_resize(resolve->bytes, capacity) : NULL;
	if (!grown) {
		note(resolve, "the symbols took too much memory");
		return false;
	}
	resolve->bytes = grown;
	resolve->capacity = capacity;
	return true;
}

/* Put a record of integers and a text, as the payloads of Universal.System begin. */
static void put_record(struct rp_resolve *resolve, enum rp_rundown_id id, const uint64_t numbers[4],
		       const char *text)
{
	size_t text_bytes = strnlen(text, RP_SYMBOL_NAME_MAX);
	uint16_t length = (uint16_t)text_bytes;
	struct record_header header = { .id = id };
	uint8_t *payload = resolve->bytes + resolve->size + sizeof(header), *at = payload;

	for (int i = 0; i < 4; i++)
		at += rp_uleb_put(at, numbers[i]);
	memcpy(at, &length, sizeof(length));
	memcpy(at + sizeof(length), text, text_bytes);
	at += sizeof(length) + text_bytes;
	/* The mapping has no metadata. */
	if (id == RP_RUNDOWN_MAPPING)
		at += rp_uleb_put(at, 0);
	header.payload_bytes = (uint32_t)(at - payload);
	memcpy(payload - sizeof(header), &header, sizeof(header));
	resolve->size += sizeof(header) + header.payload_bytes;
}

static void put_symbol(struct rp_resolve *resolve, uint64_t start, uint64_t last, const char *name)
{
	const struct rp_mapping *mapping = resolve->mapping;
	const uint64_t numbers[4] = {
		++resolve->symbols, mapping->id, start + mapping->bias, last + mapping->bias,
	};

	put_record(resolve, RP_RUNDOWN_SYMBOL, numbers, name);
}

_Static_assert(offsetof(struct rp_address, address) == 0, "rp_array_find() expects the key first");

static size_t first_at(const struct rp_resolve *resolve, uint64_t address)
{
	return rp_array_find(resolve->addresses, resolve->count, sizeof(*resolve->addresses),
			     address);
}

/*
 * Readers disagree whether a symbol's end is inclusive. Unless the byte after the symbol is itself
 * an address in a stack, report that byte, which is correct for both.
 */
static uint64_t end_of(const struct rp_resolve *resolve, uint64_t end)
{
	size_t at = first_at(resolve, end);

	return at < resolve->count && resolve->addresses[at].address == end ? end - 1 : end;
}

/* The same for a virtual address of the ELF file. */
static uint64_t reported_end(const struct rp_resolve *resolve, uint64_t end)
{
	const uint64_t bias = resolve->mapping->bias;

	return end_of(resolve, end + bias) - bias;
}

/*
 * If other code was mapped there at another time, report only the addresses in stacks: readers
 * would apply a function's whole range to all times.
 */
static void found(void *data, uint64_t start, uint64_t end, const char *name)
{
	struct rp_resolve *resolve = data;

	if (!resolve->overlaps && !make_space(resolve))
		return;
	if (!resolve->overlaps)
		put_symbol(resolve, start, reported_end(resolve, end), name);
	for (size_t i = rp_array_find(resolve->own, resolve->own_count, sizeof(uint64_t), start);
	     i < resolve->own_count && resolve->own[i] < end; i++) {
		if (resolve->overlaps && !make_space(resolve))
			return;
		if (resolve->overlaps)
			put_symbol(resolve, resolve->own[i],
				   reported_end(resolve, resolve->own[i] + 1), name);
		resolve->named++;
	}
}

/* Select the mapping's addresses, except those that a later mapping has taken. */
static void take_addresses(struct rp_resolve *resolve)
{
	const struct rp_mapping *mapping = resolve->mapping;

	resolve->own_count = 0;
	for (size_t i = first_at(resolve, mapping->start);
	     i < resolve->count && resolve->addresses[i].address < mapping->end; i++) {
		if (resolve->taken[i] || resolve->addresses[i].time_ns < mapping->after_ns)
			continue;
		resolve->taken[i] = true;
		resolve->own[resolve->own_count++] = resolve->addresses[i].address - mapping->bias;
	}
}

static bool overlaps_another(const struct rp_mapping *mapping, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct rp_mapping *other = rp_mappings_at(i);

		if (other != mapping && other->start < mapping->end && mapping->start < other->end)
			return true;
	}
	return false;
}

static void resolve_mapping(struct rp_resolve *resolve, rp_symbols_find_callback find)
{
	const struct rp_mapping *mapping = resolve->mapping;
	char map_file[64];
	const char *paths[2] = { mapping->path, map_file };
	struct rp_symbols_query query = {
		.size = sizeof(query),
		.address_count = (uint32_t)resolve->own_count,
		.addresses = resolve->own,
		.paths = paths,
		.path_count = 2,
		.named = mapping->path,
		.debug_directory = "/usr/lib/debug",
		.build_id = mapping->build_id,
		.build_id_bytes = mapping->build_id_bytes,
		.found = found,
		.is_over = is_over,
		.data = resolve,
	};
	char text[NOTE_BYTES];
	int ret;

	/*
	 * For a deleted or replaced file. Only root may open this link, except the program's own.
	 */
	snprintf(map_file, sizeof(map_file), "/proc/self/map_files/%llx-%llx",
		 (unsigned long long)mapping->start, (unsigned long long)mapping->end);
	if (mapping->kind == RP_MAPPING_PROGRAM)
		paths[0] = "/proc/self/exe";
	if (mapping->kind == RP_MAPPING_VDSO) {
		query.image = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
		query.image_bytes = mapping->end - (uint64_t)(uintptr_t)query.image;
	}
	ret = find(&query);
	if (ret != 0) {
		snprintf(text, sizeof(text), "%s: %s", mapping->path, rp_text_error(-ret));
		note(resolve, text);
	}
}

/* The mappings of the host's modules have the ids from this one down: see CUT_ID in rundown.c. */
#define MODULE_ID_MAX (UINT32_MAX - 1)

static bool put_module(struct rp_resolve *resolve, struct rp_method_module *module)
{
	const uint64_t numbers[4] = {
		MODULE_ID_MAX - resolve->module_count, module->start, module->end, 0,
	};

	if (!make_space(resolve))
		return false;
	put_record(resolve, RP_RUNDOWN_MAPPING, numbers, module->path);
	module->mapping = numbers[0];
	resolve->module_count++;
	return true;
}

/* Return: false: no memory. */
static bool put_method(struct rp_resolve *resolve, struct rp_method_modules *modules,
		       const struct rp_method *method)
{
	struct rp_method_module *module = rp_method_modules_find(modules, method);
	uint64_t numbers[4] = { 0, 0, method->start, 0 };

	if (!module || (!module->mapping && !put_module(resolve, module)) || !make_space(resolve))
		return false;
	numbers[0] = ++resolve->symbols;
	numbers[1] = module->mapping;
	numbers[3] = end_of(resolve, method->end);
	put_record(resolve, RP_RUNDOWN_SYMBOL, numbers, method->text);
	return true;
}

static bool is_same(const struct rp_method *a, const struct rp_method *b)
{
	return a->start == b->start && a->end == b->end && strcmp(a->text, b->text) == 0;
}

/* Resolve the addresses outside of loaded objects. */
static void resolve_methods(struct rp_resolve *resolve)
{
	struct rp_method methods[2] = { { 0, 0, "" } }, *last = &methods[0], *next = &methods[1];
	struct rp_method_modules modules;
	struct rp_code_list code;

	rp_method_modules_init(&modules);
	rp_generated_code_list(&code);
	for (size_t i = 0; i < resolve->count && !is_over(resolve); i++) {
		struct rp_method *found = next;

		if (resolve->taken[i] || resolve->addresses[i].address == RP_FRAME_CUT ||
		    !rp_method_find(&code, &resolve->addresses[i], found))
			continue;
		if (!is_same(found, last)) {
			if (!put_method(resolve, &modules, found))
				continue;
			next = last;
			last = found;
		}
		resolve->taken[i] = true;
		resolve->named++;
	}
	rp_code_list_fini(&code);
	rp_method_modules_fini(&modules);
}

static void resolve_objects(struct rp_resolve *resolve)
{
	char reason[NOTE_BYTES];
	size_t count = 0;
	rp_symbols_find_callback find = rp_symbols_load(reason, sizeof(reason));

	if (!find) {
		note(resolve, reason);
		return;
	}
	while (rp_mappings_at(count))
		count++;
	for (size_t i = count; i-- > 0;) {
		resolve->mapping = rp_mappings_at(i);
		take_addresses(resolve);
		if (!resolve->own_count)
			continue;
		if (is_over(resolve))
			return;
		resolve->overlaps = overlaps_another(resolve->mapping, count);
		resolve_mapping(resolve, find);
	}
}

static void resolve_all(struct rp_resolve *resolve)
{
	resolve_objects(resolve);
	resolve_methods(resolve);
}

static void free_resolve(struct rp_resolve *resolve)
{
	rp_mappings_release();
	rp_heap_free(resolve->addresses);
	rp_heap_free(resolve->own);
	rp_heap_free(resolve->taken);
	rp_heap_free(resolve->bytes);
	rp_heap_free(resolve);
}

static void *run(void *data)
{
	struct rp_resolve *resolve = data;
	uint32_t working = STATE_WORKING;

	resolve_all(resolve);
	resolve->ended_ns = rp_clock_monotonic_ns();
	if (!rp_cas_seq_cst(&resolve->state, &working, STATE_DONE))
		free_resolve(resolve);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const struct rp_address *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

int rp_resolve_start(const struct rp_address *addresses, size_t count,
		     struct rp_resolve **ret_resolve)
{
	struct rp_resolve *resolve = rp_heap_zalloc(1, sizeof(*resolve));
	int ret = -ENOMEM;

	if (!resolve)
		return ret;
	rp_mappings_hold();
	resolve->addresses = rp_heap_alloc(count * sizeof(*addresses) + 1);
	resolve->own = rp_heap_alloc(count * sizeof(*resolve->own) + 1);
	resolve->taken = rp_heap_zalloc(count + 1, sizeof(*resolve->taken));
	if (resolve->addresses && resolve->own && resolve->taken) {
		memcpy(resolve->addresses, addresses, count * sizeof(*addresses));
		qsort(resolve->addresses, count, sizeof(*addresses), compare);
		resolve->count = count;
		resolve->begun_ns = rp_clock_monotonic_ns();
		ret = rp_thread_start(&resolve->thread, "ringpipe-names", run, resolve);
	}
	if (ret != 0) {
		free_resolve(resolve);
		return ret;
	}
	*ret_resolve = resolve;
	return 0;
}

bool rp_resolve_is_busy(const struct rp_resolve *resolve)
{
	return rp_load_acquire(&resolve->state) == STATE_WORKING &&
	       rp_clock_monotonic_ns() < resolve->begun_ns + HANG_NS;
}

/* Leave the struct to the thread if the thread still runs. Return: whether it does. */
static bool leave(struct rp_resolve *resolve)
{
	pthread_t thread = resolve->thread;
	uint32_t working = STATE_WORKING;

	if (rp_load_acquire(&resolve->state) == STATE_DONE ||
	    !rp_cas_seq_cst(&resolve->state, &working, STATE_LEFT))
		return false;
	pthread_detach(thread);
	return true;
}

int rp_resolve_end(struct rp_resolve *resolve, struct rp_resolve_result *ret_result)
{
	if (leave(resolve))
		return -ETIMEDOUT;
	*ret_result = (struct rp_resolve_result){
		.time_ms = (uint32_t)((resolve->ended_ns - resolve->begun_ns) / 1000000),
		.symbols = resolve->symbols,
		.named = resolve->named,
		.bytes = resolve->capacity + resolve->count *
			 (sizeof(*resolve->addresses) + sizeof(*resolve->own) + 1),
		.note = resolve->note,
	};
	return 0;
}

static struct record_header header_at(const struct rp_resolve *resolve, size_t offset)
{
	struct record_header header;

	memcpy(&header, resolve->bytes + offset, sizeof(header));
	return header;
}

const void *rp_resolve_record(const struct rp_resolve *resolve, size_t offset,
			      enum rp_rundown_id *ret_id, size_t *ret_size)
{
	struct record_header header;

	if (offset >= resolve->size)
		return NULL;
	header = header_at(resolve, offset);
	*ret_id = header.id;
	*ret_size = header.payload_bytes;
	return resolve->bytes + offset + sizeof(header);
}

size_t rp_resolve_after(const struct rp_resolve *resolve, size_t offset)
{
	struct record_header header = header_at(resolve, offset);

	return offset + sizeof(header) + header.payload_bytes;
}

void rp_resolve_destroy(struct rp_resolve *resolve)
{
	if (!resolve || leave(resolve))
		return;
	pthread_join(resolve->thread, NULL);
	free_resolve(resolve);
}
