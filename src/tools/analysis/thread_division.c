/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "tools/analysis/thread_time_parts.h"

static int compare_times(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int compare_records(const void *left, const void *right)
{
	const struct rp_time_record *a = left, *b = right;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return a->from_ns != b->from_ns ? compare_times(a->from_ns, b->from_ns) :
					  compare_times(a->to_ns, b->to_ns);
}

/*
 * Return: the records of the kind that end after `from_ns`, in the order of their beginnings.
 * Pieces come in the order of time, so records that ended before are skipped for good.
 */
static struct rp_time_record *records_after(struct rp_thread_interval *interval,
					    enum record_kind kind, int64_t from_ns,
					    size_t *ret_count)
{
	size_t *at = &interval->next[kind];

	while (*at < interval->next_end[kind] && interval->records[*at].to_ns <= from_ns)
		++*at;
	*ret_count = interval->next_end[kind] - *at;
	return *ret_count ? &interval->records[*at] : NULL;
}

/*
 * Cut the sorted records of a kind so that they do not overlap: what a record shares with those
 * before it belongs to these. A thread does one thing at a time, but a span of another process may
 * contain many others, and a damaged trace anything. Without overlaps, a piece sees only the few
 * records of its own time. Return: the number of records that remain, at the start of the array.
 */
static size_t cut_overlaps(struct rp_time_record *records, size_t count)
{
	int64_t latest_ns = INT64_MIN;
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct rp_time_record record = records[i];

		if (record.to_ns < latest_ns)
			continue;
		if (record.from_ns < latest_ns)
			record.from_ns = latest_ns;
		latest_ns = record.to_ns;
		records[kept++] = record;
	}
	return kept;
}

static void sort_records(struct rp_thread_interval *interval)
{
	size_t at = 0;

	if (interval->record_count)
		qsort(interval->records, interval->record_count, sizeof(*interval->records),
		      compare_records);
	for (unsigned int kind = 0; kind < KIND_COUNT; kind++) {
		interval->next[kind] = at;
		while (at < interval->record_count && interval->records[at].kind == kind)
			at++;
		interval->next_end[kind] = at;
		/* A thread may have several requests to disks. divide() clips the waits. */
		if (kind != KIND_WAIT && kind != KIND_BLOCK)
			interval->next_end[kind] = interval->next[kind] +
				cut_overlaps(interval->records + interval->next[kind],
					     at - interval->next[kind]);
	}
}

static int add_piece(struct rp_thread_interval *interval, const struct rp_time_piece *piece)
{
	struct rp_time_piece *grown;

	if (piece->from_ns >= piece->to_ns)
		return 0;
	grown = rp_array_reserve(interval->pieces, interval->piece_count,
				 &interval->piece_capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	interval->pieces = grown;
	grown[interval->piece_count] = *piece;
	grown[interval->piece_count++].thread = interval->thread;
	interval->parts_ns[piece->part] += (uint64_t)piece->to_ns - (uint64_t)piece->from_ns;
	return 0;
}

/*
 * Add a piece, but where records of `kind` overlap it, pieces of `part` with the detail of the
 * record. `next` adds each of the pieces between those records.
 */
typedef int (*add_function)(struct rp_thread_interval *interval,
			    const struct rp_time_piece *piece);

static int add_around(struct rp_thread_interval *interval, const struct rp_time_piece *piece,
		      enum record_kind kind, enum rp_time_part part, add_function inside,
		      add_function between)
{
	struct rp_time_piece rest = *piece, found;
	size_t count;
	const struct rp_time_record *record = records_after(interval, kind, piece->from_ns, &count);
	int ret = 0;

	for (; ret == 0 && count > 0 && record->from_ns < piece->to_ns; record++, count--) {
		/* A fault without a duration takes no time. */
		if (record->to_ns <= rest.from_ns || record->to_ns <= record->from_ns)
			continue;
		found = (struct rp_time_piece){
			.part = part, .detail = record->detail,
			.function = record->function ? record->function : piece->function,
			.waker_process = record->waker_process,
			.waker_thread = record->waker_thread,
			.from_ns = record->from_ns > rest.from_ns ? record->from_ns : rest.from_ns,
			.to_ns = record->to_ns < piece->to_ns ? record->to_ns : piece->to_ns,
		};
		rest.to_ns = found.from_ns;
		ret = between(interval, &rest);
		if (ret == 0)
			ret = inside(interval, &found);
		rest.from_ns = found.to_ns;
	}
	rest.to_ns = piece->to_ns;
	return ret ? ret : between(interval, &rest);
}

static int add_with_interrupts(struct rp_thread_interval *interval,
			       const struct rp_time_piece *piece)
{
	return add_around(interval, piece, KIND_INTERRUPT, RP_TIME_INTERRUPT, add_piece, add_piece);
}

static int add_outside_calls(struct rp_thread_interval *interval,
			     const struct rp_time_piece *piece)
{
	return add_around(interval, piece, KIND_FAULT, RP_TIME_PAGE_FAULT, add_with_interrupts,
			  add_with_interrupts);
}

/* A thread is on a processor: in a system call or page fault, in the program, or interrupted. */
static int add_running(struct rp_thread_interval *interval, int64_t from_ns, int64_t to_ns)
{
	const struct rp_time_piece piece = {
		.part = RP_TIME_PROGRAM, .from_ns = from_ns, .to_ns = to_ns,
	};

	return add_around(interval, &piece, KIND_CALL, RP_TIME_SYSTEM_CALL, add_with_interrupts,
			  add_outside_calls);
}

/* A thread has far fewer requests at a time. Limits the time that a damaged trace takes. */
#define OVERLAPS_MAX 4096u

/* Return: the record of the kind, up to a time, that overlaps most of the wait; NULL: none. */
static const struct rp_time_record *find_overlap_until(struct rp_thread_interval *interval,
						       enum record_kind kind,
						       const struct rp_time_piece *piece,
						       int64_t until_ns)
{
	size_t count;
	const struct rp_time_record *record = records_after(interval, kind, piece->from_ns, &count);
	const struct rp_time_record *best = NULL;
	int64_t most_ns = 0;

	count = count < OVERLAPS_MAX ? count : OVERLAPS_MAX;
	for (; count > 0 && record->from_ns < piece->to_ns; record++, count--) {
		const int64_t from = record->from_ns > piece->from_ns ? record->from_ns :
									piece->from_ns;
		const int64_t to = record->to_ns < piece->to_ns ? record->to_ns : piece->to_ns;

		if (record->to_ns <= until_ns && to - from > most_ns) {
			most_ns = to - from;
			best = record;
		}
	}
	return best;
}

static const struct rp_time_record *find_overlap(struct rp_thread_interval *interval,
						 enum record_kind kind,
						 const struct rp_time_piece *piece)
{
	return find_overlap_until(interval, kind, piece, INT64_MAX);
}

/* A request that lasts longer than the wait did not end it, but it may be the only one. */
static const struct rp_time_record *find_request(struct rp_thread_interval *interval,
						 const struct rp_time_piece *piece,
						 int64_t woken_ns)
{
	const struct rp_time_record *request = find_overlap_until(interval, KIND_BLOCK, piece,
								  woken_ns);

	return request ? request : find_overlap(interval, KIND_BLOCK, piece);
}

static void describe_fault(struct rp_time_piece *piece, const struct rp_time_record *fault)
{
	piece->detail = fault->detail;
	if (fault->function)
		piece->function = fault->function;
}

static void describe_request(struct rp_time_piece *piece, const struct rp_time_record *request)
{
	piece->device = request->file;
	piece->sector = request->sector;
	piece->request_bytes = request->bytes;
	piece->request_ns = (uint64_t)request->to_ns - (uint64_t)request->from_ns;
}

static void describe_futex(struct rp_time_piece *piece, const struct rp_time_record *futex)
{
	piece->lock = futex->lock;
	if (piece->waker_thread)
		return;
	piece->waker_process = futex->waker_process;
	piece->waker_thread = futex->waker_thread;
}

static int add_blocked(struct rp_thread_interval *interval, const struct rp_time_record *wait,
		       int64_t from_ns, int64_t to_ns)
{
	struct rp_time_piece piece = {
		.part = wait->part, .from_ns = from_ns, .to_ns = to_ns, .detail = wait->detail,
		.function = wait->function,
		.waker_process = wait->waker_process, .waker_thread = wait->waker_thread,
	};
	const struct rp_time_record *futex, *lock, *call, *request, *fault;

	if (from_ns >= to_ns)
		return 0;
	futex = find_overlap(interval, KIND_FUTEX, &piece);
	lock = find_overlap(interval, KIND_LOCK, &piece);
	call = find_overlap(interval, KIND_CALL, &piece);
	if (piece.part == RP_TIME_OTHER_WAIT && (futex || lock))
		piece.part = RP_TIME_LOCK;
	if (piece.part == RP_TIME_OTHER_WAIT && call)
		piece.part = rp_wait_cause_of_call(call->detail);
	fault = find_overlap(interval, KIND_FAULT, &piece);
	if (piece.part == RP_TIME_OTHER_WAIT && fault)
		piece.part = RP_TIME_PAGE_FAULT;
	request = find_request(interval, &piece, wait->runnable_ns);
	if (piece.part == RP_TIME_OTHER_WAIT && request)
		piece.part = RP_TIME_BLOCK_IO;
	if (call)
		piece.detail = call->detail;
	if (piece.part == RP_TIME_PAGE_FAULT && fault)
		describe_fault(&piece, fault);
	if (piece.part == RP_TIME_BLOCK_IO && call && *call->file)
		piece.file = call->file;
	if (request)
		describe_request(&piece, request);
	if (piece.part == RP_TIME_LOCK && futex)
		describe_futex(&piece, futex);
	if (piece.part == RP_TIME_LOCK && lock) {
		piece.lock = lock->lock;
		piece.owner = lock->waker_thread;
	}
	if (piece.part != RP_TIME_NETWORK && piece.part != RP_TIME_OTHER_WAIT)
		return add_piece(interval, &piece);
	return add_around(interval, &piece, KIND_CALLEE, RP_TIME_CALLEE, add_piece, add_piece);
}

/* The thread runs, enters a page fault, and handles it until it has to wait at `to_ns`. */
static int add_running_into_fault(struct rp_thread_interval *interval, int64_t from_ns,
				  int64_t to_ns)
{
	struct rp_time_piece fault = {
		.part = RP_TIME_PAGE_FAULT, .from_ns = to_ns, .to_ns = to_ns,
	};
	size_t count;
	const struct rp_time_record *record = records_after(interval, KIND_FAULT, from_ns, &count);
	int ret;

	/* The last one before the wait that had not ended then. */
	for (; count > 0 && record->from_ns < to_ns; record++, count--) {
		if (record->from_ns < record->to_ns && record->to_ns <= to_ns)
			continue;
		fault.from_ns = record->from_ns > from_ns ? record->from_ns : from_ns;
		describe_fault(&fault, record);
	}
	ret = add_running(interval, from_ns, fault.from_ns);
	return ret ? ret : add_with_interrupts(interval, &fault);
}

static int add_runnable(struct rp_thread_interval *interval, int64_t from_ns, int64_t to_ns)
{
	const struct rp_time_piece piece = {
		.part = RP_TIME_RUNNABLE, .from_ns = from_ns, .to_ns = to_ns,
	};

	return add_around(interval, &piece, KIND_PREVIOUS, RP_TIME_RUNNABLE, add_piece, add_piece);
}

static int divide(struct rp_thread_interval *interval, bool is_recorded)
{
	int64_t at = interval->from_ns;
	int ret = 0;

	if (!is_recorded) {
		const struct rp_time_piece all = {
			.part = RP_TIME_UNEXPLAINED, .from_ns = at, .to_ns = interval->to_ns,
		};

		return add_piece(interval, &all);
	}
	sort_records(interval);
	for (size_t i = interval->next[KIND_WAIT]; ret == 0 && i < interval->next_end[KIND_WAIT];
	     i++) {
		const struct rp_time_record *wait = &interval->records[i];
		int64_t from = wait->from_ns, runnable = wait->runnable_ns, to = wait->to_ns;

		if (to <= at)
			continue;
		/* Clip the wait to the interval, and to what the wait before it left. */
		from = from < at ? at : from;
		to = to > interval->to_ns ? interval->to_ns : to;
		runnable = runnable < from ? from : runnable > to ? to : runnable;
		if (wait->part == RP_TIME_PAGE_FAULT)
			ret = add_running_into_fault(interval, at, from);
		else
			ret = add_running(interval, at, from);
		if (ret == 0)
			ret = add_blocked(interval, wait, from, runnable);
		if (ret == 0)
			ret = add_runnable(interval, runnable, to);
		at = to;
	}
	return ret ? ret : add_running(interval, at, interval->to_ns);
}

int rp_thread_time_divide(struct rp_thread_time *time)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < time->count; i++) {
		struct rp_thread_interval *interval = &time->intervals[i];

		ret = divide(interval, rp_recorded_kinds_has_process(time->kinds,
								     interval->process));
	}
	return ret;
}
