/* SPDX-License-Identifier: MIT */
/*
 * The samples of a trace as formats of profilers need them: the stack of each sample in the order
 * of time, in a call tree by thread. Names come from a first reading of the file.
 */
#ifndef RP_TOOL_STACK_SAMPLES_H
#define RP_TOOL_STACK_SAMPLES_H

#include "tools/analysis/profile.h"
#include "tools/formats/format_writer.h"
#include "tools/trace/attribute_table.h"

/* The order of the first samples is kept; the call tree has all of them. */
#define RP_STACK_SAMPLES_MAX (8u << 20)

struct rp_stack_sample {
	uint32_t group, node;		/* of the call tree; node: RP_CALL_NONE without a stack */
	int64_t time_ns;
};

struct rp_stack_samples {
	struct rp_format_out *out;
	struct rp_reader_info info;
	struct rp_profile profile;
	struct rp_attribute_table attributes;
	struct rp_stack_sample *rows;
	size_t count, capacity;
};

/* As the functions of struct rp_format_writer; the state is a struct rp_stack_samples. */
int rp_stack_samples_open(const struct rp_format_source *source, struct rp_format_out *out,
			  void **ret_state);
int rp_stack_samples_event(void *state, const struct rp_reader_event *event);
void rp_stack_samples_close(void *state);

/* Called with each stack: its innermost node, or RP_CALL_NONE if it is empty. */
typedef void (*rp_stack_samples_call)(struct rp_stack_samples *samples,
				      const struct rp_call_group *group, uint32_t node,
				      uint64_t count, void *data);

/* Call `call` for each different stack of each thread. Call it after the last event. */
void rp_stack_samples_each(struct rp_stack_samples *samples, rp_stack_samples_call call,
			   void *data);

/*
 * Get the times of the first and the last sample. Return: true; false: there are no samples, and
 * the times are INT64_MAX and INT64_MIN.
 */
bool rp_stack_samples_range(const struct rp_stack_samples *samples, int64_t *ret_first_ns,
			    int64_t *ret_last_ns);

/*
 * Find the stack that ends at a node.
 * @nodes: space for RP_CALL_DEPTH_MAX and one more; gets the nodes, innermost first.
 * Return: their number.
 */
size_t rp_stack_samples_path(const struct rp_call_tree *tree, uint32_t node, uint32_t *nodes);

/* Return: the function's name, or else "[FILE]" or "[unknown]", in `buffer` if it is made. */
const char *rp_stack_samples_name(const struct rp_call_function *function, char *buffer,
				  size_t size);

/* Write "NAME (PID)" or "NAME (PID), thread TID" to the buffer. */
void rp_stack_samples_title(const struct rp_stack_samples *samples,
			    const struct rp_call_group *group, bool with_thread, char *buffer,
			    size_t size);

#endif
