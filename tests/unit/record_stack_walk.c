/* SPDX-License-Identifier: MIT */
/*
 * ringpipe record's walk of a stack from a copy, compared with libgcc's unwinder, and with files of
 * code that are damaged.
 */
#include <criterion/criterion.h>
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "../in_valgrind.h"
#include "tools/ringpipe-record/image.h"
#include "tools/ringpipe-record/stack_walk.h"

#define FRAMES_MAX 100
#define COPY_BYTES 65536u

/* A walk of this thread's stack, and libgcc's. */
struct both {
	uint64_t frames[FRAMES_MAX];
	unsigned int count;
	enum rp_walk_end end;
	void *expected[FRAMES_MAX];
	int expected_count;
};

static struct rp_images *images;
static struct rp_address_space space;

static void map_own_code(void)
{
	char *line = NULL;
	size_t line_space = 0;
	FILE *maps = fopen("/proc/self/maps", "re");

	cr_assert(maps && rp_images_create(&images) == 0);
	while (getline(&line, &line_space, maps) > 0) {
		struct rp_image_place place = { .process = getpid() };
		struct rp_mapped mapped = { 0 };
		char permissions[5], path[PATH_MAX] = "";

		line[strcspn(line, "\n")] = '\0';
		sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %s", &place.start,
		       &place.end, permissions, &mapped.file_offset, path);
		if (permissions[2] != 'x' || !*path)
			continue;
		place.path = path;
		mapped.start = place.start;
		mapped.end = place.end;
		mapped.image = rp_images_get(images, &place);
		cr_assert(mapped.image && rp_address_space_add(&space, &mapped) == 0);
	}
	free(line);
	fclose(maps);
}

static void unmap(void)
{
	rp_address_space_fini(&space);
	rp_images_destroy(images);
}

TestSuite(record_stack_walk, .init = map_own_code, .fini = unmap);

static void take_registers(struct rp_registers *registers)
{
	ucontext_t context;

	getcontext(&context);
	cr_assert(rp_registers_of_context(&context, registers));
}

/* The first frame is an instruction of this function, where each walk has its own. */
static __attribute__((noinline)) void walk_both(struct both *both)
{
	static uint8_t copy[COPY_BYTES];
	struct rp_registers registers;
	size_t size = 0;

	both->expected_count = backtrace(both->expected, FRAMES_MAX);
	take_registers(&registers);
	while (size < sizeof(copy) &&
	       rp_memory_peek(registers.value[RP_REG_RSP] + size, copy + size, 256))
		size += 256;
	both->count = rp_stack_walk(&space, &registers, copy, size, both->frames, FRAMES_MAX,
				    &both->end);
}

static __attribute__((noinline)) int innermost(struct both *both, size_t size)
{
	volatile char *variable = __builtin_alloca(size);

	variable[0] = 1;
	walk_both(both);
	return variable[0];
}

static int compare(const void *a, const void *b)
{
	struct both *both = *(struct both **)(uintptr_t)a;

	(void)b;
	return both->count ? 0 : innermost(both, 100) - 1;
}

/* Whether the walk from the caller of walk_both() on has the frames of libgcc's walk. */
static void expect_same(const struct both *both)
{
	unsigned int skip = 0;

	/* getcontext() may be called in a frame of its own. */
	while (skip < both->count && both->frames[skip] != (uint64_t)(uintptr_t)both->expected[1])
		skip++;
	cr_assert_leq(skip, 3, "no frame of the caller");
	for (int i = 1; i < both->expected_count && skip < both->count; i++, skip++)
		cr_assert_eq(both->frames[skip], (uint64_t)(uintptr_t)both->expected[i],
			     "frame %d", i);
	cr_assert_eq(skip, both->count);
	cr_assert_geq(both->expected_count, 5);
}

Test(record_stack_walk, has_the_frames_of_libgccs_walk)
{
	struct both both = { 0 }, *rows[2] = { &both, &both };
	if (runs_in_valgrind())
		cr_skip_test("valgrind runs code of its own");

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	cr_skip_test("getcontext() reads the registers of the sanitizer's function");
#endif
	/* Through libc, whose code has no frame pointers. */
	qsort(rows, 2, sizeof(rows[0]), compare);
	expect_same(&both);
}

Test(record_stack_walk, ends_where_the_copy_ends)
{
	static uint8_t copy[64];
	struct rp_registers registers;
	uint64_t frames[FRAMES_MAX];
	enum rp_walk_end end;

	take_registers(&registers);
	cr_assert(rp_memory_peek(registers.value[RP_REG_RSP], copy, sizeof(copy)));
	cr_assert_leq(rp_stack_walk(&space, &registers, copy, sizeof(copy), frames, FRAMES_MAX,
				    &end), 8);
	cr_assert_eq(end, RP_WALK_COPY_END);
}

/* A copy of this program's file, which the test damages. */
struct victim {
	char path[64];
	uint8_t *bytes;
	size_t size;
};

static void make_victim(struct victim *victim)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	struct stat stat;

	snprintf(victim->path, sizeof(victim->path), "/tmp/record_stack_walk.XXXXXX");
	to = mkostemp(victim->path, O_CLOEXEC);
	cr_assert(from >= 0 && to >= 0 && fstat(from, &stat) == 0);
	victim->size = (size_t)stat.st_size;
	victim->bytes = malloc(victim->size);
	cr_assert(victim->bytes && pread(from, victim->bytes, victim->size, 0) == stat.st_size);
	close(from);
	close(to);
}

/* Walks through each instruction of a page of the file, with a stack of random words. */
static void walk_in(struct victim *victim, size_t size, unsigned int *seed)
{
	struct rp_image_place place = {
		.process = getpid(), .start = 0x10000, .end = 0x10000 + victim->size,
		.path = victim->path,
	};
	struct rp_mapped mapped = { .start = place.start, .end = place.end };
	struct rp_registers registers = { .known = (1u << RP_REG_COUNT) - 1 };
	uint64_t stack[64], frames[FRAMES_MAX];
	struct rp_address_space own = { 0 };
	struct rp_images *own_images;
	enum rp_walk_end end;
	int fd = open(victim->path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	cr_assert(fd >= 0 && write(fd, victim->bytes, size) == (ssize_t)size);
	close(fd);
	cr_assert_eq(rp_images_create(&own_images), 0);
	mapped.image = rp_images_get(own_images, &place);
	cr_assert(mapped.image && rp_address_space_add(&own, &mapped) == 0);
	for (int i = 0; i < 200; i++) {
		for (size_t word = 0; word < 64; word++)
			stack[word] = place.start + (uint64_t)rand_r(seed) % victim->size;
		for (int reg = 0; reg < RP_REG_COUNT; reg++)
			registers.value[reg] = 0x7000000 + (uint64_t)rand_r(seed) % sizeof(stack);
		registers.value[RP_REG_RSP] = 0x7000000;
		registers.value[RP_REG_RIP] = stack[0];
		cr_assert_geq(rp_stack_walk(&own, &registers, stack, sizeof(stack), frames,
					    FRAMES_MAX, &end), 1);
	}
	rp_address_space_fini(&own);
	rp_images_destroy(own_images);
}

static void remove_victim(struct victim *victim)
{
	unlink(victim->path);
	free(victim->bytes);
}

Test(record_stack_walk, survives_files_that_were_truncated)
{
	struct victim victim;
	unsigned int seed = 1;

	make_victim(&victim);
	for (size_t size = 0; size < victim.size; size += victim.size / 40)
		walk_in(&victim, size, &seed);
	remove_victim(&victim);
}

Test(record_stack_walk, survives_files_that_were_truncated_after_they_were_opened)
{
	struct rp_image_place place = { .process = getpid(), .start = 1, .end = 2 };
	struct rp_registers registers = { .known = (1u << RP_REG_COUNT) - 1 };
	struct rp_mapped mapped = { .start = 0x10000 };
	struct rp_address_space own = { 0 };
	uint64_t stack[64] = { 0 }, frames[FRAMES_MAX];
	struct victim victim;
	enum rp_walk_end end;
	int fd;

	make_victim(&victim);
	fd = open(victim.path, O_WRONLY | O_CLOEXEC);
	cr_assert(fd >= 0 && write(fd, victim.bytes, victim.size) == (ssize_t)victim.size);
	place.path = victim.path;
	mapped.image = rp_images_get(images, &place);
	mapped.end = mapped.start + victim.size;
	cr_assert(mapped.image && mapped.image->text.header);
	cr_assert(rp_address_space_add(&own, &mapped) == 0 && ftruncate(fd, 0) == 0);
	for (uint64_t at = mapped.start; at < mapped.end; at += 997) {
		registers.value[RP_REG_RIP] = at;
		registers.value[RP_REG_RSP] = 0x7000000;
		cr_assert_eq(rp_stack_walk(&own, &registers, stack, sizeof(stack), frames,
					   FRAMES_MAX, &end), 1);
	}
	close(fd);
	rp_address_space_fini(&own);
	remove_victim(&victim);
}

Test(record_stack_walk, survives_files_with_changed_bytes)
{
	struct victim victim;
	unsigned int seed = 7;

	make_victim(&victim);
	for (int round = 0; round < 60; round++) {
		size_t places[50];
		uint8_t old[50];

		/* Half of the changes are in the headers. */
		for (int i = 0; i < 50; i++) {
			places[i] = (size_t)rand_r(&seed) % (i % 2 ? victim.size : 1024);
			old[i] = victim.bytes[places[i]];
			victim.bytes[places[i]] = (uint8_t)rand_r(&seed);
		}
		if (round % 4)		/* an ELF file that can be read as one */
			memcpy(victim.bytes, "\x7f" "ELF\x02\x01\x01", 7);
		walk_in(&victim, victim.size, &seed);
		for (int i = 49; i >= 0; i--)
			victim.bytes[places[i]] = old[i];
	}
	remove_victim(&victim);
}

Test(record_stack_walk, a_replaced_file_is_not_taken_for_the_mapped_one)
{
	static const uint8_t other[20] = { 1, 2, 3 };
	struct rp_image_place place = {
		.process = getpid(), .start = 1, .end = 2, .path = "/proc/self/exe",
		.build_id = other, .build_id_bytes = sizeof(other),
	};
	const struct rp_image *image = rp_images_get(images, &place);

	cr_assert(image && image->fd < 0 && image->segment_count == 0 && !image->text.header);
	cr_assert_eq(memcmp(image->build_id, other, sizeof(other)), 0);
}
