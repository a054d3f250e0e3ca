/* SPDX-License-Identifier: MIT */
/*
 * RP_EVENT puts a pointer to each event into the section rp_events, and the rest of a declaration
 * is reached from there (ringpipe/detail/data.h). The file is read only, never executed.
 */
#include "tools/ringpipe-gen/binary_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/event.h>

#include "base/event_definition.h"
#include "tools/cli/tool.h"
#include "tools/ringpipe-gen/probe_notes.h"

#define MESSAGE_MAX 65535u
#define DEPTH_MAX 8u
#define SEMAPHORE 6u		/* its offset in struct rp_event */
#define FIELDS_LIMIT 1000000u	/* of all events, with the members of their structs */

/* The state of reading the fields of one event. */
struct field_reading {
	const struct rp_elf_image *image;
	uint32_t left;
	int error;
};

#define MEMBER(type, member) offsetof(struct type, member)

static void free_fields(struct rp_field *fields, size_t count)
{
	for (size_t i = 0; fields && i < count; i++) {
		struct rp_enumeration *names = (struct rp_enumeration *)fields[i].enumeration;

		free_fields((struct rp_field *)fields[i].members, fields[i].member_count);
		if (names)
			free((struct rp_enumerator *)names->enumerators);
		free(names);
	}
	free(fields);
}

/* Read a pointer to a text. Return: the text; NULL, with an error, if there is none. */
static const char *read_text(struct field_reading *reading, uint64_t place, size_t max)
{
	uint64_t address;
	const char *text = rp_elf_pointer(reading->image, place, &address) ?
			   rp_elf_text(reading->image, address, max) : NULL;

	if (!text)
		reading->error = -EBADMSG;
	return text;
}

static void read_enumerators(struct field_reading *reading, uint64_t address,
			     struct rp_enumeration *ret_names)
{
	struct rp_enumerator *enumerators = calloc(ret_names->count, sizeof(*enumerators));

	ret_names->enumerators = enumerators;
	if (!enumerators)
		reading->error = -ENOMEM;
	for (size_t i = 0; i < ret_names->count && reading->error == 0; i++) {
		const uint64_t at = address + i * sizeof(*enumerators);

		enumerators[i].name = read_text(reading, at, RP_NAME_MAX);
		if (!rp_elf_read(reading->image, at + MEMBER(rp_enumerator, value),
				 &enumerators[i].value, sizeof(enumerators[i].value)))
			reading->error = -EBADMSG;
	}
}

static const struct rp_enumeration *read_enumeration(struct field_reading *reading,
						     uint64_t address)
{
	struct rp_enumeration *names = calloc(1, sizeof(*names));
	uint64_t enumerators = 0, count = 0;

	if (!names) {
		reading->error = -ENOMEM;
		return NULL;
	}
	names->name = read_text(reading, address, RP_NAME_MAX);
	if (!rp_elf_pointer(reading->image, address + MEMBER(rp_enumeration, enumerators),
			    &enumerators) ||
	    !rp_elf_read(reading->image, address + MEMBER(rp_enumeration, count), &count,
			 sizeof(count)) || !count || count > RP_ENUMERATORS_MAX)
		reading->error = -EBADMSG;
	if (reading->error == 0) {
		names->count = count;
		read_enumerators(reading, enumerators, names);
	}
	return names;
}

static struct rp_field *read_fields(struct field_reading *reading, uint64_t address,
				    uint16_t count, unsigned int depth);

static void read_field(struct field_reading *reading, uint64_t address, unsigned int depth,
		       struct rp_field *ret_field)
{
	uint64_t members = 0, names = 0;
	struct rp_field field;

	if (!rp_elf_read(reading->image, address, &field, sizeof(field)) ||
	    !rp_elf_pointer(reading->image, address + MEMBER(rp_field, members), &members) ||
	    !rp_elf_pointer(reading->image, address + MEMBER(rp_field, enumeration), &names)) {
		reading->error = -EBADMSG;
		return;
	}
	ret_field->name = read_text(reading, address, RP_NAME_MAX);
	ret_field->type = field.type;
	ret_field->element = field.element;
	ret_field->flags = field.flags;
	if (reading->error == 0 && field.member_count) {
		ret_field->members = read_fields(reading, members, field.member_count, depth + 1);
		ret_field->member_count = ret_field->members ? field.member_count : 0;
	}
	if (reading->error == 0 && names)
		ret_field->enumeration = read_enumeration(reading, names);
}

static struct rp_field *read_fields(struct field_reading *reading, uint64_t address,
				    uint16_t count, unsigned int depth)
{
	struct rp_field *fields;

	if (depth > DEPTH_MAX || count > reading->left) {
		reading->error = -EBADMSG;
		return NULL;
	}
	reading->left -= count;
	fields = calloc(count + 1u, sizeof(*fields));
	if (!fields)
		reading->error = -ENOMEM;
	for (uint16_t i = 0; i < count && reading->error == 0; i++)
		read_field(reading, address + i * sizeof(*fields), depth, &fields[i]);
	return fields;
}

/* Read the name of the provider whose declaration `place` points to. */
static const char *read_provider(struct field_reading *reading, uint64_t place)
{
	uint64_t provider;

	if (!rp_elf_pointer(reading->image, place, &provider)) {
		reading->error = -EBADMSG;
		return NULL;
	}
	return read_text(reading, provider + MEMBER(rp_provider_decl, name), RP_NAME_MAX);
}

/* Return: 0; -EBADMSG; -ENOMEM. */
static int read_event(const struct rp_elf_image *image, uint64_t address, uint32_t *left,
		      struct rp_binary_event *event)
{
	struct field_reading reading = { .image = image, .left = *left };
	struct rp_event_decl decl = { 0 };
	uint64_t at, message, fields;

	if (!rp_elf_pointer(image, address + MEMBER(rp_event, decl), &at) ||
	    !rp_elf_read(image, at, &decl, RP_EVENT_DECL_SIZE_V1) ||
	    decl.size < RP_EVENT_DECL_SIZE_V1 ||
	    !rp_elf_pointer(image, at + MEMBER(rp_event_decl, message), &message) ||
	    !rp_elf_pointer(image, at + MEMBER(rp_event_decl, fields), &fields))
		return -EBADMSG;
	event->provider = read_provider(&reading, at + MEMBER(rp_event_decl, provider));
	event->name = read_text(&reading, at + MEMBER(rp_event_decl, name), RP_NAME_MAX);
	if (message)
		event->message = read_text(&reading, at + MEMBER(rp_event_decl, message),
					   MESSAGE_MAX);
	if (reading.error < 0)
		return reading.error;
	event->keywords = decl.keywords;
	event->version = decl.version;
	event->level = decl.level;
	event->opcode = decl.opcode;
	event->flags = decl.flags;
	if (decl.id == RP_EVENT_ID_AUTO)
		decl.id = rp_event_id_from_name(event->name);
	if (decl.id > RP_EVENT_ID_MAX || decl.level > RP_LEVEL_VERBOSE)
		return -EBADMSG;
	event->id = (uint16_t)decl.id;
	event->fields = read_fields(&reading, fields, decl.field_count, 0);
	event->field_count = event->fields ? decl.field_count : 0;
	*left = reading.left;
	return reading.error;
}

/* The linker orders the table; the id and version give an order that does not depend on it. */
static int compare_events(const void *a, const void *b)
{
	const struct rp_binary_event *x = a, *y = b;
	const int order = strcmp(x->provider, y->provider);

	if (order != 0)
		return order;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->version != y->version ? (x->version < y->version ? -1 : 1) :
	       strcmp(x->name, y->name);
}

static int report(const char *path, int error)
{
	if (error == -ENOENT)
		rp_tool_error("%s declares no event", path);
	else if (error == -ENOMEM)
		rp_tool_error("out of memory");
	else
		rp_tool_error("%s: its sections, or what they state of its events, are damaged or "
			      "missing", path);
	return error;
}

int rp_binary_events_read(struct rp_binary_events *events, const char *path)
{
	uint64_t address = 0, bytes = 0, event;
	uint32_t left = FIELDS_LIMIT;
	struct rp_probe_notes notes;
	int ret;

	*events = (struct rp_binary_events){ 0 };
	ret = rp_elf_open(&events->image, path);
	if (ret < 0)
		return ret;
	ret = rp_elf_section(&events->image, "rp_events", &address, &bytes);
	if (ret == 0 && bytes > events->image.size)
		ret = -EBADMSG;
	if (ret < 0)
		return report(path, ret);
	events->events = calloc(bytes / sizeof(event) + 1, sizeof(*events->events));
	if (!events->events)
		return report(path, -ENOMEM);
	ret = rp_probe_notes_read(&notes, &events->image);
	for (uint64_t at = 0; at + sizeof(event) <= bytes && ret == 0; at += sizeof(event)) {
		struct rp_binary_event *each = &events->events[events->count++];

		ret = -EBADMSG;
		if (rp_elf_pointer(&events->image, address + at, &event)) {
			each->provider_symbol = rp_probe_notes_provider(&notes, event + SEMAPHORE);
			ret = read_event(&events->image, event, &left, each);
		}
	}
	rp_probe_notes_free(&notes);
	if (ret < 0)
		return report(path, ret);
	qsort(events->events, events->count, sizeof(*events->events), compare_events);
	return 0;
}

void rp_binary_events_free(struct rp_binary_events *events)
{
	for (size_t i = 0; i < events->count; i++)
		free_fields(events->events[i].fields, events->events[i].field_count);
	free(events->events);
	rp_elf_close(&events->image);
	*events = (struct rp_binary_events){ 0 };
}
