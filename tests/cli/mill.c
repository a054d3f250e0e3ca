/* SPDX-License-Identifier: MIT */
/*
 * A program with counters, whose totals change after "ready" only by its input. A line counts one
 * more sack; for a line "?" the program prints how many weights it recorded and their sum, computed
 * without ringpipe. It ends with its standard input.
 */
#include <stdio.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(mill, "Mill-Works");
RP_COUNTER(mill, sacks, "sacks", "Sacks ground");
RP_GAUGE(mill, water, "m", "Level of the water");
RP_HISTOGRAM(mill, weight, "kg", "Weight of a sack");

static unsigned long recorded, sum;

static void weigh(int kg)
{
	mill_weight_record(kg);
	recorded++;
	sum += (unsigned long)kg;
}

int main(void)
{
	const struct rp_counter_tag stone = { "stone", "upper \"left\"" };
	int key;

	mill_water_set(2.5);
	rp_counter_add_tagged(mill_sacks_counter(), 30, &stone, 1);
	mill_sacks_add(12);
	for (int kg = 1; kg <= 100; kg++)
		weigh(kg);
	puts("ready");
	fflush(stdout);
	while ((key = getchar()) != EOF) {
		if (key == '?') {
			printf("%lu %lu\n", recorded, sum);
			fflush(stdout);
			(void)getchar();	/* the end of its line */
			continue;
		}
		mill_sacks_add(1);
		weigh(50);
	}
	return 0;
}
