/* SPDX-License-Identifier: MIT */
/*
 * Triggers of a flight recorder. A separate session receives their events, and its sink checks them
 * on the drain thread. The slot of this session follows the recorder's, so that an event that fires
 * a trigger is already in the recorder's rings. A thread takes the snapshots and checks counters.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/trigger.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/sized.h"
#include "base/thread.h"
#include "core/drain_wake.h"
#include "core/event_batch.h"
#include "core/session_setup.h"
#include "core/session_state.h"
#include "counter/counters.h"
#include "sink/series.h"
#include "sink/sinks.h"
#include "trigger/latency.h"
#include "trigger/parse.h"

#define DISTANCE_MS 10000u
#define FILES 10u
#define LOOK_S 1		/* interval of the checks of counters */

/* The state of one trigger. */
struct memory {
	struct rp_latency *latency;	/* used by the drain thread alone */
	struct rp_counter_reading before;	/* the counter's last reading; size 0: none yet */
	uint64_t before_ns;
	bool beyond;			/* the last value was beyond the bound */
};

struct rp_triggers {
	struct rp_session *session;
	struct rp_session *watch;	/* receives the events; NULL: only counters */
	struct rp_trigger *list;
	struct memory *memories;	/* one per trigger */
	size_t count;
	struct rp_file_series series;
	uint32_t files;
	uint64_t distance_ns;
	bool has_counters;
	pid_t process;
	pthread_t thread;

	pthread_mutex_t lock;		/* never held during a blocking call */
	pthread_cond_t changed;
	const struct rp_trigger *due;	/* its snapshot is due or being written */
	uint64_t due_ns;		/* time of the event */
	uint64_t last_ns;		/* time at which the last snapshot became due */
	bool stopping;
	struct rp_trigger_stats stats;
};

struct watch_sink {
	struct rp_sink base;
	struct rp_triggers *triggers;
};

static uint64_t forgotten(const struct rp_triggers *triggers)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < triggers->count; i++) {
		if (triggers->memories[i].latency)
			sum += rp_load_relaxed(&triggers->memories[i].latency->forgotten);
	}
	return sum;
}

static void fire(struct rp_triggers *triggers, const struct rp_trigger *trigger, uint64_t time_ns)
{
	uint64_t now = rp_clock_monotonic_ns();

	pthread_mutex_lock(&triggers->lock);
	if (triggers->due ||
	    (triggers->last_ns && now < triggers->last_ns + triggers->distance_ns)) {
		triggers->stats.skipped++;
	} else {
		triggers->due = trigger;
		triggers->due_ns = time_ns;
		triggers->last_ns = now;
		pthread_cond_broadcast(&triggers->changed);
	}
	pthread_mutex_unlock(&triggers->lock);
}

static bool is_counter(const struct rp_trigger *trigger)
{
	return trigger->kind == RP_TRIGGER_ABOVE || trigger->kind == RP_TRIGGER_BELOW;
}

static bool matches_name(const char *wanted, const char *name)
{
	return strcmp(wanted, "*") == 0 || strcmp(wanted, name) == 0;
}

/* Return: whether the event fires the trigger, or for LATENCY starts the time. */
static bool matches(const struct rp_trigger *trigger, const struct rp_event_def *def)
{
	return !is_counter(trigger) && matches_name(trigger->provider, def->provider) &&
	       matches_name(trigger->name, def->name) &&
	       (trigger->level == 0 || (def->level != 0 && def->level <= trigger->level));
}

static bool matches_stop(const struct rp_trigger *trigger, const struct rp_event_def *def)
{
	return trigger->kind == RP_TRIGGER_LATENCY &&
	       matches_name(trigger->provider, def->provider) &&
	       strcmp(trigger->stop, def->name) == 0;
}

static bool is_wanted(const struct rp_event_def *def, const void *data)
{
	const struct rp_triggers *triggers = data;

	for (size_t i = 0; i < triggers->count; i++) {
		if (matches(&triggers->list[i], def) || matches_stop(&triggers->list[i], def))
			return true;
	}
	return false;
}

/* Without an activity id, use the thread id. No generator of activity ids ends them like this. */
static struct rp_guid key_of(const struct rp_record_view *view)
{
	struct rp_guid key;

	if (view->activity) {
		memcpy(&key, view->activity, sizeof(key));
	} else {
		memset(&key, 0xff, sizeof(key));
		memcpy(&key, &view->thread, sizeof(view->thread));
	}
	return key;
}

static int watch_event(struct rp_sink *base, const struct rp_record_view *view)
{
	struct rp_triggers *triggers = ((struct watch_sink *)base)->triggers;
	struct rp_guid key = key_of(view);

	for (size_t i = 0; view->def->index >= RP_DEF_OWN_COUNT && i < triggers->count; i++) {
		const struct rp_trigger *trigger = &triggers->list[i];
		struct rp_latency *latency = triggers->memories[i].latency;
		uint64_t start_ns;

		if (latency && matches_stop(trigger, view->def) &&
		    rp_latency_end(latency, &key, &start_ns) &&
		    view->time_ns - start_ns > trigger->bound_ns)
			fire(triggers, trigger, view->time_ns);
		if (!matches(trigger, view->def))
			continue;
		if (latency)
			rp_latency_begin(latency, &key, view->time_ns);
		else
			fire(triggers, trigger, view->time_ns);
	}
	base->delivered++;
	return 0;
}

static int watch_batch(struct rp_sink *base, struct rp_event_batch *batch)
{
	return rp_event_batch_deliver(batch, base, watch_event, NULL, NULL);
}

static int watch_point(struct rp_sink *base, uint64_t time_ns, uint64_t lost)
{
	struct rp_triggers *triggers = ((struct watch_sink *)base)->triggers;

	(void)time_ns;
	pthread_mutex_lock(&triggers->lock);
	triggers->stats.missed = lost;
	pthread_mutex_unlock(&triggers->lock);
	return 0;
}

static int watch_flush(struct rp_sink *base)
{
	(void)base;
	return 0;
}

static void watch_abandon(struct rp_sink *base, uint64_t time_ns, uint64_t lost)
{
	(void)watch_point(base, time_ns, lost);
}

static void watch_destroy(struct rp_sink *base)
{
	free(base);
}

static const struct rp_sink_ops watch_ops = {
	.batch = watch_batch,
	.event = watch_event,
	.sequence_point = watch_point,
	.flush = watch_flush,
	.finish = watch_point,
	.abandon = watch_abandon,
	.destroy = watch_destroy,
};

/* Get a counter's value since the last check. Return: false if there is none yet. */
static bool value_of(struct memory *memory, const struct rp_counter_reading *reading,
		     double *ret_value)
{
	const struct rp_counter_reading *before = &memory->before;
	uint64_t now = rp_clock_monotonic_ns(), count = reading->count - before->count;
	double seconds = (double)(now - memory->before_ns) / 1e9;
	bool known = before->size != 0;

	switch ((enum rp_counter_kind)reading->kind) {
	case RP_COUNTER_SUM:
	case RP_COUNTER_OBSERVED_SUM:
		*ret_value = known && seconds > 0 ? (reading->value - before->value) / seconds : 0;
		break;
	case RP_COUNTER_HISTOGRAM:
		known = known && reading->count > before->count;
		*ret_value = known ? (reading->sum - before->sum) / (double)count : 0;
		break;
	default:
		known = reading->value == reading->value;
		*ret_value = reading->value;
		break;
	}
	memory->before = *reading;
	memory->before_ns = now;
	return known;
}

/* A counter that stays beyond its bound fires once. */
static void look_at(struct rp_triggers *triggers, size_t i)
{
	const struct rp_trigger *trigger = &triggers->list[i];
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;
	struct memory *memory = &triggers->memories[i];
	double value;
	bool beyond;

	if (rp_counter_read_named(trigger->provider, trigger->name, &reading) != 0 ||
	    !value_of(memory, &reading, &value))
		return;
	beyond = trigger->kind == RP_TRIGGER_ABOVE ? value > trigger->bound :
						     value < trigger->bound;
	if (beyond && !memory->beyond)
		fire(triggers, trigger, rp_clock_monotonic_ns());
	memory->beyond = beyond;
}

static const struct rp_field note_fields[] = {
	{ "trigger", NULL, 0, RP_TYPE_STRING, 0, 0, NULL },
	{ "time", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
	{ "skipped", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
	{ "missed", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
};

static const struct rp_event_def note_def = {
	.index = RP_DEF_TRIGGERED_INDEX,
	.id = 5,
	.serial = 1,
	.provider = "ringpipe",
	.name = "Triggered",
	.message = "{0} at {1}; {2} skipped, {3} missed",
	.fields = note_fields,
	.field_count = 4,
	.level = RP_LEVEL_INFORMATIONAL,
};

static int write_snapshot(struct rp_triggers *triggers, const char *path,
			  const struct rp_trigger *trigger, const uint64_t numbers[3])
{
	size_t text_bytes = strlen(trigger->text) + 1;
	char *payload = malloc(text_bytes + 3 * sizeof(numbers[0]));
	struct rp_record_view note = {
		.def = &note_def,
		.thread = rp_thread_id(),
		.payload = payload,
		.payload_bytes = (uint32_t)(text_bytes + 3 * sizeof(numbers[0])),
	};
	int ret;

	if (!payload)
		return -ENOMEM;
	memcpy(payload, trigger->text, text_bytes);
	memcpy(payload + text_bytes, numbers, 3 * sizeof(numbers[0]));
	ret = rp_sink_snapshot(triggers->session, path, &note);
	free(payload);
	return ret;
}

/* Write to the next file, and delete the oldest files. */
static int take_snapshot(struct rp_triggers *triggers, const struct rp_trigger *trigger,
			 const uint64_t numbers[3])
{
	struct rp_file_series_state state;
	int ret = rp_file_series_look(&triggers->series, &state);
	char *path;

	while (ret == 0 && state.count >= triggers->files &&
	       rp_file_series_delete_oldest(&triggers->series, state.last + 1))
		state.count--;
	if (ret != 0)
		return ret;
	path = rp_file_series_path(&triggers->series, state.last + 1);
	ret = path ? write_snapshot(triggers, path, trigger, numbers) : -ENOMEM;
	free(path);
	return ret;
}

/* The caller holds the lock; the function releases it meanwhile. */
static void serve(struct rp_triggers *triggers)
{
	struct rp_trigger_stats *stats = &triggers->stats;
	uint64_t numbers[3] = {
		triggers->due_ns, stats->skipped, stats->missed + forgotten(triggers),
	};
	int ret;

	pthread_mutex_unlock(&triggers->lock);
	ret = take_snapshot(triggers, triggers->due, numbers);
	pthread_mutex_lock(&triggers->lock);
	stats->snapshots += ret == 0;
	stats->failed += ret != 0;
	stats->error = ret != 0 ? ret : stats->error;
	triggers->due = NULL;
}

static void look(struct rp_triggers *triggers)
{
	pthread_mutex_unlock(&triggers->lock);
	for (size_t i = 0; i < triggers->count; i++) {
		if (is_counter(&triggers->list[i]))
			look_at(triggers, i);
	}
	pthread_mutex_lock(&triggers->lock);
}

static void *triggers_run(void *data)
{
	struct rp_triggers *triggers = data;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	pthread_mutex_lock(&triggers->lock);
	while (!triggers->stopping || triggers->due) {
		if (triggers->due) {
			serve(triggers);
		} else if (!triggers->has_counters) {
			pthread_cond_wait(&triggers->changed, &triggers->lock);
		} else if (pthread_cond_timedwait(&triggers->changed, &triggers->lock, &next) ==
			   ETIMEDOUT) {
			look(triggers);
			clock_gettime(CLOCK_MONOTONIC, &next);
			next.tv_sec += LOOK_S;
		}
	}
	pthread_mutex_unlock(&triggers->lock);
	return NULL;
}

static void free_triggers(struct rp_triggers *triggers)
{
	for (size_t i = 0; triggers->memories && i < triggers->count; i++)
		free(triggers->memories[i].latency);
	free(triggers->memories);
	free(triggers->list);
	rp_file_series_fini(&triggers->series);
	/* In a forked child, destroying the copies would wait for a thread that does not exist. */
	if (triggers->process == getpid()) {
		pthread_mutex_destroy(&triggers->lock);
		pthread_cond_destroy(&triggers->changed);
	}
	free(triggers);
}

static int fill(struct rp_triggers *triggers, const struct rp_trigger_options *options)
{
	struct rp_file_series_state state;
	int ret = rp_triggers_parse(options->triggers, &triggers->list, &triggers->count, NULL);

	if (ret == 0)
		ret = rp_file_series_init(&triggers->series, options->path);
	if (ret == 0)
		ret = rp_file_series_look(&triggers->series, &state);
	if (ret != 0)
		return ret;
	triggers->memories = calloc(triggers->count, sizeof(*triggers->memories));
	if (!triggers->memories)
		return -ENOMEM;
	for (size_t i = 0; i < triggers->count; i++) {
		struct memory *memory = &triggers->memories[i];

		triggers->has_counters |= is_counter(&triggers->list[i]);
		if (triggers->list[i].kind != RP_TRIGGER_LATENCY)
			continue;
		memory->latency = calloc(1, sizeof(*memory->latency));
		if (!memory->latency)
			return -ENOMEM;
	}
	return 0;
}

static int make(struct rp_session *session, const struct rp_trigger_options *options,
		struct rp_triggers **ret_triggers)
{
	struct rp_triggers *triggers = calloc(1, sizeof(*triggers));
	pthread_condattr_t attr;
	int ret;

	if (!triggers)
		return -ENOMEM;
	triggers->session = session;
	triggers->process = getpid();
	triggers->files = options->files ? options->files : FILES;
	triggers->distance_ns = (options->distance_ms ? options->distance_ms : DISTANCE_MS) *
				1000000ull;
	pthread_mutex_init(&triggers->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&triggers->changed, &attr);
	pthread_condattr_destroy(&attr);
	ret = fill(triggers, options);
	if (ret != 0) {
		free_triggers(triggers);
		return ret;
	}
	*ret_triggers = triggers;
	return 0;
}

/* List each provider once, with the highest level that a trigger needs. Return: the number. */
static size_t list_providers(const struct rp_triggers *triggers,
			     struct rp_session_provider *providers)
{
	size_t count = 0;

	for (size_t i = 0; i < triggers->count; i++) {
		const struct rp_trigger *trigger = &triggers->list[i];
		uint8_t level = trigger->level ? trigger->level : RP_LEVEL_VERBOSE;
		size_t at = 0;

		if (is_counter(trigger))
			continue;
		while (at < count && strcmp(providers[at].name, trigger->provider) != 0)
			at++;
		if (at == count)
			providers[count++] = (struct rp_session_provider){
				.size = sizeof(providers[0]), .name = trigger->provider,
				.keywords = UINT64_MAX, .level = level,
			};
		else if (providers[at].level < level)
			providers[at].level = level;
	}
	return count;
}

static int open_watch(struct rp_triggers *triggers)
{
	struct rp_session_provider providers[RP_TRIGGERS_MAX];
	const struct rp_session_options options = {
		.size = sizeof(options),
		.name = "triggers",
		.buffer_bytes = RP_SESSION_BUFFER_MIN,
		.providers = providers,
		.provider_count = list_providers(triggers, providers),
	};
	struct rp_session_setup setup = {
		.options = &options,
		.wants = is_wanted,
		.wants_data = triggers,
		.after = triggers->session,
	};
	struct watch_sink *sink;
	int ret;

	if (options.provider_count == 0)
		return 0;
	sink = calloc(1, sizeof(*sink));
	if (!sink)
		return -ENOMEM;
	sink->base.ops = &watch_ops;
	sink->base.fd = -1;
	sink->base.no_deadline = true;
	sink->triggers = triggers;
	setup.sink = &sink->base;
	ret = rp_session_open(&setup, &triggers->watch);
	if (ret != 0)
		free(sink);
	return ret;
}

RP_PUBLIC int rp_triggers_start(struct rp_session *session,
				const struct rp_trigger_options *options,
				struct rp_triggers **ret_triggers)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct rp_trigger_options own;
	struct rp_triggers *triggers;
	int ret;

	rp_failed_call = NULL;
	if (!session || !ret_triggers ||
	    rp_sized_read(&own, sizeof(own), RP_TRIGGER_OPTIONS_SIZE_V1, options) != 0 ||
	    own.reserved || !own.triggers || !own.path || !(session->flags & RP_SESSION_OVERWRITE))
		return -EINVAL;
	ret = make(session, &own, &triggers);
	if (ret != 0)
		return ret;
	ret = open_watch(triggers);
	if (ret == 0)
		ret = rp_thread_start(&triggers->thread, "ringpipe-trig", triggers_run, triggers);
	if (ret != 0) {
		(void)rp_session_stop(triggers->watch, NULL);
		free_triggers(triggers);
		return ret;
	}
	*ret_triggers = triggers;
	return 0;
}

RP_PUBLIC int rp_triggers_get_stats(struct rp_triggers *triggers,
				    struct rp_trigger_stats *ret_stats)
{
	struct rp_trigger_stats stats;
	bool is_forked;

	if (!triggers || !ret_stats || !rp_sized_fits(ret_stats, RP_TRIGGER_STATS_SIZE_V1))
		return -EINVAL;
	/* In a forked child nothing changes, and a thread that does not exist may hold the lock. */
	is_forked = triggers->process != getpid();
	if (!is_forked)
		pthread_mutex_lock(&triggers->lock);
	stats = triggers->stats;
	if (!is_forked)
		pthread_mutex_unlock(&triggers->lock);
	stats.missed += forgotten(triggers);
	rp_sized_write(ret_stats, &stats, sizeof(stats));
	return 0;
}

RP_PUBLIC int rp_triggers_stop(struct rp_triggers *triggers, struct rp_trigger_stats *ret_stats)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	bool has_thread = triggers && triggers->process == getpid();

	if (!triggers)
		return 0;
	if (!rp_sized_fits(ret_stats, RP_TRIGGER_STATS_SIZE_V1))
		return -EINVAL;
	if (rp_drain_is_self() || (has_thread && pthread_equal(triggers->thread, pthread_self())))
		return -EDEADLK;
	(void)rp_session_stop(triggers->watch, NULL);
	triggers->watch = NULL;
	if (has_thread) {
		pthread_mutex_lock(&triggers->lock);
		triggers->stopping = true;
		pthread_cond_broadcast(&triggers->changed);
		pthread_mutex_unlock(&triggers->lock);
		pthread_join(triggers->thread, NULL);
	}
	if (ret_stats && has_thread)
		(void)rp_triggers_get_stats(triggers, ret_stats);
	free_triggers(triggers);
	return 0;
}
