/* SPDX-License-Identifier: MIT */
/*
 * Samples as profiles of the OpenTelemetry protocol (OTLP): one ProfilesData message in protocol
 * buffers, with a profile for each process. Profiles refer to stacks, functions and texts by their
 * index in a dictionary, whose first entries are empty messages.
 *
 * Source: opentelemetry/proto/profiles/v1development/profiles.proto, version 1.11.0, of
 * github.com/open-telemetry/opentelemetry-proto.
 */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/formats/proto_out.h"
#include "tools/formats/stack_samples.h"

#define NAME_BYTES 512u

enum { DATA_RESOURCE_PROFILES = 1, DATA_DICTIONARY = 2 };
enum { RESOURCE_PROFILES_RESOURCE = 1, RESOURCE_PROFILES_SCOPE_PROFILES = 2 };
enum { RESOURCE_ATTRIBUTES = 1 };
enum { SCOPE_PROFILES_SCOPE = 1, SCOPE_PROFILES_PROFILES = 2 };
enum { SCOPE_NAME = 1 };
enum { PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLES = 2, PROFILE_TIME = 3, PROFILE_DURATION = 4 };
enum { VALUE_TYPE_TYPE = 1, VALUE_TYPE_UNIT = 2 };
enum { SAMPLE_STACK = 1, SAMPLE_ATTRIBUTES = 2, SAMPLE_LINK = 3, SAMPLE_VALUES = 4 };
enum { DICTIONARY_MAPPINGS = 1, DICTIONARY_LOCATIONS = 2, DICTIONARY_FUNCTIONS = 3,
       DICTIONARY_LINKS = 4, DICTIONARY_STRINGS = 5, DICTIONARY_ATTRIBUTES = 6,
       DICTIONARY_STACKS = 7 };
enum { LINK_TRACE_ID = 1, LINK_SPAN_ID = 2 };
enum { STACK_LOCATIONS = 1 };
enum { LOCATION_LINES = 3 };
enum { LINE_FUNCTION = 1 };
enum { FUNCTION_NAME = 1, FUNCTION_FILENAME = 3 };
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };	/* of KeyValue and KeyValueAndUnit */
enum { ANY_VALUE_STRING = 1, ANY_VALUE_BOOL = 2, ANY_VALUE_INT = 3, ANY_VALUE_DOUBLE = 4 };

/* The first strings; then each function has two: its name and its file. */
enum { STRING_EMPTY, STRING_SAMPLES, STRING_COUNT, STRING_THREAD, STRING_FIRST };

/* A sample that was taken in a span. */
struct otlp_linked_sample {
	uint8_t trace[16], span[8];
	uint32_t group, node;		/* as in struct rp_stack_sample */
	uint32_t link;			/* its index in the dictionary */
};

struct otlp_profiles {
	struct rp_stack_samples *samples;
	/* In the order of their groups and nodes, after number_links(). */
	struct otlp_linked_sample *linked;
	size_t linked_count, linked_capacity;
	struct rp_format_out links;	/* of the dictionary */
	struct rp_format_out message;	/* that is being written */
	struct rp_format_out stacks;	/* of the dictionary */
	uint64_t stack_count;
	/* For each group of the tree, in the order of processes. */
	const struct rp_call_group **groups;
	struct rp_format_out *of_groups;	/* samples, at the index of the group in the tree */
};

/* Write an attribute of a resource. */
static void put_attribute(struct rp_format_out *message, const struct rp_attribute *row)
{
	const size_t attribute = rp_proto_begin(message, RESOURCE_ATTRIBUTES);
	size_t value;

	rp_proto_text(message, KEY_VALUE_KEY, row->key);
	value = rp_proto_begin(message, KEY_VALUE_VALUE);
	switch (row->type) {
	case RP_ATTRIBUTE_BOOL:
		rp_proto_varint(message, ANY_VALUE_BOOL, !strcmp(row->value, "true"));
		break;
	case RP_ATTRIBUTE_INTEGER:
		rp_proto_varint(message, ANY_VALUE_INT, (uint64_t)strtoll(row->value, NULL, 10));
		break;
	case RP_ATTRIBUTE_DOUBLE:
		rp_proto_double(message, ANY_VALUE_DOUBLE, strtod(row->value, NULL));
		break;
	default:
		rp_proto_text(message, ANY_VALUE_STRING, row->value);
	}
	rp_proto_end(message, value);
	rp_proto_end(message, attribute);
}

static void put_text(struct rp_format_out *message, const char *key, const char *text)
{
	put_attribute(message, &(struct rp_attribute){ key, text, RP_ATTRIBUTE_TEXT });
}

/* Packed fields of 32 and 64 bits have their numbers in one text. */
static void put_packed(struct rp_format_out *message, uint32_t field, uint64_t number)
{
	const size_t packed = rp_proto_begin(message, field);

	rp_proto_number(message, number);
	rp_proto_end(message, packed);
}

/* Return: the index of the stack. */
static uint64_t add_stack(struct otlp_profiles *profiles, uint32_t node)
{
	const struct rp_call_tree *tree = &profiles->samples->profile.tree;
	uint32_t nodes[RP_CALL_DEPTH_MAX + 1];
	const size_t depth = rp_stack_samples_path(tree, node, nodes);
	const size_t stack = rp_proto_begin(&profiles->stacks, DICTIONARY_STACKS);
	size_t locations;

	locations = rp_proto_begin(&profiles->stacks, STACK_LOCATIONS);
	for (size_t i = 0; i < depth; i++)
		rp_proto_number(&profiles->stacks,
				(uint64_t)tree->nodes[nodes[i]].function + 1);
	rp_proto_end(&profiles->stacks, locations);
	rp_proto_end(&profiles->stacks, stack);
	return ++profiles->stack_count;
}

/* @link: 0: none. */
static void put_sample(struct otlp_profiles *profiles, size_t group, uint64_t stack, uint32_t link,
		       uint64_t count)
{
	struct rp_format_out *out = &profiles->of_groups[group];
	const size_t sample = rp_proto_begin(out, PROFILE_SAMPLES);

	if (stack)
		rp_proto_varint(out, SAMPLE_STACK, stack);
	/* The attribute of a group is its thread; attribute 0 is empty. */
	put_packed(out, SAMPLE_ATTRIBUTES, group + 1);
	if (link)
		rp_proto_varint(out, SAMPLE_LINK, link);
	put_packed(out, SAMPLE_VALUES, count);
	rp_proto_end(out, sample);
}

static bool is_before(const struct otlp_linked_sample *linked, uint32_t group, uint32_t node)
{
	return linked->group != group ? linked->group < group : linked->node < node;
}

/* Write the samples of a stack: those in each span, and the others. */
static void put_samples(struct rp_stack_samples *samples, const struct rp_call_group *group,
			uint32_t node, uint64_t count, void *data)
{
	struct otlp_profiles *profiles = data;
	const struct otlp_linked_sample *linked = profiles->linked;
	const uint32_t index = (uint32_t)(group - samples->profile.tree.groups);
	const uint64_t stack = node == RP_CALL_NONE ? 0 : add_stack(profiles, node);
	size_t at = RP_PARTITION_POINT(i, profiles->linked_count,
				       is_before(&linked[i], index, node));

	while (at < profiles->linked_count && linked[at].group == index &&
	       linked[at].node == node) {
		const size_t first = at;

		while (at < profiles->linked_count && linked[at].group == index &&
		       linked[at].node == node && linked[at].link == linked[first].link)
			at++;
		put_sample(profiles, index, stack, linked[first].link, at - first);
		count -= at - first;
	}
	if (count)
		put_sample(profiles, index, stack, 0, count);
}

static int by_span(const void *left, const void *right)
{
	const struct otlp_linked_sample *a = left, *b = right;
	const int trace = memcmp(a->trace, b->trace, sizeof(a->trace));

	return trace ? trace : memcmp(a->span, b->span, sizeof(a->span));
}

static int by_stack(const void *left, const void *right)
{
	const struct otlp_linked_sample *a = left, *b = right;

	if (a->group != b->group || a->node != b->node)
		return is_before(a, b->group, b->node) ? -1 : 1;
	return (a->link > b->link) - (a->link < b->link);
}

/* Decoders may require ids of the usual lengths, also of a link that is not set. */
static void put_link(struct rp_format_out *message, const struct otlp_linked_sample *linked)
{
	const size_t link = rp_proto_begin(message, DICTIONARY_LINKS);
	size_t id = rp_proto_begin(message, LINK_TRACE_ID);

	rp_out_bytes(message, linked->trace, sizeof(linked->trace));
	rp_proto_end(message, id);
	id = rp_proto_begin(message, LINK_SPAN_ID);
	rp_out_bytes(message, linked->span, sizeof(linked->span));
	rp_proto_end(message, id);
	rp_proto_end(message, link);
}

/* Write the dictionary's links, and give each sample the index of its link. */
static void number_links(struct otlp_profiles *profiles)
{
	static const struct otlp_linked_sample none;
	struct otlp_linked_sample *linked = profiles->linked;
	uint32_t link = 0;

	put_link(&profiles->links, &none);
	if (profiles->linked_count == 0)
		return;
	qsort(linked, profiles->linked_count, sizeof(*linked), by_span);
	for (size_t i = 0; i < profiles->linked_count; i++) {
		if (i == 0 || by_span(&linked[i - 1], &linked[i]) != 0) {
			put_link(&profiles->links, &linked[i]);
			link++;
		}
		linked[i].link = link;
	}
	qsort(linked, profiles->linked_count, sizeof(*linked), by_stack);
}

/* Write a profile with the samples of `count` groups. */
static void put_profile(struct otlp_profiles *profiles, const struct rp_call_group *const *groups,
			size_t count)
{
	struct rp_stack_samples *samples = profiles->samples;
	struct rp_format_out *message = &profiles->message;
	const size_t profile = rp_proto_begin(message, SCOPE_PROFILES_PROFILES);
	const size_t type = rp_proto_begin(message, PROFILE_SAMPLE_TYPE);
	int64_t first, last;

	rp_proto_varint(message, VALUE_TYPE_TYPE, STRING_SAMPLES);
	rp_proto_varint(message, VALUE_TYPE_UNIT, STRING_COUNT);
	rp_proto_end(message, type);
	for (size_t i = 0; i < count; i++) {
		struct rp_format_out *of_group =
			&profiles->of_groups[groups[i] - samples->profile.tree.groups];

		rp_out_append(message, of_group);
		rp_out_fini(of_group);
	}
	if (rp_stack_samples_range(samples, &first, &last)) {
		rp_proto_fixed64(message, PROFILE_TIME,
				 (uint64_t)samples->info.start_utc_ns + (uint64_t)first);
		rp_proto_varint(message, PROFILE_DURATION, (uint64_t)last - (uint64_t)first);
	}
	rp_proto_end(message, profile);
}

/* Write the attributes of a process: those that it published, then others. Keys are unique. */
static void put_resource(struct otlp_profiles *profiles, const struct rp_call_group *group)
{
	const uint64_t process = group->process;
	const struct rp_attribute_table *table = &profiles->samples->attributes;
	const struct rp_attribute_process *own = rp_attribute_table_find(table, process);
	const char *name = rp_symbols_life_name(&profiles->samples->profile.symbols, process,
						group->life, INT64_MAX);
	struct rp_format_out *message = &profiles->message;
	char pid[24];

	if (!rp_attribute_table_value(table, process, "service.name"))
		put_text(message, "service.name", name ? name : "unknown_service");
	snprintf(pid, sizeof(pid), "%" PRIu64, process);
	put_attribute(message, &(struct rp_attribute){ "process.pid", pid, RP_ATTRIBUTE_INTEGER });
	if (table->host && !rp_attribute_table_value(table, process, "host.name"))
		put_text(message, "host.name", table->host);
	for (size_t i = 0; own && i < own->count; i++) {
		if (strcmp(own->rows[i].key, "process.pid") != 0)
			put_attribute(message, &own->rows[i]);
	}
}

/* Write the profile of the process of the first of the groups. Return: how many groups it has. */
static size_t put_process(struct otlp_profiles *profiles,
			  const struct rp_call_group *const *groups, size_t left)
{
	const struct rp_call_group *first = groups[0];
	struct rp_format_out *message = &profiles->message;
	const size_t all = rp_proto_begin(message, DATA_RESOURCE_PROFILES);
	size_t part = rp_proto_begin(message, RESOURCE_PROFILES_RESOURCE), scope, count = 1;

	while (count < left && groups[count]->process == first->process &&
	       groups[count]->life == first->life)
		count++;
	put_resource(profiles, first);
	rp_proto_end(message, part);
	part = rp_proto_begin(message, RESOURCE_PROFILES_SCOPE_PROFILES);
	scope = rp_proto_begin(message, SCOPE_PROFILES_SCOPE);
	rp_proto_text(message, SCOPE_NAME, "ringpipe");
	rp_proto_end(message, scope);
	put_profile(profiles, groups, count);
	rp_proto_end(message, part);
	rp_proto_end(message, all);
	rp_out_move(profiles->samples->out, message);
	return count;
}

static void put_thread(struct rp_format_out *message, const struct rp_call_group *group)
{
	const size_t attribute = rp_proto_begin(message, DICTIONARY_ATTRIBUTES);
	size_t value;

	rp_proto_varint(message, KEY_VALUE_KEY, STRING_THREAD);
	value = rp_proto_begin(message, KEY_VALUE_VALUE);
	rp_proto_varint(message, ANY_VALUE_INT, group->thread);
	rp_proto_end(message, value);
	rp_proto_end(message, attribute);
}

static void put_function(struct rp_format_out *message, uint64_t index)
{
	size_t part = rp_proto_begin(message, DICTIONARY_LOCATIONS), line;

	line = rp_proto_begin(message, LOCATION_LINES);
	rp_proto_varint(message, LINE_FUNCTION, index + 1);
	rp_proto_end(message, line);
	rp_proto_end(message, part);
	part = rp_proto_begin(message, DICTIONARY_FUNCTIONS);
	rp_proto_varint(message, FUNCTION_NAME, STRING_FIRST + 2 * index);
	rp_proto_varint(message, FUNCTION_FILENAME, STRING_FIRST + 2 * index + 1);
	rp_proto_end(message, part);
}

static void put_strings(struct otlp_profiles *profiles)
{
	static const char *const fixed[STRING_FIRST] = {
		[STRING_EMPTY] = "", [STRING_SAMPLES] = "samples", [STRING_COUNT] = "count",
		[STRING_THREAD] = "thread.id",
	};
	const struct rp_call_tree *tree = &profiles->samples->profile.tree;
	struct rp_format_out *message = &profiles->message;
	char name[NAME_BYTES];

	/* The loop over the tables has written the empty string. */
	for (size_t i = STRING_EMPTY + 1; i < STRING_FIRST; i++)
		rp_proto_text(message, DICTIONARY_STRINGS, fixed[i]);
	for (size_t i = 0; i < tree->function_count; i++) {
		const struct rp_call_function *function = &tree->functions[i];

		rp_proto_text(message, DICTIONARY_STRINGS,
			      rp_stack_samples_name(function, name, sizeof(name)));
		rp_proto_text(message, DICTIONARY_STRINGS, function->file ? function->file : "");
	}
}

static void put_dictionary(struct otlp_profiles *profiles)
{
	const struct rp_call_tree *tree = &profiles->samples->profile.tree;
	struct rp_format_out *message = &profiles->message;
	const size_t all = rp_proto_begin(message, DATA_DICTIONARY);

	rp_out_append(message, &profiles->links);
	for (uint32_t table = DICTIONARY_MAPPINGS; table <= DICTIONARY_STACKS; table++) {
		if (table != DICTIONARY_LINKS)
			rp_proto_end(message, rp_proto_begin(message, table));
	}
	for (uint64_t i = 0; i < tree->function_count; i++)
		put_function(message, i);
	put_strings(profiles);
	for (size_t i = 0; i < tree->group_count; i++)
		put_thread(message, &tree->groups[i]);
	rp_out_append(message, &profiles->stacks);
	rp_proto_end(message, all);
	rp_out_move(profiles->samples->out, message);
}

static int by_process(const void *left, const void *right)
{
	const struct rp_call_group *const *a = left, *const *b = right;

	if ((*a)->process != (*b)->process)
		return (*a)->process > (*b)->process ? 1 : -1;
	if ((*a)->life != (*b)->life)
		return (*a)->life > (*b)->life ? 1 : -1;
	return (*a > *b) - (*a < *b);
}

static int put_profiles(struct otlp_profiles *profiles)
{
	const struct rp_call_tree *tree = &profiles->samples->profile.tree;

	profiles->groups = calloc(tree->group_count + 1, sizeof(const struct rp_call_group *));
	profiles->of_groups = calloc(tree->group_count + 1, sizeof(struct rp_format_out));
	if (!profiles->groups || !profiles->of_groups)
		return -ENOMEM;
	for (size_t i = 0; i < tree->group_count; i++)
		profiles->groups[i] = &tree->groups[i];
	qsort(profiles->groups, tree->group_count, sizeof(profiles->groups[0]), by_process);
	number_links(profiles);
	rp_stack_samples_each(profiles->samples, put_samples, profiles);
	for (size_t i = 0; i < tree->group_count;)
		i += put_process(profiles, &profiles->groups[i], tree->group_count - i);
	put_dictionary(profiles);
	return profiles->links.error ? profiles->links.error : profiles->stacks.error;
}

static void close_otlp_profiles(void *state)
{
	struct otlp_profiles *profiles = state;

	rp_stack_samples_close(profiles->samples);
	rp_out_fini(&profiles->message);
	rp_out_fini(&profiles->stacks);
	rp_out_fini(&profiles->links);
	free(profiles->groups);
	free(profiles->of_groups);
	free(profiles->linked);
	free(profiles);
}

static int open_otlp_profiles(const struct rp_format_source *source, struct rp_format_out *out,
			      void **ret_state)
{
	struct otlp_profiles *profiles = calloc(1, sizeof(*profiles));
	void *samples;
	int ret = profiles ? rp_stack_samples_open(source, out, &samples) : -ENOMEM;

	if (ret != 0) {
		free(profiles);
		return ret;
	}
	profiles->samples = samples;
	*ret_state = profiles;
	return 0;
}

/* Return: whether a span of a trace was current in the thread. */
static bool has_span(const struct rp_reader_event *event)
{
	static const uint8_t zeros[sizeof(event->trace_id)];

	return event->span_id && memcmp(event->trace_id, zeros, sizeof(zeros)) != 0;
}

static int add_otlp_profiles(void *state, const struct rp_reader_event *event)
{
	struct otlp_profiles *profiles = state;
	const struct rp_stack_samples *samples = profiles->samples;
	const size_t before = samples->count;
	int ret = rp_stack_samples_event(profiles->samples, event);
	struct otlp_linked_sample *linked;
	uint64_t span;

	if (ret != 0 || samples->count == before || !has_span(event))
		return ret;
	linked = rp_array_reserve(profiles->linked, profiles->linked_count,
				  &profiles->linked_capacity, 1, sizeof(*linked));
	if (!linked)
		return -ENOMEM;
	profiles->linked = linked;
	linked += profiles->linked_count++;
	memset(linked, 0, sizeof(*linked));
	memcpy(linked->trace, event->trace_id, sizeof(linked->trace));
	span = htobe64(event->span_id);
	memcpy(linked->span, &span, sizeof(linked->span));
	linked->group = samples->rows[before].group;
	linked->node = samples->rows[before].node;
	return 0;
}

static int end_otlp_profiles(void *state)
{
	return put_profiles(state);
}

const struct rp_format_writer rp_format_otlp_profiles = {
	.name = "otlp-profiles", .open = open_otlp_profiles, .event = add_otlp_profiles,
	.end = end_otlp_profiles, .close = close_otlp_profiles,
};
