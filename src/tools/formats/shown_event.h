/* SPDX-License-Identifier: MIT */
/* How timelines show the events of a type. */
#ifndef RP_TOOL_SHOWN_EVENT_H
#define RP_TOOL_SHOWN_EVENT_H

#include <stdbool.h>

#include <ringpipe/reader.h>

#define RP_SHOWN_NAME 32

/* Return: the name of the type's events, or else one made in `buffer`, of RP_SHOWN_NAME bytes. */
const char *rp_shown_event_name(const struct rp_reader_type *type, char *buffer);

/* Return: whether the type's events may have the values of counters. */
bool rp_shown_as_counter(const struct rp_reader_type *type);

/* Return: whether timelines omit the type: the functions and mappings of Universal.System. */
bool rp_shown_not_at_all(const struct rp_reader_type *type);

#endif
