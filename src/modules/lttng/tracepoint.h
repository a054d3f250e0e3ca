/* SPDX-License-Identifier: MIT */
/*
 * Describes an event in the structs that LTTng-UST's macros create at compile time.
 *
 * A ringpipe payload has the layout of a packed LTTng event: integers without alignment, strings
 * ended by a NUL, arrays after a count of 16 bits. The writer therefore passes most payloads on
 * unchanged: from the program's memory or, if they are small, from a copy. It converts a payload
 * with a STRING16, an array of GUIDs or of structs, or a string that is not valid UTF-8. LTTng's
 * type differs from ringpipe's in these cases:
 *
 *	an enumeration		an enumeration, of the integer
 *	GUID			an array of 16 bytes
 *	STRING16		a string, as UTF-8
 *	STRUCT			a field for each member, named struct_member
 *	ARRAY of F32, F64	a sequence of integers with the same bits, in hex
 *	ARRAY of GUID		a sequence of bytes, 16 for each
 *	ARRAY of STRUCT		a sequence for each member
 *
 * The activity ids follow the fields as text. Filters also see the keywords, id and opcode of the
 * event.
 */
#ifndef RP_LTTNG_TRACEPOINT_H
#define RP_LTTNG_TRACEPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <urcu/hlist.h>
#include <urcu/list.h>

#include <lttng/tracepoint-types.h>
#include <lttng/ust-events.h>

#include <ringpipe/activity.h>

#include "core/exporters.h"

/* An empty string does not work: babeltrace2 2.0.4 then shows the previous string. */
#define RP_LTTNG_NO_ACTIVITY "-"

enum rp_leaf_kind {
	RP_LEAF_SIGNED,		/* size bytes, like all up to RP_LEAF_BYTES */
	RP_LEAF_UNSIGNED,
	RP_LEAF_FLOAT,
	RP_LEAF_BYTES,		/* a GUID */
	RP_LEAF_STRING,
	RP_LEAF_STRING16,
	RP_LEAF_ARRAY,		/* of elements of size bytes */
	RP_LEAF_GUIDS,		/* such an array with GUIDs as elements */
	RP_LEAF_STRUCTS,	/* such an array of structs; its members follow */
	RP_LEAF_MEMBER,		/* a member of these: size bytes at `offset` of each struct */
	RP_LEAF_GUID_MEMBER,
};

struct rp_leaf {
	uint8_t kind;
	uint32_t size;
	uint32_t offset;
};

/* A step in the check of a payload: fixed bytes, then one part of variable size. */
struct rp_step {
	uint32_t fixed_bytes;
	uint8_t kind;		/* STRING, STRING16, ARRAY; SIGNED: no such part */
	uint32_t element_bytes;	/* of an ARRAY of any kind */
};

/* An enumeration; its entries are in the same memory. */
struct rp_lttng_enum {
	struct cds_list_head node;
	struct lttng_ust_type_enum type;
	struct lttng_ust_enum_desc desc;
	struct lttng_ust_enum_entry *entries;
	const struct lttng_ust_enum_entry *pointers[];
};

struct rp_lttng_event {
	struct cds_hlist_node by_def;
	struct cds_hlist_node by_name;
	struct cds_list_head node;	/* in the list that the polling thread visits */
	const struct rp_event_def *def;
	struct rp_export **exports;	/* enable words */
	size_t export_count, export_capacity;
	bool on;			/* state of the enable bits */

	struct rp_leaf *leaves;
	size_t leaf_count;
	struct rp_step *steps;
	size_t step_count;
	bool convert;			/* every payload needs conversion */
	uint64_t keywords;
	uint32_t id;
	uint8_t opcode;

	char provider_name[256], event_name[256];	/* together below 256 */
	char uri[128];
	const char *uri_pointer;
	int loglevel;
	const int *loglevel_pointer;
	struct lttng_ust_tracepoint tracepoint;
	struct lttng_ust_tracepoint *tracepoint_pointer;
	struct lttng_ust_tracepoint_class class;
	struct lttng_ust_event_desc desc;
	const struct lttng_ust_event_desc *desc_pointer;
	struct lttng_ust_probe_desc probe;
	struct lttng_ust_registered_probe *registered;
	struct lttng_ust_event_field *fields;
	const struct lttng_ust_event_field **field_pointers;
	char **field_names;
	struct lttng_ust_type_sequence *sequences;
	size_t field_count, sequence_count;
	struct cds_list_head enums;	/* struct rp_lttng_enum, of the event's own */
	bool incomplete;		/* for lack of memory */
};

/* Whether another event already has the two names. */
typedef bool (*rp_lttng_name_is_taken)(const char *provider, const char *event);

/* Describes a definition without registering it. NULL without memory. */
struct rp_lttng_event *rp_lttng_event_create(const struct rp_event_def *def,
					     rp_lttng_name_is_taken is_taken);
void rp_lttng_event_destroy(struct rp_lttng_event *event);

/* write_event.c: the function of struct rp_exporter_ops */
void rp_lttng_write(struct rp_export *export, const struct rp_part *parts,
		    unsigned int part_count, uint64_t payload_bytes);

/* write_event.c: LTTng calls it for each session that enables the event; `data` is LTTng's. */
void rp_lttng_probe(void *data, const void *record);

/* write_event.c: returns a thread's activity; false if the thread never had one */
extern bool (*rp_lttng_activity_get)(struct rp_activity *ret_activity);

#endif
