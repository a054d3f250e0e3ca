/* SPDX-License-Identifier: MIT */
/* The values of options that are numbers and times. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "tools/cli/tool.h"

int rp_number_parse(const char *text, uint64_t max, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (*text == '\0')
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*text - '0'), &number))
			return -ERANGE;
	}
	if (number > max)
		return -ERANGE;
	*ret_number = number;
	return 0;
}

int rp_pid_parse(const char *text, pid_t *ret_pid)
{
	uint64_t pid;

	if (rp_number_parse(text, INT_MAX, &pid) || pid == 0)
		return -EINVAL;
	*ret_pid = (pid_t)pid;
	return 0;
}

int rp_duration_parse(const char *value, uint64_t *ret_ms)
{
	static const struct {
		char letter;
		uint64_t ms;
	} units[] = { { 'h', 3600000 }, { 'm', 60000 }, { 's', 1000 } };
	uint64_t total = 0;
	size_t unit = 0;

	while (*value) {
		char digits[10];
		size_t length = strspn(value, "0123456789");
		uint64_t number;

		if (length == 0 || length >= sizeof(digits))
			return -EINVAL;
		memcpy(digits, value, length);
		digits[length] = '\0';
		value += length;
		if (rp_number_parse(digits, UINT32_MAX, &number))
			return -EINVAL;
		while (unit < 3 && *value && units[unit].letter != *value)
			unit++;
		if (unit == 3)
			return -EINVAL;
		if (*value)
			total += number * units[unit++].ms, value++;
		else
			total += number * 1000;
	}
	if (total == 0)
		return -EINVAL;
	*ret_ms = total;
	return 0;
}

int rp_size_parse(const char *text, uint64_t *ret_bytes)
{
	static const struct {
		const char *name;
		uint64_t bytes;
	} units[] = { { "kB", 1000 }, { "MB", 1000000 }, { "GB", 1000000000 } };
	char digits[20];
	const size_t length = strspn(text, "0123456789");
	uint64_t number;

	if (length == 0 || length >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, text, length);
	digits[length] = '\0';
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(text + length, units[i].name) != 0)
			continue;
		if (rp_number_parse(digits, UINT64_MAX / units[i].bytes, &number) || !number)
			return -EINVAL;
		*ret_bytes = number * units[i].bytes;
		return 0;
	}
	return -EINVAL;
}

/* Take up to nine digits of a fraction of a second. Further digits are an error. */
static int take_fraction(const char **text, int64_t *ns)
{
	int64_t digit_ns = 100000000;

	if (**text != '.')
		return 0;
	if (*++*text < '0' || **text > '9')
		return -EINVAL;
	for (; **text >= '0' && **text <= '9'; ++*text, digit_ns /= 10) {
		if (!digit_ns)
			return -EINVAL;
		*ns += digit_ns * (**text - '0');
	}
	return 0;
}

static int parse_utc(const char *text, int64_t *ret_ns)
{
	struct tm date = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &date);
	int64_t fraction_ns = 0;
	time_t seconds;

	if (!rest || take_fraction(&rest, &fraction_ns) < 0 || strcmp(rest, "Z") != 0)
		return -EINVAL;
	seconds = timegm(&date);
	if (__builtin_mul_overflow((int64_t)seconds, 1000000000, ret_ns) ||
	    __builtin_add_overflow(*ret_ns, fraction_ns, ret_ns))
		return -EINVAL;
	return 0;
}

/* A time without a unit is in seconds, and tables print a space before the unit. */
static bool is_second(const char *unit)
{
	return !*unit || !strcmp(unit, "s") || !strcmp(unit, " s");
}

int rp_time_point_parse(const char *text, struct rp_time_point *ret_point)
{
	const size_t length = strspn(text, "0123456789");
	struct rp_time_point point = { 0 };
	const char *rest = text + length;
	char digits[11];
	uint64_t number;

	if (strchr(text, 'T')) {
		point.is_utc = true;
		if (parse_utc(text, &point.ns) < 0)
			return -EINVAL;
	} else if (length == 0 || length >= sizeof(digits)) {
		return -EINVAL;
	} else if (*rest == '.') {
		memcpy(digits, text, length);
		digits[length] = '\0';
		if (rp_number_parse(digits, UINT32_MAX, &number) ||
		    take_fraction(&rest, &point.ns) < 0 || !is_second(rest))
			return -EINVAL;
		point.ns += (int64_t)number * 1000000000;
	} else if (rp_short_time_parse(text, &number) == 0) {
		point.ns = (int64_t)number;
	} else if (rp_duration_parse(text, &number) || number > INT64_MAX / 1000000) {
		return -EINVAL;
	} else {
		point.ns = (int64_t)(number * 1000000);
	}
	*ret_point = point;
	return 0;
}

int rp_short_time_parse(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };
	size_t length = strspn(text, "0123456789");
	char digits[11];
	uint64_t number;

	if (!strcmp(text, "0")) {
		*ret_ns = 0;
		return 0;
	}
	if (length == 0 || length >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, text, length);
	digits[length] = '\0';
	if (rp_number_parse(digits, UINT32_MAX, &number))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!strcmp(text + length, units[i].name)) {
			*ret_ns = number * units[i].ns;
			return 0;
		}
	}
	return -EINVAL;
}
