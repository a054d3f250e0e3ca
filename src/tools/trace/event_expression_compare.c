/* SPDX-License-Identifier: MIT */
/* Compares the operands of events with the values in expressions. */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "tools/trace/event_expression_parts.h"

/* The result of a comparison with a NaN: neither <, == nor >. */
#define UNORDERED 2

/* Compare exactly: a double cannot represent each integer. Return: -1, 0, 1 or UNORDERED. */
static int compare_with_real(__int128 integer, double real)
{
	__int128 whole;

	if (isnan(real))
		return UNORDERED;
	if (real >= 0x1p64)
		return -1;
	if (real < -0x1p63)
		return 1;
	whole = (__int128)real;
	if (integer != whole)
		return integer < whole ? -1 : 1;
	return ((double)whole > real) - ((double)whole < real);
}

static int compare_reals(double left, double right)
{
	return isnan(left) || isnan(right) ? UNORDERED : (left > right) - (left < right);
}

static int compare_numbers(const struct rp_operand *left, const struct rp_operand *right)
{
	int order;

	if (left->kind == RP_OPERAND_INTEGER && right->kind == RP_OPERAND_INTEGER)
		return (left->integer > right->integer) - (left->integer < right->integer);
	if (left->kind == RP_OPERAND_REAL && right->kind == RP_OPERAND_REAL)
		return compare_reals(left->real, right->real);
	if (left->kind == RP_OPERAND_INTEGER)
		return compare_with_real(left->integer, right->real);
	order = compare_with_real(right->integer, left->real);
	return order == UNORDERED ? order : -order;
}

/* By bytes, which is the order of the characters in UTF-8. */
static int compare_texts(const struct rp_operand *left, const struct rp_operand *right)
{
	const size_t bytes = left->bytes < right->bytes ? left->bytes : right->bytes;
	const int order = left->kind == RP_OPERAND_ID ?
			  strncasecmp(left->text, right->text, bytes) :
			  bytes ? memcmp(left->text, right->text, bytes) : 0;

	return order ? (order > 0) - (order < 0) :
	       (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

static bool is_number(const struct rp_operand *operand)
{
	return operand->kind == RP_OPERAND_INTEGER || operand->kind == RP_OPERAND_REAL;
}

bool rp_operand_compare(const struct rp_operand *left, const struct rp_comparison *comparison)
{
	const struct rp_operand *right = &comparison->value;
	int order;

	if (left->kind == RP_OPERAND_UTF16)
		order = left->bytes != comparison->units_bytes ||
			memcmp(left->text, comparison->units, left->bytes) != 0;
	else if (is_number(left) && is_number(right))
		order = compare_numbers(left, right);
	else if ((left->kind == RP_OPERAND_TEXT || left->kind == RP_OPERAND_ID) &&
		 right->kind == RP_OPERAND_TEXT)
		order = compare_texts(left, right);
	else if (left->kind == RP_OPERAND_BOOL && right->kind == RP_OPERAND_BOOL)
		order = left->truth - right->truth;
	else
		return false;
	switch (comparison->operator) {
	case RP_OPERATOR_EQUAL:
		return order == 0;
	case RP_OPERATOR_NOT_EQUAL:
		return order != 0;
	case RP_OPERATOR_LESS:
		return order == -1;
	case RP_OPERATOR_AT_MOST:
		return order == -1 || order == 0;
	case RP_OPERATOR_MORE:
		return order == 1;
	case RP_OPERATOR_AT_LEAST:
		return order == 1 || order == 0;
	case RP_OPERATOR_HAS:
	case RP_OPERATOR_REGEX:
		break;
	}
	return false;
}

bool rp_text_is_guid(const char *text)
{
	for (size_t i = 0; i < 36; i++) {
		const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (is_dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
			return false;
	}
	return !text[36];
}
