/* SPDX-License-Identifier: MIT */
/*
 * The JSON format of speedscope: a profile for each thread, with its samples in the order of time,
 * each of weight 1.
 *
 * Source: file-format-schema.json of speedscope.
 */
#include <stdlib.h>

#include "tools/formats/json_out.h"
#include "tools/formats/stack_samples.h"

#define TITLE_BYTES 512u
#define NAME_BYTES 512u

static void put_frames(struct rp_stack_samples *samples)
{
	const struct rp_call_tree *tree = &samples->profile.tree;
	struct rp_format_out *out = samples->out;
	char name[NAME_BYTES];

	rp_out_text(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
			 "\"exporter\":\"ringpipe\",\"shared\":{\"frames\":[");
	for (size_t i = 0; i < tree->function_count; i++) {
		const struct rp_call_function *function = &tree->functions[i];

		rp_out_text(out, i ? ",\n{\"name\":" : "\n{\"name\":");
		rp_json_out_text(out, rp_stack_samples_name(function, name, sizeof(name)));
		if (function->file) {
			rp_out_text(out, ",\"file\":");
			rp_json_out_text(out, function->file);
		}
		rp_out_char(out, '}');
	}
	rp_out_text(out, "]},\"profiles\":[");
}

static void put_stack(struct rp_stack_samples *samples, uint32_t node)
{
	const struct rp_call_tree *tree = &samples->profile.tree;
	uint32_t nodes[RP_CALL_DEPTH_MAX + 1];
	size_t depth = rp_stack_samples_path(tree, node, nodes);
	bool is_next = false;

	rp_out_char(samples->out, '[');
	while (depth > 0) {
		if (is_next)
			rp_out_char(samples->out, ',');
		rp_out_u64(samples->out, tree->nodes[nodes[--depth]].function);
		is_next = true;
	}
	rp_out_char(samples->out, ']');
}

/* Write the samples from `first` to before `end` as one profile. */
static void put_profile(struct rp_stack_samples *samples, const char *title, size_t first,
			size_t end)
{
	struct rp_format_out *out = samples->out;

	rp_out_text(out, "{\"type\":\"sampled\",\"name\":");
	rp_json_out_text(out, title);
	rp_out_text(out, ",\"unit\":\"none\",\"startValue\":0,\"endValue\":");
	rp_out_u64(out, end - first);
	rp_out_text(out, ",\n\"samples\":[");
	for (size_t i = first; i < end; i++) {
		if (i > first)
			rp_out_char(out, ',');
		put_stack(samples, samples->rows[i].node);
	}
	rp_out_text(out, "],\n\"weights\":[");
	for (size_t i = first; i < end; i++)
		rp_out_text(out, i > first ? ",1" : "1");
	rp_out_text(out, "]}");
}

/* Write the samples from `first` to before `end`, which are those of one thread. */
static void put_thread(struct rp_stack_samples *samples, size_t first, size_t end)
{
	const struct rp_call_group *group =
		&samples->profile.tree.groups[samples->rows[first].group];
	char title[TITLE_BYTES];

	rp_stack_samples_title(samples, group, true, title, sizeof(title));
	put_profile(samples, title, first, end);
}

static int compare_samples(const void *left, const void *right)
{
	const struct rp_stack_sample *a = left, *b = right;

	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

static int end_speedscope(void *state)
{
	struct rp_stack_samples *samples = state;
	size_t first = 0;

	if (samples->count)
		qsort(samples->rows, samples->count, sizeof(*samples->rows), compare_samples);
	put_frames(samples);
	for (size_t i = 1; i <= samples->count; i++) {
		if (i < samples->count && samples->rows[i].group == samples->rows[first].group)
			continue;
		rp_out_text(samples->out, first ? ",\n" : "\n");
		put_thread(samples, first, i);
		first = i;
	}
	/* speedscope fails to import a file without a profile, and reports an empty profile. */
	if (!samples->count)
		put_profile(samples, "no samples", 0, 0);
	rp_out_text(samples->out, "]}\n");
	return 0;
}

const struct rp_format_writer rp_format_speedscope = {
	.name = "speedscope", .open = rp_stack_samples_open, .event = rp_stack_samples_event,
	.end = end_speedscope, .close = rp_stack_samples_close,
};
