/* SPDX-License-Identifier: MIT */
/* Triggers: which conditions make a flight recorder take a snapshot, and its contents. */
#include "../in_valgrind.h"
#include "core_support.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/reader.h>

RP_PROVIDER(shop, "Test-Trigger");
RP_EVENT(shop, failed, 1, RP_LEVEL_ERROR, 0x2, RP_U64(serial));
RP_EVENT(shop, begin, 2, RP_LEVEL_INFORMATIONAL, 0x4, RP_U64(serial));
RP_EVENT(shop, done, 3, RP_LEVEL_INFORMATIONAL, 0x4, RP_U64(serial));
RP_EVENT(shop, sold, 4, RP_LEVEL_INFORMATIONAL, 0x8, RP_U64(serial));
RP_EVENT(shop, odd, 5, RP_LEVEL_WARNING, 0, RP_U64(serial));

#define HOUR_MS 3600000u
#define FILES 3u
#define WRITERS 2u
#define FAILURES 300u

static char directory[] = "/tmp/rp-trigger-XXXXXX";
static char path[64];
static struct rp_session *session;

static void set_up(void)
{
	struct rp_session_options options = options_for("Test-Trigger");

	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/flight.nettrace", directory);
	options.flags = RP_SESSION_OVERWRITE;
	options.buffer_bytes = RP_SESSION_OVERWRITE_MIN;
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
}

static const char *file_name(unsigned int number)
{
	static char name[96];

	snprintf(name, sizeof(name), "%s/flight.%06u.nettrace", directory, number);
	return name;
}

static void tear_down(void)
{
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	for (unsigned int i = 1; i < 2000; i++)
		(void)unlink(file_name(i));
	cr_assert_eq(rmdir(directory), 0);
}

TestSuite(trigger_watch, .init = set_up, .fini = tear_down, .timeout = 120);

static int try_watching(const char *list, uint32_t distance_ms, struct rp_triggers **ret_triggers)
{
	const struct rp_trigger_options options = {
		.size = sizeof(options), .triggers = list, .path = path, .files = FILES,
		.distance_ms = distance_ms,
	};

	return rp_triggers_start(session, &options, ret_triggers);
}

static struct rp_triggers *watch(const char *list, uint32_t distance_ms)
{
	struct rp_triggers *triggers;

	cr_assert_eq(try_watching(list, distance_ms, &triggers), 0);
	return triggers;
}

static struct rp_trigger_stats stats_of(struct rp_triggers *triggers)
{
	struct rp_trigger_stats stats = RP_TRIGGER_STATS_INIT;

	cr_assert_eq(rp_triggers_get_stats(triggers, &stats), 0);
	return stats;
}

static struct rp_trigger_stats stop(struct rp_triggers *triggers)
{
	struct rp_trigger_stats stats = RP_TRIGGER_STATS_INIT;

	cr_assert_eq(rp_triggers_stop(triggers, &stats), 0);
	cr_assert_eq(stats.size, sizeof(stats));
	return stats;
}

/* Contents of a snapshot. */
struct content {
	uint64_t counts[6], last[6];	/* by event */
	uint64_t time_ns, skipped, missed;	/* as reported by Triggered */
	char trigger[64];
	uint64_t trigger_ns;		/* time of the last `failed` or `done` */
};

static struct content read_file(unsigned int number)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct content content = { .trigger = "" };
	struct rp_reader *reader;
	int ret;

	cr_assert_eq(rp_reader_open(file_name(number), &reader), 0, "%s", file_name(number));
	rp_reader_get_info(reader, &info);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		if (strcmp(event.type->name, "Triggered") == 0) {
			size_t bytes = event.payload_bytes - 24;
			struct rp_fields fields;
			struct rp_value value = RP_VALUE_INIT;

			rp_reader_get_fields(&event, &fields);
			cr_assert_eq(rp_fields_next(&fields, &value), 1);
			rp_value_get_text(&value, content.trigger, sizeof(content.trigger));
			memcpy(&content.time_ns, (const char *)event.payload + bytes, 8);
			memcpy(&content.skipped, (const char *)event.payload + bytes + 8, 8);
			memcpy(&content.missed, (const char *)event.payload + bytes + 16, 8);
		}
		if (strcmp(event.type->provider, "Test-Trigger") != 0)
			continue;
		memcpy(&content.last[event.type->id], event.payload, 8);
		content.counts[event.type->id]++;
		if (event.type->id == 1 || event.type->id == 3)
			content.trigger_ns = info.start_ticks + (uint64_t)event.time_ns;
	}
	cr_assert_eq(ret, 0, "%s", rp_reader_error(reader));
	rp_reader_get_stats(reader, &stats);
	cr_assert_eq(stats.ended, 1u);
	cr_assert_eq(stats.unordered, 0u);
	rp_reader_close(reader);
	return content;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pass_ms(uint64_t ms)
{
	uint64_t until = now_ns() + ms * 1000000;

	while (now_ns() < until)
		;
}

Test(trigger_watch, event_takes_a_snapshot_that_has_it_and_reports_why)
{
	struct rp_triggers *triggers = watch("Test-Trigger:failed", HOUR_MS);
	struct rp_trigger_stats stats;
	struct content content;
	const bool in_valgrind = runs_in_valgrind();
	uint64_t begun_ns = now_ns(), apart_ns;

	for (uint64_t i = 0; i < 100; i++)
		cr_assert_eq(shop_sold(i), 0);
	cr_assert_eq(shop_failed(7), 0);
	stats = stop(triggers);
	cr_assert_eq(stats.snapshots, 1u);
	cr_assert_eq(stats.skipped + stats.failed + stats.missed, 0u);
	content = read_file(1);
	cr_assert_eq(content.counts[4], 100u);
	cr_assert_eq(content.counts[1], 1u);
	cr_assert_eq(content.last[1], 7u);
	cr_assert_str_eq(content.trigger, "Test-Trigger:failed");
	/*
	 * Two passes convert the time. Each starts with a rate that is up to 1,000 ppm off, or some
	 * per cent in valgrind, where another thread may run between two clock reads.
	 */
	apart_ns = 1000000 + (now_ns() - begun_ns) / (in_valgrind ? 10 : 50);
	cr_assert_lt(content.time_ns - content.trigger_ns + apart_ns, 2 * apart_ns, "%ld of %lu ns",
		     (long)(content.time_ns - content.trigger_ns), (unsigned long)apart_ns);
}

Test(trigger_watch, other_events_take_none)
{
	struct rp_triggers *triggers = watch("Test-Trigger:failed,Other:sold,Test-Trigger:*:Error",
					     HOUR_MS);
	struct rp_trigger_stats stats;

	cr_assert_eq(shop_sold(1), 0);
	cr_assert_eq(shop_odd(1), 0);
	stats = stop(triggers);
	cr_assert_eq(stats.snapshots + stats.skipped, 0u);
	cr_assert_neq(access(file_name(1), F_OK), 0);
}

Test(trigger_watch, level_takes_events_that_are_as_bad)
{
	struct rp_triggers *triggers = watch("Test-Trigger:*:Warning", HOUR_MS);

	cr_assert_eq(shop_sold(1), 0);
	cr_assert_eq(shop_odd(2), 0);
	cr_assert_eq(stop(triggers).snapshots, 1u);
	cr_assert_eq(read_file(1).last[5], 2u);
}

Test(trigger_watch, what_comes_too_soon_is_counted)
{
	struct rp_triggers *triggers = watch("Test-Trigger:failed", HOUR_MS);
	struct rp_trigger_stats stats;

	for (uint64_t i = 0; i < 10; i++)
		cr_assert_eq(shop_failed(i), 0);
	stats = stop(triggers);
	cr_assert_eq(stats.snapshots, 1u);
	cr_assert_eq(stats.skipped, 9u);
}

Test(trigger_watch, newest_files_are_kept_and_numbers_go_on)
{
	struct rp_triggers *triggers = watch("Test-Trigger:failed", 1);
	struct content content;

	for (uint64_t i = 1; i <= FILES + 2; i++) {
		cr_assert_eq(shop_failed(i), 0);
		wait_until(stats_of(triggers).snapshots == i);
		pass_ms(2);
	}
	cr_assert_eq(stop(triggers).snapshots, FILES + 2);
	cr_assert_neq(access(file_name(2), F_OK), 0);
	for (unsigned int i = 3; i <= FILES + 2; i++)
		cr_assert_eq(read_file(i).last[1], i);
	triggers = watch("Test-Trigger:failed", 1);
	cr_assert_eq(shop_failed(77), 0);
	cr_assert_eq(stop(triggers).snapshots, 1u);
	content = read_file(FILES + 3);
	cr_assert_eq(content.last[1], 77u);
	cr_assert_neq(access(file_name(3), F_OK), 0);
}

Test(trigger_watch, latency_above_the_bound_takes_one_snapshot_with_both_events)
{
	struct rp_triggers *triggers = watch("Test-Trigger:begin..done>5ms", HOUR_MS);
	struct rp_trigger_stats stats;
	struct content content;

	cr_assert_eq(shop_begin(1), 0);
	pass_ms(6);
	cr_assert_eq(shop_done(2), 0);
	cr_assert_eq(shop_done(3), 0, "which nothing began");
	stats = stop(triggers);
	cr_assert_eq(stats.snapshots, 1u);
	cr_assert_eq(stats.skipped, 0u);
	content = read_file(1);
	cr_assert_eq(content.counts[2], 1u);
	cr_assert_geq(content.counts[3], 1u);
	cr_assert_str_eq(content.trigger, "Test-Trigger:begin..done>5ms");
}

Test(trigger_watch, latency_below_the_bound_takes_none)
{
	struct rp_triggers *triggers = watch("Test-Trigger:begin..done>3600s", HOUR_MS);
	struct rp_trigger_stats stats;

	cr_assert_eq(shop_begin(1), 0);
	cr_assert_eq(shop_done(1), 0);
	stats = stop(triggers);
	cr_assert_eq(stats.snapshots + stats.skipped, 0u);
}

static void *finish_elsewhere(void *data)
{
	if (data)
		rp_activity_set(data);
	cr_assert_eq(shop_done(1), 0);
	return NULL;
}

static uint64_t snapshots_across_threads(bool with_activity)
{
	struct rp_triggers *triggers = watch("Test-Trigger:begin..done>1ms", HOUR_MS);
	struct rp_activity activity, before;
	pthread_t thread;

	if (with_activity)
		rp_activity_begin(&before);
	rp_activity_get(&activity);
	cr_assert_eq(shop_begin(1), 0);
	pass_ms(2);
	cr_assert_eq(pthread_create(&thread, NULL, finish_elsewhere,
				    with_activity ? &activity : NULL), 0);
	pthread_join(thread, NULL);
	if (with_activity)
		rp_activity_end(&before);
	return stop(triggers).snapshots;
}

Test(trigger_watch, two_events_belong_together_by_activity_and_else_by_thread)
{
	cr_assert_eq(snapshots_across_threads(false), 0u);
	cr_assert_eq(snapshots_across_threads(true), 1u);
}

static struct rp_counter *make_counter(struct rp_provider *provider, uint8_t kind,
				       const char *name)
{
	const struct rp_counter_decl decl = { .size = sizeof(decl), .kind = kind, .name = name };
	struct rp_counter *counter;

	cr_assert_eq(rp_counter_create(provider, &decl, &counter), 0);
	return counter;
}

Test(trigger_watch, counter_that_crosses_its_bound_takes_one_snapshot)
{
	struct rp_triggers *triggers = watch("Test-Counts:level>10,Test-Counts:level<-10,"
					     "Test-Counts:missing>0", 1);
	struct rp_provider *provider;
	struct rp_counter *counter;

	cr_assert_eq(rp_provider_create("Test-Counts", NULL, NULL, &provider), 0);
	counter = make_counter(provider, RP_COUNTER_UPDOWN, "level");
	cr_assert_eq(rp_counter_add(counter, 11), 0);
	wait_until(stats_of(triggers).snapshots == 1);
	cr_assert_str_eq(read_file(1).trigger, "Test-Counts:level>10");
	/* Still above the limit, which is no new trigger; then below. */
	cr_assert_eq(rp_counter_add(counter, 5), 0);
	cr_assert_eq(rp_counter_add(counter, -40), 0);
	wait_until(stats_of(triggers).snapshots == 2);
	cr_assert_str_eq(read_file(2).trigger, "Test-Counts:level<-10");
	cr_assert_eq(rp_counter_destroy(counter), 0);
	cr_assert_eq(rp_provider_destroy(provider), 0);
	cr_assert_eq(stop(triggers).snapshots, 2u);
}

Test(trigger_watch, growing_counter_counts_by_its_rate_and_histogram_by_its_mean)
{
	struct rp_triggers *triggers = watch("Test-Counts:orders>1000,Test-Counts:bytes>5000", 1);
	struct rp_provider *provider;
	struct rp_counter *sum, *histogram;

	cr_assert_eq(rp_provider_create("Test-Counts", NULL, NULL, &provider), 0);
	sum = make_counter(provider, RP_COUNTER_SUM, "orders");
	histogram = make_counter(provider, RP_COUNTER_HISTOGRAM, "bytes");
	/*
	 * A rate above 1,000 per second, whatever the interval of the checks; one check must
	 * precede it.
	 */
	wait_until(rp_counter_add(sum, 1000000000) == 0 && stats_of(triggers).snapshots == 1);
	cr_assert_str_eq(read_file(1).trigger, "Test-Counts:orders>1000");
	wait_until(rp_counter_record(histogram, 6000) == 0 &&
		   stats_of(triggers).snapshots + stats_of(triggers).skipped == 2);
	cr_assert_eq(rp_counter_destroy(sum), 0);
	cr_assert_eq(rp_counter_destroy(histogram), 0);
	cr_assert_eq(rp_provider_destroy(provider), 0);
	(void)stop(triggers);
}

Test(trigger_watch, snapshot_that_cannot_be_taken_is_counted)
{
	struct rp_triggers *triggers = watch("Test-Trigger:failed", HOUR_MS);
	struct rp_trigger_stats stats;

	cr_assert_eq(rmdir(directory), 0);
	cr_assert_eq(shop_failed(1), 0);
	stats = stop(triggers);
	cr_assert_eq(stats.failed, 1u);
	cr_assert_eq(stats.error, -ENOENT);
	cr_assert_eq(stats.snapshots, 0u);
	cr_assert_eq(mkdir(directory, 0700), 0);
}

Test(trigger_watch, what_cannot_be_watched_is_refused)
{
	struct rp_session_options plain = options_for("Test-Trigger");
	struct rp_trigger_options options = {
		.size = sizeof(options), .triggers = "Test-Trigger:failed", .path = path,
	};
	struct rp_triggers *triggers;
	struct rp_session *other;

	cr_assert_eq(try_watching("Test-Trigger", 0, &triggers), -EINVAL);
	cr_assert_eq(rp_triggers_start(NULL, &options, &triggers), -EINVAL);
	options.path = NULL;
	cr_assert_eq(rp_triggers_start(session, &options, &triggers), -EINVAL);
	options.path = "/missing/trace";
	cr_assert_eq(rp_triggers_start(session, &options, &triggers), -ENOENT);
	options.path = path;
	plain.output_path = "/dev/null";
	cr_assert_eq(rp_session_start(&plain, &other), 0);
	cr_assert_eq(rp_triggers_start(other, &options, &triggers), -EINVAL, "it does not record");
	cr_assert_eq(rp_session_stop(other, NULL), 0);
	cr_assert_eq(rp_triggers_stop(NULL, NULL), 0);
	free_options(&plain);
}

Test(trigger_watch, forked_child_lets_go_of_its_copy)
{
	struct rp_triggers *triggers = watch("Test-Trigger:failed", HOUR_MS);
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(rp_triggers_stop(triggers, NULL) != 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	cr_assert_eq(shop_failed(1), 0);
	cr_assert_eq(stop(triggers).snapshots, 1u);
}

struct writer {
	pthread_t thread;
	uint64_t failures;
};

static void *write_both(void *data)
{
	struct writer *writer = data;

	for (uint64_t i = 0; i < FAILURES * 500; i++) {
		(void)shop_sold(i);
		if (i % 500 == 0) {
			(void)shop_failed(writer->failures);
			writer->failures++;
		}
	}
	return NULL;
}

Test(trigger_watch, under_load_each_trigger_is_a_snapshot_or_skipped_or_missed)
{
	struct rp_triggers *triggers = watch("Test-Trigger:failed", 20);
	struct writer writers[WRITERS] = { 0 };
	struct rp_trigger_stats stats;
	uint64_t failures = 0;

	for (unsigned int i = 0; i < WRITERS; i++)
		cr_assert_eq(pthread_create(&writers[i].thread, NULL, write_both, &writers[i]), 0);
	for (unsigned int i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		failures += writers[i].failures;
	}
	stats = stop(triggers);
	cr_assert_eq(failures, WRITERS * FAILURES);
	cr_assert_eq(stats.snapshots + stats.skipped + stats.missed, failures);
	cr_assert_eq(stats.failed, 0u);
	cr_assert_geq(stats.snapshots, 1u);
	cr_assert_eq(access(file_name((unsigned int)stats.snapshots), F_OK), 0);
}
