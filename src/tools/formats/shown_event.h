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

/* Return: whether the payload is shown as bytes, because the type describes no field of it. */
static inline bool rp_shown_as_payload(const struct rp_reader_event *event)
{
	return !event->type->field_count && event->payload_bytes;
}

/* The begin of the struct that a format has for each type of events. */
struct rp_shown_type {
	bool is_counter;	/* rp_shown_as_counter() */
	bool is_omitted;	/* rp_shown_not_at_all() */
};

/*
 * Return what a format has for a type, or NULL without memory.
 * @make: make it, for the first event of the type; name: that of rp_shown_event_name().
 * @format: the first argument of `make`.
 */
struct rp_shown_type *rp_shown_type_of(struct rp_reader_type *type,
				       struct rp_shown_type *(*make)(void *format,
								     struct rp_reader_type *type,
								     const char *name),
				       void *format);

#endif
