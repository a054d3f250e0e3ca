/* SPDX-License-Identifier: MIT */
/* The answers `flame` and `functions`: the stacks of a range, of samples or of waits. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/formats/json_out.h"
#include "tools/view/view_answers.h"

#define FUNCTIONS_MAX 5000u
#define PRUNED_PART 5000u		/* nodes below the total divided by this are left out */

/* A time in which a thread had a span open. */
struct open_time {
	uint32_t thread;
	int64_t from_ns, to_ns;
};

/* The tree of the selected stacks. It shares all but its nodes with the tree of the trace. */
struct selected_stacks {
	const struct rp_view_question *question;
	struct rp_call_tree tree;
	struct rp_call_node *copied;	/* NULL: the tree is that of the trace */
	struct open_time *open;		/* by thread and time, without overlaps */
	size_t open_count;
	bool is_time;
};

static uint64_t value_of(const struct selected_stacks *stacks, const struct rp_call_weight *weight)
{
	return stacks->is_time ? weight->time_ns : weight->count;
}

static int compare_open(const void *left, const void *right)
{
	const struct open_time *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

/* Collect when the spans of the name were open. */
static int find_open(struct selected_stacks *stacks)
{
	const struct rp_view_trace *trace = stacks->question->trace;
	const struct rp_view_query *query = stacks->question->query;
	size_t kept = 0;

	stacks->open = calloc(trace->span_count + 1, sizeof(*stacks->open));
	if (!stacks->open)
		return -ENOMEM;
	for (size_t i = 0; i < trace->span_count; i++) {
		const struct rp_view_span *span = &trace->all_spans[i];
		const struct rp_span_name *name = trace->spans.names[span->name];

		if (!strcmp(name->name, query->span) &&
		    (!query->provider || !strcmp(name->provider, query->provider)))
			stacks->open[stacks->open_count++] = (struct open_time){
				span->thread, span->start_ns,
				span->start_ns + (int64_t)span->duration_ns,
			};
	}
	qsort(stacks->open, stacks->open_count, sizeof(*stacks->open), compare_open);
	for (size_t i = 0; i < stacks->open_count; i++) {
		const struct open_time next = stacks->open[i];
		struct open_time *last = kept ? &stacks->open[kept - 1] : NULL;

		if (last && last->thread == next.thread && next.from_ns <= last->to_ns)
			last->to_ns = next.to_ns > last->to_ns ? next.to_ns : last->to_ns;
		else
			stacks->open[kept++] = next;
	}
	stacks->open_count = kept;
	return 0;
}

static bool is_selected(const struct selected_stacks *stacks, uint32_t thread, int64_t time_ns)
{
	const struct rp_view_question *question = stacks->question;
	const struct open_time *open = stacks->open;
	size_t at;

	if (!rp_view_wants_thread(question->query, question->trace->threads[thread]))
		return false;
	if (!question->is_whole && (time_ns < question->from || time_ns >= question->to))
		return false;
	if (!question->query->span)
		return true;
	at = RP_PARTITION_POINT(i, stacks->open_count, open[i].thread < thread ||
				(open[i].thread == thread && open[i].to_ns < time_ns));
	return at < stacks->open_count && open[at].thread == thread && open[at].from_ns <= time_ns;
}

static void add_weight(struct selected_stacks *stacks, uint32_t node,
		       const struct rp_call_weight *weight)
{
	rp_call_weight_add(&stacks->tree.weight, weight);
	if (node != RP_CALL_NONE)
		rp_call_weight_add(&stacks->copied[node].own, weight);
}

static void add_samples(struct selected_stacks *stacks)
{
	const struct rp_view_trace *trace = stacks->question->trace;
	const struct rp_call_weight weight = { .count = trace->sample_step };

	for (size_t i = 0; i < trace->sample_count; i++) {
		const struct rp_view_sample *sample = &trace->samples[i];

		if (is_selected(stacks, sample->thread, sample->time_ns))
			add_weight(stacks, sample->node, &weight);
	}
}

static void add_waits(struct selected_stacks *stacks)
{
	const struct rp_view_trace *trace = stacks->question->trace;

	for (size_t i = 0; i < trace->wait_count; i++) {
		const struct rp_view_wait *wait = &trace->waits[i];
		const struct rp_call_weight weight = {
			.count = 1, .time_ns = wait->duration_ns,
			.runnable_ns = wait->runnable_ns,
		};

		if (is_selected(stacks, wait->thread, wait->end_ns))
			add_weight(stacks, wait->node, &weight);
	}
}

/* Return: 0; -ENOMEM. */
static int select_stacks(struct selected_stacks *stacks, const struct rp_view_question *question)
{
	const struct rp_view_query *query = question->query;
	const struct rp_call_tree *tree = query->is_offcpu ? &question->trace->offcpu.tree :
					  &question->trace->cpu.tree;

	*stacks = (struct selected_stacks){
		.question = question, .tree = *tree, .is_time = query->is_offcpu,
	};
	if (question->is_whole && !query->has_pid && !query->has_tid && !query->span)
		return 0;
	stacks->copied = calloc(tree->node_count + 1, sizeof(*stacks->copied));
	if (!stacks->copied || (query->span && find_open(stacks) < 0))
		return -ENOMEM;
	if (tree->node_count)
		memcpy(stacks->copied, tree->nodes, tree->node_count * sizeof(*tree->nodes));
	for (size_t i = 0; i < tree->node_count; i++)
		stacks->copied[i].own = stacks->copied[i].sum = (struct rp_call_weight){ 0 };
	stacks->tree.nodes = stacks->copied;
	stacks->tree.weight = (struct rp_call_weight){ 0 };
	if (query->is_offcpu)
		add_waits(stacks);
	else
		add_samples(stacks);
	rp_call_tree_finish(&stacks->tree);
	return 0;
}

static void free_stacks(struct selected_stacks *stacks)
{
	free(stacks->copied);
	free(stacks->open);
}

static void put_function(struct rp_format_out *out, const struct rp_call_function *function)
{
	rp_out_text(out, "{\"name\":");
	rp_view_text(out, function->name);
	rp_out_text(out, ",\"file\":");
	rp_view_text(out, function->file);
}

/* Write the nodes with their new numbers. A node is sent with all those above it. */
static void put_nodes(struct selected_stacks *stacks, uint32_t *numbers, uint32_t *frames,
		      struct rp_format_out *out)
{
	const struct rp_call_tree *tree = &stacks->tree;
	const uint64_t total = value_of(stacks, &tree->weight);
	uint32_t next = 0, frame_count = 0;
	uint64_t left_out = 0;
	bool is_first = true;

	rp_out_text(out, ",\"nodes\":[");
	for (size_t i = 0; i < tree->node_count; i++) {
		const struct rp_call_node *node = &tree->nodes[i];
		const uint64_t sum = value_of(stacks, &node->sum);
		const bool has_parent = node->parent == RP_CALL_NONE || numbers[node->parent];

		if (!has_parent || !sum || sum < total / PRUNED_PART) {
			/* The topmost node that is left out stands for those below it. */
			left_out += has_parent ? sum : 0;
			continue;
		}
		numbers[i] = ++next;
		if (!frames[node->function])
			frames[node->function] = ++frame_count;
		rp_view_comma(out, &is_first);
		rp_out_char(out, '[');
		rp_out_i64(out, node->parent == RP_CALL_NONE ? -1 :
				(int64_t)numbers[node->parent] - 1);
		rp_out_char(out, ',');
		rp_out_u64(out, frames[node->function] - 1);
		rp_out_char(out, ',');
		rp_json_out_u64(out, value_of(stacks, &node->own));
		rp_out_char(out, ',');
		rp_json_out_u64(out, sum);
		rp_out_char(out, ']');
	}
	rp_out_text(out, "],\"left_out\":");
	rp_json_out_u64(out, left_out);
}

static int put_flame(struct selected_stacks *stacks, struct rp_format_out *out)
{
	const struct rp_call_tree *tree = &stacks->tree;
	uint32_t *numbers = calloc(tree->node_count + 1, sizeof(*numbers));
	uint32_t *frames = calloc(tree->function_count + 1, sizeof(*frames));
	uint32_t *order = calloc(tree->function_count + 1, sizeof(*order));
	bool is_first = true;

	if (numbers && frames && order) {
		rp_out_text(out, stacks->is_time ? "{\"kind\":\"offcpu\",\"unit\":\"ns\"" :
						   "{\"kind\":\"cpu\",\"unit\":\"samples\"");
		rp_out_text(out, ",\"total\":");
		rp_json_out_u64(out, value_of(stacks, &tree->weight));
		put_nodes(stacks, numbers, frames, out);
		for (size_t i = 0; i < tree->function_count; i++) {
			if (frames[i])
				order[frames[i] - 1] = (uint32_t)i + 1;
		}
		rp_out_text(out, ",\"frames\":[");
		for (size_t i = 0; i < tree->function_count && order[i]; i++) {
			rp_view_comma(out, &is_first);
			put_function(out, &tree->functions[order[i] - 1]);
			rp_out_char(out, '}');
		}
		rp_out_text(out, "]}");
	}
	is_first = !numbers || !frames || !order;
	free(numbers);
	free(frames);
	free(order);
	return is_first ? -ENOMEM : 0;
}

enum rp_view_status rp_view_answer_flame(const struct rp_view_question *question,
					 struct rp_format_out *out)
{
	struct selected_stacks stacks;
	int ret = select_stacks(&stacks, question);

	if (ret == 0)
		ret = put_flame(&stacks, out);
	free_stacks(&stacks);
	return ret ? rp_view_refuse(out, RP_VIEW_FAILED, "There is no memory.") : RP_VIEW_OK;
}

static int put_functions(struct selected_stacks *stacks, struct rp_format_out *out)
{
	struct rp_call_total *totals;
	bool is_first = true;
	size_t count;
	int ret = rp_call_tree_totals(&stacks->tree, RP_CALL_NONE, &totals, &count);

	if (ret)
		return ret;
	rp_call_totals_sort(&stacks->tree, totals, count,
			    stacks->is_time ? rp_call_weight_time : rp_call_weight_count);
	rp_out_text(out, "{\"total\":");
	rp_json_out_u64(out, value_of(stacks, &stacks->tree.weight));
	rp_out_text(out, ",\"functions\":[");
	for (size_t i = 0; i < count && i < FUNCTIONS_MAX; i++) {
		if (!value_of(stacks, &totals[i].inclusive) && stacks->copied)
			continue;
		rp_view_comma(out, &is_first);
		put_function(out, &stacks->tree.functions[totals[i].function]);
		rp_out_text(out, ",\"exclusive\":");
		rp_json_out_u64(out, value_of(stacks, &totals[i].exclusive));
		rp_out_text(out, ",\"inclusive\":");
		rp_json_out_u64(out, value_of(stacks, &totals[i].inclusive));
		rp_out_char(out, '}');
	}
	rp_out_text(out, "]}");
	free(totals);
	return 0;
}

enum rp_view_status rp_view_answer_functions(const struct rp_view_question *question,
					     struct rp_format_out *out)
{
	struct selected_stacks stacks;
	int ret = select_stacks(&stacks, question);

	if (ret == 0)
		ret = put_functions(&stacks, out);
	free_stacks(&stacks);
	return ret ? rp_view_refuse(out, RP_VIEW_FAILED, "There is no memory.") : RP_VIEW_OK;
}
