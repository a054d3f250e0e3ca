/* SPDX-License-Identifier: MIT */
/*
 * Source: <link.h>, struct r_debug and struct link_map; DT_DEBUG of the program's dynamic section
 * points to the first. All of this is memory of the process and may contain anything.
 */
#include "tools/ringpipe-dump/loader.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/file.h"
#include "base/process_memory.h"

/* The fields that debuggers read. The loader's private fields follow. */
#define NAME_BYTES 256u
#define AUXV_MAX 64u
#define HEADERS_MAX 64u
#define DYNAMIC_MAX 128u

static uint64_t auxiliary(pid_t pid, uint64_t type)
{
	Elf64_auxv_t entries[AUXV_MAX];
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	n = rp_file_read(path, entries, sizeof(entries));
	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(entries[0]); i++) {
		if (entries[i].a_type == type)
			return entries[i].a_un.a_val;
	}
	return 0;
}

/* Return: the address of the program's dynamic section, or 0. */
static uint64_t dynamic_section(pid_t pid)
{
	uint64_t headers = auxiliary(pid, AT_PHDR), count = auxiliary(pid, AT_PHNUM);
	uint64_t bias = 0, dynamic = 0;

	for (uint64_t i = 0; headers && i < count && i < HEADERS_MAX; i++) {
		Elf64_Phdr header;

		if (!rp_process_memory_read(pid, headers + i * sizeof(header), &header,
					    sizeof(header)))
			return 0;
		if (header.p_type == PT_PHDR)
			bias = headers - header.p_vaddr;
		if (header.p_type == PT_DYNAMIC)
			dynamic = header.p_vaddr;
	}
	return dynamic ? dynamic + bias : 0;
}

static uint64_t debug_address(pid_t pid)
{
	uint64_t dynamic = dynamic_section(pid);

	for (unsigned int i = 0; dynamic && i < DYNAMIC_MAX; i++) {
		Elf64_Dyn entry;

		if (!rp_process_memory_read(pid, dynamic + i * sizeof(entry), &entry,
					    sizeof(entry)) ||
		    entry.d_tag == DT_NULL)
			return 0;
		if (entry.d_tag == DT_DEBUG)
			return entry.d_un.d_ptr;
	}
	return 0;
}

void rp_dump_loader_find(pid_t pid, rp_dump_loader_found found, void *data)
{
	uint64_t address = debug_address(pid), at;
	struct r_debug debug;
	struct link_map map;

	if (!address || !rp_process_memory_read(pid, address, &debug, sizeof(debug)))
		return;
	found(address, sizeof(debug), data);
	at = (uint64_t)(uintptr_t)debug.r_map;
	for (unsigned int i = 1; at && i + 3 <= RP_DUMP_LOADER_MAX; i += 3) {
		if (!rp_process_memory_read(pid, at, &map, sizeof(map)))
			return;
		found(at, sizeof(map), data);
		found((uint64_t)(uintptr_t)map.l_name, NAME_BYTES, data);
		found((uint64_t)(uintptr_t)map.l_ld, DYNAMIC_MAX * sizeof(Elf64_Dyn), data);
		at = (uint64_t)(uintptr_t)map.l_next;
	}
}
