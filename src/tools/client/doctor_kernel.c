/* SPDX-License-Identifier: MIT */
/* Checks of what the kernel lets this user trace. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "tools/cli/tool.h"
#include "tools/client/doctor.h"

#define GRANT "run as root, or setcap " RP_RECORD_CAPABILITIES "+ep on the program"
#define TRACING "/sys/kernel/tracing"

static int open_event(uint32_t type, uint64_t config, pid_t pid, bool with_kernel)
{
	struct perf_event_attr attr = {
		.type = type, .size = sizeof(attr), .config = config, .freq = 1, .sample_freq = 99,
		.sample_type = PERF_SAMPLE_IP, .disabled = 1, .exclude_kernel = !with_kernel,
		.exclude_hv = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, pid, pid < 0 ? 0 : -1, -1,
			      PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static bool try_event(uint32_t type, uint64_t config, pid_t pid, bool with_kernel, int *ret_error)
{
	int fd = open_event(type, config, pid, with_kernel);

	*ret_error = fd < 0 ? -fd : 0;
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

void rp_check_perf_events(struct rp_finding *ret_finding)
{
	const uint64_t clock = PERF_COUNT_SW_CPU_CLOCK;
	int error, own_error;

	if (try_event(PERF_TYPE_SOFTWARE, clock, -1, true, &error))
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL,
			       "samples of all processes and of the kernel");
	else if (try_event(PERF_TYPE_SOFTWARE, clock, 0, false, &own_error))
		rp_finding_set(ret_finding, RP_CHECK_LIMITED,
			       GRANT "; or sysctl kernel.perf_event_paranoid=-1",
			       "samples of this user's processes, without the kernel (all: %s)",
			       strerror(error));
	else
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       "allow perf_event_open in the container's seccomp filter; sysctl "
			       "kernel.perf_event_paranoid=2", "perf_event_open: %s",
			       strerror(own_error));
}

void rp_check_cycles(struct rp_finding *ret_finding)
{
	int error;

	if (try_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0, false, &error))
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "counted by the processor");
	else
		rp_finding_set(ret_finding, RP_CHECK_LIMITED,
			       error == ENOENT ? "give the virtual machine a virtual PMU" : NULL,
			       "no counter (%s); samples go by the CPU clock", strerror(error));
}

static int load_program(uint32_t type)
{
	static const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K }, { .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type = type, .insns = (uint64_t)(uintptr_t)insns, .insn_cnt = 2,
		.license = (uint64_t)(uintptr_t)"MIT",
	};
	int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));

	return fd < 0 ? -errno : fd;
}

void rp_check_bpf(struct rp_finding *ret_finding)
{
	int program = load_program(BPF_PROG_TYPE_RAW_TRACEPOINT), link;
	union bpf_attr attr = {
		.raw_tracepoint.name = (uint64_t)(uintptr_t)"sched_switch",
		.raw_tracepoint.prog_fd = (uint32_t)program,
	};

	if (program < 0) {
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       program == -ENOSYS ? "use a kernel with CONFIG_BPF_SYSCALL" : GRANT,
			       "no program can be loaded: %s", strerror(-program));
		return;
	}
	link = (int)syscall(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &attr, sizeof(attr));
	if (link < 0)
		rp_finding_set(ret_finding, RP_CHECK_LIMITED, GRANT,
			       "programs load, and do not attach to tracepoints: %s",
			       strerror(errno));
	else
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL,
			       "programs load and attach to tracepoints");
	if (link >= 0)
		close(link);
	close(program);
}

void rp_check_btf(struct rp_finding *ret_finding)
{
	static const char path[] = "/sys/kernel/btf/vmlinux";

	if (access(path, R_OK) == 0)
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "%s", path);
	else
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       "use a kernel with CONFIG_DEBUG_INFO_BTF", "%s: %s", path,
			       strerror(errno));
}

void rp_check_tracefs(struct rp_finding *ret_finding)
{
	char id[16];
	ssize_t size = rp_file_read(TRACING "/events/sched/sched_switch/id", id, sizeof(id));

	if (size > 0)
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "at " TRACING);
	else if (access(TRACING "/events", F_OK) != 0 && errno == ENOENT)
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       "mount -t tracefs tracefs " TRACING, "not mounted at " TRACING);
	else
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       "run as root, or chmod -R o+rX " TRACING, TRACING ": %s",
			       strerror(size < 0 ? (int)-size : EIO));
}

/* bpf/waits.bpf.c copies the stack of a thread where the kernel updates its rseq area. */
void rp_check_waits(struct rp_finding *ret_finding)
{
	char id[16];
	ssize_t size = rp_file_read(TRACING "/events/rseq/rseq_update/id", id, sizeof(id));

	if (size > 0)
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "tracepoint rseq:rseq_update");
	else if (size == -ENOENT)
		rp_finding_set(ret_finding, RP_CHECK_LIMITED, "use a kernel with CONFIG_RSEQ",
			       "no tracepoint rseq:rseq_update, or no tracefs");
	else
		rp_finding_set(ret_finding, RP_CHECK_MISSING, GRANT, "tracefs: %s",
			       strerror((int)-size));
}

void rp_check_uprobes(struct rp_finding *ret_finding)
{
	static const char path[] = TRACING "/uprobe_events";
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd >= 0)
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "%s is writable", path);
	else
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       errno == ENOENT ? "use a kernel with CONFIG_UPROBE_EVENTS" :
						 "run as root", "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

void rp_check_user_events(struct rp_finding *ret_finding)
{
	static const char path[] = TRACING "/user_events_data";
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "%s is writable", path);
	else
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       errno == ENOENT ? "use a kernel with CONFIG_USER_EVENTS" :
			       "run as root, or chmod o+rw " TRACING "/user_events_data",
			       "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

void rp_check_kernel_names(struct rp_finding *ret_finding)
{
	unsigned long long address = 0;
	FILE *file = fopen("/proc/kallsyms", "re");

	/* The first symbols of x86-64 are offsets in per-CPU data, so look at some more. */
	for (int i = 0; file && address == 0 && i < 100; i++) {
		if (fscanf(file, "%llx %*[^\n]", &address) != 1)
			break;
	}
	if (file)
		fclose(file);
	if (address)
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "from /proc/kallsyms");
	else
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       "run as root with sysctl kernel.kptr_restrict=1",
			       "/proc/kallsyms %s", file ? "hides the addresses" :
						    "cannot be read");
}

static bool can_read_maps(const char *pid)
{
	char path[RP_CHECK_TEXT_MAX], byte;
	int fd;
	bool can;

	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* A process that has just ended denies nothing. */
	can = fd >= 0 ? read(fd, &byte, 1) >= 0 || errno == ESRCH : errno == ENOENT;
	if (fd >= 0)
		close(fd);
	return can;
}

void rp_check_other_processes(struct rp_finding *ret_finding)
{
	unsigned int count = 0, readable = 0;
	const struct dirent *entry;
	DIR *dir = opendir("/proc");

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		count++;
		readable += can_read_maps(entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (count && readable == count)
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "all can be read");
	else
		rp_finding_set(ret_finding, RP_CHECK_LIMITED, geteuid() == 0 ? NULL : GRANT,
			       "%u of %u can be read", readable, count);
}
