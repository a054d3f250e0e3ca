/* SPDX-License-Identifier: MIT */
#include "tools/formats/inlined_names.h"

#include <ctype.h>
#include <string.h>

#define BEGIN " (inlined by "
#define OPERATOR "operator"

/* Return: the bytes of an operator of C++ at `at`, such as operator<<; 0: there is none. */
static size_t operator_bytes(const char *begin, const char *at, const char *end)
{
	const size_t word = sizeof(OPERATOR) - 1;
	size_t bytes = word;

	if ((size_t)(end - at) < word || memcmp(at, OPERATOR, word) != 0 ||
	    (at > begin && (isalnum((unsigned char)at[-1]) || at[-1] == '_')))
		return 0;
	while (at + bytes < end && strchr("<>=-", at[bytes]))
		bytes++;
	return bytes;
}

/* Return: the ", " before `end` that is in no brackets; or `end`. */
static const char *find_comma(const char *begin, const char *end)
{
	const char *at = begin;
	int brackets = 0, angles = 0;

	while (at < end) {
		const size_t skipped = operator_bytes(begin, at, end);

		if (skipped) {
			at += skipped;
			continue;
		}
		brackets += strchr("([{", *at) != NULL;
		brackets -= strchr(")]}", *at) != NULL;
		/* In other brackets, they may be operators. The end of "->" closes nothing. */
		if (brackets == 0) {
			angles += *at == '<';
			angles -= *at == '>' && (at == begin || at[-1] != '-');
		}
		if (brackets == 0 && angles == 0 && at[0] == ',' && at[1] == ' ')
			return at;
		at++;
	}
	return end;
}

size_t rp_inlined_names_find(const char *name,
			     struct rp_inlined_name ret_names[RP_INLINED_NAMES_MAX])
{
	const char *begin = strstr(name, BEGIN), *last = name + strlen(name) - 1, *at;
	size_t count = 1;

	ret_names[0] = (struct rp_inlined_name){ name, strlen(name) };
	if (!begin || begin == name || *last != ')')
		return 1;
	at = begin + sizeof(BEGIN) - 1;
	while (at < last && count < RP_INLINED_NAMES_MAX) {
		const char *end = find_comma(at, last);

		ret_names[count++] = (struct rp_inlined_name){ at, (size_t)(end - at) };
		at = end < last ? end + 2 : last;
	}
	if (count == 1 || at < last)
		return 1;
	ret_names[0].length = (size_t)(begin - name);
	return count;
}
