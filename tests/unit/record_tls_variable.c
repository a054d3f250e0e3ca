/* SPDX-License-Identifier: MIT */
/* Where threads have the variable of OpenTelemetry's OTEP 4947, as ringpipe record finds it. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/ringpipe-record/tls_variable.h"

#define NAME "otel_thread_ctx_v1"
#define HEADERS_MAX 64u

struct copy {
	uint8_t *bytes;
	size_t size;
};

static struct copy read_file(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct copy copy = { 0 };
	struct stat file;

	cr_assert(fd >= 0 && fstat(fd, &file) == 0, "%s", path);
	copy.size = (size_t)file.st_size;
	copy.bytes = malloc(copy.size);
	cr_assert(read(fd, copy.bytes, copy.size) == (ssize_t)copy.size);
	close(fd);
	return copy;
}

/* Find the variable in a file with these bytes. */
static struct rp_tls_variable find_in(const struct copy *copy)
{
	const int fd = memfd_create("elf", MFD_CLOEXEC);
	struct rp_tls_variable variable = { .slot = 1 };
	Elf64_Phdr headers[HEADERS_MAX];
	Elf64_Ehdr header = { 0 };
	uint32_t count;

	cr_assert(fd >= 0 && write(fd, copy->bytes, copy->size) == (ssize_t)copy->size);
	if (copy->size >= sizeof(header))
		memcpy(&header, copy->bytes, sizeof(header));
	count = header.e_phnum < HEADERS_MAX ? header.e_phnum : HEADERS_MAX;
	if (pread(fd, headers, count * sizeof(*headers), (off_t)header.e_phoff) !=
	    (ssize_t)(count * sizeof(*headers)))
		count = 0;
	rp_tls_variable_find(&(struct rp_tls_file){
		.fd = fd, .headers = headers, .count = count,
		.is_fixed = header.e_type == ET_EXEC,
	}, NAME, &variable);
	close(fd);
	return variable;
}

static struct rp_tls_variable find(const char *path)
{
	struct copy copy = read_file(path);
	const struct rp_tls_variable variable = find_in(&copy);

	free(copy.bytes);
	return variable;
}

/* Return: the distance of a loaded library's addresses from those of its file. */
static uint64_t load(const char *path, void **(**ret_slot)(void))
{
	void *library = dlopen(path, RTLD_NOW);
	struct link_map *map;

	cr_assert(library, "%s", dlerror());
	cr_assert(dlinfo(library, RTLD_DI_LINKMAP, &map) == 0);
	*(void **)ret_slot = dlsym(library, "context_slot");
	return map->l_addr;
}

static uint64_t thread_pointer(void)
{
	uint64_t pointer;

	__asm__("mov %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

/* The place as the BPF program computes it. */
static uint64_t address_of(const struct rp_context_place *place)
{
	const uint64_t *vector;

	if (place->module == 0)
		return thread_pointer() + (uint64_t)place->offset;
	vector = *(const uint64_t *const *)(thread_pointer() + 8);
	return vector[2 * place->module] + (uint64_t)place->offset;
}

static void check_library(const char *path, bool is_late)
{
	const struct rp_tls_variable variable = find(path);
	struct rp_context_place place;
	void **(*slot)(void), **own;
	uint64_t bias;

	if (variable.kind == RP_TLS_NONE)
		cr_skip("the compiler has no TLS descriptors");
	cr_assert(variable.kind == RP_TLS_DESCRIPTOR);
	bias = load(path, &slot);
	cr_assert(rp_tls_variable_locate(&variable, getpid(), bias, &place) == 0);
	cr_assert((place.module != 0) == is_late);
	own = slot();			/* the first use of a late library's block makes it */
	cr_assert(address_of(&place) == (uint64_t)(uintptr_t)own);
}

Test(record_tls_variable, a_library_has_the_variable_at_a_fixed_offset)
{
	check_library(CONTEXT_LIBRARY, false);
}

Test(record_tls_variable, a_library_that_is_loaded_late_has_the_variable_in_a_block_of_its_own)
{
	check_library(CONTEXT_LARGE_LIBRARY, true);
}

Test(record_tls_variable, an_executable_has_the_variable_below_the_thread_pointer)
{
	const struct rp_tls_variable variable = find(CONTEXT_PROGRAM);
	struct rp_context_place place;

	cr_assert(variable.kind == RP_TLS_FIXED);
	cr_assert(rp_tls_variable_locate(&variable, getpid(), 0, &place) == 0);
	cr_assert(place.module == 0 && place.offset < 0 && place.offset >= -64);
}

Test(record_tls_variable, other_files_lack_the_variable)
{
	cr_assert(find("/proc/self/exe").kind == RP_TLS_NONE);
}

Test(record_tls_variable, offsets_out_of_range_are_refused)
{
	static const int64_t wrong[] = { 0, 8, INT64_MAX, INT64_MIN, -(1ll << 40) };
	static volatile uint64_t words[2];
	struct rp_tls_variable variable = { .kind = RP_TLS_FIXED };
	struct rp_context_place place;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		variable.offset = wrong[i];
		cr_assert(rp_tls_variable_locate(&variable, getpid(), 0, &place) == -ERANGE);
	}
	variable = (struct rp_tls_variable){
		.kind = RP_TLS_OFFSET, .slot = (uintptr_t)words,
	};
	cr_assert(rp_tls_variable_locate(&variable, getpid(), 0, &place) == -EAGAIN);
	words[0] = 1u << 20;
	cr_assert(rp_tls_variable_locate(&variable, getpid(), 0, &place) == -ERANGE);
	variable.slot = 16;
	cr_assert(rp_tls_variable_locate(&variable, getpid(), 0, &place) == -EAGAIN);
	variable.kind = RP_TLS_DESCRIPTOR;
	variable.slot = (uintptr_t)words;
	words[1] = 24;			/* an argument in unmapped memory */
	cr_assert(rp_tls_variable_locate(&variable, getpid(), 0, &place) == -EAGAIN);
	words[1] = (uintptr_t)words;	/* module 1048576 */
	cr_assert(rp_tls_variable_locate(&variable, getpid(), 0, &place) == -ERANGE);
}

/* A damaged file has the variable or lacks it, and a loop in it ends. */
Test(record_tls_variable, damaged_files_are_read_without_a_crash, .timeout = 60)
{
	struct copy copy = read_file(CONTEXT_LIBRARY);
	uint64_t random = 88172645463325252u;

	for (int round = 0; round < 2000; round++) {
		struct copy damaged = { malloc(copy.size), copy.size };

		memcpy(damaged.bytes, copy.bytes, copy.size);
		for (int i = 0; i < 20; i++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			damaged.bytes[random % (i % 2 ? copy.size : 4096)] =
				(uint8_t)(random >> 40);
		}
		if (round % 4 == 0)
			damaged.size = random % copy.size;
		(void)find_in(&damaged);
		free(damaged.bytes);
	}
	free(copy.bytes);
}
