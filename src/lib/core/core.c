/* SPDX-License-Identifier: MIT */
/* The global state of the engine, and its initialisation. */
#include "base/clock.h"
#include "core/core.h"
#include "ring/slot.h"

#include <stdlib.h>
#include <string.h>

#include "base/ending.h"
#include "base/module.h"
#include "base/thread.h"
#include "base/warn.h"
#include "core/activity_slots.h"

struct rp_core rp_core = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.providers = CDS_LIST_HEAD_INIT(rp_core.providers),
	.sessions = CDS_LIST_HEAD_INIT(rp_core.sessions),
	.retired = CDS_LIST_HEAD_INIT(rp_core.retired),
	.limits = CDS_LIST_HEAD_INIT(rp_core.limits),
	.unreported = CDS_LIST_HEAD_INIT(rp_core.unreported),
	.next_index = RP_DEF_OWN_COUNT,
	.next_serial = 1,
};

/*
 * Every API function needs this file. In a static build, this pointer makes the linker include the
 * file with the library's constructor too, even for programs without declared events.
 */
static void (*const constructor_file)(struct rp_object *object) __attribute__((used)) =
	rp_object_register;

static int init_result;

static void init_clock(void)
{
	const char *wanted = secure_getenv("RINGPIPE_CLOCK");
	const bool wants_tsc = wanted && strcmp(wanted, "tsc") == 0;

	rp_clock_init(wanted);
	if (wants_tsc && !rp_clock_is_tsc)
		rp_warn("ringpipe: RINGPIPE_CLOCK is tsc, but there is no invariant TSC to read\n");
	else if (wanted && *wanted && !wants_tsc && strcmp(wanted, "monotonic") != 0)
		rp_warn("ringpipe: RINGPIPE_CLOCK is tsc or monotonic, not \"%s\"\n", wanted);
}

static void init_once(void)
{
	init_clock();
	rp_thread_init();
	rp_module_init();
	rp_ending_init();
	rp_activity_init();
	init_result = rp_slots_init();
}

int rp_core_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_once);
	return init_result;
}
