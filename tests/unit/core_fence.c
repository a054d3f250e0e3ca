/* SPDX-License-Identifier: MIT */
/*
 * Tests the fences of a session's start and of a snapshot. Without a fence, a wrong order occurs
 * only once in hours. So the linker redirects each call of the fence to this file (--wrap), and the
 * test checks which steps came before the call.
 */
#include "core_support.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/core.h"
#include "core/enable.h"
#include "ring/slot.h"

#define CLOCKS_APART_NS 1000000u	/* between conversions of ticks by two points */

RP_PROVIDER(fence, "Test-Fence");
RP_EVENT(fence, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial));

void __real_rp_fence_heavy(void);
void __wrap_rp_fence_heavy(void);

/* Fences of the thread that tests: all of them, and those between a filled slot and its bit. */
static __thread unsigned int fences, before_bit;
static __thread uint64_t last_fence_ns;

static bool any_slot_is_filled(void)
{
	for (unsigned int i = 0; rp_slots && i < RP_SLOTS; i++) {
		if (rp_load_acquire(&rp_slots[i].rings))
			return true;
	}
	return false;
}

void __wrap_rp_fence_heavy(void)
{
	__real_rp_fence_heavy();
	fences++;
	last_fence_ns = rp_clock_monotonic_ns();
	before_bit += any_slot_is_filled() &&
		      !(rp_load_relaxed(&fence_mark_event_.enable) & RP_SESSION_BITS);
}

static struct rp_session *start(uint32_t flags)
{
	struct rp_session_options options = options_for("Test-Fence");
	struct rp_session *session;

	options.flags = flags;
	options.buffer_bytes = RP_SESSION_OVERWRITE_MIN;
	if (!flags)
		options.output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	return session;
}

Test(core_fence, session_passes_a_fence_between_its_slot_and_its_bits)
{
	struct rp_session *session;

	before_bit = 0;
	session = start(0);
	cr_assert_neq(rp_load_relaxed(&fence_mark_event_.enable) & RP_SESSION_BITS, 0);
	cr_assert_neq(before_bit, 0, "no fence");
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_fence, snapshot_passes_a_fence_after_its_last_time)
{
	struct rp_snapshot_info info = RP_SNAPSHOT_INFO_INIT;
	struct rp_session *session = start(RP_SESSION_OVERWRITE);
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	cr_assert_eq(fence_mark(1), 0);
	fences = 0;
	cr_assert_eq(rp_session_snapshot(session, NULL, fd, &info), 0);
	cr_assert_neq(fences, 0, "no fence");
	cr_assert_leq(info.to_ns, last_fence_ns + CLOCKS_APART_NS);
	close(fd);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}
