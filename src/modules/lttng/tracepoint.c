/* SPDX-License-Identifier: MIT */
/* Converts an event's definition to LTTng's description. */
#include "modules/lttng/tracepoint.h"

#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_CAPACITY 256u		/* of a field's name in ringpipe, with the NUL */
#define FIELD_MAX 254u		/* a name of 255 breaks "lttng list --fields" for all processes */
#define PROVIDER_MAX 127u
#define FULL_NAME_MAX 250u	/* "provider:event"; LTTng accepts 254 */
#define FIELDS_LIMIT 512u	/* LTTng's limit per event; writers need stack space for each */
#define OWN_FIELDS 5u

/* LTTng's levels are those of syslog, and more below them. Level 0 is in every range. */
static const int loglevels[] = {
	[RP_LEVEL_LOG_ALWAYS] = 0,	/* TRACE_EMERG */
	[RP_LEVEL_CRITICAL] = 2,	/* TRACE_CRIT */
	[RP_LEVEL_ERROR] = 3,		/* TRACE_ERR */
	[RP_LEVEL_WARNING] = 4,		/* TRACE_WARNING */
	[RP_LEVEL_INFORMATIONAL] = 6,	/* TRACE_INFO */
	[RP_LEVEL_VERBOSE] = 14,	/* TRACE_DEBUG */
};

struct tracepoint_shape {
	uint8_t kind;
	uint8_t size;
	struct lttng_ust_type_integer integer;	/* as an element, or alone */
};

#define INTEGER(kind_, bytes, is_signed, base_) \
	{ .kind = kind_, .size = bytes, .integer = { \
		.parent = { .type = lttng_ust_type_integer }, \
		.struct_size = sizeof(struct lttng_ust_type_integer), .size = 8 * (bytes), \
		.alignment = 8, .signedness = is_signed, .base = base_ } }
#define SIGNED(bytes) INTEGER(RP_LEAF_SIGNED, bytes, 1, 10)
#define UNSIGNED(bytes) INTEGER(RP_LEAF_UNSIGNED, bytes, 0, 10)
#define HEX(bytes) INTEGER(RP_LEAF_UNSIGNED, bytes, 0, 16)

/*
 * Indexed by enum rp_type. A float's `integer` is for sequences, since LTTng has only sequences of
 * integers.
 */
static const struct tracepoint_shape shapes[] = {
	[RP_TYPE_BOOL] = UNSIGNED(1), [RP_TYPE_CHAR] = UNSIGNED(1),
	[RP_TYPE_I8] = SIGNED(1), [RP_TYPE_U8] = UNSIGNED(1),
	[RP_TYPE_I16] = SIGNED(2), [RP_TYPE_U16] = UNSIGNED(2),
	[RP_TYPE_I32] = SIGNED(4), [RP_TYPE_U32] = UNSIGNED(4),
	[RP_TYPE_I64] = SIGNED(8), [RP_TYPE_U64] = UNSIGNED(8),
	[RP_TYPE_F32] = INTEGER(RP_LEAF_FLOAT, 4, 0, 16),
	[RP_TYPE_F64] = INTEGER(RP_LEAF_FLOAT, 8, 0, 16),
	[RP_TYPE_POINTER] = HEX(8),
	[RP_TYPE_GUID] = { .kind = RP_LEAF_BYTES, .size = 16 },
	[RP_TYPE_TIME] = SIGNED(8),
};

static const struct tracepoint_shape byte_shape = HEX(1), word_shape = HEX(8);
static const struct tracepoint_shape id_shape = UNSIGNED(2), count_shape = UNSIGNED(2);
static const struct tracepoint_shape bytes_shape = UNSIGNED(4);

#define FLOAT(bytes, digits) { .parent = { .type = lttng_ust_type_float }, \
	.struct_size = sizeof(struct lttng_ust_type_float), \
	.exp_dig = 8 * (bytes) - (digits), .mant_dig = digits, .alignment = 8 }

static const struct lttng_ust_type_float f32_type = FLOAT(4, FLT_MANT_DIG),
					 f64_type = FLOAT(8, DBL_MANT_DIG);

static const struct lttng_ust_type_string string_type = {
	.parent = { .type = lttng_ust_type_string }, .struct_size = sizeof(string_type),
	.encoding = lttng_ust_string_encoding_UTF8,
};

static const struct lttng_ust_type_array guid_type = {
	.parent = { .type = lttng_ust_type_array }, .struct_size = sizeof(guid_type),
	.elem_type = &byte_shape.integer.parent, .length = sizeof(struct rp_guid),
	.encoding = lttng_ust_string_encoding_none,
};

/* Return: the number of LTTng fields; any number above FIELDS_LIMIT if there are too many. */
static size_t count_fields(const struct rp_field *fields, size_t count, size_t each)
{
	size_t sum = 0;

	for (size_t i = 0; i < count && sum <= FIELDS_LIMIT; i++) {
		bool is_array = fields[i].type == RP_TYPE_ARRAY;

		if (fields[i].type == RP_TYPE_STRUCT ||
		    (is_array && fields[i].element == RP_TYPE_STRUCT))
			sum += 1 + count_fields(fields[i].members, fields[i].member_count,
						is_array ? 2 : each);
		else
			sum += is_array ? 2 : each;
	}
	return sum;
}

static uint32_t hash_text(const char *text)
{
	uint32_t hash = 0x811c9dc5u;

	while (*text)	/* FNV-1a */
		hash = (hash ^ (uint8_t)*text++) * 0x1000193u;
	return hash;
}

/*
 * Replaces each character that is not allowed by '_'. A name longer than `max` ends in a hash of
 * the whole name.
 */
static void map_name(const char *from, const char *allowed, size_t max, char *to)
{
	size_t length = 0;
	const char *at;

	for (at = from; *at && length <= max; at++) {
		bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
			     (*at >= '0' && *at <= '9') || strchr(allowed, *at);

		if (plain || ((uint8_t)*at & 0xc0) != 0x80)
			to[length++] = plain ? *at : '_';
	}
	if (length > max) {
		length = max - 9;
		snprintf(to + length, 10, "%c%08" PRIx32, strchr(allowed, '~') ? '~' : '_',
			 hash_text(from));
		length = max;
	}
	to[length] = '\0';
}

static void name_event(struct rp_lttng_event *event, rp_lttng_name_is_taken is_taken)
{
	static const char allowed[] = "_-.:/+@~";
	char suffix[48] = "";
	size_t space;

	map_name(event->def->provider, allowed, PROVIDER_MAX, event->provider_name);
	space = FULL_NAME_MAX - strlen(event->provider_name) - 1;
	for (unsigned int twin = 0;; twin++) {
		map_name(event->def->name, allowed, space - strlen(suffix), event->event_name);
		strcat(event->event_name, suffix);
		if (!is_taken(event->provider_name, event->event_name))
			return;
		if (twin == 0)
			snprintf(suffix, sizeof(suffix), "~%" PRIu32, event->def->id);
		else
			snprintf(suffix, sizeof(suffix), "~%" PRIu32 ".%u", event->def->id, twin);
	}
}

static bool has_field(const struct rp_lttng_event *event, const char *name)
{
	for (size_t i = 0; i < event->field_count; i++) {
		if (strcmp(event->field_names[i], name) == 0)
			return true;
	}
	return false;
}

static struct lttng_ust_event_field *add_field(struct rp_lttng_event *event, const char *name,
					       const struct lttng_ust_type_common *type)
{
	struct lttng_ust_event_field *field = &event->fields[event->field_count];
	char own[NAME_CAPACITY], suffix[16] = "";

	for (unsigned int twin = 2;; twin++) {
		map_name(name, "_", FIELD_MAX - strlen(suffix), own);
		strcat(own, suffix);
		if (!has_field(event, own))
			break;
		snprintf(suffix, sizeof(suffix), "_%u", twin);
	}
	field->struct_size = sizeof(*field);
	field->name = event->field_names[event->field_count] = strdup(own);
	field->type = type;
	event->incomplete |= !field->name;
	event->field_pointers[event->field_count] = field;
	event->field_count += field->name != NULL;
	return field;
}

/*
 * The count and the sequence share the beginning of the name, so the count's suffix reduces the
 * space.
 */
static void add_sequence(struct rp_lttng_event *event, const char *name,
			 const struct tracepoint_shape *count,
			 const struct tracepoint_shape *element, bool filter)
{
	struct lttng_ust_type_sequence *sequence = &event->sequences[event->sequence_count++];
	struct lttng_ust_event_field *field;
	char count_name[NAME_CAPACITY], mapped[NAME_CAPACITY];

	map_name(name, "_", NAME_CAPACITY - 16, mapped);
	snprintf(count_name, sizeof(count_name), "_%.*s_length", (int)NAME_CAPACITY - 16, mapped);
	field = add_field(event, count_name, &count->integer.parent);
	field->nofilter = !filter;
	*sequence = (struct lttng_ust_type_sequence){
		.parent = { .type = lttng_ust_type_sequence }, .struct_size = sizeof(*sequence),
		.length_name = field->name, .elem_type = &element->integer.parent,
		.encoding = lttng_ust_string_encoding_none,
	};
	field = add_field(event, mapped, &sequence->parent);
	field->nofilter = !filter;
}

static void add_leaf(struct rp_lttng_event *event, uint8_t kind, uint32_t size, uint32_t offset)
{
	event->leaves[event->leaf_count++] = (struct rp_leaf){ kind, size, offset };
}

/* Adds fixed bytes to the last step, until a part of variable size ends that step. */
static void add_step(struct rp_lttng_event *event, uint32_t fixed_bytes, uint8_t kind,
		     uint32_t element_bytes)
{
	struct rp_step *step = &event->steps[event->step_count - 1];

	step->fixed_bytes += fixed_bytes;
	if (kind == RP_LEAF_SIGNED)
		return;
	step->kind = kind;
	step->element_bytes = element_bytes;
	event->step_count++;
}

static void join_names(const char *prefix, const char *name, char *ret_joined)
{
	bool both = *prefix && *name;

	/* Names that become equal by the cut are made unique when the fields are added. */
	snprintf(ret_joined, NAME_CAPACITY, "%.*s%s%.*s", 120, prefix, both ? "_" : "",
		 both ? 120 : (int)NAME_CAPACITY - 1, name);
}

static void fill_enum(struct rp_lttng_enum *made, struct rp_lttng_event *event,
		      const struct rp_enumeration *from, const struct tracepoint_shape *shape)
{
	for (size_t i = 0; i < from->count; i++) {
		struct lttng_ust_enum_value value = {
			(unsigned long long)from->enumerators[i].value,
			shape->integer.signedness,
		};

		made->entries[i] = (struct lttng_ust_enum_entry){
			.struct_size = sizeof(made->entries[i]), .start = value, .end = value,
			.string = from->enumerators[i].name,
		};
		made->pointers[i] = &made->entries[i];
	}
	made->desc = (struct lttng_ust_enum_desc){
		.struct_size = sizeof(made->desc), .name = from->name,
		.entries = made->pointers, .nr_entries = (unsigned int)from->count,
		.probe_desc = &event->probe,
	};
	made->type = (struct lttng_ust_type_enum){
		.parent = { .type = lttng_ust_type_enum }, .struct_size = sizeof(made->type),
		.desc = &made->desc, .container_type = &shape->integer.parent,
	};
}

/* Without memory, returns NULL and marks the event as incomplete. */
static const struct lttng_ust_type_common *make_enum(struct rp_lttng_event *event,
						     const struct rp_enumeration *from,
						     const struct tracepoint_shape *shape)
{
	size_t pointers = from->count * sizeof(const struct lttng_ust_enum_entry *);
	struct rp_lttng_enum *made = calloc(1, sizeof(*made) + pointers +
					    from->count * sizeof(*made->entries));

	if (!made) {
		event->incomplete = true;
		return NULL;
	}
	made->entries = (struct lttng_ust_enum_entry *)(made->pointers + from->count);
	fill_enum(made, event, from, shape);
	cds_list_add(&made->node, &event->enums);
	return &made->type.parent;
}

static void add_scalar(struct rp_lttng_event *event, const char *name, const struct rp_field *of)
{
	const struct tracepoint_shape *shape = &shapes[of->type];
	const struct lttng_ust_type_common *as = &shape->integer.parent;
	uint8_t type = of->type;

	if (of->enumeration)
		as = make_enum(event, of->enumeration, shape);
	else if (type == RP_TYPE_GUID)
		as = &guid_type.parent;
	else if (shape->kind == RP_LEAF_FLOAT)
		as = type == RP_TYPE_F32 ? &f32_type.parent : &f64_type.parent;
	add_field(event, name, as);
	add_leaf(event, shape->kind, shape->size, 0);
	add_step(event, shape->size, RP_LEAF_SIGNED, 0);
}

static void add_text(struct rp_lttng_event *event, const char *name, uint8_t kind)
{
	add_field(event, name, &string_type.parent);
	add_leaf(event, kind, 0, 0);
	add_step(event, 0, kind, 0);
	event->convert |= kind == RP_LEAF_STRING16;
}

/* Adds the members of an array of structs, as sequences. Return: the bytes of one struct. */
static uint32_t add_members(struct rp_lttng_event *event, const char *prefix,
			    const struct rp_field *members, size_t count, uint32_t offset)
{
	char name[NAME_CAPACITY];

	for (size_t i = 0; i < count; i++) {
		bool is_guid = members[i].type == RP_TYPE_GUID;
		const struct tracepoint_shape *shape;

		join_names(prefix, members[i].name, name);
		if (members[i].type == RP_TYPE_STRUCT) {
			offset = add_members(event, name, members[i].members,
					     members[i].member_count, offset);
			continue;
		}
		shape = &shapes[members[i].type];
		add_sequence(event, name, is_guid ? &bytes_shape : &count_shape,
			     is_guid ? &byte_shape : shape, false);
		add_leaf(event, is_guid ? RP_LEAF_GUID_MEMBER : RP_LEAF_MEMBER, shape->size,
			 offset);
		offset += shape->size;
	}
	return offset;
}

static void add_array(struct rp_lttng_event *event, const char *name, const struct rp_field *field)
{
	const struct tracepoint_shape *shape;
	struct rp_leaf *leaf;

	if (field->element == RP_TYPE_STRUCT) {
		leaf = &event->leaves[event->leaf_count];
		add_leaf(event, RP_LEAF_STRUCTS, 0, 0);
		leaf->size = add_members(event, name, field->members, field->member_count, 0);
		add_step(event, 0, RP_LEAF_ARRAY, leaf->size);
		event->convert = true;
		return;
	}
	shape = field->element == RP_TYPE_U8 ? &byte_shape : &shapes[field->element];
	if (field->element == RP_TYPE_GUID) {
		add_sequence(event, name, &bytes_shape, &byte_shape, false);
		add_leaf(event, RP_LEAF_GUIDS, shape->size, 0);
		event->convert = true;
	} else {
		add_sequence(event, name, &count_shape, shape, true);
		add_leaf(event, RP_LEAF_ARRAY, shape->size, 0);
	}
	add_step(event, 0, RP_LEAF_ARRAY, shape->size);
}

static void add_fields(struct rp_lttng_event *event, const char *prefix,
		       const struct rp_field *fields, size_t count)
{
	char name[NAME_CAPACITY];

	for (size_t i = 0; i < count; i++) {
		const struct rp_field *field = &fields[i];

		join_names(prefix, field->name, name);
		if (field->type == RP_TYPE_STRUCT)
			add_fields(event, name, field->members, field->member_count);
		else if (field->type == RP_TYPE_ARRAY)
			add_array(event, name, field);
		else if (field->type == RP_TYPE_STRING)
			add_text(event, name, RP_LEAF_STRING);
		else if (field->type == RP_TYPE_STRING16)
			add_text(event, name, RP_LEAF_STRING16);
		else
			add_scalar(event, name, field);
	}
}

/*
 * Adds OWN_FIELDS fields; if the event has a field of that name, the event's field keeps the name.
 */
static void add_own_fields(struct rp_lttng_event *event)
{
	add_field(event, "activity_id", &string_type.parent);
	add_field(event, "related_activity_id", &string_type.parent);
	add_field(event, "keywords", &word_shape.integer.parent)->nowrite = 1;
	add_field(event, "event_id", &id_shape.integer.parent)->nowrite = 1;
	add_field(event, "opcode", &id_shape.integer.parent)->nowrite = 1;
}

static void join_parts(struct rp_lttng_event *event)
{
	const struct rp_event_def *def = event->def;

	snprintf(event->uri, sizeof(event->uri),
		 "ringpipe:id=%" PRIu32 ";version=%u;level=%u;opcode=%u;keywords=0x%" PRIx64,
		 def->id, def->version, def->level, def->opcode, def->keywords);
	event->uri_pointer = event->uri;
	event->loglevel = loglevels[def->level];
	event->loglevel_pointer = &event->loglevel;
	event->class = (struct lttng_ust_tracepoint_class){
		.struct_size = sizeof(event->class), .fields = event->field_pointers,
		.nr_fields = event->field_count, .probe_callback = (void (*)(void))rp_lttng_probe,
		.signature = "ringpipe", .probe_desc = &event->probe,
	};
	event->desc = (struct lttng_ust_event_desc){
		.struct_size = sizeof(event->desc), .event_name = event->event_name,
		.probe_desc = &event->probe, .tp_class = &event->class,
		.loglevel = &event->loglevel_pointer, .model_emf_uri = &event->uri_pointer,
	};
	event->desc_pointer = &event->desc;
	event->probe = (struct lttng_ust_probe_desc){
		.struct_size = sizeof(event->probe), .provider_name = event->provider_name,
		.event_desc = &event->desc_pointer, .nr_events = 1,
		.major = LTTNG_UST_PROVIDER_MAJOR, .minor = LTTNG_UST_PROVIDER_MINOR,
	};
	event->tracepoint = (struct lttng_ust_tracepoint){
		.struct_size = sizeof(event->tracepoint), .provider_name = event->provider_name,
		.event_name = event->event_name, .signature = event->class.signature,
	};
	event->tracepoint_pointer = &event->tracepoint;
}

static bool make_space(struct rp_lttng_event *event)
{
	size_t space = count_fields(event->def->fields, event->def->field_count, 1) + OWN_FIELDS;

	if (space > FIELDS_LIMIT)
		return false;
	event->leaves = calloc(space, sizeof(*event->leaves));
	event->steps = calloc(space + 1, sizeof(*event->steps));
	event->fields = calloc(space, sizeof(*event->fields));
	event->field_pointers = calloc(space, sizeof(*event->field_pointers));
	event->field_names = calloc(space, sizeof(*event->field_names));
	event->sequences = calloc(space, sizeof(*event->sequences));
	event->step_count = 1;
	return event->leaves && event->steps && event->fields && event->field_pointers &&
	       event->field_names && event->sequences;
}

struct rp_lttng_event *rp_lttng_event_create(const struct rp_event_def *def,
					     rp_lttng_name_is_taken is_taken)
{
	struct rp_lttng_event *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL;
	CDS_INIT_LIST_HEAD(&event->enums);
	event->def = def;
	event->keywords = def->keywords;
	event->id = def->id;
	event->opcode = def->opcode;
	if (!make_space(event)) {
		rp_lttng_event_destroy(event);
		return NULL;
	}
	name_event(event, is_taken);
	add_fields(event, "", def->fields, def->field_count);
	add_own_fields(event);
	if (event->incomplete) {
		rp_lttng_event_destroy(event);
		return NULL;
	}
	join_parts(event);
	return event;
}

void rp_lttng_event_destroy(struct rp_lttng_event *event)
{
	struct rp_lttng_enum *each, *next;

	cds_list_for_each_entry_safe(each, next, &event->enums, node)
		free(each);
	free(event->leaves);
	free(event->steps);
	for (size_t i = 0; i < event->field_count; i++)
		free(event->field_names[i]);
	free(event->field_names);
	free(event->fields);
	free(event->field_pointers);
	free(event->sequences);
	free(event->exports);
	free(event);
}
