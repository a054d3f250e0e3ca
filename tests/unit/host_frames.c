/* SPDX-License-Identifier: MIT */
/* Native stacks with the frames of a host, and tables that are refused. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/host.h>

#include "base/heap.h"
#include "base/host_table.h"
#include "unwind/host_frames.h"

#define LOOP 0x50000u		/* the interpreter's code: LOOP to LOOP + 0x100 */
#define HOST 0x700000u		/* frames of the host */
#define NATIVE RP_HOST_FRAME_NATIVE

static const struct rp_host_range loop = { LOOP, LOOP + 0x100 };

static unsigned int mix(const uint64_t *native, unsigned int native_count, const uint64_t *frames,
			unsigned int count, uint64_t ret_frames[RP_STACK_MAX])
{
	struct rp_host host = RP_HOST_INIT;
	uint64_t copy[RP_STACK_MAX];
	const struct rp_native_stack stack = { copy, native_count, false };

	memcpy(copy, native, native_count * sizeof(native[0]));
	host.interpreters = &loop;
	host.interpreter_count = 1;
	return rp_host_frames_mix(&host, &stack, frames, count, ret_frames);
}

#define COUNT(array) ((unsigned int)(sizeof(array) / sizeof((array)[0])))

#define EXPECT(native, frames, expected) do { \
	uint64_t mixed_[RP_STACK_MAX]; \
	unsigned int count_ = mix(native, COUNT(native), frames, COUNT(frames), mixed_); \
	cr_assert_eq(count_, COUNT(expected), "%u frames", count_); \
	cr_assert_arr_eq(mixed_, expected, sizeof(expected)); \
} while (0)

Test(host_frames, each_interpreter_becomes_the_frames_of_its_invocation)
{
	const uint64_t native[] = { 0x1000, LOOP + 1, 0x2000, LOOP + 0x80, 0x3000 };
	const uint64_t frames[] = { HOST, HOST + 1, NATIVE, HOST + 2 };
	const uint64_t expected[] = { 0x1000, HOST, HOST + 1, 0x2000, HOST + 2, 0x3000 };

	EXPECT(native, frames, expected);
}

/* A return address after the last instruction of the loop belongs to the loop, the first not. */
Test(host_frames, return_addresses_belong_to_the_call_before_them)
{
	const uint64_t native[] = { LOOP, LOOP + 0x100, 0x3000 };
	const uint64_t frames[] = { HOST };
	const uint64_t expected[] = { LOOP, HOST, 0x3000 };

	EXPECT(native, frames, expected);
}

Test(host_frames, frames_without_an_interpreter_come_last)
{
	const uint64_t native[] = { 0x1000, 0x2000 };
	const uint64_t frames[] = { HOST, NATIVE, HOST + 1 };
	const uint64_t expected[] = { 0x1000, 0x2000, HOST, HOST + 1 };

	EXPECT(native, frames, expected);
}

Test(host_frames, a_cut_stack_still_ends_with_its_mark)
{
	const uint64_t native[] = { 0x1000, LOOP + 1, 0x2000, RP_FRAME_CUT };
	const uint64_t frames[] = { HOST, NATIVE, HOST + 1 };
	const uint64_t expected[] = { 0x1000, HOST, 0x2000, HOST + 1, RP_FRAME_CUT };

	EXPECT(native, frames, expected);
}

Test(host_frames, interpreters_without_frames_stay)
{
	const uint64_t native[] = { 0x1000, LOOP + 1, 0x2000, LOOP + 2 };
	const uint64_t frames[] = { HOST };
	const uint64_t expected[] = { 0x1000, HOST, 0x2000, LOOP + 2 };

	EXPECT(native, frames, expected);
}

Test(host_frames, invalid_frames_are_dropped)
{
	const uint64_t native[] = { LOOP + 1 };
	const uint64_t frames[] = { 1, 4095, UINT64_MAX, HOST, (1ull << 47) + 1 };
	const uint64_t expected[] = { HOST };

	EXPECT(native, frames, expected);
}

Test(host_frames, a_stack_has_at_most_its_maximum)
{
	uint64_t native[RP_STACK_MAX], frames[RP_STACK_MAX], mixed[RP_STACK_MAX];

	for (unsigned int i = 0; i < RP_STACK_MAX; i++) {
		native[i] = i == 50 ? LOOP + 1 : 0x1000 + i;
		frames[i] = HOST + i;
	}
	cr_assert_eq(mix(native, RP_STACK_MAX, frames, RP_STACK_MAX, mixed), RP_STACK_MAX);
	cr_assert_eq(mixed[49], 0x1000 + 49);
	cr_assert_eq(mixed[50], HOST);
	cr_assert_eq(mixed[RP_STACK_MAX - 1], HOST + RP_STACK_MAX - 51);
}

Test(host_frames, without_interpreters_the_result_replaces_the_stack)
{
	const struct rp_host host = RP_HOST_INIT;
	uint64_t native[] = { 0x1000, 0x2000 }, mixed[RP_STACK_MAX];
	const uint64_t frames[] = { HOST, 0x2000 };
	const struct rp_native_stack stack = { native, 2, true };

	cr_assert_eq(rp_host_frames_mix(&host, &stack, frames, 2, mixed), 2);
	cr_assert_arr_eq(mixed, frames, sizeof(frames));
}

static int answer;		/* of `walk` */

static int walk(const struct rp_host_walk *walked, uint64_t *ret_frames, unsigned int max,
		void *data)
{
	(void)walked;
	(void)max;
	(void)data;
	ret_frames[0] = HOST;
	errno = EIO;
	return answer;
}

static int state = RP_HOST_RUNNING;

static int process_state(void *data)
{
	(void)data;
	return state;
}

static void *allocate(size_t bytes, void *data)
{
	++*(int *)data;
	return bytes > 1000 ? NULL : malloc(bytes);
}

static void release(void *memory, void *data)
{
	--*(int *)data;
	free(memory);
}

static struct rp_host host_with_walk(void)
{
	struct rp_host host = RP_HOST_INIT;

	host.walk = walk;
	host.process_state = process_state;
	return host;
}

/* Return: the first frame of a stack that had the frame 0x1000. */
static uint64_t walk_once(enum rp_host_walk_context context, int result, int *ret_error)
{
	uint64_t frames[RP_STACK_MAX] = { 0x1000 };
	struct rp_native_stack stack = { frames, 1, true };

	answer = result;
	*ret_error = rp_host_frames_add(context, NULL, &stack);
	cr_assert_eq(stack.count, 1);
	return frames[0];
}

Test(host_frames, errors_of_walk_leave_the_native_stack)
{
	const struct rp_host host = host_with_walk();
	int ret;

	cr_assert_eq(rp_host_register(&host), 0);
	errno = 0;
	cr_assert_eq(walk_once(RP_HOST_WALK_EVENT, 1, &ret), HOST);
	cr_assert_eq(errno, 0);
	cr_assert_eq(walk_once(RP_HOST_WALK_EVENT, 0, &ret), 0x1000);
	cr_assert_eq(walk_once(RP_HOST_WALK_EVENT, -EIO, &ret), 0x1000);
	cr_assert_eq(walk_once(RP_HOST_WALK_EVENT, RP_STACK_MAX + 1, &ret), 0x1000);
	cr_assert_eq(walk_once(RP_HOST_WALK_EVENT, -EAGAIN, &ret), 0x1000);
	cr_assert_eq(ret, 0);
	cr_assert_eq(walk_once(RP_HOST_WALK_SIGNAL, -EAGAIN, &ret), 0x1000);
	cr_assert_eq(ret, -EAGAIN);
}

Test(host_frames, a_host_that_starts_or_ends_is_not_called)
{
	const struct rp_host host = host_with_walk();
	int ret;

	cr_assert_eq(rp_host_register(&host), 0);
	state = RP_HOST_STARTING;
	cr_assert_eq(walk_once(RP_HOST_WALK_EVENT, 1, &ret), 0x1000);
	state = RP_HOST_ENDING;
	cr_assert_eq(walk_once(RP_HOST_WALK_EVENT, 1, &ret), 0x1000);
	state = RP_HOST_RUNNING;
	cr_assert_eq(walk_once(RP_HOST_WALK_EVENT, 1, &ret), HOST);
	rp_host_unregister();
	cr_assert_eq(walk_once(RP_HOST_WALK_EVENT, 1, &ret), 0x1000);
}

Test(host_frames, there_is_one_host)
{
	const struct rp_host host = RP_HOST_INIT;

	cr_assert_eq(rp_host_register(&host), 0);
	cr_assert_eq(rp_host_register(&host), -EBUSY);
	rp_host_unregister();
	rp_host_unregister();
	cr_assert_eq(rp_host_register(&host), 0);
}

Test(host_frames, the_table_and_what_it_points_to_are_copied)
{
	struct rp_host_range range = loop;
	char name[] = "tiny", version[] = "1.0";
	struct rp_host host = RP_HOST_INIT;

	host.interpreters = &range;
	host.interpreter_count = 1;
	host.process_name = name;
	host.runtime_version = version;
	cr_assert_eq(rp_host_register(&host), 0);
	memset(&range, 0, sizeof(range));
	name[0] = version[0] = 'x';
	cr_assert_eq(rp_host_get()->interpreters[0].start, LOOP);
	cr_assert_str_eq(rp_host_get()->process_name, "tiny");
	cr_assert_str_eq(rp_host_get()->runtime_version, "1.0");
}

#define REFUSED(member, value) do { \
	struct rp_host host_ = RP_HOST_INIT; \
	host_.member = value; \
	cr_assert_eq(rp_host_register(&host_), -EINVAL, #member " = " #value); \
} while (0)

Test(host_frames, invalid_tables_are_refused)
{
	static const struct rp_host_range empty = { LOOP, LOOP };
	struct rp_host host = RP_HOST_INIT;
	char name[RP_NAME_MAX + 2];

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	cr_assert_eq(rp_host_register(NULL), -EINVAL);
	REFUSED(size, RP_HOST_SIZE_V1 - 1);
	REFUSED(size, 0);
	REFUSED(reserved, 1);
	REFUSED(sample_mode, RP_HOST_SAMPLE_SAFE_POINT);
	REFUSED(sample_mode, RP_HOST_SAMPLE_STOPPED);
	REFUSED(sample_mode, 3);
	REFUSED(interpreter_count, 1);
	REFUSED(command_set, RP_HOST_COMMAND_SET_MIN);
	REFUSED(process_name, "");
	REFUSED(process_name, "\xff");
	REFUSED(process_name, name);
	REFUSED(runtime_version, "1.0 beta");
	REFUSED(runtime_version, "");
	REFUSED(runtime_version, name);
	REFUSED(allocate, allocate);
	REFUSED(release, release);
	host.interpreters = &empty;
	host.interpreter_count = 1;
	cr_assert_eq(rp_host_register(&host), -EINVAL);
	host.interpreters = &loop;
	host.interpreter_count = RP_HOST_INTERPRETERS_MAX + 1;
	cr_assert_eq(rp_host_register(&host), -EINVAL);
}

Test(host_frames, memory_goes_back_to_the_host_that_supplied_it)
{
	struct rp_host host = RP_HOST_INIT;
	char *before = rp_heap_alloc(10), *during;
	int blocks = 0;

	host.allocate = allocate;
	host.release = release;
	host.data = &blocks;
	cr_assert_eq(rp_host_register(&host), 0);
	during = rp_heap_zalloc(2, 8);
	cr_assert_eq(blocks, 1);
	cr_assert_eq(during[15], 0);
	memcpy(during, "0123456789", 11);
	cr_assert_null(rp_heap_alloc(1000));
	cr_assert_null(rp_heap_zalloc(SIZE_MAX / 2, 3));
	cr_assert_null(rp_heap_alloc(SIZE_MAX));
	blocks = 1;
	cr_assert_null(rp_heap_resize(during, 2000));
	blocks = 1;
	rp_heap_free(before);
	cr_assert_eq(blocks, 1);
	during = rp_heap_resize(during, 100);
	cr_assert_str_eq(during, "0123456789");
	cr_assert_eq(blocks, 1);
	rp_host_unregister();
	during = rp_heap_resize(during, 5);
	cr_assert_eq(blocks, 0);
	cr_assert_eq(memcmp(during, "01234", 5), 0);
	rp_heap_free(during);
	rp_heap_free(NULL);
	cr_assert_eq(blocks, 0);
}
