/* SPDX-License-Identifier: MIT */
/*
 * The provider list as text. The grammar is that of the .NET runtime's EventPipeConfig:
 *
 *	list     = entry *("," entry)
 *	entry    = name [":" [keywords] [":" [level] [":" arguments]]]
 *	keywords = hex, with or without 0x
 *	level    = 0 to 5, or a name (LogAlways … Verbose)
 *	arguments= text without a comma, or with commas inside double quotes, which come in pairs
 *
 * This file does not depend on the engine.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <ringpipe/session.h>

#include "base/text.h"
#include "base/utf.h"
#include "core/config.h"

#define PROVIDERS_MAX 1000u

struct config_scan {
	const char *start, *at;
	char *strings;		/* space for all strings with their terminators */
};

/* Return the length of the text before the first of `stops` outside quotes. */
static size_t run_length(const char *at, const char *stops)
{
	bool quoted = false;
	size_t length = 0;

	for (; at[length] && (quoted || !strchr(stops, at[length])); length++) {
		if (at[length] == '"')
			quoted = !quoted;
	}
	return length;
}

static int parse_keywords(struct config_scan *scan, uint64_t *ret_keywords)
{
	size_t length = run_length(scan->at, ":,");
	uint64_t value = 0;

	if (length > 2 && scan->at[0] == '0' && (scan->at[1] | 32) == 'x') {
		scan->at += 2;
		length -= 2;
	}
	if (length == 0) {
		*ret_keywords = UINT64_MAX;
		return 0;
	}
	if (length > 16)
		return -EINVAL;
	for (; length; length--, scan->at++) {
		const int digit = rp_text_hex_digit(*scan->at);

		if (digit < 0)
			return -EINVAL;
		value = value << 4 | (uint64_t)digit;
	}
	*ret_keywords = value;
	return 0;
}

int rp_level_parse(const char *text, size_t length, uint8_t *ret_level)
{
	static const char *const names[] = {
		"LogAlways", "Critical", "Error", "Warning", "Informational", "Verbose",
	};

	if (length == 1 && text[0] >= '0' && text[0] <= '5') {
		*ret_level = (uint8_t)(text[0] - '0');
		return 0;
	}
	for (uint8_t i = 0; i < 6; i++) {
		if (strlen(names[i]) == length && strncasecmp(names[i], text, length) == 0) {
			*ret_level = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_level(struct config_scan *scan, uint8_t *ret_level)
{
	size_t length = run_length(scan->at, ":,");
	int ret;

	*ret_level = RP_LEVEL_VERBOSE;
	if (length == 0)
		return 0;
	ret = rp_level_parse(scan->at, length, ret_level);
	if (ret == 0)
		scan->at += length;
	return ret;
}

static bool is_name(const char *text, size_t length)
{
	return length > 0 && length <= RP_NAME_MAX && !memchr(text, '"', length) &&
	       rp_utf8_is_valid(text, length);
}

/* An unclosed quote would swallow the rest of the list. */
static bool has_open_quote(const char *text, size_t length)
{
	bool quoted = false;

	for (size_t i = 0; i < length; i++)
		quoted ^= text[i] == '"';
	return quoted;
}

static int parse_entry(struct config_scan *scan, struct rp_session_provider *provider)
{
	size_t length = run_length(scan->at, ":,");
	int ret;

	provider->size = sizeof(*provider);
	provider->flags = RP_SESSION_PROVIDER_EXACT;
	provider->keywords = UINT64_MAX;
	provider->level = RP_LEVEL_VERBOSE;
	if (!is_name(scan->at, length))
		return -EINVAL;
	provider->name = rp_text_keep(&scan->strings, scan->at, length);
	scan->at += length;
	if (*scan->at != ':')
		return 0;
	scan->at++;
	ret = parse_keywords(scan, &provider->keywords);
	if (ret != 0 || *scan->at != ':')
		return ret;
	scan->at++;
	ret = parse_level(scan, &provider->level);
	if (ret != 0 || *scan->at != ':')
		return ret;
	scan->at++;
	length = run_length(scan->at, ",");
	if (!rp_utf8_is_valid(scan->at, length))
		return -EINVAL;
	if (has_open_quote(scan->at, length)) {
		scan->at = memrchr(scan->at, '"', length);
		return -EINVAL;
	}
	if (length)
		provider->filter_data = rp_text_keep(&scan->strings, scan->at, length);
	scan->at += length;
	return 0;
}

static size_t count_entries(const char *text)
{
	size_t count = 1;

	while (*(text += run_length(text, ","))) {
		text++;
		count++;
	}
	return count;
}

RP_PUBLIC int rp_providers_parse(const char *text, struct rp_session_provider **ret_providers,
				 size_t *ret_count, size_t *ret_at)
{
	struct config_scan scan = { .start = text, .at = text };
	struct rp_session_provider *providers;
	size_t count, filled = 0;
	int ret;

	if (!text || !ret_providers || !ret_count)
		return -EINVAL;
	count = count_entries(text);
	ret = count > PROVIDERS_MAX ? -EINVAL : 0;
	providers = calloc(1, count * sizeof(*providers) + 2 * strlen(text) + 2);
	if (!providers)
		return -ENOMEM;
	scan.strings = (char *)(providers + count);
	while (ret == 0 && filled < count) {
		ret = parse_entry(&scan, &providers[filled++]);
		if (ret == 0 && *scan.at != (filled < count ? ',' : '\0'))
			ret = -EINVAL;
		if (ret == 0 && filled < count)
			scan.at++;
	}
	if (ret != 0) {
		free(providers);
		if (ret_at)
			*ret_at = (size_t)(scan.at - scan.start);
		return ret;
	}
	*ret_providers = providers;
	*ret_count = count;
	return 0;
}

/* Whether the text without its quotes equals `key`. */
static bool is_key(const char *text, size_t length, const char *key)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] != '"' && text[i] != *key++)
			return false;
	}
	return *key == '\0';
}

static char *copy_unquoted(const char *text, size_t length)
{
	char *copy = malloc(length + 1), *to = copy;

	for (size_t i = 0; copy && i < length; i++) {
		if (text[i] != '"')
			*to++ = text[i];
	}
	if (copy)
		*to = '\0';
	return copy;
}

RP_PUBLIC int rp_filter_data_get(const char *filter_data, const char *key, char **ret_value)
{
	const char *at = filter_data ? filter_data : "";
	const char *value = NULL;
	size_t length, value_length = 0;
	char *copy;

	for (; *at; at += length + (at[length] != '\0')) {
		size_t key_length = run_length(at, "=;");

		length = run_length(at, ";");
		if (at[key_length] != '=' || !is_key(at, key_length, key))
			continue;
		value = at + key_length + 1;
		value_length = length - key_length - 1;
	}
	if (!value)
		return -ENOENT;
	copy = copy_unquoted(value, value_length);
	if (!copy)
		return -ENOMEM;
	*ret_value = copy;
	return 0;
}

static const char *const loss_names[] = {
#define X(name, text, why) [RP_LOSS_##name] = text,
	RP_LOSS_REASONS(X)
#undef X
};

RP_PUBLIC const char *rp_loss_reason_name(enum rp_loss_reason reason)
{
	return (unsigned int)reason < RP_LOSS_REASON_COUNT ? loss_names[reason] : NULL;
}
