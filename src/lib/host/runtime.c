/* SPDX-License-Identifier: MIT */
/*
 * A preloaded library is loaded before the runtime, so these functions also examine the program.
 *
 * .NET's SDK makes a host executable for each application, with or without a bundle of files. The
 * executable has a mark in its data: SHA-256 of ".net core bundle". The SDK writes the offset of
 * the bundle before the mark.
 *
 * Source: documentation/design-docs in dotnet/runtime and dotnet/designs, "single-file".
 */
#include "host/runtime.h"

#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/shield.h"
#include "host/identity.h"

#define RUNTIME "libcoreclr.so"
/* The mark is in the first pages of .data. Searching this much includes the sections before. */
#define DATA_BYTES_MAX ((size_t)1 << 20)

static const uint8_t bundle_mark[32] = {
	0x8b, 0x12, 0x02, 0xb9, 0x6a, 0x61, 0x20, 0x38, 0x72, 0x7b, 0x93, 0x02, 0x14, 0xd7, 0xa0,
	0x32, 0x13, 0xf5, 0xb9, 0xe6, 0xef, 0xae, 0x33, 0x18, 0xee, 0x3b, 0x2d, 0xce, 0x24, 0xb3,
	0x6a, 0xae,
};

/* No memmem(): its sanitizer version reports the red zones between the program's variables. */
__attribute__((no_sanitize("address", "thread")))
static bool has_mark(const uint8_t *data, size_t size)
{
	for (size_t at = 0; at + sizeof(bundle_mark) <= size; at++) {
		size_t same = 0;

		while (same < sizeof(bundle_mark) && data[at + same] == bundle_mark[same])
			same++;
		if (same == sizeof(bundle_mark))
			return true;
	}
	return false;
}

static bool is_application(const struct dl_phdr_info *object)
{
	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		size_t size = part->p_filesz < DATA_BYTES_MAX ? part->p_filesz : DATA_BYTES_MAX;

		if (part->p_type == PT_LOAD && (part->p_flags & PF_W) &&
		    has_mark((const uint8_t *)(object->dlpi_addr + part->p_vaddr), size))
			return true;
	}
	return false;
}

static int look_at(struct dl_phdr_info *object, size_t size, void *data)
{
	const char *name = strrchr(object->dlpi_name, '/');

	(void)size;
	(void)data;
	if (strcmp(name ? name + 1 : object->dlpi_name, RUNTIME) == 0)
		return 1;
	return (uintptr_t)object->dlpi_phdr == getauxval(AT_PHDR) && is_application(object);
}

/* Return: whether the program is `dotnet`, which has host/fxr in its own directory. */
static bool is_dotnet(void)
{
	char program[PATH_MAX], parts[PATH_MAX + 16];
	char *name;

	rp_process_program(program, sizeof(program));
	name = strrchr(program, '/');
	if (!name || strcmp(name, "/dotnet") != 0)
		return false;
	*name = '\0';
	snprintf(parts, sizeof(parts), "%s/host/fxr", program);
	return access(parts, F_OK) == 0;
}

bool rp_runtime_is_dotnet(void)
{
	return dl_iterate_phdr(look_at, NULL) != 0 || is_dotnet();
}

void rp_runtime_mark_process(void)
{
	RP_SHIELDED struct rp_shield shield = rp_shield_raise();
	static bool marked;
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	int fd;

	if (marked)
		return;
	marked = true;
	fd = memfd_create("doublemapper", MFD_CLOEXEC);
	if (fd < 0)
		return;
	/* Without a size, a reader of the page would get SIGBUS. */
	if (ftruncate(fd, (off_t)page_bytes) == 0)
		(void)mmap(NULL, page_bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
}
