/* SPDX-License-Identifier: MIT */
/*
 * A program with counters, whose totals never change once it has said "ready": it ends with its
 * standard input.
 */
#include <stdio.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(mill, "Mill-Works");
RP_COUNTER(mill, sacks, "sacks", "Sacks ground");
RP_GAUGE(mill, water, "m", "Level of the water");
RP_HISTOGRAM(mill, weight, "kg", "Weight of a sack");

int main(void)
{
	const struct rp_counter_tag stone = { "stone", "upper \"left\"" };
	int key;

	mill_water_set(2.5);
	rp_counter_add_tagged(mill_sacks_counter(), 30, &stone, 1);
	mill_sacks_add(12);
	for (int kg = 1; kg <= 100; kg++)
		mill_weight_record(kg);
	puts("ready");
	fflush(stdout);
	/* Each line is a sack more, so that an interval has something to tell. */
	while ((key = getchar()) != EOF) {
		mill_sacks_add(1);
		mill_weight_record(50);
	}
	return 0;
}
