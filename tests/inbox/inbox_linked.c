/* SPDX-License-Identifier: MIT */
/*
 * A program that is linked to libringpipe-inbox reads the heap's counters: those of running threads
 * and of threads that have ended, in the process and in a forked child.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "../process/check.h"

#define BLOCK_BYTES 1000000u
#define THREADS 3
#define BLOCKS 500u
#define SLACK_BYTES 20e6		/* what the program and libc allocate besides */

static void *allocate(void *data)
{
	volatile size_t impossible = SIZE_MAX;

	/* A failed call is not counted, and neither is its sum with the bytes before it. */
	check(!malloc(impossible));
	for (unsigned int i = 0; i < BLOCKS; i++) {
		void *volatile block = malloc(BLOCK_BYTES);

		check(block);
		free(block);
	}
	return data;
}

static struct rp_listener *listen_to_heap(void)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "ringpipe-heap", .level = 5,
		.filter_data = "EventCounterIntervalSec=0.1;SampleBytes=1000000000000000",
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.buffer_bytes = 8 << 20,
	};
	struct rp_listener *listener;

	check(rp_listener_start(&options, NULL, NULL, &listener) == 0);
	return listener;
}

/* Find a member of the field `Payload`, which is in a field without a name. */
static void find(const struct rp_listener_event *event, const char *name,
		 struct rp_value *ret_value)
{
	struct rp_value outer = RP_VALUE_INIT, payload = RP_VALUE_INIT;
	struct rp_fields fields;

	rp_listener_get_fields(event, &fields);
	check(rp_fields_find(&fields, "", &outer) == 0);
	check(rp_fields_find(&outer.inner, "Payload", &payload) == 0);
	check(rp_fields_find(&payload.inner, name, ret_value) == 0);
}

/* Wait for the next event of the counter. Return: its increment. */
static double next_increment(struct rp_listener *listener, const char *counter)
{
	for (;;) {
		struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
		struct rp_value name = RP_VALUE_INIT, increment = RP_VALUE_INIT;
		char text[64];

		check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
		if (strcmp(event.name, "EventCounters") != 0)
			continue;
		find(&event, "Name", &name);
		find(&event, "Increment", &increment);
		rp_value_get_text(&name, text, sizeof(text));
		if (!strcmp(text, counter))
			return increment.f64;
	}
}

static double total_of(struct rp_listener *listener, const char *counter, double enough)
{
	double total = 0;

	while (total < enough)
		total += next_increment(listener, counter);
	return total;
}

static void count_bytes(int threads)
{
	const double bytes = (double)BLOCK_BYTES * BLOCKS * (threads + 1);
	struct rp_listener *listener = listen_to_heap();
	pthread_t others[THREADS];
	double total;

	(void)next_increment(listener, "allocated-bytes");
	for (int i = 0; i < threads; i++)
		check(pthread_create(&others[i], NULL, allocate, NULL) == 0);
	allocate(NULL);
	for (int i = 0; i < threads; i++)
		check(pthread_join(others[i], NULL) == 0);
	total = total_of(listener, "allocated-bytes", bytes);
	fprintf(stderr, "%.0f bytes counted, %.0f allocated\n", total, bytes);
	check(total < bytes + SLACK_BYTES);
	check(rp_listener_stop(listener, NULL) == 0);
}

int main(void)
{
	int status;
	pid_t child;

	count_bytes(THREADS);
	count_bytes(0);
	child = fork();
	check(child >= 0);
	if (child == 0) {
		count_bytes(THREADS);
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
