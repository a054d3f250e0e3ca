/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/field.h>

#include "base/array.h"
#include "tools/analysis/thread_time_parts.h"
#include "tools/trace/event_names.h"
#include "tools/trace/stack_frame.h"

#define UNIVERSAL "Universal.Events"
#define SAMPLE_ID 1u
#define SWITCH_ID 2u
#define LOCKS "ringpipe-locks"		/* of libringpipe-inbox */
#define LOCKS_MUTEX_ID 1u
#define LOCKS_RWLOCK_ID 2u
#define FRAMES_MAX 64u
#define CALLEE_NAME_MAX 256u	/* a longer name is cut off */
#define STATE_RUNNING 0u
/* A thread does not await a request to a disk that lasts this much longer than the interval. */
#define REQUEST_NS 10000000

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_times(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int compare_intervals(const void *left, const void *right)
{
	const struct rp_thread_interval *a = left, *b = right;
	int order = compare_numbers(a->thread, b->thread);

	if (order == 0)
		order = compare_times(a->from_ns, b->from_ns);
	return order ? order : compare_times(a->to_ns, b->to_ns);
}

/* Return: the first interval of the thread that may end after `from_ns`; or time->count. */
static size_t find_first(const struct rp_thread_time *time, uint64_t thread, int64_t from_ns)
{
	const size_t at = RP_PARTITION_POINT(i, time->count, time->intervals[i].thread < thread ||
					     (time->intervals[i].thread == thread &&
					      time->latest_ns[i] <= from_ns));

	return at < time->count && time->intervals[at].thread == thread ? at : time->count;
}

static bool overlaps(const struct rp_thread_interval *interval, int64_t from_ns, int64_t to_ns)
{
	return interval->from_ns < to_ns && from_ns < interval->to_ns;
}

static int add_record(struct rp_thread_time *time, struct rp_thread_interval *interval,
		      const struct rp_time_record *record)
{
	struct rp_time_record *grown;

	if (time->record_count >= RP_TIME_RECORDS_MAX) {
		time->left_out++;
		return 0;
	}
	grown = rp_array_reserve(interval->records, interval->record_count,
				 &interval->record_capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	interval->records = grown;
	grown[interval->record_count++] = *record;
	time->record_count++;
	return 0;
}

/* Add a record to all intervals of the thread that it overlaps. */
static int add_to_thread(struct rp_thread_time *time, uint64_t thread,
			 const struct rp_time_record *record)
{
	int ret = 0;

	for (size_t i = find_first(time, thread, record->from_ns);
	     ret == 0 && i < time->count && time->intervals[i].thread == thread &&
	     time->intervals[i].from_ns < record->to_ns; i++) {
		if (overlaps(&time->intervals[i], record->from_ns, record->to_ns))
			ret = add_record(time, &time->intervals[i], record);
	}
	return ret;
}

static bool is_of_interest(const struct rp_thread_time *time, uint64_t thread, int64_t from_ns,
			   int64_t to_ns)
{
	const size_t first = find_first(time, thread, from_ns);

	return first < time->count && time->intervals[first].from_ns < to_ns;
}

static bool has_interval(const struct rp_thread_time *time, uint64_t thread)
{
	return find_first(time, thread, INT64_MIN) < time->count;
}

static uint64_t number_of(const struct rp_reader_event *event, const char *name)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;

	rp_reader_get_fields(event, &fields);
	return rp_fields_find(&fields, name, &value) == 0 ? value.u64 : 0;
}

/* Return: the field's text, kept; "" if the event lacks it; NULL: no memory. */
static const char *text_of(struct rp_thread_time *time, const struct rp_reader_event *event,
			   const char *name)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;
	char text[128] = "";

	rp_reader_get_fields(event, &fields);
	if (rp_fields_find(&fields, name, &value) == 0)
		rp_value_get_text(&value, text, sizeof(text));
	return rp_text_pool_add(&time->texts, text);
}

/* The time at which something began that ended with the event. */
static int64_t begin_of(const struct rp_reader_event *event, uint64_t duration_ns)
{
	int64_t begin;

	if (duration_ns > INT64_MAX ||
	    __builtin_sub_overflow(event->time_ns, (int64_t)duration_ns, &begin))
		return INT64_MIN;
	return begin;
}

/* Return: the name of the function of a frame; NULL: unknown. */
static const char *function_of(const struct rp_thread_time *time,
			       const struct rp_reader_event *event, size_t index)
{
	struct rp_symbol symbol;

	rp_symbols_resolve(time->symbols, event->process, event->time_ns,
			   rp_stack_frame(event, time->pointer_bytes, index), &symbol);
	return symbol.function;
}

/* Return: whether the file is a library whose functions wait on behalf of their callers. */
static bool is_system_library(const char *path)
{
	static const char *const names[] = {
		"libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "[vdso]",
		"libringpipe-inbox.so",
	};
	const char *name = path ? strrchr(path, '/') : NULL;

	name = name ? name + 1 : path;
	for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	}
	return false;
}

/* Return: the innermost function of the stack that is the program's own; NULL: unknown. */
static const char *find_program_function(const struct rp_thread_time *time,
					 const struct rp_reader_event *event)
{
	struct rp_symbol symbol;

	for (uint32_t i = 0; i < event->frame_count; i++) {
		const uint64_t address = rp_stack_frame(event, time->pointer_bytes, i);

		if (address >= RP_KERNEL_START)
			continue;
		rp_symbols_resolve(time->symbols, event->process, event->time_ns, address, &symbol);
		if (symbol.file && !is_system_library(symbol.file))
			return symbol.function;
	}
	return NULL;
}

/* Classify the stack of a switch; the next event of the thread, Wait, has the rest. */
static int take_switch(struct rp_thread_time *time, const struct rp_reader_event *event)
{
	const char *functions[FRAMES_MAX];
	const size_t count = event->frame_count < FRAMES_MAX ? event->frame_count : FRAMES_MAX;

	if (!has_interval(time, event->thread))
		return 0;
	for (size_t i = 0; i < count; i++)
		functions[i] = function_of(time, event, i);
	time->stack.thread = event->thread;
	time->stack.time_ns = event->time_ns;
	time->stack.part = rp_wait_cause_of_stack(functions, count);
	time->stack.detail = count ? functions[0] : NULL;
	time->stack.function = find_program_function(time, event);
	return 0;
}

/* Take the program's innermost function, for each interval that contains the sample. */
static int take_sample(struct rp_thread_time *time, const struct rp_reader_event *event)
{
	const char *function = NULL;

	for (uint32_t i = 0; i < event->frame_count && !function; i++) {
		if (rp_stack_frame(event, time->pointer_bytes, i) < RP_KERNEL_START)
			function = function_of(time, event, i);
	}
	for (size_t i = find_first(time, event->thread, event->time_ns);
	     function && i < time->count && time->intervals[i].thread == event->thread &&
	     time->intervals[i].from_ns <= event->time_ns; i++) {
		struct rp_thread_interval *interval = &time->intervals[i];
		const char **grown;

		if (event->time_ns > interval->to_ns)
			continue;
		grown = rp_array_reserve(interval->functions, interval->function_count,
					 &interval->function_capacity, 1,
					 sizeof(*interval->functions));
		if (!grown)
			return -ENOMEM;
		interval->functions = grown;
		grown[interval->function_count++] = function;
	}
	return 0;
}

/* Take from the event of any wait which thread used the processor until its end. 0; -ENOMEM. */
static int take_run(struct rp_thread_time *time, const struct rp_reader_event *event,
		    const struct rp_processor_history **ret_history)
{
	const uint64_t runnable_ns = number_of(event, "runnable_ns");
	const uint64_t previous_ns = number_of(event, "previous_ns");
	struct rp_processor_run run = {
		.to_ns = event->time_ns, .thread = number_of(event, "previous_thread"),
	};

	if (run.thread) {
		run.process = number_of(event, "previous_process");
		run.from_ns = begin_of(event, previous_ns);
		run.name = text_of(time, event, "previous_name");
		if (!run.name)
			return -ENOMEM;
	}
	return rp_processor_runs_take(&time->runs, event->processor, event->thread, &run,
				      previous_ns >= runnable_ns, ret_history);
}

/* Add which threads used the processor while the thread of the wait was ready to run. */
static int add_runs(struct rp_thread_time *time, uint64_t thread,
		    const struct rp_time_record *wait, const struct rp_processor_history *history)
{
	const size_t kept = history->count < RP_RUNS_KEPT ? history->count : RP_RUNS_KEPT;
	int ret = 0;

	for (size_t i = 1; ret == 0 && i <= kept; i++) {
		const struct rp_processor_run *run =
			&history->runs[(history->count - i) % RP_RUNS_KEPT];
		struct rp_time_record record = {
			.kind = KIND_PREVIOUS, .from_ns = run->from_ns, .to_ns = run->to_ns,
			.waker_process = run->process, .waker_thread = run->thread,
			.detail = run->name,
		};

		if (run->to_ns <= wait->runnable_ns)
			break;
		if (record.from_ns < wait->runnable_ns)
			record.from_ns = wait->runnable_ns;
		ret = add_to_thread(time, thread, &record);
	}
	return ret;
}

static int take_wait(struct rp_thread_time *time, const struct rp_reader_event *event)
{
	struct rp_time_record wait = {
		.kind = KIND_WAIT, .part = RP_TIME_OTHER_WAIT, .to_ns = event->time_ns,
	};
	const struct rp_processor_history *history;
	int ret = take_run(time, event, &history);

	if (ret || !has_interval(time, event->thread))
		return ret;
	wait.from_ns = begin_of(event, number_of(event, "duration_ns"));
	wait.runnable_ns = begin_of(event, number_of(event, "runnable_ns"));
	/* A thread that another displaced was ready to run all the time. */
	if (number_of(event, "state") == STATE_RUNNING || wait.runnable_ns < wait.from_ns)
		wait.runnable_ns = wait.from_ns;
	wait.waker_process = number_of(event, "waker_process");
	wait.waker_thread = number_of(event, "waker_thread");
	if (history && add_runs(time, event->thread, &wait, history) < 0)
		return -ENOMEM;
	if (time->stack.thread == event->thread && time->stack.time_ns == event->time_ns) {
		wait.part = time->stack.part;
		wait.detail = time->stack.detail;
		wait.function = time->stack.function;
	}
	return add_to_thread(time, event->thread, &wait);
}

static int take_record(struct rp_thread_time *time, const struct rp_reader_event *event,
		       enum record_kind kind, const char *name)
{
	struct rp_time_record record = { .kind = kind, .to_ns = event->time_ns };

	record.from_ns = begin_of(event, number_of(event, "duration_ns"));
	if (!is_of_interest(time, event->thread, record.from_ns, record.to_ns))
		return 0;
	if (name) {
		record.detail = text_of(time, event, name);
		if (!record.detail)
			return -ENOMEM;
	}
	if (kind == KIND_FUTEX) {
		record.lock = number_of(event, "address");
		record.waker_process = number_of(event, "waker_process");
		record.waker_thread = number_of(event, "waker_thread");
	} else if (kind == KIND_LOCK) {
		record.lock = number_of(event, "address");
		record.waker_thread = number_of(event, "owner");
	} else if (kind == KIND_FAULT) {
		record.detail = number_of(event, "is_major") ? "major fault" : NULL;
		record.function = find_program_function(time, event);
	} else if (kind == KIND_CALL || kind == KIND_BLOCK) {
		record.file = text_of(time, event, kind == KIND_CALL ? "file" : "device");
		if (!record.file)
			return -ENOMEM;
	}
	if (kind == KIND_BLOCK) {
		record.sector = number_of(event, "sector");
		record.bytes = (uint32_t)number_of(event, "bytes");
	}
	return add_to_thread(time, event->thread, &record);
}

/* Return: the last interval of the thread at `first`, its first one. */
static size_t find_last(const struct rp_thread_time *time, size_t first)
{
	size_t low = first, high = time->count;

	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;

		if (time->intervals[middle].thread == time->intervals[first].thread)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/*
 * Note that a thread was in its program at the time of the event, or came back to it. All that it
 * did before then has ended, and its records were read.
 */
static void note_return(struct rp_thread_time *time, const struct rp_reader_event *event)
{
	size_t at;

	if (time->open_threads == 0 || event->time_ns < time->first_end_ns)
		return;
	at = find_first(time, event->thread, INT64_MIN);
	if (at == time->count)
		return;
	at = find_last(time, at);
	if (event->time_ns < time->latest_ns[at] || time->intervals[at].has_returned)
		return;
	time->intervals[at].has_returned = true;
	time->open_threads--;
}

/* Return: whether the event is the wait for a lock that has an owner. */
static bool is_lock(const struct rp_reader_type *type)
{
	return (type->id == LOCKS_MUTEX_ID || type->id == LOCKS_RWLOCK_ID) &&
	       strcmp(type->provider, LOCKS) == 0;
}

int rp_thread_time_take(struct rp_thread_time *time, const struct rp_reader_event *event)
{
	if (strcmp(event->type->provider, UNIVERSAL) == 0)
		return event->type->id == SWITCH_ID ? take_switch(time, event) :
		       event->type->id == SAMPLE_ID ? take_sample(time, event) : 0;
	if (strcmp(event->type->provider, RP_TIME_PROVIDER) != 0) {
		if (!rp_event_is_own(event->type->provider))
			note_return(time, event);
		return is_lock(event->type) ? take_record(time, event, KIND_LOCK, NULL) : 0;
	}
	switch (event->type->id) {
	case RP_TIME_ID_WAIT:
		return take_wait(time, event);
	case RP_TIME_ID_SYSCALL:
		note_return(time, event);
		return take_record(time, event, KIND_CALL, "name");
	case RP_TIME_ID_FUTEX:
		return take_record(time, event, KIND_FUTEX, NULL);
	case RP_TIME_ID_FAULT:
		return take_record(time, event, KIND_FAULT, NULL);
	case RP_TIME_ID_BLOCK:
		return take_record(time, event, KIND_BLOCK, "operation");
	case RP_TIME_ID_INTERRUPT:
		return take_record(time, event, KIND_INTERRUPT, "name");
	default:
		return 0;
	}
}

static int compare_guids(const void *left, const void *right)
{
	const struct rp_interval_id *a = left, *b = right;

	return memcmp(a->id, b->id, sizeof(a->id));
}

static bool is_zero(const uint8_t *id)
{
	static const uint8_t none[16];

	return memcmp(id, none, sizeof(none)) == 0;
}

static void add_id(struct rp_thread_time *time, const void *id, size_t interval)
{
	struct rp_interval_id *row = &time->ids[time->id_count];

	if (is_zero(id))
		return;
	memcpy(row->id, id, sizeof(row->id));
	row->interval = interval;
	time->id_count++;
}

/* List the ids by which the work of other processes refers to the spans of the intervals. */
static int list_ids(struct rp_thread_time *time)
{
	time->ids = reallocarray(NULL, time->count, 3 * sizeof(*time->ids));
	if (!time->ids)
		return -ENOMEM;
	for (size_t i = 0; i < time->count; i++) {
		const struct rp_trace_span *span = time->intervals[i].span;

		if (!span)
			continue;
		add_id(time, &span->activity, i);
		add_id(time, &span->parent, i);
		add_id(time, span->trace_id, i);
	}
	if (time->id_count)
		qsort(time->ids, time->id_count, sizeof(*time->ids), compare_guids);
	return 0;
}

int rp_thread_time_begin(struct rp_thread_time *time, struct rp_thread_interval *intervals,
			 size_t count, const struct rp_symbols *symbols, uint32_t pointer_bytes,
			 const struct rp_recorded_kinds *kinds)
{
	*time = (struct rp_thread_time){
		.intervals = intervals, .count = count, .symbols = symbols,
		.pointer_bytes = pointer_bytes, .kinds = kinds,
	};
	if (count == 0)
		return 0;
	qsort(intervals, count, sizeof(*intervals), compare_intervals);
	time->latest_ns = reallocarray(NULL, count, sizeof(*time->latest_ns));
	if (!time->latest_ns)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const bool is_next = i && intervals[i - 1].thread == intervals[i].thread;
		const int64_t before = is_next ? time->latest_ns[i - 1] : INT64_MIN;

		time->latest_ns[i] = intervals[i].to_ns > before ? intervals[i].to_ns : before;
	}
	time->first_end_ns = INT64_MAX;
	time->last_end_ns = INT64_MIN;
	for (size_t i = 0; i < count; i++) {
		if (i + 1 < count && intervals[i + 1].thread == intervals[i].thread)
			continue;
		time->open_threads++;
		if (time->latest_ns[i] < time->first_end_ns)
			time->first_end_ns = time->latest_ns[i];
		if (time->latest_ns[i] > time->last_end_ns)
			time->last_end_ns = time->latest_ns[i];
	}
	return list_ids(time);
}

static int add_callee(struct rp_thread_time *time, struct rp_thread_interval *interval,
		      const struct rp_trace_span *span)
{
	struct rp_time_record callee = {
		.kind = KIND_CALLEE, .from_ns = span->start_ns, .to_ns = span->stop_ns,
		.waker_process = span->process,
	};
	char name[CALLEE_NAME_MAX];

	if (interval->process == span->process || span->start_ns < interval->span->start_ns ||
	    !overlaps(interval, span->start_ns, span->stop_ns))
		return 0;
	snprintf(name, sizeof(name), "%s/%s", span->name->provider, span->name->name);
	callee.detail = rp_text_pool_add(&time->texts, name);
	return callee.detail ? add_record(time, interval, &callee) : -ENOMEM;
}

static int add_callee_of(struct rp_thread_time *time, const void *id,
			 const struct rp_trace_span *span)
{
	size_t at = RP_PARTITION_POINT(i, time->id_count, memcmp(time->ids[i].id, id, 16) < 0);
	int ret = 0;

	for (; ret == 0 && at < time->id_count && !memcmp(time->ids[at].id, id, 16); at++)
		ret = add_callee(time, &time->intervals[time->ids[at].interval], span);
	return ret;
}

int rp_thread_time_take_callee(struct rp_thread_time *time, const struct rp_trace_span *span)
{
	int ret = is_zero(span->parent.bytes) ? 0 : add_callee_of(time, &span->parent, span);

	if (ret == 0 && !is_zero(span->trace_id) &&
	    memcmp(span->trace_id, &span->parent, sizeof(span->trace_id)) != 0)
		ret = add_callee_of(time, span->trace_id, span);
	return ret;
}

bool rp_thread_time_is_complete(const struct rp_thread_time *time, const struct rp_reader *reader,
				int64_t now_ns)
{
	return time->open_threads == 0 && time->last_end_ns <= INT64_MAX - REQUEST_NS &&
	       now_ns >= time->last_end_ns + REQUEST_NS && rp_trace_index_is_past(reader);
}

void rp_thread_time_fini(struct rp_thread_time *time)
{
	for (size_t i = 0; i < time->count; i++) {
		free(time->intervals[i].records);
		free(time->intervals[i].pieces);
		free(time->intervals[i].functions);
	}
	rp_processor_runs_fini(&time->runs);
	rp_text_pool_fini(&time->texts);
	free(time->latest_ns);
	free(time->ids);
	*time = (struct rp_thread_time){ 0 };
}
