/* SPDX-License-Identifier: MIT */
/*
 * Measures an event that only kernel tracers see, compared with a bare uprobe on a nop instruction,
 * in the same run, interleaved round by round. Each has a BPF program of two instructions. Exits
 * with 77 if the kernel does not permit that.
 */
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"

#define ROUNDS 500u
#define EVENTS 1000u
#define CANNOT 77

RP_PROVIDER(bench, "Bench-Traced");
RP_EVENT(bench, traced, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

#if defined(RP_PLACE_0_)
void bare_site(void);
__asm__(".pushsection .text\n"
	".type bare_site,\"function\"\n"
	"bare_site: nop\n\t"
	"ret\n"
	".popsection\n");

/* Finds the file that is mapped at an address, and the offset in it. */
static int find(const void *address, char path[4096], uint64_t *ret_offset)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to, offset;
	char line[4200];
	int found = -1;

	while (maps && found < 0 && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %4095s", &from, &to, &offset,
			   path) == 4 &&
		    (uintptr_t)address >= from && (uintptr_t)address < to) {
			*ret_offset = (uintptr_t)address - from + offset;
			found = 0;
		}
	}
	if (maps)
		fclose(maps);
	return found;
}

static int kernel_number(const char *path, const char *format)
{
	FILE *file = fopen(path, "r");
	int number = -1;

	if (file && fscanf(file, format, &number) != 1)
		number = -1;
	if (file)
		fclose(file);
	return number;
}

static int load_empty_program(void)
{
	const struct bpf_insn instructions[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },	/* r0 = 0 */
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attributes = {
		.prog_type = BPF_PROG_TYPE_KPROBE, .insns = (uintptr_t)instructions,
		.insn_cnt = 2, .license = (uintptr_t)"GPL",
	};

	return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof(attributes));
}

/* With `semaphore`, the kernel counts tracers there. */
static int attach(int program, const void *address, const void *semaphore)
{
	static const char format[] = "/sys/bus/event_source/devices/uprobe/format/ref_ctr_offset";
	static const char type[] = "/sys/bus/event_source/devices/uprobe/type";
	struct perf_event_attr attributes = { .size = sizeof(attributes) };
	uint64_t offset, semaphore_offset = 0;
	char path[4096];
	int fd;

	if (find(address, path, &offset) < 0 ||
	    (semaphore && find(semaphore, path, &semaphore_offset) < 0))
		return -1;
	attributes.type = (uint32_t)kernel_number(type, "%d");
	if (semaphore)
		attributes.config = semaphore_offset << kernel_number(format, "config:%d");
	attributes.config1 = (uintptr_t)path;
	attributes.config2 = offset;
	fd = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) < 0)
		return -1;
	return ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
}

static double run_bare(void)
{
	double begin = now_ns();

	for (unsigned int i = 0; i < EVENTS; i++)
		bare_site();
	return (now_ns() - begin) / EVENTS;
}

static double run_event(void)
{
	double begin = now_ns();

	for (unsigned int i = 0; i < EVENTS; i++)
		bench_traced(i, 2, 3, 4);
	return (now_ns() - begin) / EVENTS;
}

int main(void)
{
	static double bare[ROUNDS], event[ROUNDS];
	int program = load_empty_program();

	if (program < 0 || attach(program, (const void *)bare_site, NULL) < 0 ||
	    attach(program, (const void *)bench_traced_probe_,
		   (const char *)&bench_traced_event_.enable + 6) < 0) {
		perror("cannot attach");
		return CANNOT;
	}
	if (!bench_traced_enabled())
		return 1;
	for (unsigned int i = 0; i < bench_rounds(ROUNDS); i++) {
		bare[i] = run_bare();
		event[i] = run_event();
	}
	figure_rounds("uprobe on a nop, empty BPF program", bare, bench_rounds(ROUNDS));
	figure_rounds("event with such a tracer", event, bench_rounds(ROUNDS));
	return 0;
}
#else
int main(void)
{
	return CANNOT;
}
#endif
