/* SPDX-License-Identifier: MIT */
/*
 * Samples as profiles of the OpenTelemetry protocol (OTLP): one ProfilesData message in protocol
 * buffers, with a profile for each process. Profiles refer to stacks, functions and texts by their
 * index in a dictionary, whose first entries are empty messages.
 *
 * Source: opentelemetry/proto/profiles/v1development/profiles.proto, version 1.11.0, of
 * github.com/open-telemetry/opentelemetry-proto.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
enum { SAMPLE_STACK = 1, SAMPLE_ATTRIBUTES = 2, SAMPLE_VALUES = 4 };
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

struct otlp_profiles {
	struct rp_stack_samples *samples;
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

static void put_sample(struct rp_stack_samples *samples, const struct rp_call_group *group,
		       uint32_t node, uint64_t count, void *data)
{
	struct otlp_profiles *profiles = data;
	const size_t index = (size_t)(group - samples->profile.tree.groups);
	struct rp_format_out *out = &profiles->of_groups[index];
	const size_t sample = rp_proto_begin(out, PROFILE_SAMPLES);

	if (node != RP_CALL_NONE)
		rp_proto_varint(out, SAMPLE_STACK, add_stack(profiles, node));
	/* The attribute of a group is its thread; attribute 0 is empty. */
	put_packed(out, SAMPLE_ATTRIBUTES, index + 1);
	put_packed(out, SAMPLE_VALUES, count);
	rp_proto_end(out, sample);
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
static void put_resource(struct otlp_profiles *profiles, uint64_t process)
{
	const struct rp_attribute_table *table = &profiles->samples->attributes;
	const struct rp_attribute_process *own = rp_attribute_table_find(table, process);
	const char *name = rp_symbols_process(&profiles->samples->profile.symbols, process,
					      INT64_MAX);
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
	const uint64_t process = groups[0]->process;
	struct rp_format_out *message = &profiles->message;
	const size_t all = rp_proto_begin(message, DATA_RESOURCE_PROFILES);
	size_t part = rp_proto_begin(message, RESOURCE_PROFILES_RESOURCE), scope, count = 1;

	while (count < left && groups[count]->process == process)
		count++;
	put_resource(profiles, process);
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

/* Decoders may require ids of the usual lengths, also of a link that is not set. */
static void put_zero_link(struct rp_format_out *message)
{
	static const uint8_t zeros[16];
	size_t id = rp_proto_begin(message, LINK_TRACE_ID);

	rp_out_bytes(message, zeros, sizeof(zeros));
	rp_proto_end(message, id);
	id = rp_proto_begin(message, LINK_SPAN_ID);
	rp_out_bytes(message, zeros, sizeof(zeros) / 2);
	rp_proto_end(message, id);
}

static void put_dictionary(struct otlp_profiles *profiles)
{
	const struct rp_call_tree *tree = &profiles->samples->profile.tree;
	struct rp_format_out *message = &profiles->message;
	const size_t all = rp_proto_begin(message, DATA_DICTIONARY);

	for (uint32_t table = DICTIONARY_MAPPINGS; table <= DICTIONARY_STACKS; table++) {
		const size_t empty = rp_proto_begin(message, table);

		if (table == DICTIONARY_LINKS)
			put_zero_link(message);
		rp_proto_end(message, empty);
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
	const uint64_t first = (*a)->process, second = (*b)->process;

	return first != second ? (first > second) - (first < second) : (*a > *b) - (*a < *b);
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
	rp_stack_samples_each(profiles->samples, put_sample, profiles);
	for (size_t i = 0; i < tree->group_count;)
		i += put_process(profiles, &profiles->groups[i], tree->group_count - i);
	put_dictionary(profiles);
	return profiles->stacks.error;
}

static int end_otlp_profiles(void *state)
{
	struct otlp_profiles profiles = { .samples = state };
	const int ret = put_profiles(&profiles);

	rp_out_fini(&profiles.message);
	rp_out_fini(&profiles.stacks);
	free(profiles.groups);
	free(profiles.of_groups);
	return ret;
}

const struct rp_format_writer rp_format_otlp_profiles = {
	.name = "otlp-profiles", .open = rp_stack_samples_open, .event = rp_stack_samples_event,
	.end = end_otlp_profiles, .close = rp_stack_samples_close,
};
