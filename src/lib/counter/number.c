/* SPDX-License-Identifier: MIT */
/* Source: the observed results of .NET's Double.ToString() with the invariant culture. */
#include "counter/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MIN 15		/* this many decimal digits survive a conversion to double */
#define DIGITS_MAX 17		/* this many digits identify every double */
#define PLACES_MIN (-4)
#define PLACES_MAX 16

/* The absolute value of a number: D.DDD times ten to the exponent. */
struct decimal {
	char digits[DIGITS_MAX + 1];	/* without trailing zeros */
	int count;
	int exponent;
};

static void take_apart(double number, struct decimal *decimal)
{
	char text[RP_NUMBER_MAX];
	int count = 0;

	for (int digits = DIGITS_MIN; digits <= DIGITS_MAX; digits++) {
		snprintf(text, sizeof(text), "%.*e", digits - 1, number);
		if (strtod(text, NULL) == number)
			break;
	}
	for (const char *at = text; *at != 'e'; at++) {
		if (*at >= '0' && *at <= '9' && count < DIGITS_MAX)
			decimal->digits[count++] = *at;
	}
	while (count > 1 && decimal->digits[count - 1] == '0')
		count--;
	decimal->digits[count] = '\0';
	decimal->count = count;
	decimal->exponent = atoi(strchr(text, 'e') + 1);
}

void rp_number_print(double number, char text[RP_NUMBER_MAX])
{
	const char *sign = __builtin_signbit(number) ? "-" : "", *digits, *dot;
	struct decimal decimal;
	int exponent, whole;

	if (number - number != 0) {
		snprintf(text, RP_NUMBER_MAX, "%s", number != number ? "NaN" :
			 number > 0 ? "Infinity" : "-Infinity");
		return;
	}
	take_apart(number, &decimal);
	digits = decimal.digits;
	exponent = decimal.exponent;
	whole = exponent >= PLACES_MIN && exponent <= PLACES_MAX ? exponent + 1 : 1;
	dot = decimal.count > whole ? "." : "";
	if (exponent < PLACES_MIN || exponent > PLACES_MAX)
		snprintf(text, RP_NUMBER_MAX, "%s%c%s%sE%+03d", sign, *digits, dot, digits + 1,
			 exponent);
	else if (exponent < 0)
		snprintf(text, RP_NUMBER_MAX, "%s0.%.*s%s", sign, -whole, "0000", digits);
	else if (decimal.count <= whole)
		snprintf(text, RP_NUMBER_MAX, "%s%s%.*s", sign, digits, whole - decimal.count,
			 "0000000000000000");
	else
		snprintf(text, RP_NUMBER_MAX, "%s%.*s.%s", sign, whole, digits, digits + whole);
}
