/* SPDX-License-Identifier: MIT */
#include "modules/symbols/inlines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From libstdc++, whose header for it is C++ only. */
char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status);

struct rp_inlines {
	int fd;
	Dwarf *dwarf;
};

int rp_inlines_open(const char *path, const uint8_t *build_id, uint32_t build_id_bytes,
		    struct rp_inlines **ret_inlines)
{
	struct rp_inlines *inlines = calloc(1, sizeof(*inlines));
	const void *own;
	ssize_t own_bytes;
	Dwarf_CU *unit = NULL;

	if (!inlines)
		return -ENOMEM;
	inlines->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (inlines->fd >= 0)
		inlines->dwarf = dwarf_begin(inlines->fd, DWARF_C_READ);
	own_bytes = inlines->dwarf ? dwelf_elf_gnu_build_id(dwarf_getelf(inlines->dwarf), &own) :
		    -1;
	if (own_bytes != (ssize_t)build_id_bytes || memcmp(own, build_id, build_id_bytes) != 0 ||
	    dwarf_get_units(inlines->dwarf, NULL, &unit, NULL, NULL, NULL, NULL) != 0) {
		rp_inlines_close(inlines);
		return -ENOENT;
	}
	*ret_inlines = inlines;
	return 0;
}

void rp_inlines_close(struct rp_inlines *inlines)
{
	if (!inlines)
		return;
	dwarf_end(inlines->dwarf);
	if (inlines->fd >= 0)
		close(inlines->fd);
	free(inlines);
}

/* Some compilers write no table of addresses, and then each unit is asked. */
static bool find_unit(const struct rp_inlines *inlines, Dwarf_Addr address, Dwarf_Die *ret_unit)
{
	Dwarf_CU *unit = NULL;

	if (dwarf_addrdie(inlines->dwarf, address, ret_unit))
		return true;
	while (dwarf_get_units(inlines->dwarf, unit, &unit, NULL, NULL, ret_unit, NULL) == 0)
		if (dwarf_haspc(ret_unit, address) == 1)
			return true;
	return false;
}

/*
 * The scopes that contain the code at an address, innermost first. libdw continues after an inlined
 * function with the places where the source defines it, so the second call follows the code.
 */
static int find_scopes(const struct rp_inlines *inlines, Dwarf_Addr address, Dwarf_Die **ret_scopes)
{
	Dwarf_Die unit, innermost, *scopes = NULL;
	int count = find_unit(inlines, address, &unit) ?
		    dwarf_getscopes(&unit, address, &scopes) : 0;

	if (count <= 0)
		return 0;
	innermost = scopes[0];
	free(scopes);
	count = dwarf_getscopes_die(&innermost, ret_scopes);
	return count > 0 ? count : 0;
}

struct inline_text {
	char *at;
	size_t space, used;
};

__attribute__((format(printf, 2, 3)))
static void append(struct inline_text *text, const char *format, ...)
{
	va_list list;
	int size;

	va_start(list, format);
	size = vsnprintf(text->at + text->used, text->space - text->used, format, list);
	va_end(list);
	if (size > 0)
		text->used += (size_t)size;
	if (text->used >= text->space)
		text->used = text->space - 1;
}

static void append_name(struct inline_text *text, Dwarf_Die *scope)
{
	Dwarf_Attribute attribute;
	const char *name = NULL;
	char *plain = NULL;
	int status;

	if (dwarf_attr_integrate(scope, DW_AT_linkage_name, &attribute))
		name = dwarf_formstring(&attribute);
	if (name)
		plain = __cxa_demangle(name, NULL, NULL, &status);
	if (!name)
		name = dwarf_diename(scope);
	append(text, "%s", plain ? plain : name ? name : "?");
	free(plain);
}

bool rp_inlines_describe(struct rp_inlines *inlines, uint64_t address, const char *function,
			 char *ret_name, size_t space)
{
	struct inline_text text = { ret_name, space, 0 };
	Dwarf_Die *scopes = NULL;
	int count = find_scopes(inlines, address, &scopes), found = 0;

	for (int i = 0; i < count; i++) {
		const int tag = dwarf_tag(&scopes[i]);

		if (tag == DW_TAG_subprogram)
			break;
		if (tag != DW_TAG_inlined_subroutine)
			continue;
		append(&text, "%s", found == 0 ? "" : found == 1 ? " (inlined by " : ", ");
		append_name(&text, &scopes[i]);
		found++;
	}
	free(scopes);
	if (found)
		append(&text, "%s%s)", found == 1 ? " (inlined by " : ", ", function);
	return found;
}
