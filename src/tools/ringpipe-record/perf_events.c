/* SPDX-License-Identifier: MIT */
/*
 * Each processor has a ring of its own, into which all its events write. The kernel writes records
 * into it in order of time. To merge the rings, rp_perf_drain() takes the earliest of their next
 * records, as far as all rings are known to be complete: up to the time of the previous look at
 * their heads.
 *
 * Ordering: the kernel stores the records and then data_head; this program loads data_head with
 * acquire, reads the records, and stores data_tail with release (kernel/events/ring_buffer.c).
 */
#include "tools/ringpipe-record/perf_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/atomic.h"
#include "tools/client/machine_time.h"
#include "tools/ringpipe-record/perf_record.h"

#define RECORD_BYTES_MAX (64u << 10)
#define RING_BYTES_MIN (128u << 10)	/* some samples with their stacks */

struct ring {
	int fd;				/* the first event of the processor, which has the memory */
	struct perf_event_mmap_page *page;
	const uint8_t *bytes;
	uint64_t seen;			/* up to here, records were there at the last look */
	uint64_t tail;
	uint64_t next_ns;		/* time of the record at `tail`; UINT64_MAX: none */
	uint32_t processor;
	struct rp_trace_context context;	/* of the sample at `tail`, if it is valid */
	struct rp_perf_ended ended;
};

struct rp_perf {
	const struct rp_perf_options *options;	/* while the events are opened */
	int *events;			/* descriptors of all events */
	size_t event_count, event_capacity;
	struct ring *rings;
	uint32_t ring_count;
	size_t ring_bytes;
	int epoll_fd;
	bool is_memory_refused;		/* for rings of this size */
	uint64_t looked_ns;		/* before the last look at the heads */
	uint64_t delivered_ns;
	struct rp_perf_stats stats;
	struct rp_perf_parts parts;
	_Alignas(8) uint8_t record[RECORD_BYTES_MAX];	/* of a record that wraps around */
};

static void fill_attributes(struct perf_event_attr *attr, const struct rp_perf_options *options,
			    size_t ring_bytes, bool is_hardware)
{
	*attr = (struct perf_event_attr){
		.size = sizeof(*attr),
		.type = is_hardware ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE,
		.config = is_hardware ? (uint64_t)PERF_COUNT_HW_CPU_CYCLES :
			  (uint64_t)PERF_COUNT_SW_CPU_CLOCK,
		.sample_freq = options->frequency_hz,
		.freq = 1,
		.sample_type = RP_PERF_SAMPLE_TYPE,
		.sample_regs_user = RP_PERF_REGISTERS,
		.sample_stack_user = options->stack_bytes,
		.disabled = 1,
		.inherit = options->threads != NULL,
		.exclude_kernel = options->without_kernel,
		.exclude_hv = options->without_kernel,
		.exclude_idle = 1,
		.exclude_callchain_user = 1,
		.mmap = 1,
		.mmap2 = 1,
		.build_id = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(ring_bytes / 2),
	};
}

/* A sample, with the kernel's stack, and a record at each switch between two threads. */
static void fill_switch_attributes(struct perf_event_attr *attr, size_t ring_bytes)
{
	*attr = (struct perf_event_attr){
		.size = sizeof(*attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CONTEXT_SWITCHES,
		.sample_period = 1,
		.sample_type = RP_PERF_SAMPLE_TYPE & ~(uint64_t)(PERF_SAMPLE_REGS_USER |
								 PERF_SAMPLE_STACK_USER),
		.disabled = 1,
		.exclude_callchain_user = 1,
		.context_switch = 1,
		.task = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(ring_bytes / 2),
	};
}

static void fill_point_attributes(struct perf_event_attr *attr, const struct rp_perf_point *point,
				  size_t ring_bytes)
{
	*attr = (struct perf_event_attr){
		.size = sizeof(*attr),
		.type = point->type,
		.config = point->config,
		.sample_period = 1,
		.sample_type = RP_PERF_POINT_TYPE |
			       (point->has_registers ? PERF_SAMPLE_REGS_USER : 0) |
			       (point->stack_bytes ? PERF_SAMPLE_STACK_USER : 0),
		.sample_regs_user = point->has_registers ? RP_PERF_REGISTERS : 0,
		.sample_stack_user = point->stack_bytes,
		.disabled = 1,
		.exclude_kernel = point->type != PERF_TYPE_TRACEPOINT,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(ring_bytes / 2),
	};
}

/* Return: a descriptor; -errno. Kernels before 5.12 know no build ids in records. */
static int open_event(struct perf_event_attr *attr, pid_t thread, int processor)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, thread, processor, -1,
			      PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && errno == EINVAL && attr->build_id) {
		attr->build_id = 0;
		return open_event(attr, thread, processor);
	}
	return fd < 0 ? -errno : fd;
}

static bool has_hardware(const struct rp_perf_options *options)
{
	struct perf_event_attr attr;
	int fd;

	fill_attributes(&attr, options, 4096, true);
	fd = open_event(&attr, options->threads ? 0 : -1, options->threads ? -1 : 0);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* Map the ring of a processor's first event. */
static int map_ring(struct rp_perf *perf, int fd, int processor)
{
	struct epoll_event event = { .events = EPOLLIN };
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = mmap(NULL, page_bytes + perf->ring_bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED) {
		perf->is_memory_refused = errno == EPERM;
		return -errno;
	}
	perf->rings[perf->ring_count++] = (struct ring){
		.fd = fd, .page = memory, .bytes = (const uint8_t *)memory + page_bytes,
		.next_ns = UINT64_MAX, .processor = (uint32_t)processor,
	};
	perf->stats.memory_bytes += page_bytes + perf->ring_bytes;
	return epoll_ctl(perf->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* All events of a processor write into one ring. */
static int add_event(struct rp_perf *perf, int fd, int processor, const struct ring *ring,
		     const char **ret_call)
{
	int *grown = rp_array_reserve(perf->events, perf->event_count, &perf->event_capacity, 1,
				      sizeof(*grown));

	if (!grown) {
		close(fd);
		return -ENOMEM;
	}
	perf->events = grown;
	grown[perf->event_count++] = fd;
	*ret_call = ring ? "ioctl(PERF_EVENT_IOC_SET_OUTPUT)" : "mmap";
	if (!ring)
		return map_ring(perf, fd, processor);
	return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) < 0 ? -errno : 0;
}

/* Note the id of the event, which its records have, and set its filter. */
static int prepare_point(struct rp_perf *perf, size_t index, int fd, const char **ret_call)
{
	const struct rp_perf_point *point = &perf->options->points[index];
	struct rp_thread_slot *slot;
	uint64_t id;

	*ret_call = "ioctl(PERF_EVENT_IOC_ID)";
	if (ioctl(fd, PERF_EVENT_IOC_ID, &id) < 0)
		return -errno;
	if (rp_thread_table_add(&perf->parts.ids, id, &slot) < 0)
		return -ENOMEM;
	slot->index = (index + 1) & 0x3fffffff;
	*ret_call = "ioctl(PERF_EVENT_IOC_SET_FILTER)";
	return *point->filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, point->filter) < 0 ?
	       -errno : 0;
}

/* Open one event of a processor for each thread. `*ring` is the processor's; NULL: none yet. */
static int open_threads(struct rp_perf *perf, struct perf_event_attr *attr, int processor,
			size_t point, struct ring **ring, const char **ret_call)
{
	static const pid_t all = -1;
	const struct rp_perf_options *options = perf->options;
	const bool is_of_all = !options->threads ||
			       (options->points && options->points[point].is_of_all);
	const pid_t *threads = is_of_all ? &all : options->threads;
	const size_t count = is_of_all ? 1 : options->thread_count;
	size_t refused = 0;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < count; i++) {
		int fd = open_event(attr, threads[i], processor);

		*ret_call = "perf_event_open";
		if (fd == -ENODEV)
			return 0;		/* offline */
		if (fd == -ESRCH)
			continue;
		/* A process that changed its user or its rights, among those of the caller. */
		if (fd == -EACCES && !is_of_all) {
			refused++;
			continue;
		}
		if (fd < 0)
			return fd;
		ret = add_event(perf, fd, processor, *ring, ret_call);
		if (ret == 0 && options->points)
			ret = prepare_point(perf, point, fd, ret_call);
		*ring = perf->ring_count ? &perf->rings[perf->ring_count - 1] : NULL;
	}
	if (refused > perf->stats.refused_threads)
		perf->stats.refused_threads = refused;
	return ret;
}

/* The tracepoints and counters of one processor. */
static int open_points(struct rp_perf *perf, int processor, const char **ret_call)
{
	const struct rp_perf_options *options = perf->options;
	struct ring *ring = NULL;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < options->point_count; i++) {
		struct perf_event_attr attr;

		fill_point_attributes(&attr, &options->points[i], perf->ring_bytes);
		attr.inherit = options->threads && !options->points[i].is_of_all;
		attr.task = i == 0;	/* one record of the end of a thread is enough */
		ret = open_threads(perf, &attr, processor, i, &ring, ret_call);
	}
	return ret;
}

static int open_processor(struct rp_perf *perf, struct perf_event_attr *attr, int processor,
			  const char **ret_call)
{
	struct ring *ring = NULL;

	return open_threads(perf, attr, processor, 0, &ring, ret_call);
}

/* Close all events, for another attempt. */
static void close_events(struct rp_perf *perf)
{
	for (uint32_t i = 0; i < perf->ring_count; i++) {
		munmap(perf->rings[i].page,
		       (size_t)(perf->rings[i].bytes - (uint8_t *)perf->rings[i].page) +
		       perf->ring_bytes);
	}
	for (size_t i = 0; i < perf->event_count; i++)
		close(perf->events[i]);
	rp_thread_table_fini(&perf->parts.ids);
	perf->parts.ids = (struct rp_thread_table){ 0 };
	perf->ring_count = 0;
	perf->event_count = 0;
	perf->stats.memory_bytes = 0;
}

static int open_processors(struct rp_perf *perf, const char **ret_call)
{
	const long processors = sysconf(_SC_NPROCESSORS_CONF);
	const struct rp_perf_options *options = perf->options;
	struct perf_event_attr attr;
	int ret = 0;

	if (options->is_switches)
		fill_switch_attributes(&attr, perf->ring_bytes);
	else
		fill_attributes(&attr, options, perf->ring_bytes, perf->stats.is_hardware);
	for (int i = 0; ret == 0 && i < processors; i++)
		ret = options->points ? open_points(perf, i, ret_call) :
		      open_processor(perf, &attr, i, ret_call);
	if (ret == 0 && perf->ring_count == 0)
		ret = perf->stats.refused_threads ? -EACCES : -ESRCH;
	return ret;
}

int rp_perf_open(const struct rp_perf_options *options, struct rp_perf **ret_perf,
		 const char **ret_call)
{
	struct rp_perf *perf = calloc(1, sizeof(*perf));
	int ret = 0;

	*ret_call = "calloc";
	if (!perf)
		return -ENOMEM;
	perf->options = options;
	perf->ring_bytes = 4096;
	while (perf->ring_bytes < options->ring_bytes)
		perf->ring_bytes *= 2;
	perf->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	perf->rings = calloc((size_t)sysconf(_SC_NPROCESSORS_CONF), sizeof(*perf->rings));
	if (perf->epoll_fd < 0 || !perf->rings)
		ret = -ENOMEM;
	perf->parts.has_ids = options->points;
	perf->parts.points = options->points;
	perf->stats.is_hardware = !options->is_switches && !options->points &&
				  has_hardware(options);
	if (ret == 0)
		ret = open_processors(perf, ret_call);
	/* A user without CAP_IPC_LOCK may lock little memory, for the rings of all processors. */
	while (ret < 0 && perf->is_memory_refused && perf->ring_bytes > RING_BYTES_MIN) {
		close_events(perf);
		perf->ring_bytes /= 2;
		perf->is_memory_refused = false;
		ret = open_processors(perf, ret_call);
	}
	if (ret < 0) {
		rp_perf_close(perf);
		return ret;
	}
	perf->stats.processors = perf->ring_count;
	perf->looked_ns = rp_machine_time_ns();
	*ret_perf = perf;
	return 0;
}

void rp_perf_close(struct rp_perf *perf)
{
	if (!perf)
		return;
	close_events(perf);
	free(perf->events);
	if (perf->epoll_fd >= 0)
		close(perf->epoll_fd);
	free(perf->rings);
	free(perf);
}

/* The output must be in the ring of the processor, in which the sample comes next. */
static int open_output(struct rp_perf *perf, const struct ring *ring, rp_perf_output output,
		       void *user)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_BPF_OUTPUT, .sample_type = PERF_SAMPLE_RAW,
		.sample_period = 1, .use_clockid = 1, .clockid = CLOCK_MONOTONIC,
		.watermark = 1, .wakeup_watermark = (uint32_t)(perf->ring_bytes / 2),
	};
	const int fd = open_event(&attr, -1, (int)ring->processor);
	const char *call;
	int ret;

	if (fd < 0)
		return fd;
	ret = add_event(perf, fd, (int)ring->processor, ring, &call);
	return ret ? ret : output(user, ring->processor, fd);
}

int rp_perf_attach(struct rp_perf *perf, int program_fd, rp_perf_output output, void *user)
{
	const size_t sampler_count = perf->event_count;
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < perf->ring_count; i++)
		ret = open_output(perf, &perf->rings[i], output, user);
	for (size_t i = 0; ret == 0 && i < sampler_count; i++) {
		if (ioctl(perf->events[i], PERF_EVENT_IOC_SET_BPF, program_fd) < 0)
			ret = -errno;
	}
	return ret;
}

int rp_perf_enable(struct rp_perf *perf)
{
	for (size_t i = 0; i < perf->event_count; i++) {
		if (ioctl(perf->events[i], PERF_EVENT_IOC_ENABLE, 0) < 0)
			return -errno;
	}
	return 0;
}

void rp_perf_disable(struct rp_perf *perf)
{
	for (size_t i = 0; i < perf->event_count; i++)
		(void)ioctl(perf->events[i], PERF_EVENT_IOC_DISABLE, 0);
}

int rp_perf_fd(const struct rp_perf *perf)
{
	return perf->epoll_fd;
}

/* Return: the record at `tail`, in one piece; NULL: none, or damaged, which ends the ring. */
static const struct perf_event_header *record_at_tail(struct rp_perf *perf, struct ring *ring)
{
	size_t offset = ring->tail & (perf->ring_bytes - 1), first = perf->ring_bytes - offset;
	const struct perf_event_header *header = (const void *)(ring->bytes + offset);

	if (ring->tail == ring->seen)
		return NULL;
	/* Records are multiples of 8 bytes, so a header never wraps around. */
	if (header->size < sizeof(*header) || header->size > ring->seen - ring->tail) {
		perf->stats.lost[RP_PERF_LOSS_DAMAGED]++;
		ring->tail = ring->seen;
		rp_store_release(&ring->page->data_tail, ring->tail);
		return NULL;
	}
	if (header->size <= first)
		return header;
	memcpy(perf->record, header, first);
	memcpy(perf->record + first, ring->bytes, header->size - first);
	return (const void *)perf->record;
}

static void advance(struct ring *ring, uint16_t size)
{
	ring->tail += size;
	rp_store_release(&ring->page->data_tail, ring->tail);
}

/*
 * The output of a BPF program belongs to the sample that follows it directly. If the kernel has
 * lost that sample, a record of the loss or another output follows.
 */
static void find_next(struct rp_perf *perf, struct ring *ring)
{
	const struct perf_event_header *header = record_at_tail(perf, ring);

	while (header && rp_perf_record_context(header, &ring->context)) {
		advance(ring, header->size);
		header = record_at_tail(perf, ring);
	}
	ring->next_ns = header ? rp_perf_record_time(header, &perf->parts) : UINT64_MAX;
}

uint64_t rp_perf_limit(struct rp_perf *perf)
{
	uint64_t limit_ns = perf->looked_ns;

	perf->looked_ns = rp_machine_time_ns();
	for (uint32_t i = 0; i < perf->ring_count; i++) {
		struct ring *ring = &perf->rings[i];

		ring->seen = rp_load_acquire(&ring->page->data_head);
		if (ring->next_ns == UINT64_MAX)
			find_next(perf, ring);
	}
	return limit_ns;
}

static struct ring *earliest(const struct rp_perf *perf)
{
	struct ring *earliest = NULL;

	for (uint32_t i = 0; i < perf->ring_count; i++) {
		if (perf->rings[i].next_ns < (earliest ? earliest->next_ns : UINT64_MAX))
			earliest = &perf->rings[i];
	}
	return earliest;
}

static int deliver(struct rp_perf *perf, struct ring *ring, rp_perf_callback callback, void *user)
{
	const struct perf_event_header *header = record_at_tail(perf, ring);
	struct rp_perf_record record;
	uint64_t lost = 0;
	int ret, result = 0;

	ret = rp_perf_record_parse(header, &perf->parts, &record, &lost);
	if (ret == 2)
		perf->stats.lost[RP_PERF_LOSS_FULL] += lost;
	else if (ret < 0)
		perf->stats.lost[RP_PERF_LOSS_DAMAGED]++;
	if (ret == 0) {
		rp_perf_record_find_ended(&record, &ring->ended);
		if (record.time_ns < perf->delivered_ns) {
			record.time_ns = perf->delivered_ns;
			perf->stats.late++;
		}
		perf->delivered_ns = record.time_ns;
		if (record.kind == RP_PERF_SAMPLE && ring->context.is_valid)
			record.sample.context = &ring->context;
		result = callback(user, &record);
	}
	ring->context.is_valid = 0;
	advance(ring, header->size);
	find_next(perf, ring);
	return result;
}

int rp_perf_drain(struct rp_perf *perf, uint64_t limit_ns, rp_perf_callback callback, void *user)
{
	struct ring *ring;
	int ret = 0;

	while (ret == 0 && (ring = earliest(perf)) && ring->next_ns < limit_ns)
		ret = deliver(perf, ring, callback, user);
	return ret;
}

void rp_perf_stats(const struct rp_perf *perf, struct rp_perf_stats *ret_stats)
{
	*ret_stats = perf->stats;
}
