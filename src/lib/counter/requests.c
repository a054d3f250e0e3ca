/* SPDX-License-Identifier: MIT */
#include "counter/requests.h"

#include <stdlib.h>

#include "core/session_setup.h"

double rp_request_number(const char *filter_data, const char *key, double otherwise)
{
	double number;
	char *text, *end;

	if (rp_filter_data_get(filter_data, key, &text) != 0)
		return otherwise;
	number = strtod(text, &end);
	if (end == text || *end || number - number != 0)
		number = otherwise;
	free(text);
	return number;
}
