/* SPDX-License-Identifier: MIT */
/*
 * The same counters as in `Counters publish`; both programs count the same when they read a line. A
 * counter of ringpipe is both an EventCounter and an instrument, so each counter of .NET is
 * compared once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(source, "Twin-Source");
RP_COUNTER(source, done, "things", "Things done");

RP_PROVIDER(meter, "Twin-Meter");
RP_COUNTER(meter, done, "things", "Things done");
RP_COUNTER(meter, tagged, NULL, NULL);
RP_UPDOWN_COUNTER(meter, pending, NULL, "Pending");
RP_GAUGE(meter, heat, "C", NULL);
RP_HISTOGRAM(meter, spread, "ms", NULL);

RP_PROVIDER(gone, "Twin-Gone");
RP_PROVIDER(late, "Twin-Late");

static double total = 7, level = -3, tenth = 0.1, warmth = 36.6;
static double numbers[] = { 1e-5, 1e-4, 123456789012345, 1e15, 1234567890123456.5, 1e16,
			    90071992547409936, 1e17, 123456789012345678, 12345678901234567890.0,
			    1.0 / 3, 0.1 + 0.2, -1e20, 1e100, -2.5e-7, 1.7976931348623157e308 };

static int observe(struct rp_observation *observation, void *data)
{
	double value;

	__atomic_load((double *)data, &value, __ATOMIC_RELAXED);
	return rp_observe(observation, value, NULL, 0);
}

static int observe_parts(struct rp_observation *observation, void *data)
{
	static const struct rp_counter_tag one = { "part", "one" };
	static const struct rp_counter_tag two[] = { { "part", "two" }, { "and", "more" } };

	(void)data;
	rp_observe(observation, 1, &one, 1);
	return rp_observe(observation, 2, two, 2);
}

static int fail(struct rp_observation *observation, void *data)
{
	(void)observation, (void)data;
	return -EIO;
}

static void set(double *value, double to)
{
	__atomic_store(value, &to, __ATOMIC_RELAXED);
}

static struct rp_counter *create(struct rp_provider *provider, struct rp_counter_decl decl)
{
	struct rp_counter *counter;

	decl.size = sizeof(decl);
	if (rp_counter_create(provider, &decl, &counter) != 0)
		exit(1);
	return counter;
}

static struct rp_counter *create_observed(struct rp_provider *provider, uint8_t kind,
					  const char *name, double *value)
{
	return create(provider, (struct rp_counter_decl){ .kind = kind, .name = name,
							  .observe = observe, .data = value });
}

static void create_numbers(void)
{
	char name[32];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		snprintf(name, sizeof(name), "number-%zu", i);
		create_observed(meter_provider(), RP_COUNTER_OBSERVED_GAUGE, name, &numbers[i]);
	}
}

static void read_line(void)
{
	char line[16];

	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

int main(void)
{
	const struct rp_counter_tag left = { "side", "left" };
	const struct rp_counter_tag right[] = { { "side", "Grüße" }, { "b", "c" } };
	struct rp_counter *spread, *tagged_spread, *gone, *late;

	spread = create(source_provider(), (struct rp_counter_decl){
		.kind = RP_COUNTER_HISTOGRAM, .name = "spread", .display_name = "Spread",
		.unit = "ms", .metadata = "k:v,k2:v2" });
	create_observed(source_provider(), RP_COUNTER_OBSERVED_GAUGE, "heat", &warmth);
	create(source_provider(), (struct rp_counter_decl){
		.kind = RP_COUNTER_OBSERVED_SUM, .name = "asked", .display_name = "Asked",
		.rate_seconds = 90061, .observe = observe, .data = &total });

	tagged_spread = create(meter_provider(), (struct rp_counter_decl){
		.kind = RP_COUNTER_HISTOGRAM, .name = "tagged-spread" });
	create_observed(meter_provider(), RP_COUNTER_OBSERVED_SUM, "asked", &total);
	create_observed(meter_provider(), RP_COUNTER_OBSERVED_UPDOWN, "level", &level);
	create_observed(meter_provider(), RP_COUNTER_OBSERVED_GAUGE, "tenth", &tenth);
	create(meter_provider(), (struct rp_counter_decl){
		.kind = RP_COUNTER_OBSERVED_GAUGE, .name = "parts", .observe = observe_parts });
	create(meter_provider(), (struct rp_counter_decl){
		.kind = RP_COUNTER_OBSERVED_GAUGE, .name = "failing", .observe = fail });
	create_numbers();
	gone = create(gone_provider(), (struct rp_counter_decl){ .kind = RP_COUNTER_SUM,
								  .name = "gone" });

	printf("%d\n", getpid());
	fflush(stdout);
	read_line();
	rp_counter_record(spread, 2.5);
	source_done_add(5);
	meter_done_add(5);
	rp_counter_add_tagged(meter_tagged_counter(), 2, &left, 1);
	rp_counter_add_tagged(meter_tagged_counter(), 3, right, 2);
	meter_pending_add(-4);
	meter_heat_set(36.6);
	meter_spread_record(2.5);
	rp_counter_record_tagged(tagged_spread, 8, &left, 1);
	set(&total, 77);
	set(&level, -4);
	set(&tenth, 0.2);
	rp_counter_destroy(gone);
	late = create(late_provider(), (struct rp_counter_decl){ .kind = RP_COUNTER_SUM,
								  .name = "late" });
	rp_counter_add(late, 9);
	printf("counted\n");
	fflush(stdout);
	read_line();
	return 0;
}
