/* SPDX-License-Identifier: MIT */
/* The values of counters in the model. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/trace/counter_sample.h"
#include "tools/view/view_model_parts.h"

static struct rp_view_counter *find(struct rp_view_trace *trace, const char *provider,
				    const char *name, uint64_t process)
{
	for (size_t i = 0; i < trace->counter_count; i++) {
		struct rp_view_counter *counter = &trace->counters[i];

		if (counter->process == process && !strcmp(counter->name, name) &&
		    !strcmp(counter->provider, provider))
			return counter;
	}
	return NULL;
}

static struct rp_view_counter *add(struct rp_view_trace *trace,
				   const struct rp_counter_sample *sample, const char *name,
				   uint64_t process)
{
	struct rp_view_counter *counter = rp_array_reserve(trace->counters, trace->counter_count,
							   &trace->counter_capacity, 1,
							   sizeof(*counter));

	if (!counter)
		return NULL;
	trace->counters = counter;
	counter += trace->counter_count;
	*counter = (struct rp_view_counter){
		.process = process, .provider = strdup(sample->provider), .name = strdup(name),
		.display = strdup(sample->display), .unit = strdup(sample->unit), .step = 1,
	};
	/* rp_view_trace_close() frees what the counter has. */
	trace->counter_count++;
	return counter->provider && counter->name && counter->display && counter->unit ?
	       counter : NULL;
}

/* Return: the one number that a plot shows: of a distribution, the median or the mean. */
static double value_of(const struct rp_counter_sample *sample)
{
	if (sample->form != RP_COUNTER_SPREAD)
		return sample->value;
	for (uint32_t i = 0; i < sample->quantile_count; i++) {
		if (sample->quantiles[i].at == 0.5)
			return sample->quantiles[i].value;
	}
	return sample->count ? sample->sum / (double)sample->count : NAN;
}

int rp_view_take_counter(struct rp_view_trace *trace, const struct rp_reader_event *event,
			 uint64_t process)
{
	struct rp_view_counter *counter;
	struct rp_view_point *grown;
	struct rp_counter_sample sample;
	char name[sizeof(sample.name) + sizeof(sample.tags) + 3];
	size_t length;

	if (rp_counter_decode(event, 0, &sample) != RP_COUNTER_SAMPLE || isnan(value_of(&sample)))
		return 0;
	length = (size_t)snprintf(name, sizeof(name), "%s", sample.name);
	if (*sample.tags)
		snprintf(name + length, sizeof(name) - length, "{%s}", sample.tags);
	counter = find(trace, sample.provider, name, process);
	if (!counter && trace->counter_count == RP_VIEW_COUNTERS_MAX)
		return 0;
	if (!counter)
		counter = add(trace, &sample, name, process);
	if (!counter)
		return -ENOMEM;
	if (counter->seen++ % counter->step)
		return 0;
	if (counter->count == RP_VIEW_POINTS_MAX) {
		for (size_t i = 0; i < counter->count / 2; i++)
			counter->points[i] = counter->points[2 * i];
		counter->count /= 2;
		counter->step *= 2;
	}
	grown = rp_array_reserve(counter->points, counter->count, &counter->capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	counter->points = grown;
	grown[counter->count++] = (struct rp_view_point){ sample.time_ns, value_of(&sample) };
	return 0;
}
