/* SPDX-License-Identifier: MIT */
/*
 * Uses a given time of CPU, in functions without frame pointers that call each other in a known
 * order, and prints the time that it used.
 *
 * usage: record_host MILLISECONDS [deep|exec|code|jit|moved]
 *
 * deep	the innermost function runs below an array of 24 KB on the stack, and one of variable size
 * exec	at its end, it executes another program
 * code	it copies its innermost function into anonymous memory and runs it there, as a compiler
 *	does at run time, and writes a map of it for perf(1)
 * jit	the same, with a jitdump file, which is mapped
 * moved	the file states that the code was moved
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t result;

static uint64_t used_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* It calls nothing, so that its code can be copied. */
static __attribute__((noinline, aligned(64))) uint64_t innermost(uint64_t rounds)
{
	uint64_t value = rounds;

	for (uint64_t i = 0; i < rounds; i++) {
		value = value * 6364136223846793005u + 1442695040888963407u;
		__asm__ volatile("" : "+r"(value));
	}
	return value;
}

static __attribute__((noinline, aligned(64))) void after_innermost(void)
{
	__asm__ volatile("");
}

static uint64_t (*run)(uint64_t) = innermost;

static __attribute__((noinline)) void middle(uint64_t end_ns)
{
	while (used_ns() < end_ns)
		result += run(200000);
}

static __attribute__((noinline)) void below_arrays(uint64_t end_ns, size_t size)
{
	volatile char array[24576];
	volatile char *variable = __builtin_alloca(size);

	/* A page that was never written is not in memory, and is missing in copies of the stack. */
	for (size_t i = 0; i < sizeof(array); i += 1024)
		array[i] = 1;
	variable[0] = 1;
	middle(end_ns);
	result += (uint64_t)array[1024] + (uint64_t)variable[0];
}

static __attribute__((noinline)) void outermost(uint64_t end_ns, int deep)
{
	if (deep)
		below_arrays(end_ns, 1000);
	else
		middle(end_ns);
	result++;
}

static void put(FILE *file, const void *bytes, size_t size)
{
	if (fwrite(bytes, 1, size, file) != size)
		exit(1);
}

/*
 * Write a jitdump file, of which the first page is mapped as executable. With `is_moved`, the code
 * was generated elsewhere, and then moved.
 */
static void write_jit_dump(const void *code, size_t size, int is_moved)
{
	static const char name[] = "jitted function";
	const uint64_t at = (uint64_t)(uintptr_t)code, first = is_moved ? 0x1000 : at;
	const uint32_t header[] = { 0x4a695444, 1, 40, 62, 0, (uint32_t)getpid(), 0, 0, 0, 0 };
	const uint32_t ids[] = { (uint32_t)getpid(), (uint32_t)getpid() };
	const uint32_t load[] = { 0, (uint32_t)(16 + 40 + sizeof(name) + size), 0, 0 };
	const uint32_t move[] = { 1, 16 + 48, 0, 0 };
	const char *folder = getenv("TMPDIR");
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/jit-%d.dump", folder ? folder : "/tmp", getpid());
	file = fopen(path, "w+");
	if (!file)
		exit(1);
	put(file, header, sizeof(header));
	put(file, load, sizeof(load));
	put(file, ids, sizeof(ids));
	put(file, (uint64_t[]){ first, first, size, 1 }, 32);
	put(file, name, sizeof(name));
	put(file, code, size);
	if (is_moved) {
		put(file, move, sizeof(move));
		put(file, ids, sizeof(ids));
		put(file, (uint64_t[]){ at, first, at, size, 1 }, 40);
	}
	/* A compiler may be writing the next record. */
	put(file, load, 9);
	if (fflush(file) != 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(file),
				      0) == MAP_FAILED)
		exit(1);
}

static void write_map(const void *code, size_t size)
{
	char path[64];
	FILE *map;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	map = fopen(path, "w");
	if (!map)
		exit(1);
	fprintf(map, "%lx %zx generated function\n", (unsigned long)code, size);
	fclose(map);
}

static void generate_code(const char *kind)
{
	size_t size = (size_t)((char *)after_innermost - (char *)innermost);
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED || size > 4096)
		exit(1);
	memcpy(code, (void *)innermost, size);
	run = (uint64_t (*)(uint64_t))code;
	if (!strcmp(kind, "code"))
		write_map(code, size);
	else
		write_jit_dump(code, size, !strcmp(kind, "moved"));
}

int main(int argc, char **argv)
{
	uint64_t ns = argc > 1 ? strtoull(argv[1], NULL, 10) * 1000000 : 0;

	if (argc > 2 && strcmp(argv[2], "deep") != 0 && strcmp(argv[2], "exec") != 0)
		generate_code(argv[2]);
	outermost(used_ns() + ns, argc > 2 && !strcmp(argv[2], "deep"));
	printf("%llu\n", (unsigned long long)used_ns());
	if (argc > 2 && !strcmp(argv[2], "exec")) {
		fflush(stdout);
		execl("/bin/true", "true", (char *)NULL);
	}
	return 0;
}
