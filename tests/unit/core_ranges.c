/* SPDX-License-Identifier: MIT */
/*
 * The address ranges that ended sessions leave. The linker redirects the calls of rp_memory_reap()
 * to this file (--wrap), so that a test can let the 10 seconds pass for the drain thread.
 */
#include "core_support.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "core/session_state.h"

#define RANGE_BYTES (1u << 20)
#define SECONDS_NS 1000000000u
#define KEPT_SECONDS 10u

RP_PROVIDER(ranges, "Test-Ranges");
RP_EVENT(ranges, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial));

uint64_t __real_rp_memory_reap(uint64_t now_ns);
uint64_t __wrap_rp_memory_reap(uint64_t now_ns);

static uint64_t ahead_ns;

uint64_t __wrap_rp_memory_reap(uint64_t now_ns)
{
	return __real_rp_memory_reap(now_ns + rp_load_relaxed(&ahead_ns));
}

static bool is_mapped(void *at)
{
	unsigned char there;

	return mincore(at, 1, &there) == 0 || errno != ENOMEM;
}

Test(core_ranges, range_is_unmapped_when_it_was_free_for_ten_seconds)
{
	uint64_t before = rp_clock_monotonic_ns(), after;
	void *range;

	cr_assert_eq(__real_rp_memory_reap(before), 0u);
	cr_assert_eq(rp_memory_map_once(RANGE_BYTES, &range), 0);
	cr_expect_eq(__real_rp_memory_reap(UINT64_MAX), 0u, "a mapping in use is no free range");
	cr_expect(is_mapped(range));
	before = rp_clock_monotonic_ns();
	rp_memory_unmap(range, RANGE_BYTES);
	after = rp_clock_monotonic_ns();
	cr_expect_gt(__real_rp_memory_reap(0), 0u);
	cr_expect_gt(__real_rp_memory_reap(before + KEPT_SECONDS * (uint64_t)SECONDS_NS - 1), 0u);
	cr_assert(is_mapped(range));
	cr_expect_eq(__real_rp_memory_reap(after + KEPT_SECONDS * (uint64_t)SECONDS_NS), 0u);
	cr_expect(!is_mapped(range));
}

Test(core_ranges, drain_thread_unmaps_the_range_of_a_session_that_ended)
{
	struct rp_session_options options = options_for("Test-Ranges");
	struct rp_session *session;
	void *range;

	options.output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	cr_assert_geq(options.output_fd, 0);
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	range = session->array.memory;
	cr_assert_not_null(range);
	cr_assert_eq(ranges_mark(1), 0);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	cr_assert(is_mapped(range));
	/* A session of another size, which is mapped before the range may be unmapped. */
	options = options_for("Test-Ranges");
	options.buffer_bytes = 2 * RP_SESSION_BUFFER_MIN;
	options.output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	rp_store_relaxed(&ahead_ns, (KEPT_SECONDS + 1) * (uint64_t)SECONDS_NS);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	wait_until(!is_mapped(range));
}
