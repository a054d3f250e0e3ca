/* SPDX-License-Identifier: MIT */
/*
 * The part of the recorder that finds what processes publish for profilers of OpenTelemetry: the
 * place of their threads' trace ids, which the BPF programs read, and their attributes.
 *
 * A process may publish at any time, and only its memory shows it. A process is therefore looked at
 * again and again, in intervals that grow.
 */
#include "tools/ringpipe-record/recorder_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/tool.h"
#include "tools/client/machine_time.h"
#include "tools/ringpipe-record/functions.h"
#include "tools/ringpipe-record/published_context.h"

/* The loader soon stores where it has placed the variables of a new library. */
#define PLACE_TRIES 100u

#define LOOK_MIN_NS 100000000ull
#define LOOK_MAX_NS 10000000000ull

/* A look at a process that executes a program waits for it, which may not get a processor soon. */
#define EXEC_NS 50000000ull

void rp_recorder_attach_contexts(struct rp_recorder *recorder)
{
	int ret;

	if (!recorder->waits)
		return;
	ret = rp_perf_attach(recorder->perf, rp_waits_sample_program(recorder->waits),
			     rp_waits_set_output, recorder->waits);
	if (ret < 0)
		rp_tool_error("record: samples have no trace ids: %s", strerror(-ret));
}

/* Return: 0; -ENOENT: no file of the process has the variable; -EAGAIN; -ERANGE. */
static int locate(const struct rp_machine_process *process, struct rp_context_place *ret_place)
{
	int ret = -ENOENT;

	for (size_t i = 0; i < process->space.count && ret; i++) {
		const struct rp_mapped *mapped = &process->space.mapped[i];
		uint64_t vaddr;

		if (mapped->image && mapped->image->context.kind != RP_TLS_NONE &&
		    rp_image_vaddr(mapped->image, mapped->file_offset, &vaddr))
			ret = rp_tls_variable_locate(&mapped->image->context, process->pid,
						     mapped->start - vaddr, ret_place);
	}
	return ret;
}

static void find_place(struct rp_recorder *recorder, struct rp_machine_process *process)
{
	struct rp_published_state *state = &process->published;
	struct rp_context_place place;

	if (state->mappings != process->space.count) {
		state->mappings = process->space.count;
		state->place_tries = 0;
	}
	if (state->has_place || state->place_tries >= PLACE_TRIES)
		return;
	state->place_tries++;
	if (locate(process, &place))
		return;
	state->has_place = true;
	rp_waits_set_context_place(recorder->waits, process->pid, &place);
}

struct attribute_output {
	struct rp_recorder *recorder;
	const struct rp_machine_process *process;
	uint64_t published_ns;
};

static int put_attribute(void *user, const struct rp_attribute *attribute)
{
	const struct attribute_output *attributes = user;

	return rp_record_attribute(attributes->recorder->trace, attributes->process,
				   attributes->published_ns, attribute);
}

/* Attributes that a process published wrongly are left out. 0; -ENOMEM. */
static int read_attributes(struct rp_recorder *recorder, struct rp_machine_process *process)
{
	struct rp_published_context context;
	struct attribute_output attributes = { .recorder = recorder, .process = process };
	int ret = rp_published_context_read(process->pid, process->published.published_ns,
					    &context);

	if (ret)
		return ret == -ENOMEM ? ret : 0;
	attributes.published_ns = process->published.published_ns = context.published_ns;
	ret = rp_published_context_visit(&context, RP_RECORD_ATTRIBUTE_BYTES, put_attribute,
					 &attributes);
	free(context.message);
	return ret == -ENOMEM ? ret : 0;
}

static int look(struct rp_recorder *recorder, struct rp_machine_process *process, uint64_t now_ns)
{
	struct rp_published_state *state = &process->published;

	state->look_interval_ns = state->look_interval_ns < LOOK_MIN_NS ? LOOK_MIN_NS :
				  2 * state->look_interval_ns;
	if (state->look_interval_ns > LOOK_MAX_NS)
		state->look_interval_ns = LOOK_MAX_NS;
	state->look_ns = now_ns + state->look_interval_ns;
	return read_attributes(recorder, process);
}

int rp_recorder_read_contexts(struct rp_recorder *recorder, bool is_last)
{
	const size_t count = rp_process_table_count(recorder->processes);
	const uint64_t now_ns = rp_machine_time_ns();
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < count; i++) {
		struct rp_machine_process *process = rp_process_table_at(recorder->processes, i);

		if (process->has_ended || process->is_kernel)
			continue;
		if (recorder->waits && !is_last)
			find_place(recorder, process);
		if (process->in_trace &&
		    (is_last || (now_ns >= process->published.look_ns &&
				 now_ns >= process->since_ns + EXEC_NS)))
			ret = look(recorder, process, now_ns);
	}
	return ret;
}

void rp_recorder_forget_contexts(struct rp_recorder *recorder, struct rp_machine_process *process)
{
	if (process->published.has_place && recorder->waits)
		rp_waits_set_context_place(recorder->waits, process->pid, NULL);
	process->published = (struct rp_published_state){ 0 };
}

int rp_recorder_leave_program(struct rp_recorder *recorder, pid_t pid)
{
	struct rp_machine_process *process = rp_process_table_process(recorder->processes, pid);

	if (!process)
		return 0;
	rp_recorder_forget_contexts(recorder, process);
	process->published.look_ns = rp_machine_time_ns() + EXEC_NS;
	return process->unnamed ? rp_functions_name_generated(recorder->trace, process) : 0;
}
