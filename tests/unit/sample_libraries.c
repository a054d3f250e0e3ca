/* SPDX-License-Identifier: MIT */
/* Libraries are loaded and unloaded while the sampler's signals interrupt their code. */
#include "../in_valgrind.h"
#include "core_support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

#include "sample/sample.h"

#define ROUNDS 200u
#define SAMPLES 10u
#define WORK_BYTES 64u		/* its code is shorter */

static void need_timers(void)
{
	if (runs_in_valgrind())
		cr_skip_test("valgrind has no timers on the clocks of threads");
}

TestSuite(sample_libraries, .timeout = 240, .init = need_timers);

static bool go_on = true;
static unsigned int rounds;
static uint64_t place;			/* address of passing_work() */

static void *come_and_go(void *data)
{
	(void)data;
	while (__atomic_load_n(&go_on, __ATOMIC_ACQUIRE)) {
		void *code = dlopen(PASSING_CODE, RTLD_NOW);
		unsigned long (*work)(unsigned long);

		cr_assert_not_null(code, "%s", dlerror());
		*(void **)&work = dlsym(code, "passing_work");
		__atomic_store_n(&place, (uint64_t)(uintptr_t)work, __ATOMIC_RELEASE);
		cr_assert_neq(work(1000000), 0u);
		cr_assert_eq(dlclose(code), 0);
		__atomic_fetch_add(&rounds, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* At the address of the last load: the loader uses the same one repeatedly. */
static bool is_in_library(const struct rp_listener_event *event)
{
	uint64_t work = __atomic_load_n(&place, __ATOMIC_ACQUIRE);

#ifdef __SANITIZE_THREAD__	/* delivers a signal late, when the thread is elsewhere */
	return event->frame_count > 0;
#endif
	return event->frame_count > 0 && event->frames[0] >= work &&
	       event->frames[0] < work + WORK_BYTES;
}

Test(sample_libraries, code_that_goes_while_it_is_sampled_is_no_harm)
{
	struct rp_listener *listener = listen_to(RP_SAMPLE_PROVIDER);
	struct rp_listener_event event;
	unsigned int samples = 0;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, come_and_go, NULL), 0);
	while (samples < SAMPLES || __atomic_load_n(&rounds, __ATOMIC_ACQUIRE) < ROUNDS) {
		expect_event(listener, &event);
		samples += event.id == 0 && is_in_library(&event);
	}
	__atomic_store_n(&go_on, false, __ATOMIC_RELEASE);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}
