/* SPDX-License-Identifier: MIT */
/*
 * Counting interrupted at every one of its instructions: aborted once, aborted always, and with a
 * handler that counts at the interruption. Sums, counts and the histogram's range are exact each
 * time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <ringpipe/ringpipe.h>

#include "ring/slot.h"
#include "traps.h"

#define ABORTS_MAX 8u		/* of one section: the contract of counting */
#define SECTIONS 6u		/* in one round, each aborted separately */
#define COMPLAINTS_MAX 20u

RP_PROVIDER(unit, "Unit-Counter-Aborts");
RP_COUNTER(unit, total, NULL, NULL);
RP_UPDOWN_COUNTER(unit, level, NULL, NULL);
RP_HISTOGRAM(unit, spread, NULL, NULL);

/* The expected values; whole numbers, so that sums of doubles are exact. */
static struct {
	double total, level, sum, min, max;
	uint64_t count;
} books = { .min = 1e9 };

static unsigned int complaints, rounds;

static void count(void)
{
	unsigned int round = ++rounds;		/* a handler has its own number */
	double value = 1000 + (round % 2 ? 1.0 : -1.0) * (double)(round % 900);

	unit_total_add(3);
	unit_level_add(round % 2 ? -5 : 2);
	unit_spread_record(value);
	books.total += 3;
	books.level += round % 2 ? -5 : 2;
	books.sum += value;
	books.count++;
	books.min = value < books.min ? value : books.min;
	books.max = value > books.max ? value : books.max;
}

static struct rp_counter_reading read_counter(struct rp_counter *counter)
{
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;

	rp_counter_read(counter, &reading);
	return reading;
}

static void check(const struct trap_place *place, const char *how)
{
	struct rp_counter_reading spread = read_counter(unit_spread_counter());
	double total = read_counter(unit_total_counter()).value;
	double level = read_counter(unit_level_counter()).value;

	if (total == books.total && level == books.level && spread.count == books.count &&
	    spread.sum == books.sum && spread.min == books.min && spread.max == books.max)
		return;
	if (complaints++ < COMPLAINTS_MAX)
		printf("# %s at \"%s\": total %+g, level %+g, count %+g, sum %+g, min %g, max %g\n",
		       how, place->text, total - books.total, level - books.level,
		       (double)spread.count - (double)books.count, spread.sum - books.sum,
		       spread.min - books.min, spread.max - books.max);
	books.total = total;	/* so that the next check is not affected */
	books.level = level;
	books.sum = spread.sum;
	books.count = spread.count;
	books.min = spread.min;
	books.max = spread.max;
}

static void interrupt(struct trap_place *place, const char *how, bool stays, void (*then)(void))
{
	unsigned int hits;

	traps_plant(place, stays ? TRAP_HITS_MAX : 1, then);
	count();
	hits = traps_take_out();
	check(place, how);
	if (stays && hits > SECTIONS * ABORTS_MAX && complaints++ < COMPLAINTS_MAX)
		printf("# at \"%s\": it gave up after %u aborts\n", place->text, hits);
}

static void report(const struct trap_places *places)
{
	uint64_t aborts = 0, signals = 0;
	unsigned int sections = 0;

	for (size_t i = 0; i < places->count; i++) {
		const struct trap_place *place = &places->list[i];

		*(place->aborts ? &aborts : &signals) += place->hits;
		sections += place->aborts;
		if (place->aborts && !place->hits && complaints++ < COMPLAINTS_MAX)
			printf("# nobody came to \"%s\"\n", place->text);
	}
	complaints += sections == 0;
	printf("# figure: %llu aborts at %u instructions of sections, %llu signals elsewhere\n",
	       (unsigned long long)aborts, sections, (unsigned long long)signals);
	printf("%s 1 - counting_interrupted_at_each_instruction_is_exact\n1..1\n",
	       complaints ? "not ok" : "ok");
}

int main(void)
{
	static const char *const functions[] = {
		"rp_counter_add", "rp_counter_record", /* unless the compiler inlined them: */
		"add", "add_double", "raise_to", "add_spare", NULL,
	};
	struct trap_places places;
	int ret;

	printf("TAP version 13\n");
	ret = rp_rseq_usable ? traps_find(functions, &places) : -ENOSYS;
	if (ret != 0) {
		printf("1..0 # SKIP %s\n", traps_explain(ret));
		return 0;
	}
	for (size_t i = 0; i < places.count; i++) {
		interrupt(&places.list[i], "aborted once", false, NULL);
		if (places.list[i].aborts)
			interrupt(&places.list[i], "aborted always", true, NULL);
		interrupt(&places.list[i], "a handler counts", false, count);
	}
	report(&places);
	traps_free(&places);
	return complaints != 0;
}
