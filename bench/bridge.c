/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of BPF consumers for a process that writes a million events per second: in
 * batches, with `ringpipe bpf count` attached, and with a uprobe on each event and a BPF program
 * that counts. The figures are CPU time of the process and of its writing thread, minus that of the
 * loop without a consumer. Rounds alternate. For a tenth of a second before each measurement, the
 * writer fills a whole ring once, so that its pages exist.
 *
 *	bridge RINGPIPE [SECONDS]
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"

#define ROUNDS 9u
#define PER_MS 1000u
#define WARM_UP_MS 100u

RP_PROVIDER(bench, "Bench-Bridge");
RP_EVENT(bench, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

/* A probe like those of USDT: a nop, which the kernel need not single-step. */
void probe(uint64_t a, uint64_t b, uint64_t c, uint64_t d);
__asm__(".text\n.global probe\n.type probe, %function\nprobe:\n\tnop\n\tret\n"
	".size probe, . - probe\n");

/* CPU time, in ns for each event. */
struct cost {
	double process, writer;
};

static double cpu_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* A million events per second, paced by the millisecond. */
static void offer_for(unsigned int milliseconds)
{
	struct timespec next;
	uint64_t serial = 0;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned int ms = 0; ms < milliseconds; ms++) {
		for (unsigned int i = 0; i < PER_MS; i++, serial++) {
			bench_bytes32(serial, ms, i, 1);
			probe(serial, ms, i, 1);
		}
		next.tv_nsec += 1000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
}

static struct cost offer(unsigned int seconds)
{
	double events = (double)seconds * 1000 * PER_MS, process, writer;

	offer_for(WARM_UP_MS);
	process = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
	writer = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	offer_for(seconds * 1000);
	writer = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - writer;
	process = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - process;
	return (struct cost){ process / events, writer / events };
}

static uint64_t offered(unsigned int seconds)
{
	return (WARM_UP_MS + (uint64_t)seconds * 1000) * PER_MS;
}

/* Exit status 77: the benchmark cannot run on this machine. */
static void fail(const char *what)
{
	fprintf(stderr, "bridge: %s: %s\n", what, strerror(errno));
	exit(errno == EPERM || errno == EACCES || errno == ENOSYS ? 77 : 1);
}

/* Loads a BPF program that increments a number in a map. Return: its descriptor. */
static int load_counter(int *ret_map)
{
	union bpf_attr map = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8,
			       .max_entries = 1 };
	int map_fd = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map));
	const struct bpf_insn program[] = {
		{ .code = BPF_LD | BPF_IMM | BPF_DW, .dst_reg = 1,
		  .src_reg = BPF_PSEUDO_MAP_VALUE, .imm = map_fd },
		{ 0 },
		{ .code = BPF_LDX | BPF_MEM | BPF_DW, .dst_reg = 2, .src_reg = 1 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 2, .imm = 1 },
		{ .code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = 1, .src_reg = 2 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load = { .prog_type = BPF_PROG_TYPE_KPROBE, .insns = (uintptr_t)program,
				.insn_cnt = sizeof(program) / sizeof(program[0]),
				.license = (uintptr_t)"MIT" };
	int fd = map_fd < 0 ? -1 : (int)syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load));

	if (fd < 0)
		fail("bpf");
	*ret_map = map_fd;
	return fd;
}

static uint64_t read_counter(int map)
{
	uint64_t value = 0;
	uint32_t key = 0;
	union bpf_attr lookup = { .map_fd = (uint32_t)map, .key = (uintptr_t)&key,
				  .value = (uintptr_t)&value };

	syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &lookup, sizeof(lookup));
	return value;
}

/* The offset of `probe` in this program's file. */
static uint64_t probe_offset(void)
{
	uint64_t start, end, offset;
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 &&
		    (uintptr_t)probe >= start && (uintptr_t)probe < end) {
			fclose(maps);
			return (uintptr_t)probe - start + offset;
		}
	}
	fail("/proc/self/maps");
	return 0;
}

/* Return: a perf event; closing it removes the probe. */
static int attach_uprobe(int program)
{
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	struct perf_event_attr attr = { .size = sizeof(attr) };
	int fd;

	if (!file || fscanf(file, "%u", &attr.type) != 1)
		fail("the uprobe event source");
	fclose(file);
	attr.config1 = (uintptr_t)"/proc/self/exe";
	attr.config2 = probe_offset();
	fd = (int)syscall(SYS_perf_event_open, &attr, getpid(), -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) != 0 ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) != 0)
		fail("perf_event_open");
	return fd;
}

static struct cost offer_probed(unsigned int seconds)
{
	int map, program = load_counter(&map), event = attach_uprobe(program);
	struct cost cost = offer(seconds);
	uint64_t seen = read_counter(map);

	close(event);
	close(program);
	close(map);
	if (seen != offered(seconds)) {
		fprintf(stderr, "bridge: the uprobe saw %lu events\n", seen);
		exit(1);
	}
	return cost;
}

/* Reads a stream to its end, or only its first line. */
static void read_text(int fd, char *text, size_t space, bool line)
{
	size_t size = 0;
	ssize_t got;

	while (size < space - 1 && !(line && memchr(text, '\n', size)) &&
	       (got = read(fd, text + size, space - 1 - size)) > 0)
		size += (size_t)got;
	text[size] = '\0';
}

/*
 * Runs `ringpipe bpf count` during the measurement, and fails unless it saw every event that was
 * not lost.
 */
static struct cost offer_bridged(const char *tool, unsigned int seconds, double *ret_lost)
{
	int said[2], reported[2];
	char pid[16], text[4096];
	unsigned long delivered, lost, seen;
	const char *stats;
	pid_t child;
	struct cost cost;

	snprintf(pid, sizeof(pid), "%d", getpid());
	if (pipe(said) != 0 || pipe(reported) != 0)
		fail("pipe");
	child = fork();
	if (child == 0) {
		dup2(said[1], STDERR_FILENO);
		dup2(reported[1], STDOUT_FILENO);
		execlp(tool, tool, "bpf", "count", "-p", pid, "--providers", "Bench-Bridge",
		       "--buffer", "16", "--format", "json", (char *)NULL);
		_exit(127);
	}
	close(said[1]);
	close(reported[1]);
	read_text(said[0], text, sizeof(text), true);
	if (strncmp(text, "Attached", 8) != 0) {
		fprintf(stderr, "bridge: %s", text);
		exit(77);
	}
	cost = offer(seconds);
	kill(child, SIGINT);
	read_text(reported[0], text, sizeof(text), false);
	waitpid(child, NULL, 0);
	close(said[0]);
	close(reported[0]);
	stats = strstr(text, "\"delivered\"");
	if (!stats ||
	    sscanf(stats, "\"delivered\": %lu, \"lost\": %lu", &delivered, &lost) != 2 ||
	    !(stats = strstr(stats, "\"seen\"")) ||
	    sscanf(stats, "\"seen\": %lu", &seen) != 1 || seen != delivered ||
	    delivered + lost != offered(seconds)) {
		fprintf(stderr, "bridge: ringpipe bpf says:\n%s", text);
		exit(1);
	}
	*ret_lost += (double)lost;
	return cost;
}

/* The round with the lowest cost for the process. */
static struct cost best(const struct cost *rounds, unsigned int count)
{
	struct cost least = rounds[0];

	for (unsigned int i = 1; i < count; i++) {
		if (rounds[i].process < least.process)
			least = rounds[i];
	}
	return least;
}

int main(int argc, char **argv)
{
	unsigned int seconds = argc > 2 ? (unsigned int)atoi(argv[2]) : 1;
	unsigned int count = bench_rounds(ROUNDS);
	struct cost rounds[3][ROUNDS], alone, bridged, probed;
	double lost = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: bridge RINGPIPE [SECONDS]\n");
		return 2;
	}
	for (unsigned int i = 0; i < count; i++) {
		rounds[0][i] = offer(seconds);
		rounds[1][i] = offer_bridged(argv[1], seconds, &lost);
		rounds[2][i] = offer_probed(seconds);
	}
	alone = best(rounds[0], count);
	bridged = best(rounds[1], count);
	probed = best(rounds[2], count);
	figure("nobody attached", alone.process, "ns");
	figure("by batches", bridged.process - alone.process, "ns");
	figure("by batches: writing", bridged.writer - alone.writer, "ns");
	figure("by batches: drain thread and BPF", bridged.process - bridged.writer, "ns");
	figure("by a uprobe on each", probed.process - alone.process, "ns");
	figure("lost", lost, "events");
	return 0;
}
