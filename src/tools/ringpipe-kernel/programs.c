/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-kernel/programs.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <kernel.skel.h>

#define RING_BYTES_MIN (64u << 10)
#define RING_BYTES_MAX (256u << 20)

struct rp_probe {
	struct kernel_bpf *bpf;
	struct ring_buffer *ring;
	rp_probe_record record;
	void *user;
	int error;			/* returned by the user's callback */
	bool marked;			/* the requested mark was read */
};

/* A group's programs, each named after its tracepoint. */
static const struct {
	unsigned int group;
	const char *name;
	const char *programs[3];
} groups_table[] = {
	{ RP_PROBE_SCHED, "sched", { "sched_switch", NULL } },
	{ RP_PROBE_FAULTS, "faults", { "page_fault_user", "page_fault_kernel" } },
	{ RP_PROBE_BLOCK, "block",
	  { "block_bio_queue", "block_rq_complete", "block_bio_complete" } },
	{ RP_PROBE_SYSCALLS, "syscalls", { "sys_enter", "sys_exit" } },
};

#define GROUP_COUNT (sizeof(groups_table) / sizeof(*groups_table))

/* The verifier's last message about the last rejected program; or "". */
static char verdict[160];

__attribute__((format(printf, 1, 2)))
static void warn_about(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("ringpipe: --kernel: ", stderr);
	vfprintf(stderr, format, arguments);
	fputs("; the trace does without\n", stderr);
	va_end(arguments);
}

/* Stores the last line of the verifier's log before its statistics. */
static void keep_verdict(char *log)
{
	char *end = strstr(log, "\nprocessed "), *start;

	if (!end)
		return;
	*end = '\0';
	start = strrchr(log, '\n');
	snprintf(verdict, sizeof(verdict), "%s", start ? start + 1 : log);
}

/*
 * Suppresses libbpf's messages, which are for developers, but keeps the verifier's reason in them.
 */
static int listen(enum libbpf_print_level level, const char *format, va_list arguments)
{
	char *text;

	if (level != LIBBPF_WARN || vasprintf(&text, format, arguments) < 0)
		return 0;
	if (strstr(text, "BEGIN PROG LOAD LOG"))
		keep_verdict(text);
	free(text);
	return 0;
}

/* Reports why programs could not be loaded or attached. */
static void explain(const char *what, int error)
{
	if (*verdict)
		warn_about("%sthe kernel's verifier refuses it: %s", what, verdict);
	else if (error == -EPERM)
		warn_about("%sno permission: it takes root, or CAP_BPF and CAP_PERFMON", what);
	else if (error == -ENOSYS || error == -ENOENT || error == -EOPNOTSUPP)
		warn_about("%sthis kernel has no BPF with type information "
			   "(/sys/kernel/btf/vmlinux)", what);
	else
		warn_about("%s%s", what, strerror(-error));
}

/* Return: the groups whose tracepoints the kernel has. */
static unsigned int find_known(unsigned int groups)
{
	unsigned int known = 0;

	for (size_t i = 0; i < GROUP_COUNT; i++) {
		bool there = true;

		if (!(groups & groups_table[i].group))
			continue;
		for (size_t n = 0; n < 3 && groups_table[i].programs[n]; n++)
			there &= libbpf_find_vmlinux_btf_id(groups_table[i].programs[n],
							    BPF_TRACE_RAW_TP) > 0;
		if (there)
			known |= groups_table[i].group;
		else
			warn_about("%s: this kernel has no such tracepoints", groups_table[i].name);
	}
	return known;
}

static int choose_programs(struct kernel_bpf *bpf, unsigned int groups)
{
	for (size_t i = 0; i < GROUP_COUNT; i++) {
		for (size_t n = 0; n < 3 && groups_table[i].programs[n]; n++) {
			struct bpf_program *program = bpf_object__find_program_by_name(
				bpf->obj, groups_table[i].programs[n]);
			int ret = bpf_program__set_autoload(program,
							    groups & groups_table[i].group);

			if (ret)
				return ret;
		}
	}
	return 0;
}

/* Reads the pid in the innermost pid namespace, the last of the line. Return: 0 or -errno. */
static int read_inner_pid(pid_t pid, uint32_t *ret_inner)
{
	char path[64], line[256];
	FILE *file;
	int ret = -ESRCH;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (ret && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "NSpid:\t", 7))
			continue;
		*ret_inner = (uint32_t)strtoul(strrchr(line, '\t') + 1, NULL, 10);
		ret = 0;
	}
	fclose(file);
	return ret;
}

static int identify(struct kernel_bpf *bpf, pid_t pid)
{
	uint32_t inner = 0;
	struct stat namespace;
	char path[64];
	int ret = read_inner_pid(pid, &inner);

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	if (!ret && stat(path, &namespace))
		ret = -errno;
	if (ret)
		return ret;
	bpf->rodata->inner_pid = inner;
	bpf->rodata->namespace = (uint32_t)namespace.st_ino;
	return 0;
}

static size_t ring_size(size_t bytes)
{
	size_t size = RING_BYTES_MIN;

	while (2 * size <= bytes && size < RING_BYTES_MAX)
		size *= 2;
	return size;
}

/* Return: 0 with programs loaded; -errno. */
static int load(pid_t pid, unsigned int groups, size_t ring_bytes, struct kernel_bpf **ret_bpf)
{
	struct kernel_bpf *bpf = kernel_bpf__open();
	int ret;

	*verdict = '\0';
	if (!bpf)
		return -errno;
	ret = choose_programs(bpf, groups);
	if (!ret)
		ret = identify(bpf, pid);
	if (!ret)
		ret = bpf_map__set_max_entries(bpf->maps.records, ring_size(ring_bytes));
	bpf->rodata->wake_bytes = ring_size(ring_bytes) / 4;
	if (!ret)
		ret = kernel_bpf__load(bpf);
	if (ret) {
		kernel_bpf__destroy(bpf);
		return ret;
	}
	*ret_bpf = bpf;
	return 0;
}

/*
 * If the kernel rejects the groups together, loads those that it accepts one by one. Return: 0;
 * -ENODATA if none is left, already reported; other -errno.
 */
static int load_known(pid_t pid, unsigned int groups, size_t ring_bytes,
		      struct kernel_bpf **ret_bpf)
{
	struct kernel_bpf *bpf;
	unsigned int taken = 0;
	int ret = load(pid, groups, ring_bytes, ret_bpf);

	if (!ret || load(pid, 0, RING_BYTES_MIN, &bpf))
		return ret;
	kernel_bpf__destroy(bpf);
	for (size_t i = 0; i < GROUP_COUNT; i++) {
		char what[16];
		int refused;

		if (!(groups & groups_table[i].group))
			continue;
		refused = load(pid, groups_table[i].group, ring_bytes, &bpf);
		if (!refused) {
			kernel_bpf__destroy(bpf);
			taken |= groups_table[i].group;
			continue;
		}
		snprintf(what, sizeof(what), "%s: ", groups_table[i].name);
		explain(what, refused);
	}
	return taken ? load(pid, taken, ring_bytes, ret_bpf) : -ENODATA;
}

/* Runs the iterator over all tasks once. */
static int find_target(struct kernel_bpf *bpf)
{
	struct bpf_link *link = bpf_program__attach_iter(bpf->progs.find_target, NULL);
	char none[64];
	int fd, ret = 0;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0)
		ret = fd;
	while (!ret && read(fd, none, sizeof(none)) > 0)
		;
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return ret ? ret : bpf->bss->target ? 0 : -ESRCH;
}

/* Attaches all programs except the iterator, which has already run, and those without a hook. */
static int attach(struct kernel_bpf *bpf)
{
	int ret;

	bpf_program__set_autoattach(bpf->progs.find_target, false);
	ret = find_target(bpf);
	return ret ? ret : kernel_bpf__attach(bpf);
}

static int take(void *user, void *data, size_t size)
{
	struct rp_probe *probe = user;
	const struct rp_kernel_record *record = data;

	if (size != sizeof(*record))
		return -EBADMSG;
	probe->marked |= record->kind == RP_KERNEL_MARK;
	probe->error = probe->record(probe->user, record);
	return probe->error;
}

/* Return: 0 or -errno. */
static int start(struct rp_probe *probe, pid_t pid, unsigned int groups, size_t ring_bytes)
{
	int ret;

	/* Check permission first: libbpf's first steps read much before the kernel refuses. */
	ret = bpf_map_create(BPF_MAP_TYPE_RINGBUF, NULL, 0, 0, (uint32_t)getpagesize(), NULL);
	if (ret < 0)
		return ret;
	close(ret);
	groups = find_known(groups);
	if (!groups)
		return -ENODATA;
	ret = load_known(pid, groups, ring_bytes, &probe->bpf);
	if (!ret)
		ret = attach(probe->bpf);
	if (ret)
		return ret;
	probe->ring = ring_buffer__new(bpf_map__fd(probe->bpf->maps.records), take, probe, NULL);
	return probe->ring ? 0 : -errno;
}

int rp_probe_start(pid_t pid, unsigned int groups, size_t ring_bytes, rp_probe_record record,
		   void *user, struct rp_probe **ret_probe)
{
	struct rp_probe *probe = calloc(1, sizeof(*probe));
	int ret = probe ? 0 : -ENOMEM;

	libbpf_set_print(listen);
	if (!ret) {
		probe->record = record;
		probe->user = user;
		ret = start(probe, pid, groups, ring_bytes);
	}
	if (ret) {
		if (ret != -ENODATA)
			explain("", ret);
		rp_probe_destroy(probe);
		return ret;
	}
	*ret_probe = probe;
	return 0;
}

void rp_probe_destroy(struct rp_probe *probe)
{
	if (!probe)
		return;
	ring_buffer__free(probe->ring);
	kernel_bpf__destroy(probe->bpf);
	free(probe);
}

int rp_probe_fd(const struct rp_probe *probe)
{
	return ring_buffer__epoll_fd(probe->ring);
}

/* If the ring is full, consumes its records to free space for the mark. */
static int put_mark(struct rp_probe *probe)
{
	const int program = bpf_program__fd(probe->bpf->progs.put_mark);
	int ret;

	for (;;) {
		LIBBPF_OPTS(bpf_test_run_opts, options);

		ret = bpf_prog_test_run_opts(program, &options);
		if (ret || !options.retval)
			return ret;
		ret = ring_buffer__consume(probe->ring);
		if (ret < 0)
			return ret;
	}
}

int rp_probe_drain(struct rp_probe *probe)
{
	int ret;

	probe->marked = false;
	ret = put_mark(probe);
	/* A program interrupted between reserving and committing delays all later records. */
	while (ret >= 0 && !probe->marked) {
		ret = ring_buffer__consume(probe->ring);
		if (ret == 0 && !probe->marked)
			sched_yield();
	}
	return ret < 0 ? ret : 0;
}

void rp_probe_stop(struct rp_probe *probe)
{
	kernel_bpf__detach(probe->bpf);
}
