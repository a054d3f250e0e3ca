/* SPDX-License-Identifier: MIT */
/* The choices that the writer of dumps makes for a process's mappings. */
#include <criterion/criterion.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tools/ringpipe-dump/maps.h"
#include "tools/ringpipe-dump/plan.h"
#include "refuse.h"

static const char text[] =
	"55d000000000-55d000001000 r--p 00000000 08:01 4711    /usr/bin/a program\n"
	"Rss:                   4 kB\nSwap: 0 kB\nVmFlags: rd mr mw me sd \n"
	"55d000001000-55d000003000 rw-p 00001000 08:01 4711    /usr/bin/a program\n"
	"Rss:                   8 kB\nVmFlags: rd wr mr mw me ac sd \n"
	"7f0000000000-7f0000100000 rw-p 00000000 00:00 0 \n"
	"Rss:                   0 kB\nSwap:  12 kB\nVmFlags: rd wr mr mw me ac \n"
	"7f0000100000-7f0000200000 rw-p 00000000 00:00 0 \n"
	"Rss:                  12 kB\nVmFlags: rd wr mr mw me dd \n"
	"7f0000200000-7f0000300000 rw-s 00000000 00:01 99      /memfd:ring (deleted)\n"
	"Rss:                   0 kB\nSwap: 0 kB\nVmFlags: rd wr sh mr mw me ms \n"
	"7f0000300000-7f0000400000 rw-s 00000000 08:01 100     /var/data\n"
	"Rss:                   4 kB\nVmFlags: rd wr sh mr mw me ms \n"
	"7f0000400000-7f0000401000 rw-s 00000000 00:06 5       /dev/thing\n"
	"Rss:                   0 kB\nVmFlags: rd wr sh mr mw me ms io pf \n"
	"7ffc00000000-7ffc00004000 r--p 00000000 00:00 0       [vvar]\n"
	"VmFlags: rd mr pf io de dd \n"
	"7ffc00004000-7ffc00006000 r-xp 00000000 00:00 0       [vdso]\n"
	"Rss:                   8 kB\nVmFlags: rd ex mr mw me de \n"
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n"
	"VmFlags: ex\n";

/* The expected choice for each mapping above, by kind of dump. */
static const struct {
	enum rp_dump_choice mini, heap, full;
} expected[] = {
	{ RP_DUMP_CHANGED, RP_DUMP_CHANGED, RP_DUMP_ALL },
	{ RP_DUMP_CHANGED, RP_DUMP_CHANGED, RP_DUMP_ALL },
	{ RP_DUMP_NOTHING, RP_DUMP_PRESENT, RP_DUMP_PRESENT },
	{ RP_DUMP_NOTHING, RP_DUMP_NOTHING, RP_DUMP_NOTHING },
	{ RP_DUMP_NOTHING, RP_DUMP_PRESENT, RP_DUMP_PRESENT },
	{ RP_DUMP_NOTHING, RP_DUMP_NOTHING, RP_DUMP_ALL },
	{ RP_DUMP_NOTHING, RP_DUMP_NOTHING, RP_DUMP_NOTHING },
	{ RP_DUMP_NOTHING, RP_DUMP_NOTHING, RP_DUMP_NOTHING },
	{ RP_DUMP_ALL, RP_DUMP_ALL, RP_DUMP_ALL },
	{ RP_DUMP_NOTHING, RP_DUMP_NOTHING, RP_DUMP_NOTHING },
};

#define EXPECTED_COUNT (sizeof(expected) / sizeof(expected[0]))

static void parse(const char *smaps, size_t size, struct rp_dump_maps *maps)
{
	FILE *file = fmemopen((void *)(uintptr_t)smaps, size, "r");

	cr_assert_not_null(file);
	cr_assert_eq(rp_dump_maps_parse(maps, file), 0);
	fclose(file);
}

Test(dump_maps, mappings_are_read_with_what_the_kernel_says_of_them)
{
	struct rp_dump_maps maps;

	parse(text, sizeof(text) - 1, &maps);
	cr_assert_eq(maps.count, EXPECTED_COUNT);
	cr_assert_str_eq(maps.rows[1].path, "/usr/bin/a program");
	cr_assert_eq(maps.rows[1].start, 0x55d000001000);
	cr_assert_eq(maps.rows[1].end, 0x55d000003000);
	cr_assert_eq(maps.rows[1].offset, 0x1000);
	cr_assert_eq(maps.rows[1].inode, 4711);
	cr_assert(maps.rows[1].readable && maps.rows[1].writable && !maps.rows[1].executable);
	cr_assert(!maps.rows[1].shared && maps.rows[4].shared);
	cr_assert(maps.rows[2].touched && !maps.rows[4].touched);
	cr_assert_str_eq(maps.rows[2].path, "");
	rp_dump_maps_fini(&maps);
}

Test(dump_maps, each_kind_of_dump_takes_what_it_should)
{
	struct rp_dump_maps maps;

	parse(text, sizeof(text) - 1, &maps);
	for (size_t i = 0; i < EXPECTED_COUNT; i++) {
		const struct rp_dump_mapping *row = &maps.rows[i];

		cr_assert_eq(rp_dump_choose(row, RP_DUMP_MINI), expected[i].mini, "%zu", i);
		cr_assert_eq(rp_dump_choose(row, RP_DUMP_TRIAGE), expected[i].mini, "%zu", i);
		cr_assert_eq(rp_dump_choose(row, RP_DUMP_HEAP), expected[i].heap, "%zu", i);
		cr_assert_eq(rp_dump_choose(row, RP_DUMP_FULL), expected[i].full, "%zu", i);
	}
	rp_dump_maps_fini(&maps);
}

Test(dump_maps, text_cut_anywhere_is_read_as_far_as_it_goes)
{
	for (size_t size = 1; size < sizeof(text) - 1; size++) {
		struct rp_dump_maps maps;

		parse(text, size, &maps);
		cr_assert_leq(maps.count, EXPECTED_COUNT);
		for (size_t i = 0; i < maps.count; i++)
			cr_assert_lt(maps.rows[i].start, maps.rows[i].end);
		rp_dump_maps_fini(&maps);
	}
}

Test(dump_maps, plan_covers_everything_mapped_and_leaves_out_what_was_never_touched)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), reserved = (size_t)1 << 32;
	struct rp_tracee tracee = { .pid = getpid() };
	struct rp_dump_maps maps;
	struct rp_dump_plan plan;
	uint64_t data = 0;
	size_t at = 0;
	char *memory = mmap(NULL, reserved, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	cr_assert(memory != MAP_FAILED);
	madvise(memory, reserved, MADV_NOHUGEPAGE);
	memory[reserved / 2] = 1;
	cr_assert_eq(rp_dump_maps_read(&maps, getpid()), 0);
	cr_assert_eq(rp_dump_plan_make(&plan, &maps, &tracee, RP_DUMP_HEAP), 0);
	for (size_t i = 0; i < maps.count; i++) {
		uint64_t next = maps.rows[i].start;

		for (; at < plan.count && plan.segments[at].mapping == &maps.rows[i]; at++) {
			const struct rp_dump_segment *segment = &plan.segments[at];

			cr_assert_eq(segment->start, next);
			next = segment->end;
			if (segment->start >= (uintptr_t)memory &&
			    segment->end <= (uintptr_t)memory + reserved && segment->has_data)
				data += segment->end - segment->start;
		}
		cr_assert_eq(next, maps.rows[i].end);
	}
	cr_assert_eq(at, plan.count);
	cr_assert_eq(data, page);
	rp_dump_plan_fini(&plan);
	rp_dump_maps_fini(&maps);
	munmap(memory, reserved);
}

static uint64_t read_bytes(void)
{
	FILE *file = fopen("/proc/self/io", "r");
	uint64_t bytes = 0;

	cr_assert_not_null(file);
	cr_assert_eq(fscanf(file, "rchar: %" SCNu64, &bytes), 1);
	fclose(file);
	return bytes;
}

static bool kernel_looks_for_pages(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	cr_assert_eq(uname(&name), 0);
	cr_assert_eq(sscanf(name.release, "%u.%u", &major, &minor), 2);
	return major > 6 || (major == 6 && minor >= 7);
}

Test(dump_maps, reserved_memory_is_passed_over_and_divided_as_if_each_page_were_looked_at)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), reserved = (size_t)8 << 30;
	const struct rp_tracee tracee = { .pid = getpid() };
	struct rp_dump_maps maps = { 0 }, only = { .count = 1 };
	struct rp_dump_plan plan, by_pages;
	uint64_t before, passing, looking;
	char *memory = mmap(NULL, reserved, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	cr_assert(memory != MAP_FAILED);
	madvise(memory, reserved, MADV_NOHUGEPAGE);
	memory[0] = memory[3 * page] = memory[reserved / 3 & -page] = 1;
	memory[(reserved / 3 & -page) + page] = memory[reserved - page] = 1;
	cr_assert_eq(rp_dump_maps_read(&maps, getpid()), 0);
	for (only.rows = maps.rows; only.rows->end <= (uintptr_t)memory; only.rows++)
		;
	before = read_bytes();
	cr_assert_eq(rp_dump_plan_make(&plan, &only, &tracee, RP_DUMP_HEAP), 0);
	passing = read_bytes() - before;
	if (!refuse_call(SYS_ioctl, ENOTTY))
		cr_skip_test("no filter may be set here");
	before = read_bytes();
	cr_assert_eq(rp_dump_plan_make(&by_pages, &only, &tracee, RP_DUMP_HEAP), 0);
	looking = read_bytes() - before;
	cr_expect_geq(looking, reserved / page * sizeof(uint64_t));
	if (kernel_looks_for_pages())
		cr_expect_lt(passing, looking / 10, "%" PRIu64 " of %" PRIu64, passing, looking);

	cr_assert_eq(plan.count, by_pages.count);
	for (size_t i = 0; i < plan.count; i++) {
		cr_expect_eq(plan.segments[i].start, by_pages.segments[i].start);
		cr_expect_eq(plan.segments[i].end, by_pages.segments[i].end);
		cr_expect_eq(plan.segments[i].has_data, by_pages.segments[i].has_data);
	}
	cr_expect_geq(plan.count, 5u);
	rp_dump_plan_fini(&by_pages);
	rp_dump_plan_fini(&plan);
	rp_dump_maps_fini(&maps);
	munmap(memory, reserved);
}
