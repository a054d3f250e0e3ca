/* SPDX-License-Identifier: MIT */
/* Sessions whose argument HostOnly=1 wants samples only while a host supplies frames. */
#include "core_support.h"
#include "sample_support.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include <ringpipe/host.h>

#include "core/session_setup.h"
#include "sample/sample.h"

#define HOST_ONLY RP_SAMPLE_PROVIDER ":0:4:HostOnly=1"
#define SAMPLER_NAME "ringpipe-sample\n"

TestSuite(sample_hosts, .timeout = 120, .init = need_timers);

static atomic_uint go_on, burner, walks;

static void *burn(void *data)
{
	(void)data;
	atomic_store(&burner, (unsigned int)gettid());
	while (atomic_load(&go_on))
		;
	return NULL;
}

static pthread_t start_burning(void)
{
	pthread_t thread;

	atomic_store(&go_on, 1);
	atomic_store(&burner, 0);
	cr_assert_eq(pthread_create(&thread, NULL, burn, NULL), 0);
	wait_until(atomic_load(&burner) != 0);
	return thread;
}

static void stop_burning(pthread_t thread)
{
	atomic_store(&go_on, 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

static int walk_none(const struct rp_host_walk *walk, uint64_t *ret_frames, unsigned int max,
		     void *data)
{
	(void)walk;
	(void)ret_frames;
	(void)max;
	(void)data;
	atomic_fetch_add(&walks, 1);
	return 0;
}

static void register_host(bool has_walk)
{
	struct rp_host host = RP_HOST_INIT;

	host.walk = has_walk ? walk_none : NULL;
	cr_assert_eq(rp_host_register(&host), 0);
}

static void expect_samples(struct rp_listener *listener)
{
	const unsigned int before = atomic_load(&walks);
	struct rp_listener_event event;

	wait_until(atomic_load(&walks) > before);
	do {
		expect_event(listener, &event);
	} while (event.id != 0 || event.thread != atomic_load(&burner));
}

/* Return: the number of this process's threads that are a sampler. */
static unsigned int count_samplers(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *task;
	unsigned int count = 0;

	cr_assert(tasks);
	while ((task = readdir(tasks))) {
		char path[sizeof(task->d_name) + 32], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		count += fgets(name, sizeof(name), file) && strcmp(name, SAMPLER_NAME) == 0;
		fclose(file);
	}
	closedir(tasks);
	return count;
}

Test(sample_hosts, process_without_frames_of_a_host_is_not_sampled)
{
	struct rp_listener *listener = listen_to(HOST_ONLY), *all;

	cr_expect_eq(count_samplers(), 0u);
	register_host(false);
	cr_expect_eq(count_samplers(), 0u);
	rp_host_unregister();
	/* A session for all processes has its sampler when it has started. */
	all = listen_to(RP_SAMPLE_PROVIDER);
	cr_expect_eq(count_samplers(), 1u);
	stop_listening(all);
	stop_listening(listener);
}

Test(sample_hosts, samples_begin_when_the_host_is_registered)
{
	struct rp_listener *listener = listen_to(HOST_ONLY);
	pthread_t thread = start_burning();

	register_host(true);
	expect_samples(listener);
	stop_burning(thread);
	stop_listening(listener);
	rp_host_unregister();
}

Test(sample_hosts, process_with_a_host_is_sampled_from_the_start_of_the_session)
{
	pthread_t thread = start_burning();
	struct rp_listener *listener;

	register_host(true);
	for (int i = 0; i < 3; i++) {
		listener = listen_to(HOST_ONLY);
		expect_samples(listener);
		stop_listening(listener);
	}
	stop_burning(thread);
	rp_host_unregister();
}

Test(sample_hosts, samples_end_and_begin_again_with_the_host)
{
	struct rp_listener *listener = listen_to(HOST_ONLY);
	pthread_t thread = start_burning();

	for (int i = 0; i < 3; i++) {
		register_host(true);
		expect_samples(listener);
		rp_host_unregister();
		wait_until(count_timers() == 0);
	}
	stop_burning(thread);
	stop_listening(listener);
}

Test(sample_hosts, end_of_a_session_waits_for_no_samples_of_a_host_that_has_left)
{
	for (int i = 0; i < 20; i++) {
		struct rp_session *session;
		uint64_t id;
		int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

		cr_assert_geq(fd, 0);
		register_host(true);
		session = stream_to(fd, HOST_ONLY);
		id = rp_session_id(session);
		rp_host_unregister();
		cr_expect(rp_sample_has_begun(id));
		cr_expect_eq(rp_session_stop(session, NULL), 0);
	}
}
