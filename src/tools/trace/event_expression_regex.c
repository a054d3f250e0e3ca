/* SPDX-License-Identifier: MIT */
/*
 * Bounds the memory and the time of a regular expression. The regcomp(3) of glibc recurses for each
 * parenthesis, and copies what a repetition applies to: a{1,100} is a hundred copies, and a+ two.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/event_expression_parts.h"

#define TEXT_MAX 512u
#define COPIED_MAX 2000u

/* The size of the pattern with all copies. */
struct estimate {
	size_t sums[TEXT_MAX + 1];	/* of the parts of each open parenthesis before the last */
	size_t last;			/* of the last part, to which a repetition applies */
	size_t depth;
};

/* Return: the end of the bracket expression that begins at `at`. */
static const char *skip_bracket(const char *at)
{
	const char *end;

	at++;
	at += *at == '^';
	at += *at == ']';
	while (*at && *at != ']') {
		const char close[] = { at[1], ']', '\0' };

		end = *at == '[' && at[1] && strchr(":.=", at[1]) ? strstr(at + 2, close) : NULL;
		at = end ? end + 2 : at + 1;
	}
	return at;
}

/*
 * Take a repetition: * ? + {m} {m,} {m,n}. `ret_copies`: how many copies it makes, at most. Return:
 * its last character; NULL: a brace that begins no repetition.
 */
static const char *take_repetition(const char *at, size_t *ret_copies)
{
	unsigned long least, most;
	char *end;

	*ret_copies = *at == '+' ? 2 : 1;
	if (*at != '{')
		return at;
	if (!isdigit((unsigned char)at[1]))
		return NULL;
	least = most = strtoul(at + 1, &end, 10);
	if (end[0] == ',' && isdigit((unsigned char)end[1]))
		most = strtoul(end + 1, &end, 10);
	else if (end[0] == ',')
		end++;
	most = most > least ? most : least;
	*ret_copies = most < COPIED_MAX ? most + 1 : COPIED_MAX + 1;
	return *end == '}' ? end : NULL;
}

static void begin_part(struct estimate *estimate, size_t size)
{
	estimate->sums[estimate->depth] += estimate->last;
	estimate->last = size;
}

static void take_parenthesis(struct estimate *estimate, bool is_open)
{
	if (is_open) {
		begin_part(estimate, 0);
		estimate->sums[++estimate->depth] = 1;
	} else if (estimate->depth) {
		estimate->last += estimate->sums[estimate->depth--];
	}
}

const char *rp_regex_find_fault(const char *pattern)
{
	struct estimate estimate = { .depth = 0 };
	size_t copies;

	/* The estimate has a level for each parenthesis. */
	if (strlen(pattern) > TEXT_MAX)
		return "a regular expression has up to 512 bytes";
	for (const char *at = pattern; *at; at++) {
		if (at[0] == '\\' && at[1] >= '1' && at[1] <= '9')
			return "a regular expression has no back-references";
		if (strchr("*?+{", *at)) {
			at = take_repetition(at, &copies);
			if (!at)
				return "a repetition has the form {2}, {2,} or {2,5}; a brace is "
				       "[{]";
			/* POSIX leaves this undefined, and it is slow. */
			if (*at && at[1] && strchr("*?+{", at[1]))
				return "a repetition follows another; put the first in parentheses";
			/* Parts that may be left out need a node of their own. */
			estimate.last = estimate.last * copies + 1;
		} else if (*at == '(' || *at == ')') {
			take_parenthesis(&estimate, *at == '(');
		} else {
			begin_part(&estimate, 1);
			at = *at == '[' ? skip_bracket(at) : at + (at[0] == '\\' && at[1]);
		}
		if (estimate.sums[estimate.depth] + estimate.last > COPIED_MAX)
			return "the regular expression has too many repetitions";
		if (!*at)
			break;
	}
	return NULL;
}
