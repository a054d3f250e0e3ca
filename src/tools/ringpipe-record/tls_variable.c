/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/tls_variable.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tools/ringpipe-record/bounded_read.h"

#define DYNAMIC_MAX 512u
#define CHAIN_MAX 65536u		/* symbols of one bucket */
#define RELOCATIONS_MAX 1000000u
#define NAME_MAX_BYTES 64u

/* No thread has more thread-local variables than this at fixed offsets. */
#define FIXED_BYTES_MAX (1ll << 30)
#define MODULES_MAX 65536u

/* The tables of a file that are needed here, as its dynamic section states them. */
struct tls_tables {
	const struct rp_tls_file *file;
	uint64_t hash, symbols, strings, string_bytes;
	uint64_t relocations[2], relocation_bytes[2];	/* DT_RELA and DT_JMPREL */
	bool is_executable;
};

/* Read from an address of the file. Return: whether all bytes are in the file. */
static bool read_at(const struct rp_tls_file *file, uint64_t address, void *bytes, size_t size)
{
	for (uint32_t i = 0; i < file->count; i++) {
		const Elf64_Phdr *segment = &file->headers[i];
		const uint64_t from = address - segment->p_vaddr;

		if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
		    from < segment->p_filesz && size <= segment->p_filesz - from)
			return pread(file->fd, bytes, size, (off_t)(segment->p_offset + from)) ==
			       (ssize_t)size;
	}
	return false;
}

static void take_entry(struct tls_tables *tables, const Elf64_Dyn *entry)
{
	const uint64_t value = entry->d_un.d_val;

	switch (entry->d_tag) {
	case DT_GNU_HASH:
		tables->hash = value;
		break;
	case DT_SYMTAB:
		tables->symbols = value;
		break;
	case DT_STRTAB:
		tables->strings = value;
		break;
	case DT_STRSZ:
		tables->string_bytes = value;
		break;
	case DT_RELA:
		tables->relocations[0] = value;
		break;
	case DT_RELASZ:
		tables->relocation_bytes[0] = value;
		break;
	case DT_JMPREL:
		tables->relocations[1] = value;
		break;
	case DT_PLTRELSZ:
		tables->relocation_bytes[1] = value;
		break;
	case DT_FLAGS_1:
		tables->is_executable |= (value & DF_1_PIE) != 0;
		break;
	default:
		break;
	}
}

static bool read_tables(const struct rp_tls_file *file, struct tls_tables *tables)
{
	*tables = (struct tls_tables){ .file = file, .is_executable = file->is_fixed };
	for (uint32_t i = 0; i < file->count; i++) {
		const Elf64_Phdr *segment = &file->headers[i];
		Elf64_Dyn entry;

		if (segment->p_type != PT_DYNAMIC)
			continue;
		for (uint64_t at = 0; at < DYNAMIC_MAX; at++) {
			if (!read_at(file, segment->p_vaddr + at * sizeof(entry), &entry,
				     sizeof(entry)) || entry.d_tag == DT_NULL)
				break;
			take_entry(tables, &entry);
		}
	}
	return tables->hash && tables->symbols && tables->strings;
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

static bool has_name(const struct tls_tables *tables, const Elf64_Sym *symbol, const char *name)
{
	const size_t size = strlen(name) + 1;
	char text[NAME_MAX_BYTES];

	return size <= sizeof(text) && symbol->st_name < tables->string_bytes &&
	       read_at(tables->file, tables->strings + symbol->st_name, text, size) &&
	       memcmp(text, name, size) == 0;
}

static bool read_symbol(const struct tls_tables *tables, uint64_t index, Elf64_Sym *ret_symbol)
{
	return read_at(tables->file, tables->symbols + index * sizeof(*ret_symbol), ret_symbol,
		       sizeof(*ret_symbol));
}

/* Find a symbol by the hash table DT_GNU_HASH, whose filter rules out most files at once. */
static bool find_symbol(const struct tls_tables *tables, const char *name, Elf64_Sym *ret_symbol)
{
	const uint32_t hash = hash_of(name);
	/* The numbers of buckets, of the first symbol, of words in the filter, and a shift. */
	uint32_t header[4], index, link;
	uint64_t filter, buckets, chains;

	if (!read_at(tables->file, tables->hash, header, sizeof(header)) || !header[0] ||
	    !header[2] || header[3] > 31 ||
	    !read_at(tables->file, tables->hash + sizeof(header) +
		     (uint64_t)(hash / 64 % header[2]) * 8, &filter, sizeof(filter)) ||
	    !(filter >> (hash & 63) & filter >> (hash >> header[3] & 63) & 1))
		return false;
	buckets = tables->hash + sizeof(header) + (uint64_t)header[2] * 8;
	chains = buckets + (uint64_t)header[0] * 4;
	if (!read_at(tables->file, buckets + (uint64_t)(hash % header[0]) * 4, &index,
		     sizeof(index)) || index < header[1])
		return false;
	for (uint32_t i = 0; i < CHAIN_MAX; i++, index++) {
		if (!read_at(tables->file, chains + (uint64_t)(index - header[1]) * 4, &link,
			     sizeof(link)))
			return false;
		if ((link | 1) == (hash | 1) && read_symbol(tables, index, ret_symbol) &&
		    has_name(tables, ret_symbol, name))
			return true;
		if (link & 1)
			return false;
	}
	return false;
}

/*
 * The offset of the variable in the executable's block, which ends at the thread pointer. Return:
 * whether the file has such a block.
 */
static bool find_fixed(const struct rp_tls_file *file, const Elf64_Sym *symbol,
		       struct rp_tls_variable *ret_variable)
{
	for (uint32_t i = 0; i < file->count; i++) {
		const Elf64_Phdr *segment = &file->headers[i];
		const uint64_t align = segment->p_align ? segment->p_align : 1;

		if (segment->p_type != PT_TLS)
			continue;
		if (segment->p_memsz > FIXED_BYTES_MAX || align > FIXED_BYTES_MAX ||
		    symbol->st_value >= segment->p_memsz)
			return false;
		ret_variable->offset = (int64_t)symbol->st_value -
			(int64_t)((segment->p_memsz + align - 1) / align * align);
		ret_variable->kind = RP_TLS_FIXED;
		return true;
	}
	return false;
}

/* Whether the relocation is of the variable, by its name or by its place in the file's block. */
static bool is_of_variable(const struct tls_tables *tables, const Elf64_Rela *relocation,
			   const Elf64_Sym *variable, const char *name)
{
	const uint64_t index = ELF64_R_SYM(relocation->r_info);
	Elf64_Sym symbol;

	if (index == 0)
		return (uint64_t)relocation->r_addend == variable->st_value;
	return relocation->r_addend == 0 && read_symbol(tables, index, &symbol) &&
	       has_name(tables, &symbol, name);
}

static void find_slot(const struct tls_tables *tables, const Elf64_Sym *symbol, const char *name,
		      struct rp_tls_variable *ret_variable)
{
	for (int table = 0; table < 2; table++) {
		uint64_t count = tables->relocation_bytes[table] / sizeof(Elf64_Rela);
		Elf64_Rela row;

		count = count < RELOCATIONS_MAX ? count : RELOCATIONS_MAX;
		for (uint64_t i = 0; i < count; i++) {
			if (!read_at(tables->file, tables->relocations[table] + i * sizeof(row),
				     &row, sizeof(row)))
				break;
			if ((ELF64_R_TYPE(row.r_info) != R_X86_64_TLSDESC &&
			     ELF64_R_TYPE(row.r_info) != R_X86_64_TPOFF64) ||
			    !is_of_variable(tables, &row, symbol, name))
				continue;
			ret_variable->slot = row.r_offset;
			ret_variable->kind = ELF64_R_TYPE(row.r_info) == R_X86_64_TLSDESC ?
					     RP_TLS_DESCRIPTOR : RP_TLS_OFFSET;
			return;
		}
	}
}

void rp_tls_variable_find(const struct rp_tls_file *file, const char *name,
			  struct rp_tls_variable *ret_variable)
{
	struct tls_tables tables;
	Elf64_Sym symbol;

	*ret_variable = (struct rp_tls_variable){ .kind = RP_TLS_NONE };
	if (!read_tables(file, &tables) || !find_symbol(&tables, name, &symbol) ||
	    ELF64_ST_TYPE(symbol.st_info) != STT_TLS || symbol.st_shndx == SHN_UNDEF)
		return;
	if (tables.is_executable)
		(void)find_fixed(file, &symbol, ret_variable);
	else
		find_slot(&tables, &symbol, name, ret_variable);
}

/* Return: 0; -ERANGE. x86-64 has fixed offsets below the thread pointer. */
static int set_fixed(int64_t offset, struct rp_context_place *ret_place)
{
	if (offset >= 0 || offset < -FIXED_BYTES_MAX)
		return -ERANGE;
	*ret_place = (struct rp_context_place){ .module = 0, .offset = offset };
	return 0;
}

/* glibc: the argument of a descriptor without a fixed offset points at these two words. */
static int read_module(pid_t process, uint64_t argument, struct rp_context_place *ret_place)
{
	uint64_t index[2];

	if (!rp_bounded_read(process, argument, index, sizeof(index)))
		return -EAGAIN;
	if (index[0] == 0 || index[0] > MODULES_MAX || index[1] > (uint64_t)FIXED_BYTES_MAX)
		return -ERANGE;
	*ret_place = (struct rp_context_place){
		.module = index[0], .offset = (int64_t)index[1],
	};
	return 0;
}

int rp_tls_variable_locate(const struct rp_tls_variable *variable, pid_t process, uint64_t bias,
			   struct rp_context_place *ret_place)
{
	uint64_t words[2] = { 0 };

	switch (variable->kind) {
	case RP_TLS_FIXED:
		return set_fixed(variable->offset, ret_place);
	case RP_TLS_OFFSET:
		if (!rp_bounded_read(process, bias + variable->slot, words, 8) || !words[0])
			return -EAGAIN;
		return set_fixed((int64_t)words[0], ret_place);
	case RP_TLS_DESCRIPTOR:
		/* Before the loader has relocated it, the function is an address of the file. */
		if (!rp_bounded_read(process, bias + variable->slot, words, 16) ||
		    !words[0] || !words[1])
			return -EAGAIN;
		if ((int64_t)words[1] < 0)
			return set_fixed((int64_t)words[1], ret_place);
		return read_module(process, words[1], ret_place);
	default:
		return -ERANGE;
	}
}
