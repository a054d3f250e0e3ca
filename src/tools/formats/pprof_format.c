/* SPDX-License-Identifier: MIT */
/*
 * The format of pprof, a protocol buffer: samples with labels for process and thread, a location
 * for each function, and a mapping for each file of code. A location of inlined functions has a
 * line for each. The profile is not compressed; pprof reads it with or without gzip.
 *
 * Source: proto/profile.proto of github.com/google/pprof.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/formats/inlined_names.h"
#include "tools/formats/proto_out.h"
#include "tools/formats/stack_samples.h"
#include "tools/formats/string_table.h"

#define NAME_BYTES 512u

enum { PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE = 2, PROFILE_MAPPING = 3, PROFILE_LOCATION = 4,
       PROFILE_FUNCTION = 5, PROFILE_STRING_TABLE = 6, PROFILE_TIME_NANOS = 9,
       PROFILE_DURATION_NANOS = 10 };
enum { VALUE_TYPE_TYPE = 1, VALUE_TYPE_UNIT = 2 };
enum { SAMPLE_LOCATION_ID = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_NUM = 3 };
enum { MAPPING_ID = 1, MAPPING_FILENAME = 5, MAPPING_BUILD_ID = 6, MAPPING_HAS_FUNCTIONS = 7 };
enum { LOCATION_ID = 1, LOCATION_MAPPING_ID = 2, LOCATION_LINE = 4 };
enum { LINE_FUNCTION_ID = 1 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_FILENAME = 4 };

/*
 * The first strings; the names of the functions follow, then two for each file, and then the names
 * of inlined functions and of those that contain them.
 */
enum { STRING_EMPTY, STRING_SAMPLES, STRING_COUNT, STRING_PROCESS, STRING_THREAD, STRING_NO_STACK,
       STRING_FIRST };

struct pprof_state {
	struct rp_stack_samples *samples;
	struct rp_format_out message;	/* the part that is being written */
	bool lacks_stacks;		/* some samples have none */
	struct rp_string_table files;	/* of code */
	const char **build_ids;		/* of each file; NULL: unknown */
	uint32_t *file_of_function;	/* its number in `files` and 1; 0: unknown */
	uint64_t part_count;		/* functions of locations with several */
};

/* Pass what is in `message` to the output, so that memory is needed for one part at a time. */
static void pass(struct pprof_state *state)
{
	rp_out_move(state->samples->out, &state->message);
}

static void put_label(struct rp_format_out *message, uint64_t key, uint64_t number)
{
	const size_t label = rp_proto_begin(message, SAMPLE_LABEL);

	rp_proto_varint(message, LABEL_KEY, key);
	rp_proto_varint(message, LABEL_NUM, number);
	rp_proto_end(message, label);
}

/* Return: the id of the location and the function that stand for a stack that is missing. */
static uint64_t no_stack_id(const struct rp_stack_samples *samples)
{
	return (uint64_t)samples->profile.tree.function_count + 1;
}

static void put_sample(struct rp_stack_samples *samples, const struct rp_call_group *group,
		       uint32_t node, uint64_t count, void *data)
{
	const struct rp_call_tree *tree = &samples->profile.tree;
	uint32_t nodes[RP_CALL_DEPTH_MAX + 1];
	const size_t depth = rp_stack_samples_path(tree, node, nodes);
	struct pprof_state *state = data;
	struct rp_format_out *message = &state->message;
	const size_t sample = rp_proto_begin(message, PROFILE_SAMPLE);

	for (size_t i = 0; i < depth; i++)
		rp_proto_varint(message, SAMPLE_LOCATION_ID,
				(uint64_t)tree->nodes[nodes[i]].function + 1);
	/* pprof omits samples without a location from its reports, but not from their total. */
	if (!depth) {
		rp_proto_varint(message, SAMPLE_LOCATION_ID, no_stack_id(samples));
		state->lacks_stacks = true;
	}
	rp_proto_varint(message, SAMPLE_VALUE, count);
	put_label(message, STRING_PROCESS, group->process);
	put_label(message, STRING_THREAD, group->thread);
	rp_proto_end(message, sample);
	pass(state);
}

static void fini(struct pprof_state *state)
{
	rp_out_fini(&state->message);
	rp_string_table_fini(&state->files);
	free(state->build_ids);
	free(state->file_of_function);
}

/* Note the build id of a file. A file that was replaced has several, and then none is written. */
static void add_build_id(const char *file, const char *build_id, void *data)
{
	struct pprof_state *state = data;
	uint32_t number;

	if (!rp_string_table_find(&state->files, file, &number))
		return;
	if (!state->build_ids[number])
		state->build_ids[number] = build_id;
	else if (strcmp(state->build_ids[number], build_id) != 0)
		state->build_ids[number] = "";
}

/* Return: 0; -ENOMEM. */
static int add_files(struct pprof_state *state)
{
	const struct rp_call_tree *tree = &state->samples->profile.tree;
	int ret = 0;

	state->file_of_function = calloc(tree->function_count + 1,
					 sizeof(*state->file_of_function));
	if (!state->file_of_function)
		return -ENOMEM;
	for (size_t i = 0; i < tree->function_count && ret == 0; i++) {
		if (!tree->functions[i].file)
			continue;
		ret = rp_string_table_add(&state->files, tree->functions[i].file,
					  &state->file_of_function[i]);
		state->file_of_function[i]++;
	}
	if (ret < 0)
		return ret;
	state->build_ids = calloc(state->files.count + 1, sizeof(*state->build_ids));
	if (!state->build_ids)
		return -ENOMEM;
	rp_symbols_each_build_id(&state->samples->profile.symbols, add_build_id, state);
	return 0;
}

/* Return: the number of the string with the name of the file; its build id is the next one. */
static uint64_t file_string(const struct pprof_state *state, uint64_t file)
{
	return STRING_FIRST + state->samples->profile.tree.function_count + 2 * file;
}

static void put_mappings(struct pprof_state *state)
{
	struct rp_format_out *message = &state->message;

	for (uint64_t i = 0; i < state->files.count; i++) {
		const size_t part = rp_proto_begin(message, PROFILE_MAPPING);

		rp_proto_varint(message, MAPPING_ID, i + 1);
		rp_proto_varint(message, MAPPING_FILENAME, file_string(state, i));
		rp_proto_varint(message, MAPPING_BUILD_ID, file_string(state, i) + 1);
		/* Otherwise pprof looks for the file, to find the names of its functions. */
		rp_proto_varint(message, MAPPING_HAS_FUNCTIONS, 1);
		rp_proto_end(message, part);
		pass(state);
	}
}

/* `file`: its number and 1, or 0. */
static void put_function(struct pprof_state *state, uint64_t id, uint64_t name, uint64_t file)
{
	struct rp_format_out *message = &state->message;
	const size_t part = rp_proto_begin(message, PROFILE_FUNCTION);

	rp_proto_varint(message, FUNCTION_ID, id);
	rp_proto_varint(message, FUNCTION_NAME, name);
	if (file)
		rp_proto_varint(message, FUNCTION_FILENAME, file_string(state, file - 1));
	rp_proto_end(message, part);
	pass(state);
}

/* Write a location, with lines for the functions from `function` on, innermost first. */
static void put_location(struct pprof_state *state, uint64_t id, uint64_t file, uint64_t function,
			 size_t functions)
{
	struct rp_format_out *message = &state->message;
	const size_t part = rp_proto_begin(message, PROFILE_LOCATION);

	rp_proto_varint(message, LOCATION_ID, id);
	if (file)
		rp_proto_varint(message, LOCATION_MAPPING_ID, file);
	for (size_t i = 0; i < functions; i++) {
		const size_t line = rp_proto_begin(message, LOCATION_LINE);

		rp_proto_varint(message, LINE_FUNCTION_ID, function + i);
		rp_proto_end(message, line);
	}
	rp_proto_end(message, part);
	pass(state);
}

static void put_functions(struct pprof_state *state)
{
	const struct rp_call_tree *tree = &state->samples->profile.tree;
	const uint64_t no_stack = no_stack_id(state->samples);
	const uint64_t part_string = file_string(state, state->files.count);
	struct rp_inlined_name parts[RP_INLINED_NAMES_MAX];

	for (size_t i = 0; i < tree->function_count; i++) {
		const uint64_t file = state->file_of_function[i];
		const char *name = tree->functions[i].name;
		const size_t count = name ? rp_inlined_names_find(name, parts) : 1;

		if (count == 1) {
			put_location(state, i + 1, file, i + 1, 1);
			put_function(state, i + 1, STRING_FIRST + i, file);
			continue;
		}
		put_location(state, i + 1, file, no_stack + 1 + state->part_count, count);
		for (size_t k = 0; k < count; k++, state->part_count++)
			put_function(state, no_stack + 1 + state->part_count,
				     part_string + state->part_count, file);
	}
	if (state->lacks_stacks) {
		put_location(state, no_stack, 0, no_stack, 1);
		put_function(state, no_stack, STRING_NO_STACK, 0);
	}
}

/* Write the names in the order in which put_functions() numbers them. */
static void put_parts(struct pprof_state *state)
{
	const struct rp_call_tree *tree = &state->samples->profile.tree;
	struct rp_inlined_name parts[RP_INLINED_NAMES_MAX];

	for (size_t i = 0; i < tree->function_count && state->part_count; i++) {
		const char *name = tree->functions[i].name;
		const size_t count = name ? rp_inlined_names_find(name, parts) : 1;

		for (size_t k = 0; count > 1 && k < count; k++)
			rp_proto_utf8(&state->message, PROFILE_STRING_TABLE,
				      (const uint8_t *)parts[k].text, parts[k].length);
		pass(state);
	}
}

static void put_strings(struct pprof_state *state)
{
	static const char *const fixed[STRING_FIRST] = {
		[STRING_EMPTY] = "", [STRING_SAMPLES] = "samples", [STRING_COUNT] = "count",
		[STRING_PROCESS] = "process", [STRING_THREAD] = "thread",
		[STRING_NO_STACK] = "[no stack]",
	};
	const struct rp_call_tree *tree = &state->samples->profile.tree;
	struct rp_format_out *message = &state->message;
	char name[NAME_BYTES];

	for (size_t i = 0; i < STRING_FIRST; i++)
		rp_proto_text(message, PROFILE_STRING_TABLE, fixed[i]);
	for (size_t i = 0; i < tree->function_count; i++) {
		rp_proto_text(message, PROFILE_STRING_TABLE,
			      rp_stack_samples_name(&tree->functions[i], name, sizeof(name)));
		pass(state);
	}
	for (size_t i = 0; i < state->files.count; i++) {
		const char *build_id = state->build_ids[i];

		rp_proto_text(message, PROFILE_STRING_TABLE, state->files.texts[i]);
		rp_proto_text(message, PROFILE_STRING_TABLE, build_id ? build_id : "");
		pass(state);
	}
	put_parts(state);
}

static void put_time(struct pprof_state *state)
{
	const struct rp_stack_samples *samples = state->samples;
	int64_t first, last;

	rp_proto_varint(&state->message, PROFILE_TIME_NANOS,
			(uint64_t)samples->info.start_utc_ns);
	if (rp_stack_samples_range(samples, &first, &last))
		rp_proto_varint(&state->message, PROFILE_DURATION_NANOS,
				(uint64_t)last - (uint64_t)first);
	pass(state);
}

static int end_pprof(void *data)
{
	struct pprof_state state = { .samples = data };
	struct rp_format_out *message = &state.message;
	int ret = rp_out_init(message, NULL);
	size_t type;

	if (ret == 0)
		ret = add_files(&state);
	if (ret == 0) {
		type = rp_proto_begin(message, PROFILE_SAMPLE_TYPE);
		rp_proto_varint(message, VALUE_TYPE_TYPE, STRING_SAMPLES);
		rp_proto_varint(message, VALUE_TYPE_UNIT, STRING_COUNT);
		rp_proto_end(message, type);
		rp_stack_samples_each(state.samples, put_sample, &state);
		put_mappings(&state);
		put_functions(&state);
		put_strings(&state);
		put_time(&state);
	}
	fini(&state);
	return ret;
}

const struct rp_format_writer rp_format_pprof = {
	.name = "pprof", .open = rp_stack_samples_open, .event = rp_stack_samples_event,
	.end = end_pprof, .close = rp_stack_samples_close,
};
