/* SPDX-License-Identifier: MIT */
/*
 * Compiled as C and as C++, with and without PIC, by run.py.
 *
 * The functions call another function, as functions with events usually do. In a leaf function, the
 * compiler would also save a register for the event's call.
 */
#include "site.h"

uint64_t without_event(uint64_t value)
{
	value = work(value);
	return work(value) + value;
}

uint64_t with_event(uint64_t value)
{
	value = work(value);
	site_four(value, value, value, value);
	return work(value) + value;
}

uint64_t without_text(uint64_t value, const char *text)
{
	value = work(value);
	return work(value) + value + (text == NULL);
}

uint64_t with_text(uint64_t value, const char *text)
{
	value = work(value);
	site_text(text);
	return work(value) + value + (text == NULL);
}
