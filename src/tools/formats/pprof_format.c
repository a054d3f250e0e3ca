/* SPDX-License-Identifier: MIT */
/*
 * The format of pprof, a protocol buffer: samples with labels for process and thread, and a
 * location for each function. It is not compressed; pprof reads it with or without gzip.
 *
 * Source: proto/profile.proto of github.com/google/pprof.
 */
#include <errno.h>
#include <stdlib.h>

#include "tools/formats/proto_out.h"
#include "tools/formats/stack_samples.h"

#define NAME_BYTES 512u

enum { PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE = 2, PROFILE_LOCATION = 4, PROFILE_FUNCTION = 5,
       PROFILE_STRING_TABLE = 6, PROFILE_TIME_NANOS = 9, PROFILE_DURATION_NANOS = 10 };
enum { VALUE_TYPE_TYPE = 1, VALUE_TYPE_UNIT = 2 };
enum { SAMPLE_LOCATION_ID = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_NUM = 3 };
enum { LOCATION_ID = 1, LOCATION_LINE = 4 };
enum { LINE_FUNCTION_ID = 1 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_FILENAME = 4 };

/* The first strings; then each function has two: its name and its file. */
enum { STRING_EMPTY, STRING_SAMPLES, STRING_COUNT, STRING_PROCESS, STRING_THREAD, STRING_FIRST };

/* Pass what is in `message` to the output, so that memory is needed for one part at a time. */
static void pass(struct rp_stack_samples *samples, struct rp_format_out *message)
{
	if (message->error && !samples->out->error)
		samples->out->error = message->error;
	rp_out_bytes(samples->out, message->buffer, message->used);
	message->used = 0;
}

static void put_label(struct rp_format_out *message, uint64_t key, uint64_t number)
{
	const size_t label = rp_proto_begin(message, SAMPLE_LABEL);

	rp_proto_varint(message, LABEL_KEY, key);
	rp_proto_varint(message, LABEL_NUM, number);
	rp_proto_end(message, label);
}

static void put_sample(struct rp_stack_samples *samples, const struct rp_call_group *group,
		       uint32_t node, uint64_t count, void *data)
{
	const struct rp_call_tree *tree = &samples->profile.tree;
	uint32_t nodes[RP_CALL_DEPTH_MAX + 1];
	const size_t depth = rp_stack_samples_path(tree, node, nodes);
	struct rp_format_out *message = data;
	const size_t sample = rp_proto_begin(message, PROFILE_SAMPLE);

	for (size_t i = 0; i < depth; i++)
		rp_proto_varint(message, SAMPLE_LOCATION_ID,
				(uint64_t)tree->nodes[nodes[i]].function + 1);
	rp_proto_varint(message, SAMPLE_VALUE, count);
	put_label(message, STRING_PROCESS, group->process);
	put_label(message, STRING_THREAD, group->thread);
	rp_proto_end(message, sample);
	pass(samples, message);
}

static void put_functions(struct rp_stack_samples *samples, struct rp_format_out *message)
{
	const struct rp_call_tree *tree = &samples->profile.tree;

	for (uint64_t i = 0; i < tree->function_count; i++) {
		size_t part = rp_proto_begin(message, PROFILE_LOCATION), line;

		rp_proto_varint(message, LOCATION_ID, i + 1);
		line = rp_proto_begin(message, LOCATION_LINE);
		rp_proto_varint(message, LINE_FUNCTION_ID, i + 1);
		rp_proto_end(message, line);
		rp_proto_end(message, part);
		part = rp_proto_begin(message, PROFILE_FUNCTION);
		rp_proto_varint(message, FUNCTION_ID, i + 1);
		rp_proto_varint(message, FUNCTION_NAME, STRING_FIRST + 2 * i);
		rp_proto_varint(message, FUNCTION_FILENAME, STRING_FIRST + 2 * i + 1);
		rp_proto_end(message, part);
		pass(samples, message);
	}
}

static void put_strings(struct rp_stack_samples *samples, struct rp_format_out *message)
{
	static const char *const fixed[STRING_FIRST] = {
		[STRING_EMPTY] = "", [STRING_SAMPLES] = "samples", [STRING_COUNT] = "count",
		[STRING_PROCESS] = "process", [STRING_THREAD] = "thread",
	};
	const struct rp_call_tree *tree = &samples->profile.tree;
	char name[NAME_BYTES];

	for (size_t i = 0; i < STRING_FIRST; i++)
		rp_proto_text(message, PROFILE_STRING_TABLE, fixed[i]);
	for (size_t i = 0; i < tree->function_count; i++) {
		const struct rp_call_function *function = &tree->functions[i];

		rp_proto_text(message, PROFILE_STRING_TABLE,
			      rp_stack_samples_name(function, name, sizeof(name)));
		rp_proto_text(message, PROFILE_STRING_TABLE, function->file ? function->file : "");
		pass(samples, message);
	}
}

static void put_time(struct rp_stack_samples *samples, struct rp_format_out *message)
{
	int64_t first = INT64_MAX, last = INT64_MIN;

	for (size_t i = 0; i < samples->count; i++) {
		const int64_t time = samples->rows[i].time_ns;

		first = time < first ? time : first;
		last = time > last ? time : last;
	}
	rp_proto_varint(message, PROFILE_TIME_NANOS, (uint64_t)samples->info.start_utc_ns);
	if (samples->count)
		rp_proto_varint(message, PROFILE_DURATION_NANOS, (uint64_t)last - (uint64_t)first);
}

static int end_pprof(void *state)
{
	struct rp_stack_samples *samples = state;
	struct rp_format_out message;
	size_t type;

	if (rp_out_init(&message, NULL) < 0)
		return -ENOMEM;
	type = rp_proto_begin(&message, PROFILE_SAMPLE_TYPE);
	rp_proto_varint(&message, VALUE_TYPE_TYPE, STRING_SAMPLES);
	rp_proto_varint(&message, VALUE_TYPE_UNIT, STRING_COUNT);
	rp_proto_end(&message, type);
	rp_stack_samples_each(samples, put_sample, &message);
	put_functions(samples, &message);
	put_strings(samples, &message);
	put_time(samples, &message);
	pass(samples, &message);
	rp_out_fini(&message);
	return 0;
}

const struct rp_format_writer rp_format_pprof = {
	.name = "pprof", .open = rp_stack_samples_open, .event = rp_stack_samples_event,
	.end = end_pprof, .close = rp_stack_samples_close,
};
