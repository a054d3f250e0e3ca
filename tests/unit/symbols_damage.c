/* SPDX-License-Identifier: MIT */
/* Damaged files: whatever their content, the host that looks up a name survives. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/symbols.h"

#define ADDRESSES 64u

int rp_symbols_find(const struct rp_symbols_query *query);

static uint8_t *whole;
static size_t whole_bytes;
static uint64_t addresses[ADDRESSES];
static unsigned int found_count;
static bool stop;

static void set_up(void)
{
	int fd = open(SYMBOLS_CODE, O_RDONLY | O_CLOEXEC);
	struct stat stat;

	cr_assert_geq(fd, 0);
	cr_assert_eq(fstat(fd, &stat), 0);
	whole_bytes = (size_t)stat.st_size;
	whole = malloc(whole_bytes);
	cr_assert_eq(read(fd, whole, whole_bytes), (ssize_t)whole_bytes);
	close(fd);
	for (unsigned int i = 0; i < ADDRESSES; i++)
		addresses[i] = 0x1000 + i * 8u;
}

static void tear_down(void)
{
	free(whole);
}

TestSuite(symbols_damage, .init = set_up, .fini = tear_down, .timeout = 120);

static void count_found(void *data, uint64_t start, uint64_t end, const char *name)
{
	(void)data;
	found_count++;
	cr_assert_lt(start, end);
	cr_assert_leq(strlen(name), RP_SYMBOL_NAME_MAX);
}

static bool is_over(void *data)
{
	(void)data;
	return stop;
}

static int find_in(const char *path, const void *image, size_t image_bytes)
{
	const char *const paths[] = { path };
	struct rp_symbols_query query = {
		.size = sizeof(query), .address_count = ADDRESSES, .addresses = addresses,
		.paths = paths, .path_count = path ? 1 : 0, .named = path ? path : "",
		.debug_directory = "/nowhere", .image = image, .image_bytes = image_bytes,
		.found = count_found, .is_over = is_over,
	};

	found_count = 0;
	return rp_symbols_find(&query);
}

/* As a file, which is read by pread(2), and as an image in memory. */
static void find_in_bytes(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("damaged", MFD_CLOEXEC);
	uint8_t *copy = malloc(size ? size : 1);
	char path[64];
	int ret;

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ret = find_in(path, NULL, 0);
	cr_assert(ret == 0 || ret == -ENOEXEC || ret == -ENOENT || ret == -ENOMEM, "%d", ret);
	close(fd);
	memcpy(copy, bytes, size);
	(void)find_in(NULL, copy, size);
	free(copy);
}

Test(symbols_damage, finds_functions_in_the_whole_file)
{
	cr_assert_eq(find_in(SYMBOLS_CODE, NULL, 0), 0);
	cr_assert_gt(found_count, 3);
	find_in_bytes(whole, whole_bytes);
	cr_assert_gt(found_count, 3);
}

Test(symbols_damage, survives_a_file_cut_anywhere)
{
	for (size_t size = 0; size < whole_bytes; size += size < 1024 ? 1 : 61)
		find_in_bytes(whole, size);
}

/* A generator with the same numbers in each run. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

Test(symbols_damage, survives_bytes_that_are_not_what_they_were)
{
	static const uint64_t values[] = { 0, 1, 0x7f, 0xff, 0x7fffffff, UINT32_MAX, UINT64_MAX };
	uint64_t state = 0x9e3779b97f4a7c15ull;
	uint8_t *bytes = malloc(whole_bytes);

	for (unsigned int round = 0; round < 2000; round++) {
		unsigned int changes = 1 + (unsigned int)(next_random(&state) % 8);

		memcpy(bytes, whole, whole_bytes);
		for (unsigned int i = 0; i < changes; i++) {
			/*
			 * Half of the changes are in the headers, at the end of the file or its
			 * start.
			 */
			size_t span = next_random(&state) % 2 ? whole_bytes - 8 : 2048;
			size_t at = next_random(&state) % span;
			uint64_t value = next_random(&state) % 2 ? next_random(&state) :
					 values[next_random(&state) % 7];

			if (span == 2048 && next_random(&state) % 2)
				at = whole_bytes - 8 - at;
			memcpy(bytes + at, &value, 1u << next_random(&state) % 4);
		}
		find_in_bytes(bytes, whole_bytes);
	}
	free(bytes);
}

Test(symbols_damage, stops_when_it_is_over)
{
	stop = true;
	cr_assert_eq(find_in(SYMBOLS_CODE, NULL, 0), 0);
	cr_assert_eq(found_count, 0);
}

static unsigned int looks;

static bool is_over_soon(void *data)
{
	(void)data;
	return ++looks > 3;
}

/* Makes every symbol a function that contains every address. */
static void spread_symbols(uint8_t *bytes)
{
	const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)bytes;
	const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(bytes + head->e_shoff);

	for (unsigned int i = 0; i < head->e_shnum; i++) {
		ElfW(Sym) *symbols = (ElfW(Sym) *)(bytes + sections[i].sh_offset);

		if (sections[i].sh_type != SHT_SYMTAB && sections[i].sh_type != SHT_DYNSYM)
			continue;
		for (size_t at = 1; at < sections[i].sh_size / sizeof(*symbols); at++) {
			symbols[at].st_info = STB_GLOBAL << 4 | STT_FUNC;
			symbols[at].st_shndx = 1;
			symbols[at].st_value = 0x1000;
			symbols[at].st_size = 0x100000;
		}
	}
}

Test(symbols_damage, asks_whether_it_is_over_by_the_work_done)
{
	static uint64_t many[60000];
	struct rp_symbols_query query = {
		.size = sizeof(query), .address_count = 60000, .addresses = many, .named = "",
		.debug_directory = "/nowhere", .image = whole, .image_bytes = whole_bytes,
		.found = count_found, .is_over = is_over_soon,
	};

	spread_symbols(whole);
	for (unsigned int i = 0; i < 60000; i++)
		many[i] = 0x1000 + i;
	found_count = 0;
	cr_assert_eq(rp_symbols_find(&query), 0);
	/* Only the table that contains it and the next one are read, each once. */
	cr_assert(looks == 4 || looks == 5, "%u", looks);
	cr_assert_eq(found_count, 0);
}

Test(symbols_damage, refuses_a_query_of_another_build)
{
	struct rp_symbols_query query = { .size = sizeof(query) - 8 };

	cr_assert_eq(rp_symbols_find(&query), -EINVAL);
}
