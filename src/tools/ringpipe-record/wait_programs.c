/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/wait_programs.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <waits.skel.h>

struct rp_waits {
	struct waits_bpf *bpf;
	struct ring_buffer *ring;
	rp_waits_callback callback;
	void *user;
	int result;			/* of the callback that ended a drain */
	struct bpf_link **counts;	/* of the programs that run when a fault is counted */
	size_t count_count;
};

/* The caller explains failures. */
static int say_nothing(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level;
	(void)format;
	(void)arguments;
	return 0;
}

static int take(void *context, void *bytes, size_t size)
{
	struct rp_waits *waits = context;

	(void)size;
	waits->result = waits->callback(waits->user, bytes);
	return waits->result ? -ECANCELED : 0;
}

static void choose(struct bpf_program *program, bool is_wanted)
{
	if (!is_wanted)
		bpf_program__set_autoload(program, false);
}

/* Before Linux 4.18, and where threads have no sequences, the kernel lacks rseq_update. */
static void choose_programs(struct waits_bpf *bpf, const struct rp_waits_options *options)
{
	const bool waits = !options->without_waits;
	const bool calls = options->groups & (RP_WAITS_CALLS | RP_WAITS_FUTEX);
	const bool faults = options->groups & RP_WAITS_FAULTS;
	const bool block = options->groups & RP_WAITS_BLOCK;
	const bool interrupts = options->groups & RP_WAITS_INTERRUPTS;

	choose(bpf->progs.sched_switch, waits);
	choose(bpf->progs.sched_waking, waits);
	choose(bpf->progs.prepare, waits);
	choose(bpf->progs.rseq_update,
	       waits && libbpf_find_vmlinux_btf_id("rseq_update", BPF_TRACE_RAW_TP) > 0);
	choose(bpf->progs.list, options->wants);
	choose(bpf->progs.sched_process_fork, options->wants);
	choose(bpf->progs.sys_enter, calls);
	choose(bpf->progs.sys_exit, calls);
	choose(bpf->progs.page_fault_user, faults);
	choose(bpf->progs.fault_minor, faults);
	choose(bpf->progs.fault_major, faults);
	choose(bpf->progs.block_rq_issue, block);
	choose(bpf->progs.block_rq_complete, block);
	choose(bpf->progs.irq_handler_entry, interrupts);
	choose(bpf->progs.irq_handler_exit, interrupts);
	choose(bpf->progs.softirq_entry, interrupts);
	choose(bpf->progs.softirq_exit, interrupts);
}

static int load(struct rp_waits *waits, const struct rp_waits_options *options)
{
	int ret;

	waits->bpf = waits_bpf__open();
	if (!waits->bpf)
		return -errno;
	choose_programs(waits->bpf, options);
	waits->bpf->rodata->threshold_ns = options->threshold_ns;
	waits->bpf->rodata->all_calls = options->groups & RP_WAITS_CALLS;
	waits->bpf->rodata->self = (uint32_t)getpid();
	waits->bpf->rodata->has_filter = options->wants;
	waits->bpf->rodata->by_owner = options->by_owner;
	waits->bpf->rodata->since_ns = options->since_ns;
	waits->bpf->rodata->wake_bytes = options->ring_bytes / 4;
	ret = bpf_map__set_max_entries(waits->bpf->maps.records, (uint32_t)options->ring_bytes);
	if (ret == 0)
		ret = waits_bpf__load(waits->bpf);
	return ret;
}

static void reject(struct waits_bpf *bpf, uint32_t process, uint64_t life)
{
	(void)bpf_map_update_elem(bpf_map__fd(bpf->maps.rejected), &process, &life, BPF_ANY);
}

void rp_waits_reject(struct rp_waits *waits, const struct rp_wait_record *record)
{
	reject(waits->bpf, record->process, record->life);
}

int rp_waits_sample_program(const struct rp_waits *waits)
{
	return bpf_program__fd(waits->bpf->progs.sample_context);
}

int rp_waits_set_output(void *user, uint32_t processor, int fd)
{
	const struct rp_waits *waits = user;

	return bpf_map_update_elem(bpf_map__fd(waits->bpf->maps.sample_contexts), &processor, &fd,
				   BPF_ANY) < 0 ? -errno : 0;
}

/* A full map means that further processes have no ids. */
void rp_waits_set_context_place(struct rp_waits *waits, pid_t process,
				const struct rp_context_place *place)
{
	const int map = bpf_map__fd(waits->bpf->maps.context_places);

	if (place)
		(void)bpf_map_update_elem(map, &process, place, BPF_ANY);
	else
		(void)bpf_map_delete_elem(map, &process);
}

/* Run an iterator over all threads. Return: a descriptor of its output; -errno. */
static int open_iterator(const struct bpf_program *program)
{
	struct bpf_link *link = bpf_program__attach_iter(program, NULL);
	int fd;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	bpf_link__destroy(link);
	return fd;
}

/* A failure only means that states are made later, when there may be no memory at once. */
static void prepare(const struct waits_bpf *bpf)
{
	const int fd = open_iterator(bpf->progs.prepare);
	char none[64];

	while (fd >= 0 && read(fd, none, sizeof(none)) > 0)
		;
	if (fd >= 0)
		close(fd);
}

static void reject_listed(struct waits_bpf *bpf, const struct rp_waits_options *options)
{
	const int fd = open_iterator(bpf->progs.list);
	struct rp_wait_process processes[64];
	ssize_t size;

	while (fd >= 0 && (size = read(fd, processes, sizeof(processes))) > 0) {
		for (size_t i = 0; i < (size_t)size / sizeof(*processes); i++) {
			const uint32_t process = (uint32_t)processes[i].process;

			if (!options->wants(options->context, (pid_t)process))
				reject(bpf, process, processes[i].life);
		}
	}
	if (fd >= 0)
		close(fd);
}

/*
 * Reject processes before they have records. Without -p, the second list has children that
 * started between the listing and the rejection of their parents. Children that start later inherit
 * the rejection. A failure only means that processes are rejected when they have records.
 */
static void reject_processes(struct waits_bpf *bpf, const struct rp_waits_options *options)
{
	bpf->links.sched_process_fork = bpf_program__attach(bpf->progs.sched_process_fork);
	reject_listed(bpf, options);
	reject_listed(bpf, options);
}

/* Run a program each time that a processor counts an event. Return: 0; -errno. */
static int attach_count(struct rp_waits *waits, struct bpf_program *program, uint64_t counter,
			int processor)
{
	struct perf_event_attr attributes = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attributes), .config = counter,
		.sample_period = 1,
	};
	const int fd = (int)syscall(SYS_perf_event_open, &attributes, -1, processor, -1,
				    PERF_FLAG_FD_CLOEXEC);
	struct bpf_link *link;

	/* The processor may be offline. */
	if (fd < 0)
		return errno == ENODEV ? 0 : -errno;
	link = bpf_program__attach_perf_event(program, fd);	/* owns the descriptor */
	if (!link) {
		const int error = errno;

		close(fd);
		return -error;
	}
	waits->counts[waits->count_count++] = link;
	return 0;
}

static void detach_counts(struct rp_waits *waits)
{
	while (waits->count_count > 0)
		bpf_link__destroy(waits->counts[--waits->count_count]);
}

/* If the kernel refuses, a record of a fault has the time of its beginning and no duration. */
static void attach_counts(struct rp_waits *waits)
{
	const int processors = libbpf_num_possible_cpus();
	int ret = processors < 0 ? processors : 0;

	waits->counts = ret ? NULL : calloc((size_t)processors, 2 * sizeof(*waits->counts));
	if (!waits->counts)
		return;
	for (int i = 0; ret == 0 && i < processors; i++) {
		ret = attach_count(waits, waits->bpf->progs.fault_minor,
				   PERF_COUNT_SW_PAGE_FAULTS_MIN, i);
		if (ret == 0)
			ret = attach_count(waits, waits->bpf->progs.fault_major,
					   PERF_COUNT_SW_PAGE_FAULTS_MAJ, i);
	}
	if (ret)
		detach_counts(waits);
	else
		waits->bpf->bss->counts_faults = true;
}

static int attach(struct rp_waits *waits, const struct rp_waits_options *options)
{
	bpf_program__set_autoattach(waits->bpf->progs.prepare, false);
	bpf_program__set_autoattach(waits->bpf->progs.list, false);
	bpf_program__set_autoattach(waits->bpf->progs.sched_process_fork, false);
	bpf_program__set_autoattach(waits->bpf->progs.sample_context, false);
	bpf_program__set_autoattach(waits->bpf->progs.fault_minor, false);
	bpf_program__set_autoattach(waits->bpf->progs.fault_major, false);
	if (options->groups & RP_WAITS_FAULTS)
		attach_counts(waits);
	if (!options->without_waits)
		prepare(waits->bpf);
	if (options->wants)
		reject_processes(waits->bpf, options);
	return waits_bpf__attach(waits->bpf);
}

int rp_waits_start(const struct rp_waits_options *options, rp_waits_callback callback, void *user,
		   struct rp_waits **ret_waits)
{
	struct rp_waits *waits = calloc(1, sizeof(*waits));
	int ret;

	if (!waits)
		return -ENOMEM;
	waits->callback = callback;
	waits->user = user;
	libbpf_set_print(say_nothing);
	ret = load(waits, options);
	if (ret == 0) {
		waits->ring = ring_buffer__new(bpf_map__fd(waits->bpf->maps.records), take, waits,
					       NULL);
		ret = waits->ring ? attach(waits, options) : -errno;
	}
	if (ret < 0) {
		rp_waits_destroy(waits);
		return ret == -ENOENT || ret == -ESRCH || ret == -EINVAL ? -EOPNOTSUPP : ret;
	}
	*ret_waits = waits;
	return 0;
}

void rp_waits_destroy(struct rp_waits *waits)
{
	if (!waits)
		return;
	ring_buffer__free(waits->ring);
	detach_counts(waits);
	free(waits->counts);
	waits_bpf__destroy(waits->bpf);
	free(waits);
}

int rp_waits_fd(const struct rp_waits *waits)
{
	return ring_buffer__epoll_fd(waits->ring);
}

int rp_waits_drain(struct rp_waits *waits)
{
	int ret = ring_buffer__consume(waits->ring);

	if (ret == -ECANCELED)
		return waits->result;
	return ret < 0 ? ret : 0;
}

void rp_waits_stop(struct rp_waits *waits)
{
	detach_counts(waits);
	waits_bpf__detach(waits->bpf);
}

uint64_t rp_waits_lost(const struct rp_waits *waits, enum rp_wait_loss reason)
{
	return __atomic_load_n(&waits->bpf->bss->lost[reason], __ATOMIC_RELAXED);
}
