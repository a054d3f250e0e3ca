/* SPDX-License-Identifier: MIT */
/*
 *	list     = trigger *("," trigger)
 *	trigger  = provider ":" ( event [":" level] | start ".." stop ">" time
 *				| counter ("<" | ">") number )
 *	event    = name | "*"
 *	level    = 1 to 5, or a name (Critical … Verbose)
 *	time     = digits ("ns" | "us" | "ms" | "s")
 *	number   = ["-"] digits ["." digits]
 */
#include "trigger/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/types.h>

#include "base/text.h"
#include "base/utf.h"
#include "core/config.h"

#define DIGITS_MAX 15u		/* exact in a double, and enough nanoseconds for days */

struct rule_scan {
	const char *at;
	char *strings;
};

/* Return: 0; -EINVAL: the name is invalid. */
static int take_name(struct rule_scan *scan, size_t length, const char **ret_name)
{
	if (length == 0 || length > RP_NAME_MAX || !rp_utf8_is_valid(scan->at, length))
		return -EINVAL;
	*ret_name = rp_text_keep(&scan->strings, scan->at, length);
	scan->at += length;
	return 0;
}

static int take_digits(struct rule_scan *scan, uint64_t *ret_number, size_t *ret_digits)
{
	size_t digits = strspn(scan->at, "0123456789");
	uint64_t number = 0;

	if (digits == 0 || digits > DIGITS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < digits; i++)
		number = 10 * number + (uint64_t)(*scan->at++ - '0');
	*ret_number = number;
	*ret_digits = digits;
	return 0;
}

/* strtod(3) is not used, since it depends on the host's locale. */
static int take_number(struct rule_scan *scan, double *ret_number)
{
	bool negative = *scan->at == '-';
	uint64_t whole, part = 0;
	double scale = 1;
	size_t digits;
	int ret;

	scan->at += negative;
	ret = take_digits(scan, &whole, &digits);
	if (ret == 0 && *scan->at == '.') {
		scan->at++;
		ret = take_digits(scan, &part, &digits);
		for (size_t i = 0; ret == 0 && i < digits; i++)
			scale *= 10;
	}
	if (ret == 0)
		*ret_number = (negative ? -1 : 1) * ((double)whole + (double)part / scale);
	return ret;
}

static int take_time(struct rule_scan *scan, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };
	uint64_t number;
	size_t digits;
	int ret = take_digits(scan, &number, &digits);

	for (size_t i = 0; ret == 0 && i < sizeof(units) / sizeof(units[0]); i++) {
		size_t length = strlen(units[i].name);

		if (strncmp(scan->at, units[i].name, length) != 0)
			continue;
		scan->at += length;
		return __builtin_mul_overflow(number, units[i].ns, ret_ns) ? -EINVAL : 0;
	}
	return -EINVAL;
}

static int take_event(struct rule_scan *scan, struct rp_trigger *trigger)
{
	size_t length;
	int ret;

	trigger->kind = RP_TRIGGER_EVENT;
	if (*scan->at != ':')
		return 0;
	scan->at++;
	length = strcspn(scan->at, ",");
	ret = rp_level_parse(scan->at, length, &trigger->level);
	if (ret == 0 && trigger->level == 0)
		ret = -EINVAL;
	if (ret == 0)
		scan->at += length;
	return ret;
}

static int take_latency(struct rule_scan *scan, size_t length, struct rp_trigger *trigger)
{
	int ret;

	trigger->kind = RP_TRIGGER_LATENCY;
	ret = take_name(scan, length, &trigger->name);
	if (ret != 0)
		return ret;
	scan->at += strlen("..");
	ret = take_name(scan, strcspn(scan->at, ":,<>"), &trigger->stop);
	if (ret != 0 || *scan->at != '>')
		return -EINVAL;
	scan->at++;
	return take_time(scan, &trigger->bound_ns);
}

static int take_trigger(struct rule_scan *scan, struct rp_trigger *trigger)
{
	size_t length = strcspn(scan->at, ",");
	const char *dots;
	int ret;

	trigger->text = rp_text_keep(&scan->strings, scan->at, length);
	ret = take_name(scan, strcspn(scan->at, ":,<>"), &trigger->provider);
	if (ret != 0 || *scan->at != ':')
		return -EINVAL;
	scan->at++;
	length = strcspn(scan->at, ":,<>");
	dots = memmem(scan->at, length, "..", 2);
	if (dots)
		return take_latency(scan, (size_t)(dots - scan->at), trigger);
	ret = take_name(scan, length, &trigger->name);
	if (ret != 0)
		return ret;
	if (*scan->at != '<' && *scan->at != '>')
		return take_event(scan, trigger);
	trigger->kind = *scan->at == '>' ? RP_TRIGGER_ABOVE : RP_TRIGGER_BELOW;
	scan->at++;
	return take_number(scan, &trigger->bound);
}

int rp_triggers_parse(const char *text, struct rp_trigger **ret_triggers, size_t *ret_count,
		      size_t *ret_at)
{
	struct rule_scan scan = { .at = text };
	struct rp_trigger *triggers;
	size_t count = 1, filled = 0;
	int ret = 0;

	for (const char *at = text; (at = strchr(at, ',')) != NULL; at++)
		count++;
	if (count > RP_TRIGGERS_MAX) {
		if (ret_at)
			*ret_at = 0;
		return -EINVAL;
	}
	/* Space for each string twice, whole and in parts, with a NUL for each part. */
	triggers = calloc(1, count * (sizeof(*triggers) + 4) + 2 * strlen(text));
	if (!triggers)
		return -ENOMEM;
	scan.strings = (char *)(triggers + count);
	while (ret == 0 && filled < count) {
		ret = take_trigger(&scan, &triggers[filled++]);
		if (ret == 0 && *scan.at != (filled < count ? ',' : '\0'))
			ret = -EINVAL;
		scan.at += ret == 0 && filled < count;
	}
	if (ret != 0) {
		free(triggers);
		if (ret_at)
			*ret_at = (size_t)(scan.at - text);
		return ret;
	}
	*ret_triggers = triggers;
	*ret_count = count;
	return 0;
}
