/* SPDX-License-Identifier: MIT */
/*
 * Each processor has one event with a ring of its own. The kernel writes records into it in order
 * of time. To merge the rings, rp_perf_drain() takes the earliest of their next records, as far as
 * all rings are known to be complete: up to the time of the previous look at their heads.
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

#include "base/atomic.h"
#include "base/clock.h"
#include "tools/ringpipe-record/perf_record.h"

#define RECORD_BYTES_MAX (64u << 10)

struct ring {
	int fd;				/* -1: the processor is offline */
	struct perf_event_mmap_page *page;
	const uint8_t *bytes;
	uint64_t seen;			/* up to here, records were there at the last look */
	uint64_t tail;
	uint64_t next_ns;		/* time of the record at `tail`; UINT64_MAX: none */
};

struct rp_perf {
	struct ring *rings;
	uint32_t ring_count;
	size_t ring_bytes;
	int epoll_fd;
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

/* Return: a descriptor; -errno. Kernels before 5.12 know no build ids in records. */
static int open_event(struct perf_event_attr *attr, int processor)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, -1, processor, -1,
			      PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && errno == EINVAL && attr->build_id) {
		attr->build_id = 0;
		return open_event(attr, processor);
	}
	return fd < 0 ? -errno : fd;
}

static bool has_hardware(const struct rp_perf_options *options)
{
	struct perf_event_attr attr;
	int fd;

	fill_attributes(&attr, options, 4096, true);
	fd = open_event(&attr, 0);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

static int open_ring(struct rp_perf *perf, struct perf_event_attr *attr, int processor,
		     const char **ret_call)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct ring *ring = &perf->rings[perf->ring_count];
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *memory;
	int fd;

	*ret_call = "perf_event_open";
	fd = open_event(attr, processor);
	if (fd == -ENODEV)
		return 0;			/* offline */
	if (fd < 0)
		return fd;
	*ret_call = "mmap";
	memory = mmap(NULL, page_bytes + perf->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		      0);
	if (memory == MAP_FAILED || epoll_ctl(perf->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		int ret = -errno;

		close(fd);
		return ret;
	}
	*ring = (struct ring){
		.fd = fd, .page = memory, .bytes = (const uint8_t *)memory + page_bytes,
		.next_ns = UINT64_MAX,
	};
	perf->ring_count++;
	perf->stats.memory_bytes += page_bytes + perf->ring_bytes;
	return 0;
}

int rp_perf_open(const struct rp_perf_options *options, struct rp_perf **ret_perf,
		 const char **ret_call)
{
	long processors = sysconf(_SC_NPROCESSORS_CONF);
	struct rp_perf *perf = calloc(1, sizeof(*perf));
	struct perf_event_attr attr;
	int ret = 0;

	*ret_call = "calloc";
	if (!perf)
		return -ENOMEM;
	perf->ring_bytes = 4096;
	while (perf->ring_bytes < options->ring_bytes)
		perf->ring_bytes *= 2;
	perf->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	perf->rings = calloc((size_t)processors, sizeof(*perf->rings));
	if (perf->epoll_fd < 0 || !perf->rings)
		ret = -ENOMEM;
	perf->stats.is_hardware = has_hardware(options);
	fill_attributes(&attr, options, perf->ring_bytes, perf->stats.is_hardware);
	for (int i = 0; ret == 0 && i < processors; i++)
		ret = open_ring(perf, &attr, i, ret_call);
	if (ret < 0) {
		rp_perf_close(perf);
		return ret;
	}
	perf->stats.processors = perf->ring_count;
	perf->looked_ns = rp_clock_monotonic_ns();
	*ret_perf = perf;
	return 0;
}

void rp_perf_close(struct rp_perf *perf)
{
	if (!perf)
		return;
	for (uint32_t i = 0; i < perf->ring_count; i++) {
		munmap(perf->rings[i].page,
		       (size_t)(perf->rings[i].bytes - (uint8_t *)perf->rings[i].page) +
		       perf->ring_bytes);
		close(perf->rings[i].fd);
	}
	if (perf->epoll_fd >= 0)
		close(perf->epoll_fd);
	free(perf->rings);
	free(perf);
}

int rp_perf_enable(struct rp_perf *perf)
{
	for (uint32_t i = 0; i < perf->ring_count; i++) {
		if (ioctl(perf->rings[i].fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
			return -errno;
	}
	return 0;
}

void rp_perf_disable(struct rp_perf *perf)
{
	for (uint32_t i = 0; i < perf->ring_count; i++)
		(void)ioctl(perf->rings[i].fd, PERF_EVENT_IOC_DISABLE, 0);
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

static void find_next(struct rp_perf *perf, struct ring *ring)
{
	const struct perf_event_header *header = record_at_tail(perf, ring);

	ring->next_ns = header ? rp_perf_record_time(header) : UINT64_MAX;
}

uint64_t rp_perf_limit(struct rp_perf *perf)
{
	uint64_t limit_ns = perf->looked_ns;

	perf->looked_ns = rp_clock_monotonic_ns();
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

uint64_t rp_perf_next_ns(const struct rp_perf *perf)
{
	const struct ring *ring = earliest(perf);

	return ring ? ring->next_ns : UINT64_MAX;
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
		if (record.time_ns < perf->delivered_ns) {
			record.time_ns = perf->delivered_ns;
			perf->stats.late++;
		}
		perf->delivered_ns = record.time_ns;
		result = callback(user, &record);
	}
	ring->tail += header->size;
	rp_store_release(&ring->page->data_tail, ring->tail);
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
