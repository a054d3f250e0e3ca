/* SPDX-License-Identifier: MIT */
#include "tools/trace/event_expression_tokens.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"

/* Bytes of the expression before and after the error that a message shows. */
#define SHOWN_BEFORE 60
#define SHOWN_AFTER 18

/* Digits after the point of a time, which is exact. */
#define TIME_DIGITS_MAX 18
#define NUMBER_BYTES_MAX 400

int rp_expression_fail(struct rp_expression_error *error, size_t at, const char *format, ...)
{
	va_list arguments;

	error->at = at;
	va_start(arguments, format);
	vsnprintf(error->message, sizeof(error->message), format, arguments);
	va_end(arguments);
	return -EINVAL;
}

/* Letters of other alphabets are bytes above 0x7f. */
static bool is_name_byte(char c, bool is_first)
{
	return isalpha((unsigned char)c) || c == '_' || ((unsigned char)c & 0x80) ||
	       (!is_first && (isdigit((unsigned char)c) || c == '.'));
}

static bool is_digit(char c)
{
	return isdigit((unsigned char)c);
}

/* Take `count` hexadecimal digits. Return: the number, or -EINVAL. */
static long take_hex(const char *text, int count)
{
	char digits[9] = "";

	for (int i = 0; i < count; i++) {
		if (!isxdigit((unsigned char)text[i]))
			return -EINVAL;
		digits[i] = text[i];
	}
	return strtol(digits, NULL, 16);
}

/*
 * Take the escape after a backslash at text[at]. Return: the bytes of the text that it takes;
 * -EINVAL, with the error.
 */
static int take_escape(const char *text, size_t at, char *word, size_t *length,
		       struct rp_expression_error *error)
{
	static const char letters[] = "\\\"'ntr", bytes[] = "\\\"'\n\t\r";
	const char *letter = text[at + 1] ? strchr(letters, text[at + 1]) : NULL;
	long code;

	if (letter) {
		word[(*length)++] = bytes[letter - letters];
		return 2;
	}
	if (text[at + 1] == 'x') {
		code = take_hex(text + at + 2, 2);
		if (code <= 0)
			return rp_expression_fail(error, at, "\\x needs two hexadecimal digits, "
						  "which are not 00");
		word[(*length)++] = (char)code;
		return 4;
	}
	if (text[at + 1] == 'u') {
		code = take_hex(text + at + 2, 4);
		if (code <= 0 || (code >= 0xd800 && code < 0xe000))
			return rp_expression_fail(error, at, "\\u needs the four hexadecimal "
						  "digits of a character, which are not 0000");
		*length += rp_utf8_put((uint32_t)code, word + *length);
		return 6;
	}
	return rp_expression_fail(error, at, "a text has the escapes \\\\ \\\" \\' \\n \\t "
				  "\\r \\xHH and \\uHHHH");
}

/* Between single quotes, a backslash is a character like others. */
static int read_text(const char *text, size_t at, struct rp_token *token,
		     struct rp_expression_error *error)
{
	const char quote = text[at];
	const size_t start = at++;
	size_t length = 0;

	while (text[at] != quote) {
		if (!text[at])
			return rp_expression_fail(error, start, "the text has no closing %c",
						  quote);
		if (text[at] == '\\' && quote == '"') {
			const int taken = take_escape(text, at, token->word, &length, error);

			if (taken < 0)
				return taken;
			at += (size_t)taken;
		} else {
			token->word[length++] = text[at++];
		}
	}
	token->word[length] = '\0';
	token->value = (struct rp_operand){ .kind = RP_OPERAND_TEXT, .bytes = length };
	token->bytes = at + 1 - token->at;
	return 0;
}

/* A name, or field."a name with other characters". */
static int read_name(const char *text, size_t at, struct rp_token *token,
		     struct rp_expression_error *error)
{
	static const char prefix[] = "field.";
	size_t length = 0;

	if (!strncmp(text + at, prefix, sizeof(prefix) - 1) &&
	    strchr("\"'", text[at + sizeof(prefix) - 1]) && text[at + sizeof(prefix) - 1]) {
		token->is_quoted = true;
		return read_text(text, at + sizeof(prefix) - 1, token, error);
	}
	while (is_name_byte(text[at + length], length == 0))
		length++;
	memcpy(token->word, text + at, length);
	token->word[length] = '\0';
	token->bytes = length;
	return 0;
}

/* Return: nanoseconds of the unit; 0: unknown. */
static int64_t unit_ns(const char *unit, size_t length)
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = {
		{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 },
		{ "m", 60000000000 }, { "h", 3600000000000 },
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strlen(units[i].name) == length && !strncmp(units[i].name, unit, length))
			return units[i].ns;
	}
	return 0;
}

/* Return: the digits as a number; -1: it is above `max`. */
static __int128 take_digits(const char *text, size_t length, unsigned int base, __int128 max)
{
	__int128 number = 0;

	for (size_t i = 0; i < length; i++) {
		const unsigned char c = (unsigned char)text[i];

		number = number * base + (isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
		if (number > max)
			return -1;
	}
	return number;
}

/* The parts of a number: digits [. digits] [e digits]. */
struct number_parts {
	size_t whole, fraction, exponent;	/* lengths, with the point and the e */
};

static size_t count_digits(const char *text)
{
	size_t count = 0;

	while (is_digit(text[count]))
		count++;
	return count;
}

static struct number_parts find_parts(const char *text)
{
	struct number_parts parts = { .whole = count_digits(text) };
	const char *at = text + parts.whole;
	size_t sign;

	if (*at == '.' && is_digit(at[1]))
		parts.fraction = 1 + count_digits(at + 1);
	at += parts.fraction;
	if (*at == 'e' || *at == 'E') {
		sign = at[1] == '-' || at[1] == '+';
		if (is_digit(at[1 + sign]))
			parts.exponent = 1 + sign + count_digits(at + 1 + sign);
	}
	return parts;
}

/* A time is exact: 1.5s is 1,500,000,000 ns. */
static int read_time(const char *text, struct rp_token *token, const struct number_parts *parts,
		     int64_t ns, struct rp_expression_error *error)
{
	__int128 whole = take_digits(text, parts->whole, 10, INT64_MAX), rest = 0, scale = 1;

	if (parts->fraction > TIME_DIGITS_MAX + 1)
		return rp_expression_fail(error, token->at, "a time has up to %d digits after the "
					  "point", TIME_DIGITS_MAX);
	if (parts->fraction)
		rest = take_digits(text + parts->whole + 1, parts->fraction - 1, 10, INT64_MAX);
	for (size_t i = 1; i < parts->fraction; i++)
		scale *= 10;
	if (rest * ns % scale)
		return rp_expression_fail(error, token->at, "the time is not a whole number of "
					  "nanoseconds");
	if (whole < 0 || whole * ns + rest * ns / scale > INT64_MAX)
		return rp_expression_fail(error, token->at, "the time is longer than 292 years");
	token->value = (struct rp_operand){
		.kind = RP_OPERAND_INTEGER, .integer = whole * ns + rest * ns / scale,
	};
	token->has_unit = true;
	return 0;
}

static int read_real(const char *text, size_t length, struct rp_token *token,
		     struct rp_expression_error *error)
{
	char digits[NUMBER_BYTES_MAX + 1];

	if (length > NUMBER_BYTES_MAX)
		return rp_expression_fail(error, token->at, "a number has up to %d characters",
					  NUMBER_BYTES_MAX);
	memcpy(digits, text, length);
	digits[length] = '\0';
	token->value = (struct rp_operand){ .kind = RP_OPERAND_REAL,
					    .real = strtod(digits, NULL) };
	if (isinf(token->value.real))
		return rp_expression_fail(error, token->at, "the number is too large");
	return 0;
}

static int read_integer(const char *text, size_t length, unsigned int base,
			struct rp_token *token, struct rp_expression_error *error)
{
	__int128 number = take_digits(text, length, base, UINT64_MAX);

	token->value = (struct rp_operand){ .kind = RP_OPERAND_INTEGER, .integer = number };
	return number < 0 ? rp_expression_fail(error, token->at, "an integer has up to 64 bits") :
	       0;
}

static int read_unsigned(const char *text, size_t at, struct rp_token *token,
			 struct rp_expression_error *error)
{
	const bool is_hex = text[at] == '0' && (text[at + 1] == 'x' || text[at + 1] == 'X');
	const struct number_parts parts = find_parts(text + at);
	size_t length = parts.whole + parts.fraction + parts.exponent, unit = 0;
	int64_t ns;
	int ret;

	if (is_hex) {
		at += 2;
		for (length = 0; isxdigit((unsigned char)text[at + length]);)
			length++;
	}
	while (is_name_byte(text[at + length + unit], false))
		unit++;
	token->bytes = at + length + unit - token->at;
	if (is_hex && (!length || unit))
		return rp_expression_fail(error, at + length, "expected a hexadecimal digit");
	if (is_hex)
		return read_integer(text + at, length, 16, token, error);
	if (unit) {
		ns = unit_ns(text + at + length, unit);
		if (!ns || parts.exponent)
			return rp_expression_fail(error, at + length, "the units of a time are ns, "
						  "us, ms, s, m and h");
		return read_time(text + at, token, &parts, ns, error);
	}
	ret = parts.fraction || parts.exponent ?
	      read_real(text + at, length, token, error) :
	      read_integer(text + at, length, 10, token, error);
	return ret;
}

static int read_number(const char *text, size_t at, struct rp_token *token,
		       struct rp_expression_error *error)
{
	const bool is_negative = text[at] == '-';
	int ret = read_unsigned(text, at + is_negative, token, error);

	if (ret || !is_negative)
		return ret;
	if (token->value.kind == RP_OPERAND_REAL)
		token->value.real = -token->value.real;
	else
		token->value.integer = -token->value.integer;
	if (token->value.kind == RP_OPERAND_INTEGER && token->value.integer < INT64_MIN)
		return rp_expression_fail(error, token->at, "an integer has up to 64 bits");
	return 0;
}

static int read_operator(const char *text, size_t at, struct rp_token *token,
			 struct rp_expression_error *error)
{
	static const struct {
		const char *sign;
		enum rp_expression_operator operator;
		const char *instead;	/* of a sign in other languages; or NULL */
	} signs[] = {
		{ "==", RP_OPERATOR_EQUAL, NULL }, { "!=", RP_OPERATOR_NOT_EQUAL, NULL },
		{ "<=", RP_OPERATOR_AT_MOST, NULL }, { ">=", RP_OPERATOR_AT_LEAST, NULL },
		{ "=~", 0, "~" }, { "<", RP_OPERATOR_LESS, NULL },
		{ ">", RP_OPERATOR_MORE, NULL }, { "~", RP_OPERATOR_REGEX, NULL },
		{ "=", 0, "==" }, { "&&", 0, "and" }, { "||", 0, "or" }, { "!", 0, "not" },
	};

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		if (strncmp(text + at, signs[i].sign, strlen(signs[i].sign)) != 0)
			continue;
		if (signs[i].instead)
			return rp_expression_fail(error, at, "write '%s' instead of '%s'",
						  signs[i].instead, signs[i].sign);
		token->bytes = strlen(signs[i].sign);
		token->operator = signs[i].operator;
		return 0;
	}
	return rp_expression_fail(error, at, "this character is not part of an expression");
}

int rp_token_read(const char *text, size_t at, struct rp_token *ret_token,
		  struct rp_expression_error *ret_error)
{
	struct rp_token *token = ret_token;

	while (text[at] && strchr(" \t\r\n", text[at]))
		at++;
	token->at = at;
	token->bytes = 1;
	token->has_unit = token->is_quoted = false;
	token->kind = RP_TOKEN_OPERATOR;
	if (!text[at]) {
		token->kind = RP_TOKEN_END;
		token->bytes = 0;
	} else if (text[at] == '(' || text[at] == ')') {
		token->kind = text[at] == '(' ? RP_TOKEN_OPEN : RP_TOKEN_CLOSE;
	} else if (text[at] == '"' || text[at] == '\'') {
		token->kind = RP_TOKEN_TEXT;
		return read_text(text, at, token, ret_error);
	} else if (is_digit(text[at]) || (text[at] == '-' && is_digit(text[at + 1]))) {
		token->kind = RP_TOKEN_NUMBER;
		return read_number(text, at, token, ret_error);
	} else if (is_name_byte(text[at], true)) {
		token->kind = RP_TOKEN_NAME;
		return read_name(text, at, token, ret_error);
	} else {
		return read_operator(text, at, token, ret_error);
	}
	return 0;
}

static bool is_inside_character(char c)
{
	return ((uint8_t)c & 0xc0) == 0x80;
}

void rp_expression_explain(const char *option, const char *text,
			   const struct rp_expression_error *error)
{
	size_t from = error->at > SHOWN_BEFORE ? error->at - SHOWN_BEFORE : 0;
	size_t shown = strnlen(text + error->at, SHOWN_AFTER);
	char *before, *after;

	while (from && is_inside_character(text[from]))
		from--;
	while (shown && is_inside_character(text[error->at + shown]))
		shown--;
	rp_tool_error("%s: %s", option, error->message);
	before = strndup(text + from, error->at - from);
	after = strndup(text + error->at, shown);
	if (before && after) {
		char *clean = rp_text_clean(before, true);

		/* The line has a blank for each character before the error, and two more. */
		rp_tool_say(stderr, "  %s%s", before, after);
		rp_tool_say(stderr, "%*s^", (int)rp_text_width(clean ? clean : "") + 2, "");
		free(clean);
	}
	free(before);
	free(after);
}
