/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/kernel_tracepoints.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/ringpipe-record/block_requests.h"
#include "tools/ringpipe-record/perf_events.h"
#include "tools/ringpipe-record/thread_states.h"
#include "tools/ringpipe-record/tracepoint_format.h"

/* Bytes of the stack in a sample of a page fault, to find the function that used the page. */
#define FAULT_STACK_BYTES 1024u

enum point {
	POINT_CALL_BEGIN,
	POINT_CALL_END,
	POINT_FAULT_BEGIN,
	POINT_FAULT_MINOR,
	POINT_FAULT_MAJOR,
	POINT_BLOCK_BEGIN,
	POINT_BLOCK_END,
	POINT_HARD_BEGIN,
	POINT_HARD_END,
	POINT_SOFT_BEGIN,
	POINT_SOFT_END,
	POINT_COUNT,
};

struct point_plan {
	unsigned int groups;		/* that need it */
	const char *tracepoint;		/* NULL: a counter */
	uint64_t counter;
	const char *fields[RP_TRACEPOINT_FIELDS_MAX + 1];
	bool has_registers;
	uint32_t stack_bytes;
	bool is_of_all;
};

static const struct point_plan plans[POINT_COUNT] = {
	[POINT_CALL_BEGIN] = {
		.groups = RP_WAITS_CALLS | RP_WAITS_FUTEX, .tracepoint = "raw_syscalls/sys_enter",
		.fields = { "id", "args" },
	},
	[POINT_CALL_END] = {
		.groups = RP_WAITS_CALLS | RP_WAITS_FUTEX, .tracepoint = "raw_syscalls/sys_exit",
		.fields = { "id", "ret" }, .has_registers = true,
	},
	[POINT_FAULT_BEGIN] = {
		.groups = RP_WAITS_FAULTS, .tracepoint = "exceptions/page_fault_user",
		.fields = { "address", "error_code" },
	},
	[POINT_FAULT_MINOR] = {
		.groups = RP_WAITS_FAULTS, .counter = PERF_COUNT_SW_PAGE_FAULTS_MIN,
		.has_registers = true, .stack_bytes = FAULT_STACK_BYTES,
	},
	[POINT_FAULT_MAJOR] = {
		.groups = RP_WAITS_FAULTS, .counter = PERF_COUNT_SW_PAGE_FAULTS_MAJ,
		.has_registers = true, .stack_bytes = FAULT_STACK_BYTES,
	},
	[POINT_BLOCK_BEGIN] = {
		.groups = RP_WAITS_BLOCK, .tracepoint = "block/block_rq_issue",
		.fields = { "dev", "sector", "bytes", "rwbs" }, .is_of_all = true,
	},
	[POINT_BLOCK_END] = {
		.groups = RP_WAITS_BLOCK, .tracepoint = "block/block_rq_complete",
		.fields = { "dev", "sector", "nr_sector", "error" }, .is_of_all = true,
	},
	[POINT_HARD_BEGIN] = {
		.groups = RP_WAITS_INTERRUPTS, .tracepoint = "irq/irq_handler_entry",
		.fields = { "irq", "name" }, .is_of_all = true,
	},
	[POINT_HARD_END] = {
		.groups = RP_WAITS_INTERRUPTS, .tracepoint = "irq/irq_handler_exit",
		.fields = { "irq", "ret" }, .is_of_all = true,
	},
	[POINT_SOFT_BEGIN] = {
		.groups = RP_WAITS_INTERRUPTS, .tracepoint = "irq/softirq_entry",
		.fields = { "vec" }, .is_of_all = true,
	},
	[POINT_SOFT_END] = {
		.groups = RP_WAITS_INTERRUPTS, .tracepoint = "irq/softirq_exit",
		.fields = { "vec" }, .is_of_all = true,
	},
};

/* The call and the fault that a thread has begun. */
struct begun_work {
	pid_t thread;
	uint64_t call_ns, fault_ns;	/* 0: nothing */
	uint64_t number, arguments[6];	/* of the call */
	struct rp_fault fault;
};

/*
 * The interrupts that a processor has begun: one hard interrupt, and one softirq, which the hard
 * interrupt may have stopped. See interrupts.bpf.h.
 */
struct begun_interrupts {
	uint64_t hard_ns, soft_ns;	/* 0: none */
	struct rp_interrupt hard, soft;
};

struct rp_points {
	struct rp_perf *perf;
	struct rp_perf_point points[POINT_COUNT];
	struct rp_tracepoint_format formats[POINT_COUNT];	/* likewise */
	enum point kinds[POINT_COUNT];				/* likewise */
	size_t point_count;
	uint64_t threshold_ns;
	uint64_t lost, lost_ns;		/* records, and when that was noticed last */
	rp_waits_callback callback;
	void *user;
	struct rp_thread_states states;	/* struct begun_work */
	struct rp_block_requests requests;
	struct begun_interrupts *interrupts;	/* of each processor */
	uint32_t processor_count;
	union {				/* the record that is delivered */
		struct rp_wait_record record;
		uint8_t bytes[sizeof(struct rp_wait_record) + FAULT_STACK_BYTES];
	};
};

/* A sample on its way to a record. */
struct point_sample {
	const struct rp_perf_record *record;
	const struct rp_tracepoint_format *format;
};

static uint64_t number(const struct point_sample *sample, size_t field)
{
	return rp_tracepoint_number(sample->format, field, sample->record->sample.fields,
				    sample->record->sample.field_bytes);
}

/* Whether there was a start, and no loss since. */
static bool has_begun(const struct rp_points *points, uint64_t began_ns)
{
	return began_ns && began_ns >= points->lost_ns;
}

static struct rp_wait_record *begin_record(struct rp_points *points, enum rp_wait_kind kind,
					   const struct rp_perf_record *from, uint64_t began_ns)
{
	points->record = (struct rp_wait_record){
		.kind = kind,
		.process = (uint32_t)from->process, .thread = (uint32_t)from->thread,
		.processor = from->processor, .time_ns = from->time_ns, .began_ns = began_ns,
	};
	return &points->record;
}

static void take_stack(struct rp_wait_record *to, const struct rp_perf_record *from)
{
	const struct rp_registers *registers = from->sample.registers;

	if (!registers)
		return;
	to->has_registers = true;
	to->registers = (struct rp_wait_registers){
		.bx = registers->value[RP_REG_RBX], .bp = registers->value[RP_REG_RBP],
		.r12 = registers->value[RP_REG_R12], .r13 = registers->value[RP_REG_R12 + 1],
		.r14 = registers->value[RP_REG_R12 + 2], .r15 = registers->value[RP_REG_R15],
		.ip = registers->value[RP_REG_RIP], .sp = registers->value[RP_REG_RSP],
	};
	if (from->sample.stack_bytes > FAULT_STACK_BYTES)
		return;
	to->stack_bytes = (uint32_t)from->sample.stack_bytes;
	if (to->stack_bytes)
		memcpy(to->stack, from->sample.stack, to->stack_bytes);
}

static int begin_call(struct rp_points *points, const struct point_sample *sample)
{
	struct begun_work *state = rp_thread_states_get(&points->states,
							sample->record->thread);
	const struct rp_perf_record *from = sample->record;
	struct rp_tracepoint_format at = *sample->format;

	if (!state)
		return -ENOMEM;
	state->call_ns = sample->record->time_ns;
	state->number = number(sample, 0);
	at.fields[1].bytes = sizeof(state->arguments[0]);
	for (size_t i = 0; i < 6; i++, at.fields[1].offset += at.fields[1].bytes)
		state->arguments[i] = rp_tracepoint_number(&at, 1, from->sample.fields,
							   from->sample.field_bytes);
	return 0;
}

static int end_call(struct rp_points *points, const struct point_sample *sample)
{
	struct begun_work *state = rp_thread_states_get(&points->states,
							sample->record->thread);
	struct rp_wait_record *record;
	uint64_t began_ns;

	if (!state)
		return -ENOMEM;
	began_ns = state->call_ns;
	state->call_ns = 0;
	if (!has_begun(points, began_ns) || state->number != number(sample, 0) ||
	    sample->record->time_ns - began_ns < points->threshold_ns)
		return 0;
	record = begin_record(points, RP_WAIT_CALL, sample->record, began_ns);
	record->call.number = state->number;
	memcpy(record->call.arguments, state->arguments, sizeof(state->arguments));
	record->call.result = (int64_t)number(sample, 1);
	take_stack(record, sample->record);
	return points->callback(points->user, record);
}

static int begin_fault(struct rp_points *points, const struct point_sample *sample)
{
	struct begun_work *state = rp_thread_states_get(&points->states,
							sample->record->thread);

	if (!state)
		return -ENOMEM;
	state->fault_ns = sample->record->time_ns;
	state->fault = (struct rp_fault){
		.address = number(sample, 0), .error = (uint32_t)number(sample, 1),
	};
	return 0;
}

/* The kernel counts a fault when it has been handled. */
static int end_fault(struct rp_points *points, const struct point_sample *sample, bool is_major)
{
	struct begun_work *state = rp_thread_states_get(&points->states,
							sample->record->thread);
	struct rp_wait_record *record;

	if (!state)
		return -ENOMEM;
	if (!has_begun(points, state->fault_ns) ||
	    state->fault.address != sample->record->sample.address)
		return 0;
	record = begin_record(points, RP_WAIT_FAULT, sample->record, state->fault_ns);
	state->fault_ns = 0;
	record->fault = state->fault;
	record->fault.is_major = is_major;
	take_stack(record, sample->record);
	return points->callback(points->user, record);
}

static int begin_request(struct rp_points *points, const struct point_sample *sample)
{
	const uint32_t at = sample->format->fields[3].offset;
	const struct rp_perf_record *from = sample->record;
	struct rp_issued_request issued = {
		.began_ns = from->time_ns, .process = from->process, .thread = from->thread,
		.device = (uint32_t)number(sample, 0), .sector = number(sample, 1),
	};

	if (at <= from->sample.field_bytes)
		issued.operation = rp_block_operation((const char *)from->sample.fields + at,
						      from->sample.field_bytes - at);
	return rp_block_requests_add(&points->requests, &issued);
}

static int end_request(struct rp_points *points, const struct point_sample *sample)
{
	uint64_t sector = number(sample, 1);
	struct rp_issued_request issued;
	struct rp_wait_record *record;

	/* A flush has no sector: block_rq_issue states 0, and block_rq_complete states -1. */
	if (sector == UINT64_MAX)
		sector = 0;
	if (!rp_block_requests_take(&points->requests, (uint32_t)number(sample, 0), sector,
				    &issued))
		return 0;
	record = begin_record(points, RP_WAIT_BLOCK, sample->record, issued.began_ns);
	record->process = (uint32_t)issued.process;
	record->thread = (uint32_t)issued.thread;
	rp_block_request_describe(&issued, &record->block);
	record->block.bytes = (uint32_t)number(sample, 2) << 9;
	record->block.status = rp_block_status((int32_t)(uint32_t)number(sample, 3));
	return points->callback(points->user, record);
}

/* Return: NULL: the kernel has more processors now than it said at the start. */
static struct begun_interrupts *find_interrupts(struct rp_points *points,
						const struct point_sample *sample)
{
	return sample->record->processor < points->processor_count ?
	       &points->interrupts[sample->record->processor] : NULL;
}

/* The field of a text has its offset in the low half, and its size in the high half. */
static void copy_name(struct rp_interrupt *interrupt, const struct point_sample *sample)
{
	const uint32_t place = (uint32_t)number(sample, 1), at = place & 0xffff;
	const size_t left = sample->record->sample.field_bytes;
	size_t size = place >> 16;

	if (at > left)
		return;
	if (size > left - at)
		size = left - at;
	if (size >= sizeof(interrupt->name))
		size = sizeof(interrupt->name) - 1;
	memcpy(interrupt->name, sample->record->sample.fields + at, size);
}

static int begin_interrupt(struct rp_points *points, const struct point_sample *sample,
			   bool is_soft)
{
	struct begun_interrupts *begun = find_interrupts(points, sample);
	struct rp_interrupt interrupt = { .number = (uint32_t)number(sample, 0) };

	if (!begun)
		return 0;
	interrupt.is_soft = is_soft;
	if (is_soft) {
		begun->soft = interrupt;
		begun->soft_ns = sample->record->time_ns;
	} else {
		copy_name(&interrupt, sample);
		begun->hard = interrupt;
		begun->hard_ns = sample->record->time_ns;
	}
	return 0;
}

static int end_interrupt(struct rp_points *points, const struct point_sample *sample, bool is_soft)
{
	struct begun_interrupts *begun = find_interrupts(points, sample);
	const struct rp_interrupt *interrupt;
	struct rp_wait_record *record;
	uint64_t began_ns;

	if (!begun)
		return 0;
	began_ns = is_soft ? begun->soft_ns : begun->hard_ns;
	interrupt = is_soft ? &begun->soft : &begun->hard;
	*(is_soft ? &begun->soft_ns : &begun->hard_ns) = 0;
	/* The recording may start in an interrupt. */
	if (!has_begun(points, began_ns) || interrupt->number != number(sample, 0) ||
	    sample->record->time_ns - began_ns < points->threshold_ns)
		return 0;
	record = begin_record(points, RP_WAIT_INTERRUPT, sample->record, began_ns);
	record->interrupt = *interrupt;
	record->interrupt.is_handled = is_soft || number(sample, 1) != 0;	/* 0: IRQ_NONE */
	return points->callback(points->user, record);
}

/*
 * After a loss, the end of one call, fault or interrupt may come with the start of an earlier one.
 * The records that began before the loss are therefore left out.
 */
static void follow_losses(struct rp_points *points, uint64_t time_ns)
{
	const uint64_t lost = rp_points_lost(points);

	if (lost != points->lost)
		points->lost_ns = time_ns;
	points->lost = lost;
}

static int take_record(void *user, const struct rp_perf_record *record)
{
	struct rp_points *points = user;
	struct point_sample sample = { .record = record };

	follow_losses(points, record->time_ns);
	if (record->kind == RP_PERF_END)
		rp_thread_states_remove(&points->states, record->thread);
	if (record->kind != RP_PERF_SAMPLE)
		return 0;
	sample.format = &points->formats[record->sample.point];
	switch (points->kinds[record->sample.point]) {
	case POINT_CALL_BEGIN:
		return begin_call(points, &sample);
	case POINT_CALL_END:
		return end_call(points, &sample);
	case POINT_FAULT_BEGIN:
		return begin_fault(points, &sample);
	case POINT_FAULT_MINOR:
		return end_fault(points, &sample, false);
	case POINT_FAULT_MAJOR:
		return end_fault(points, &sample, true);
	case POINT_BLOCK_BEGIN:
		return begin_request(points, &sample);
	case POINT_BLOCK_END:
		return end_request(points, &sample);
	case POINT_HARD_BEGIN:
		return begin_interrupt(points, &sample, false);
	case POINT_HARD_END:
		return end_interrupt(points, &sample, false);
	case POINT_SOFT_BEGIN:
		return begin_interrupt(points, &sample, true);
	case POINT_SOFT_END:
		return end_interrupt(points, &sample, true);
	default:
		return 0;
	}
}

/* Leave out the recorder's own system calls, and other calls if only futexes are wanted. */
static void choose_filter(struct rp_perf_point *point, enum point kind, unsigned int groups)
{
	const bool is_call = kind == POINT_CALL_BEGIN || kind == POINT_CALL_END;

	if (is_call)
		snprintf(point->filter, sizeof(point->filter),
			 groups & RP_WAITS_CALLS ? "common_pid != %d" :
			 "common_pid != %d && id == %d", (int)getpid(), (int)SYS_futex);
}

/* Return: 0; the first error, which leaves out the groups that need the tracepoint. */
static int read_formats(struct rp_tracepoint_format formats[POINT_COUNT], unsigned int *groups)
{
	int error = 0;

	for (int i = 0; i < POINT_COUNT; i++) {
		int ret = plans[i].tracepoint && (plans[i].groups & *groups) ?
			  rp_tracepoint_format_read(plans[i].tracepoint, plans[i].fields,
						    &formats[i]) : 0;

		if (ret < 0)
			*groups &= ~plans[i].groups;
		error = error ? error : ret;
	}
	return error;
}

static void add_points(struct rp_points *points,
		       const struct rp_tracepoint_format formats[POINT_COUNT], unsigned int groups)
{
	for (int i = 0; i < POINT_COUNT; i++) {
		const struct point_plan *plan = &plans[i];
		struct rp_perf_point *point = &points->points[points->point_count];

		if (!(plan->groups & groups))
			continue;
		*point = (struct rp_perf_point){
			.type = plan->tracepoint ? PERF_TYPE_TRACEPOINT : PERF_TYPE_SOFTWARE,
			.config = plan->tracepoint ? formats[i].id : plan->counter,
			.has_registers = plan->has_registers, .stack_bytes = plan->stack_bytes,
			.is_of_all = plan->is_of_all,
		};
		choose_filter(point, (enum point)i, groups);
		points->formats[points->point_count] = formats[i];
		points->kinds[points->point_count++] = (enum point)i;
	}
}

static int open_points(struct rp_points *points, const struct rp_waits_options *waits_options)
{
	const struct rp_perf_options options = {
		.ring_bytes = waits_options->ring_bytes / (size_t)sysconf(_SC_NPROCESSORS_CONF),
		.points = points->points, .point_count = points->point_count,
		.threads = waits_options->threads, .thread_count = waits_options->thread_count,
	};
	const char *call;
	int ret = rp_perf_open(&options, &points->perf, &call);

	return ret ? ret : rp_perf_enable(points->perf);
}

int rp_points_start(const struct rp_waits_options *options, rp_waits_callback callback, void *user,
		    struct rp_points **ret_points, unsigned int *ret_groups)
{
	struct rp_tracepoint_format formats[POINT_COUNT] = { 0 };
	unsigned int groups = options->groups;
	struct rp_points *points;
	int ret = read_formats(formats, &groups);

	if (!groups)
		return ret ? ret : -ENOENT;
	points = calloc(1, sizeof(*points));
	if (!points)
		return -ENOMEM;
	points->threshold_ns = options->threshold_ns;
	points->states.state_bytes = sizeof(struct begun_work);
	points->processor_count = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
	points->interrupts = calloc(points->processor_count, sizeof(*points->interrupts));
	points->callback = callback;
	points->user = user;
	add_points(points, formats, groups);
	ret = points->interrupts ? open_points(points, options) : -ENOMEM;
	if (ret < 0) {
		rp_points_destroy(points);
		return ret;
	}
	*ret_points = points;
	*ret_groups = groups;
	return 0;
}

void rp_points_destroy(struct rp_points *points)
{
	if (!points)
		return;
	rp_perf_close(points->perf);
	rp_block_requests_fini(&points->requests);
	rp_thread_states_fini(&points->states);
	free(points->interrupts);
	free(points);
}

int rp_points_fd(const struct rp_points *points)
{
	return rp_perf_fd(points->perf);
}

int rp_points_drain(struct rp_points *points, bool is_last)
{
	const uint64_t limit_ns = rp_perf_limit(points->perf);

	return rp_perf_drain(points->perf, is_last ? UINT64_MAX : limit_ns, take_record, points);
}

void rp_points_stop(struct rp_points *points)
{
	rp_perf_disable(points->perf);
}

uint64_t rp_points_lost(const struct rp_points *points)
{
	struct rp_perf_stats stats;

	rp_perf_stats(points->perf, &stats);
	return stats.lost[RP_PERF_LOSS_FULL] + stats.lost[RP_PERF_LOSS_DAMAGED];
}
