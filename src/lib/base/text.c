/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/types.h>

#include "base/utf.h"

bool rp_text_is_name(const char *name)
{
	size_t length = name ? strnlen(name, RP_NAME_MAX + 1) : 0;

	return length > 0 && length <= RP_NAME_MAX && rp_utf8_is_valid(name, length);
}

char *rp_text_copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

const char *rp_text_keep(char **space, const char *text, size_t length)
{
	char *copy = *space;

	memcpy(copy, text, length);
	copy[length] = '\0';
	*space += length + 1;
	return copy;
}

char *rp_text_expand_pid(const char *path, pid_t pid)
{
	const char *mark = strstr(path, "{pid}");
	char *expanded;

	if (!mark)
		return rp_text_copy(path);
	if (asprintf(&expanded, "%.*s%d%s", (int)(mark - path), path, (int)pid, mark + 5) < 0)
		return NULL;
	return expanded;
}

const char *rp_text_error(int error)
{
	const char *text = strerrordesc_np(error);

	return text ? text : "unknown error";
}

int rp_text_hex_digit(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	digit |= 0x20;
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

int rp_text_number(const char *text, int base, uint64_t max, uint64_t *ret_number)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(text, &end, base);
	if (!isxdigit((unsigned char)*text) || *end || errno || number > max)
		return -EINVAL;
	*ret_number = number;
	return 0;
}
