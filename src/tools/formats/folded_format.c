/* SPDX-License-Identifier: MIT */
/*
 * Folded stacks, as stackcollapse-perf.pl of FlameGraph writes them: a line for each stack, with
 * the process and the functions from the outermost on, separated by semicolons, and the samples.
 */
#include "tools/formats/stack_samples.h"

#define TITLE_BYTES 512u
#define NAME_BYTES 512u

/* A semicolon or a line break in a name would end it. */
static void put_name(struct rp_format_out *out, const char *name)
{
	for (; *name; name++)
		rp_out_char(out, *name == ';' ? ':' : (unsigned char)*name < ' ' ? ' ' : *name);
}

static void put_line(struct rp_stack_samples *samples, const struct rp_call_group *group,
		     uint32_t node, uint64_t count, void *data)
{
	const struct rp_call_tree *tree = &samples->profile.tree;
	uint32_t nodes[RP_CALL_DEPTH_MAX + 1];
	size_t depth = rp_stack_samples_path(tree, node, nodes);
	char title[TITLE_BYTES], name[NAME_BYTES];

	(void)data;
	rp_stack_samples_title(samples, group, false, title, sizeof(title));
	put_name(samples->out, title);
	while (depth > 0) {
		const struct rp_call_node *frame = &tree->nodes[nodes[--depth]];

		rp_out_char(samples->out, ';');
		put_name(samples->out, rp_stack_samples_name(&tree->functions[frame->function],
							     name, sizeof(name)));
	}
	rp_out_char(samples->out, ' ');
	rp_out_u64(samples->out, count);
	rp_out_char(samples->out, '\n');
}

static int end_folded(void *state)
{
	rp_stack_samples_each(state, put_line, NULL);
	return 0;
}

const struct rp_format_writer rp_format_folded = {
	.name = "folded", .open = rp_stack_samples_open, .event = rp_stack_samples_event,
	.end = end_folded, .close = rp_stack_samples_close,
};
