/* SPDX-License-Identifier: MIT */
/*
 * json-c accepts more than JSON, also in its strict mode: names in single quotes, NaN, numbers that
 * end with a point, and control characters in strings. It also reduces large integers to 64 bits.
 * So this file first checks the characters and numbers of the text, and makes a double of each
 * integer that is too large. json-c then checks how they follow one another.
 */
#include "tools/trace/json_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf.h"
#include "nettrace/outbuf.h"

/* No integer with fewer digits exceeds 64 bits. */
#define SAFE_DIGITS 18u
#define NUMBER_BYTES 32u

struct text_check {
	const char *at, *end;
	struct rp_outbuf out;		/* the text for json-c */
};

static void skip_digits(struct text_check *check)
{
	while (check->at < check->end && isdigit((unsigned char)*check->at))
		check->at++;
}

static bool take(struct text_check *check, const char *characters)
{
	if (check->at == check->end || !*check->at || !strchr(characters, *check->at))
		return false;
	check->at++;
	return true;
}

static bool take_digits(struct text_check *check)
{
	const char *begin = check->at;

	skip_digits(check);
	return check->at > begin;
}

/* Whether an integer of `bytes` characters exceeds 64 bits. */
static bool is_large(const char *integer, size_t bytes)
{
	char copy[NUMBER_BYTES];

	if (bytes <= SAFE_DIGITS)
		return false;
	if (bytes >= sizeof(copy))
		return true;
	memcpy(copy, integer, bytes);
	copy[bytes] = '\0';
	errno = 0;
	if (*copy == '-')
		strtoll(copy, NULL, 10);
	else
		strtoull(copy, NULL, 10);
	return errno == ERANGE;
}

static bool check_number(struct text_check *check)
{
	const char *begin = check->at;
	bool is_integer = true;

	(void)take(check, "-");
	if (take(check, "0")) {
		if (check->at < check->end && isdigit((unsigned char)*check->at))
			return false;
	} else if (!take_digits(check)) {
		return false;
	}
	if (take(check, ".")) {
		is_integer = false;
		if (!take_digits(check))
			return false;
	}
	if (take(check, "eE")) {
		is_integer = false;
		(void)take(check, "+-");
		if (!take_digits(check))
			return false;
	}
	rp_outbuf_put(&check->out, begin, (size_t)(check->at - begin));
	if (is_integer && is_large(begin, (size_t)(check->at - begin)))
		rp_outbuf_put(&check->out, "e0", 2);
	return true;
}

/* A name of a member ends at a NUL in json-c. Its escape becomes that of U+FFFD. */
static void replace_nuls(char *string, size_t bytes)
{
	for (size_t i = 0; i + 6 <= bytes; i++) {
		if (string[i] != '\\')
			continue;
		if (memcmp(string + i, "\\u0000", 6) == 0)
			memcpy(string + i, "\\ufffd", 6);
		i++;	/* the escaped character */
	}
}

/* Put the characters from `begin` on. */
static void put_ascii(struct text_check *check, const char *begin)
{
	const size_t bytes = (size_t)(check->at - begin);

	rp_outbuf_put(&check->out, begin, bytes);
	if (!check->out.failed)
		replace_nuls((char *)check->out.bytes + check->out.size - bytes, bytes);
}

/*
 * Put the character as an escape: the strict mode of json-c 0.18 takes its bytes, which are above
 * 127, for control characters. Return: false: it is no UTF-8.
 */
static bool put_escaped(struct text_check *check)
{
	const uint8_t *at = (const uint8_t *)check->at;
	const uint32_t character = rp_utf8_next(&at, (const uint8_t *)check->end);
	char escape[16];
	int bytes;

	if (character == 0xfffd && (check->end - check->at < 3 ||
				    memcmp(check->at, "\xef\xbf\xbd", 3) != 0))
		return false;
	if (character < 0x10000)
		bytes = snprintf(escape, sizeof(escape), "\\u%04x", character);
	else
		bytes = snprintf(escape, sizeof(escape), "\\u%04x\\u%04x",
				 0xd800 + ((character - 0x10000) >> 10),
				 0xdc00 + ((character - 0x10000) & 0x3ff));
	rp_outbuf_put(&check->out, escape, (size_t)bytes);
	check->at = (const char *)at;
	return true;
}

/* json-c checks the escapes. */
static bool check_string(struct text_check *check)
{
	const char *begin = check->at++;

	while (check->at < check->end && *check->at != '"') {
		if ((unsigned char)*check->at < ' ')
			return false;
		if ((unsigned char)*check->at > 127) {
			put_ascii(check, begin);
			if (!put_escaped(check))
				return false;
			begin = check->at;
		} else {
			check->at += *check->at == '\\' && check->end - check->at > 1 ? 2 : 1;
		}
	}
	/* json-c reports a string without an end. */
	if (check->at < check->end)
		check->at++;
	put_ascii(check, begin);
	return true;
}

static bool check_word(struct text_check *check)
{
	static const char *const words[] = { "true", "false", "null" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const size_t bytes = strlen(words[i]);

		if ((size_t)(check->end - check->at) >= bytes &&
		    memcmp(check->at, words[i], bytes) == 0) {
			rp_outbuf_put(&check->out, words[i], bytes);
			check->at += bytes;
			return true;
		}
	}
	return false;
}

/* Check the token at which the text is. Return: whether it may be in a JSON text. */
static bool check_token(struct text_check *check)
{
	switch (*check->at) {
	case '"':
		return check_string(check);
	case '-':
	case '0' ... '9':
		return check_number(check);
	case '{':
	case '}':
	case '[':
	case ']':
	case ',':
	case ':':
	case ' ':
	case '\t':
	case '\r':
	case '\n':
		rp_outbuf_put_u8(&check->out, (uint8_t)*check->at++);
		return true;
	default:
		return check_word(check);
	}
}

/* Return: 0; -EBADMSG, and the offset of the error. */
static int check_text(struct text_check *check, const char *text, size_t *ret_at)
{
	while (check->at < check->end) {
		if (!check_token(check)) {
			*ret_at = (size_t)(check->at - text);
			return -EBADMSG;
		}
	}
	/* json-c needs the NUL to see that a number ends. */
	rp_outbuf_put_u8(&check->out, 0);
	return check->out.failed ? -ENOMEM : 0;
}

static int parse(const struct rp_outbuf *text, struct json_object **ret_value, char *ret_reason,
		 size_t reason_size)
{
	struct json_tokener *tokener = json_tokener_new_ex(RP_JSON_DEPTH_MAX);
	enum json_tokener_error error;

	if (!tokener)
		return -ENOMEM;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	*ret_value = json_tokener_parse_ex(tokener, (const char *)text->bytes, (int)text->size);
	error = json_tokener_get_error(tokener);
	json_tokener_free(tokener);
	if (error == json_tokener_success)
		return 0;
	json_object_put(*ret_value);
	*ret_value = NULL;
	snprintf(ret_reason, reason_size, "%s", error == json_tokener_continue ?
		 "the text is incomplete" : json_tokener_error_desc(error));
	return -EBADMSG;
}

int rp_json_text_parse(const char *text, size_t bytes, struct json_object **ret_value,
		       char *ret_reason, size_t reason_size)
{
	struct text_check check = { .at = text, .end = text + bytes };
	size_t at = 0;
	int ret;

	*ret_value = NULL;
	if (bytes > RP_JSON_TEXT_MAX) {
		snprintf(ret_reason, reason_size, "the text is longer than %u bytes",
			 RP_JSON_TEXT_MAX);
		return -EBADMSG;
	}
	ret = check_text(&check, text, &at);
	if (ret == -EBADMSG)
		snprintf(ret_reason, reason_size, "unexpected character at byte %zu", at);
	else if (ret == 0)
		ret = parse(&check.out, ret_value, ret_reason, reason_size);
	rp_outbuf_fini(&check.out);
	return ret;
}
