/* SPDX-License-Identifier: MIT */
/*
 * The writer is interrupted at each of its instructions, on every path through it. The test makes
 * the slot and the rings, and no drain thread reads them, so it sees the exact effect of one call.
 *
 * In the section a trap is an abort, so for each instruction the event must be in the ring once, or
 * counted as lost once, or, when the session ended at that instruction, neither. After the commit
 * and in the fallback, the same must hold with a handler in between that writes.
 *
 * Each path runs for this session alone, and as a multi-session write after another session, which
 * must get each event whatever happens in this session.
 *
 * A trap in a loop hits only the first iteration. To abort a copy at each byte, the end of the
 * payload is unreadable at first: the page fault is a signal.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "base/clock.h"
#include "core/kernel_probes.h"
#include "core/own.h"
#include "ring/ring.h"
#include "ring/rseq.h"
#include "ring/slot.h"
#include "ring_setup.h"
#include "traps.h"

#define ABORTS_MAX 8u		/* of one write: the contract of the write path */
#define COMPLAINTS_MAX 20u

static unsigned int complaints;
static const char *doing = "";

static void fault(const struct trap_place *place, const char *format, ...)
{
	va_list arguments;

	if (complaints++ >= COMPLAINTS_MAX)
		return;
	va_start(arguments, format);
	printf("# %s, at \"%s\": ", doing, place ? place->text : "");
	vprintf(format, arguments);
	printf("\n");
	va_end(arguments);
}

static const struct rp_activity no_ids, ids = {
	.id.bytes = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
	.related.bytes = { 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1 },
};

/* Bytes of the payload and its prefix. */
static uint64_t body_bytes(const struct path *path)
{
	uint64_t sum = path->frames * sizeof(uint64_t) + (path->ids ? sizeof(ids) : 0);

	for (unsigned int i = 0; i < path->part_count; i++)
		sum += path->parts[i].size_bytes;
	return sum;
}

static int write_path(struct rp_event *which, const struct path *path)
{
	static const uint64_t frames[] = { 11, 22, 33, 44, 55 };
	struct rp_origin origin = { .thread = (uint32_t)getpid(), .frame_count = path->frames,
				    .frames = frames };

	rp_activity_set(path->ids ? &ids : &no_ids);
	if (path->regs) {
		uint64_t regs[4] = { 0 };

		if (path->part_count)
			memcpy(regs, path->parts[0].base, path->parts[0].size_bytes);
		return rp_event_write_regs(regs[0], regs[1], regs[2], regs[3], which,
					   path->parts[0].size_bytes);
	}
	return path->frames ?
	       rp_event_write_for(which, path->parts, path->part_count, &origin) :
	       rp_event_write(which, path->parts, path->part_count);
}

static const struct path *current;
static int nested_ret;
static bool has_nested, has_stopped, has_space;
static uint64_t had_when_stopped;	/* the earlier session had the event, before this one */

/* The records in the rings, and the losses counted, for one event. */
struct found {
	unsigned int in_rings, in_fallbacks, later;	/* records */
	uint64_t lost, later_lost, locks;
};

static bool is_whole(const struct path *path, const struct rp_record *record)
{
	const uint8_t *at = record->body + path->frames * sizeof(uint64_t);
	unsigned int flags = path->ids ? RP_RECORD_ACTIVITY | RP_RECORD_RELATED : 0;
	uint64_t frame;

	if (path->clock == RP_SLOT_CLOCK_COARSE && record->ticks <= stamp_before)
		return false;
	if (path->clock_went_on && record->ticks < rp_clock_coarse)
		return false;
	if (record->length != RP_RECORD_HEADER + body_bytes(path) || !record->ticks ||
	    record->thread != (uint32_t)getpid() || record->frames != path->frames ||
	    record->processor != processor || record->flags != flags)
		return false;
	if (path->ids && memcmp(record->body, &ids, sizeof(ids)) != 0)
		return false;
	at += path->ids ? sizeof(ids) : 0;
	for (unsigned int i = 0; i < path->frames; i++) {
		memcpy(&frame, record->body + i * sizeof(frame), sizeof(frame));
		if (frame != 11u * (i + 1))
			return false;
	}
	for (unsigned int i = 0; i < path->part_count; i++) {
		if (memcmp(at, path->parts[i].base, path->parts[i].size_bytes) != 0)
			return false;
		at += path->parts[i].size_bytes;
	}
	return true;
}

/* Counts the records of one event since BEGIN. Each record must be complete, and none older. */
static unsigned int look(const struct path *path, const struct rp_ring *ring, uint32_t index,
			 const struct trap_place *place)
{
	unsigned int count = 0;
	uint64_t ticks = 0;

	if (path->rest && ring->subbuf && ring->head > BEGIN &&
	    ring->ends[BEGIN / ring->subbuf % RP_RING_SUBBUFS] != BEGIN)
		fault(place, "nobody knows where the chunk ends");
	for (uint64_t at = BEGIN + (ring->subbuf ? path->rest : 0); at < ring->head;) {
		const struct rp_record *record = rp_ring_record(ring, at, ring->head);

		if (!record || !is_whole(path, record) || record->ticks < ticks) {
			fault(place, "a torn record");
			break;
		}
		ticks = record->ticks;
		count += record->event == index;
		at += rp_record_step(record->length);
	}
	return count;
}

static bool is_of_fallback(const struct rp_ring *ring)
{
	const struct rp_slot *slot = &rp_slots[SLOT];
	bool found = false;

	for (unsigned int i = 0; i < RP_FALLBACKS; i++)
		found |= slot->fallback[i].ring == ring;
	return found;
}

/* Each buffer has one owner, or none and no record. */
static void find_pooled(const struct path *path, uint32_t index, const struct trap_place *place,
			struct found *found)
{
	const struct rp_slot *slot = &rp_slots[SLOT];

	for (unsigned int i = 0; i < POOL; i++) {
		unsigned int count = look(path, pool[i], index, place);

		*(is_of_fallback(pool[i]) ? &found->in_fallbacks : &found->in_rings) += count;
		if (count && (slot->owners[i] & RP_OWNER_MASK) == RP_OWNER_FREE)
			fault(place, "a record in a buffer that is free");
		found->lost += pool[i]->lost_full + pool[i]->lost_fallback;
	}
}

static struct found find(const struct path *path, uint32_t index, const struct trap_place *place)
{
	const struct rp_slot *slot = &rp_slots[SLOT];
	struct found found = { .lost = closed_losses };
	uint64_t lost = (slot->busy + slot->too_big) & RP_STATS_COUNT;

	*(has_stopped ? &found.later_lost : &found.lost) += lost;
	for (uint32_t i = 0; i < ring_count; i++) {
		found.in_rings += look(path, rings[i], index, place);
		found.later += look(path, later_rings[i], index, place);
		found.lost += rings[i]->lost_full;
		found.later_lost += later_rings[i]->lost_full;
	}
	find_pooled(path, index, place, &found);
	for (unsigned int i = 0; i < RP_FALLBACKS; i++) {
		found.in_fallbacks += look(path, fallbacks[i], index, place);
		found.later += look(path, later_fallbacks[i], index, place);
		found.lost += fallbacks[i]->lost_fallback;
		found.locks += slot->fallback[i].lock / 2;
		found.later_lost += later_fallbacks[i]->lost_fallback;
		if (slot->fallback[i].lock % 2 != path->held)
			fault(place, "a lock that is held, or not any more");
	}
	return found;
}

/* Counts both events in the earlier session, in its rings or as lost. */
static uint64_t count_before(const struct path *path, const struct trap_place *place)
{
	const struct rp_slot *slot = &rp_slots[BEFORE];
	uint64_t count = slot->too_big & RP_STATS_COUNT;

	for (uint32_t i = 0; i < ring_count; i++)
		count += look(path, before_rings[i], MAIN, place) +
			 look(path, before_rings[i], NESTED, place);
	for (unsigned int i = 0; i < RP_FALLBACKS; i++) {
		count += look(path, before_fallbacks[i], MAIN, place) +
			 look(path, before_fallbacks[i], NESTED, place);
		if (slot->fallback[i].lock % 2 && place)
			fault(place, "a lock of the session before is held");
	}
	return count;
}

/* A handler writes this event at the instruction. */
static void write_nested(void)
{
	nested_ret = write_path(&nested_event, current);
	has_nested = true;
}

static void protect(int access)
{
	for (uint32_t i = 0; i < ring_count; i++)
		mprotect(rings[i], 4096 + 2 * RING_BYTES, access);
	for (unsigned int i = 0; i < RP_FALLBACKS; i++)
		mprotect(fallbacks[i], 4096 + 2 * RING_BYTES, access);
	for (unsigned int i = 0; i < POOL; i++)
		mprotect((void *)((uintptr_t)pool[i] & -4096ul), 4096 + 2 * RING_BYTES, access);
}

static bool is_locked(void)
{
	for (unsigned int i = 0; i < RP_FALLBACKS; i++) {
		if (rp_slots[SLOT].fallback[i].lock & 1)
			return true;
	}
	return false;
}

/*
 * In a multi-session write, a thread that is preempted in the earlier session's section writes to
 * that session last. An abort there occurs when this session already has the event.
 */
static uint64_t had_first(void)
{
	const struct rp_slot *slot = &rp_slots[SLOT];
	uint64_t count = (slot->busy + slot->too_big) & RP_STATS_COUNT;
	struct found pooled = { 0 };

	if (!is_multi || count_before(current, NULL))
		return 0;
	for (uint32_t i = 0; i < ring_count; i++)
		count += look(current, rings[i], MAIN, NULL) + rings[i]->lost_full;
	for (unsigned int i = 0; i < RP_FALLBACKS; i++)
		count += look(current, fallbacks[i], MAIN, NULL) + fallbacks[i]->lost_fallback;
	find_pooled(current, MAIN, NULL, &pooled);
	return count + pooled.in_rings + pooled.in_fallbacks + pooled.lost;
}

/*
 * The session ends and its rings become inaccessible; a session with the other event gets its slot.
 * A write that continues regardless faults, or shows in the new session's rings. While the writer
 * holds a lock, nothing changes, because the thread that stops the session waits for the lock.
 */
static void stop_session(void)
{
	struct rp_slot *slot = &rp_slots[SLOT];

	if (is_locked() && !current->held)
		return;
	had_when_stopped = had_first();
	event.enable &= BEFORE_BIT;
	for (unsigned int i = 0; i < RP_FALLBACKS; i++)
		slot->fallback[i].ring = later_fallbacks[i];
	closed_losses = (slot->busy + slot->too_big) & RP_STATS_COUNT;
	slot->busy = slot->too_big = LATER_GENERATION;
	slot->rings = later_rings;
	slot->pool_count = 0;
	for (unsigned int i = 0; i < POOL; i++)
		slot->owners[i] = RP_OWNER_NONE;
	(*rp_slots_generation())++;
	slot->ring_count = ring_count;
	protect(PROT_NONE);
	has_stopped = true;
}

/*
 * Reads like the drain thread: at every instant, all records below the heads are complete, and a
 * fallback ring with a record is marked as used, even if the writer never continues.
 */
static void read_rings(void)
{
	for (uint32_t i = 0; i < ring_count; i++)
		(void)look(current, rings[i], MAIN, NULL);
	for (unsigned int i = 0; i < RP_FALLBACKS; i++) {
		const struct rp_ring *ring = fallbacks[i];

		(void)look(current, ring, MAIN, NULL);
		if (ring->data[BEGIN % RING_BYTES] != 0xee && ring->intent <= BEGIN)
			fault(NULL, "a write into the fallback's ring that is not told");
	}
}

static void make_space(void)
{
	for (uint32_t i = 0; i < ring_count; i++)
		rings[i]->tail = BEGIN;
	for (unsigned int i = 0; i < RP_FALLBACKS; i++)
		fallbacks[i]->tail = BEGIN;
	has_space = true;
}

static const struct mode {
	const char *name;
	void (*then)(void);
	bool stays, only_full;
} modes[] = {
	{ .name = "aborted once" },
	{ .name = "aborted always", .stays = true },
	{ .name = "a handler writes", .then = write_nested },
	{ .name = "the session ends and another starts", .then = stop_session },
	{ .name = "the reader reads", .then = read_rings },
	{ .name = "the reader makes room", .then = make_space, .only_full = true },
};
#define MODES (sizeof(modes) / sizeof(*modes))

static unsigned int must_lose(const struct path *path)
{
	return (path->full && !path->pooled) || path->held || path->too_big;
}

/* The number of offers, for a call during which the session may have ended. */
static unsigned int offered(const struct path *path, const struct trap_place *place,
			    const struct found *found)
{
	if (path->gone)
		return 0;
	if (!has_stopped)
		return 1 + has_nested;
	if (place->aborts)
		return (unsigned int)had_when_stopped;
	/* Outside of sections, the write may already be complete. */
	return found->in_rings + found->in_fallbacks + found->lost > 0;
}

/* Compares what the calls returned with the contents of the rings. */
static void check(const struct path *path, const struct mode *mode, unsigned int hits, int ret,
		  const struct trap_place *place)
{
	struct found found, nested;
	unsigned int records, others;
	int loss = path->too_big ? -EMSGSIZE : -ENOBUFS;

	if (has_stopped)
		protect(PROT_READ | PROT_WRITE);
	found = find(path, MAIN, place);
	nested = find(path, NESTED, place);
	records = found.in_rings + found.in_fallbacks;
	others = nested.in_rings + nested.in_fallbacks;
	if (is_multi && count_before(path, place) != 1u + has_nested)
		fault(place, "%s: %" PRIu64 " times in the session before", mode->name,
			 count_before(path, place));
	if (found.later || nested.later || found.later_lost)
		fault(place, "%s: the later session got it", mode->name);
	if (records + others + found.lost != offered(path, place, &found))
		fault(place, "%s: %u records, %u of the handler's, %" PRIu64 " losses",
			 mode->name, records, others, found.lost);
	if ((found.lost && !has_nested && ret != loss) ||
	    (!path->gone && !has_stopped && (records == 1) != (ret == 0)))
		fault(place, "%s: the call returned %d, %u records", mode->name, ret, records);
	if (has_nested && !path->gone && (others == 1) != (nested_ret == 0))
		fault(place, "the handler's call returned %d, %u records", nested_ret, others);
	/* The section for registers is tried once, then the general section from its beginning. */
	if (mode->stays && (hits > (is_multi ? 2 : 1) * ABORTS_MAX ||
			    (!is_multi && hits > 1 && found.in_rings)))
		fault(place, "it gave up after %u aborts", hits);
	if (!mode->then && !mode->stays && found.lost != must_lose(path))
		fault(place, "%s: lost %" PRIu64, mode->name, found.lost);
	if (found.locks < found.in_fallbacks + nested.in_fallbacks)
		fault(place, "two writers under one lock");
	if (path->overwrites && !path->missing && !mode->then && !mode->stays &&
	    found.in_rings != 1)
		fault(place, "%s: the chunk was not given up", mode->name);
	if (has_space && place->aborts && records != 1)
		fault(place, "there was room, and it was not used");
	if ((path->missing || path->beyond) && !path->pooled && !mode->stays && !has_stopped &&
	    !rp_slots[SLOT].wanted)
		fault(place, "nobody was told of the ring that is missing");
	if (rp_rseq_area()->rseq_cs)
		fault(place, "the thread points into the section still");
}

static unsigned int interrupt(const struct path *path, const struct mode *mode,
			      struct trap_place *place)
{
	unsigned int hits;
	int ret;

	reset(path);
	has_nested = has_stopped = has_space = false;
	current = path;
	traps_plant(place, mode->stays ? TRAP_HITS_MAX : 1, mode->then);
	ret = write_path(&event, path);
	hits = traps_take_out();
	check(path, mode, hits, ret, place);
	return hits;
}

static unsigned int tests, failures;
static uint64_t all_aborts, all_signals;

static void report(const char *promise)
{
	failures += complaints != 0;
	printf("%s %u - %s\n", complaints ? "not ok" : "ok", ++tests, promise);
	fflush(stdout);
	complaints = 0;
}

static void run_path(const struct path *path, struct trap_places *places)
{
	uint64_t aborts = 0, signals = 0;
	unsigned int reached = 0;
	static char name[80];
	char promise[160];

	snprintf(name, sizeof(name), "%s%s", is_multi ? "in turn: " : "", path->name);
	doing = name;
	for (size_t i = 0; i < places->count; i++) {
		struct trap_place *place = &places->list[i];
		unsigned int sum = 0;

		for (size_t m = 0; m < MODES; m++) {
			if ((modes[m].stays && !place->aborts) ||
			    (modes[m].only_full && !path->full))
				continue;
			sum += interrupt(path, &modes[m], place);
		}
		*(place->aborts ? &aborts : &signals) += sum;
		reached += place->aborts && sum;
	}
	printf("# %s: %u instructions of sections, aborted %" PRIu64 " times; %" PRIu64
	       " signals elsewhere\n", name, reached, aborts, signals);
	all_aborts += aborts;
	all_signals += signals;
	snprintf(promise, sizeof(promise), "write_interrupted_at_each_instruction_is_exact: %s",
		 name);
	report(promise);
}

static void sections_are_aborted_everywhere(const struct trap_places *places)
{
	uint64_t least = UINT64_MAX;
	unsigned int count = 0;

	doing = "all paths";
	for (size_t i = 0; i < places->count && places->list[i].aborts; i++) {
		const struct trap_place *place = &places->list[i];

		printf("# %4" PRIu64 " aborts at %s\n", place->hits, place->text);
		if (!place->hits)
			fault(place, "no path came here");
		if (place->hits < least)
			least = place->hits;
		count++;
	}
	printf("# figure: %" PRIu64 " aborts at all %u instructions of the sections, %" PRIu64
	       " or more at each; %" PRIu64 " signals elsewhere\n", all_aborts, count, least,
	       all_signals);
	if (count < 20)
		fault(NULL, "%u instructions", count);
	report("each_instruction_of_the_sections_was_aborted");
}

/* A page that becomes readable after the first try. */
static uint8_t *locked_page;
static unsigned int faults;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	if ((uintptr_t)info->si_addr - (uintptr_t)locked_page >= 4096)
		signal(number, SIG_DFL);
	mprotect(locked_page, 4096, PROT_READ | PROT_WRITE);
	if (faults++ % 2)
		write_nested();
}

/* Makes the copy fault: the last `size` - `readable` bytes of the payload are inaccessible. */
static void copy_aborted_at(size_t readable, size_t size)
{
	struct path path = { .name = "fault", .part_count = 2,
			     .parts = { BYTES(8), { locked_page - readable, size } } };
	static const struct mode mode = { .name = "a fault" };
	unsigned int before = faults;
	int ret;

	reset(&path);
	has_nested = has_stopped = has_space = false;
	current = &path;
	mprotect(locked_page, 4096, PROT_NONE);
	ret = write_path(&event, &path);
	mprotect(locked_page, 4096, PROT_READ | PROT_WRITE);
	check(&path, &mode, 1, ret, NULL);
	if (faults != before + 1 || ret != 0)
		fault(NULL, "%u faults, returned %d", faults - before, ret);
}

static void copies_are_aborted_at_each_byte(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	static const size_t sizes[] = { 1, 7, 40, 64, 65, 300, 512, 513, 4000 };
	uint8_t *pages;

	pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		abort();
	for (unsigned int i = 0; i < 8192; i++)
		pages[i] = (uint8_t)(i * 13 + (i >> 8));
	locked_page = pages + 4096;
	sigaction(SIGSEGV, &action, NULL);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		doing = "a fault in a copy";
		for (size_t readable = 0; readable < sizes[i]; readable++)
			copy_aborted_at(readable, sizes[i]);
	}
	printf("# %u aborts in copies, one at each byte\n", faults);
	signal(SIGSEGV, SIG_DFL);
	munmap(pages, 8192);
	report(is_multi ? "multi_copy_aborted_at_each_byte_is_written_once_in_each_session" :
		       "copy_aborted_at_each_byte_is_written_once");
}

/*
 * A session that a tool opens from outside, as a recording of the machine does, has a drain thread,
 * which moves the coarse clock while a write is being checked. Run again without such sessions.
 */
static void refuse_sessions(void)
{
	const char *diagnostics = getenv("RINGPIPE_DIAGNOSTICS");

	if ((!diagnostics || strcmp(diagnostics, "0") != 0) &&
	    (setenv("RINGPIPE_DIAGNOSTICS", "0", 1) != 0 ||
	     execl("/proc/self/exe", "ring_aborts", NULL) != 0))
		abort();
}

int main(void)
{
	static const char *const functions[] = {
		"rp_slot_try_rseq", "rp_slot_try_rseq_multi", "rp_slot_write_rseq",
		"rp_slot_lose_or_switch", "rp_slot_install",
		"rp_slot_write_fallback", "rp_slot_refuse", "rp_event_write",
		"rp_event_write_regs", "rp_event_write_miss", "rp_event_write_slow",
		"write_slots", "write_multi",
		"rp_event_write_multi", "rp_event_write_multi_slow",
		"rp_event_write_for", /* where the compiler kept them as functions: */ "append",
		"count_loss", "count_loss.part.0", "count_loss.isra.0",
		"switch_subbuf", "try_lock", "try_lock.cold", "try_locks", "refuse", "lose",
		"lose_in_ring",
		NULL,
	};
	struct trap_places places;
	int ret;

	refuse_sessions();
	printf("TAP version 13\n");
	ret = rp_rseq_usable ? traps_find(functions, &places) : -ENOSYS;
	if (ret != 0) {
		printf("1..0 # SKIP %s\n", traps_explain(ret));
		return 0;
	}
	make_rings();
	settle_down();
	for (size_t i = 0; i < 2 * PATHS; i++) {
		is_multi = i >= PATHS;
		run_path(&paths[i % PATHS], &places);
	}
	sections_are_aborted_everywhere(&places);
	is_multi = false;
	copies_are_aborted_at_each_byte();
	is_multi = true;
	copies_are_aborted_at_each_byte();
	traps_free(&places);
	printf("1..%u\n", tests);
	return failures != 0;
}
