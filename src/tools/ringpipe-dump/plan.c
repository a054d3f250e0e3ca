/* SPDX-License-Identifier: MIT */
/*
 * /proc/PID/pagemap has 8 bytes for each page of the address space: bit 63 present, 62
 * swapped out, 61 the file's own page and not a copy (Documentation/admin-guide/mm/pagemap.rst).
 * It shows which pages can be left out without reading them: a read would create a missing page.
 */
#include "tools/ringpipe-dump/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/array.h"
#include "tools/ringpipe-dump/loader.h"

#define PAGE_PRESENT (1ull << 63)
#define PAGE_SWAPPED (1ull << 62)
#define PAGE_OF_FILE (1ull << 61)
#define PAGES_AT_ONCE 512u
/* A larger hole is left out, since some file systems and users cannot handle huge files. */
#define HOLE_BYTES_MAX (64ull << 20)
#define STACK_BYTES_MAX (8ull << 20)
/* A leaf function may use this many bytes below its stack pointer. */
#define RED_ZONE_BYTES 128u

/* PAGEMAP_SCAN (same page of the manual): the headers of older kernels lack it. */
struct memory_scan {
	uint64_t size, flags, start, end, walk_end, regions, region_count, pages_max;
	uint64_t inverted, all_of, any_of, reported;
};
struct scan_region {
	uint64_t start, end, kinds;
};
#define SCAN _IOWR('f', 16, struct memory_scan)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)

enum page_kind {
	PAGE_NOT_WANTED,
	PAGE_ZERO,
	PAGE_DATA,
};

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with)
{
	size_t length = strlen(text), tail = strlen(with);

	return length >= tail && strcmp(text + length - tail, with) == 0;
}

/* Whether this memory exists nowhere else once the process has ended, file name or not. */
static bool is_shared_memory(const struct rp_dump_mapping *mapping)
{
	return mapping->shared && (ends(mapping->path, " (deleted)") ||
				   begins(mapping->path, "/dev/zero") ||
				   begins(mapping->path, "/dev/shm/"));
}

enum rp_dump_choice rp_dump_choose(const struct rp_dump_mapping *mapping, enum rp_dump_type type)
{
	bool mini = type == RP_DUMP_MINI || type == RP_DUMP_TRIAGE;

	if (mapping->excluded)
		return RP_DUMP_NOTHING;
	if (!strcmp(mapping->path, "[vdso]"))
		return RP_DUMP_ALL;
	if (mapping->inode == 0 || is_shared_memory(mapping))
		return mini ? RP_DUMP_NOTHING : RP_DUMP_PRESENT;
	if (type == RP_DUMP_FULL)
		return RP_DUMP_ALL;
	return mapping->shared ? RP_DUMP_NOTHING : RP_DUMP_CHANGED;
}

/* The range that contains `page` or follows it; NULL if none does. */
static const struct rp_dump_range *next_range(const struct rp_dump_plan *plan, uint64_t page)
{
	const size_t at = RP_PARTITION_POINT(i, plan->range_count, plan->ranges[i].end <= page);

	return at < plan->range_count ? &plan->ranges[at] : NULL;
}

static bool is_in_ranges(const struct rp_dump_plan *plan, uint64_t page)
{
	const struct rp_dump_range *range = next_range(plan, page);

	return range && range->start <= page;
}

static enum page_kind classify(const struct rp_dump_plan *plan,
			       const struct rp_dump_mapping *mapping, enum rp_dump_choice choice,
			       uint64_t page, uint64_t entry)
{
	bool exists = entry & (PAGE_PRESENT | PAGE_SWAPPED);

	if (!mapping->excluded && is_in_ranges(plan, page))
		return exists || mapping->inode ? PAGE_DATA : PAGE_ZERO;
	switch (choice) {
	case RP_DUMP_NOTHING:
		return PAGE_NOT_WANTED;
	case RP_DUMP_CHANGED:
		/* The first page of a program identifies its build. */
		if (page == mapping->start && mapping->offset == 0)
			return PAGE_DATA;
		return exists && !(entry & PAGE_OF_FILE) ? PAGE_DATA : PAGE_NOT_WANTED;
	case RP_DUMP_PRESENT:
		return exists ? PAGE_DATA : PAGE_ZERO;
	case RP_DUMP_ALL:
		break;
	}
	return PAGE_DATA;
}

/* Reads entries of up to PAGES_AT_ONCE pages; unreadable entries count as untouched pages. */
static void read_entries(const struct rp_dump_plan *plan, uint64_t start, size_t count,
			 uint64_t *ret_entries)
{
	ssize_t n = pread(plan->pagemap_fd, ret_entries, count * sizeof(*ret_entries),
			  (off_t)(start / plan->page_bytes * sizeof(*ret_entries)));
	size_t got = n < 0 ? 0 : (size_t)n / sizeof(*ret_entries);

	memset(ret_entries + got, 0, (count - got) * sizeof(*ret_entries));
}

/* The first present page from `start` on; `end` if none; `start` if the kernel has no scan. */
static uint64_t next_existing(const struct rp_dump_plan *plan, uint64_t start, uint64_t end)
{
	struct scan_region region = { 0 };	/* for valgrind; the kernel writes it */
	struct memory_scan scan = {
		.size = sizeof(scan), .start = start, .end = end,
		.regions = (uint64_t)(uintptr_t)&region, .region_count = 1, .pages_max = 1,
		.any_of = SCAN_PRESENT | SCAN_SWAPPED, .reported = SCAN_PRESENT | SCAN_SWAPPED,
	};
	int n = ioctl(plan->pagemap_fd, SCAN, &scan);

	return n < 0 ? start : n > 0 ? region.start : end;
}

/*
 * Finds the end of the missing pages from `at` on. A check of each page would stop a process with
 * terabytes of reserved memory for too long.
 */
static uint64_t end_of_hole(const struct rp_dump_plan *plan, const struct rp_dump_mapping *mapping,
			    enum rp_dump_choice choice, uint64_t at)
{
	const struct rp_dump_range *range = next_range(plan, at);
	uint64_t end = range && range->start < mapping->end ? range->start : mapping->end;

	if (at == mapping->start || end <= at)
		return at;
	if (choice == RP_DUMP_NOTHING || choice == RP_DUMP_ALL)
		return end;
	return next_existing(plan, at, end);
}

static int append(struct rp_dump_plan *plan, const struct rp_dump_segment *segment)
{
	struct rp_dump_segment *last = plan->count ? &plan->segments[plan->count - 1] : NULL;
	struct rp_dump_segment *grown;

	if (last && last->mapping == segment->mapping && last->has_data == segment->has_data &&
	    last->end == segment->start) {
		last->end = segment->end;
		return 0;
	}
	grown = rp_array_reserve(plan->segments, plan->count, &plan->capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	plan->segments = grown;
	plan->segments[plan->count++] = *segment;
	return 0;
}

/* Contiguous pages of one kind. */
struct page_run {
	const struct rp_dump_mapping *mapping;
	enum rp_dump_choice choice;
	enum page_kind kind;
	uint64_t start;
	uint64_t end;
};

static int append_run(struct rp_dump_plan *plan, const struct page_run *run)
{
	const struct rp_dump_mapping *mapping = run->mapping;
	bool is_small = run->end - run->start < HOLE_BYTES_MAX;
	bool is_reserved = !mapping->readable && !mapping->writable && !mapping->executable;
	struct rp_dump_segment segment = {
		.start = run->start,
		.end = run->end,
		.mapping = mapping,
		.choice = run->choice,
		.has_data = run->kind == PAGE_DATA ||
			    (run->kind == PAGE_ZERO && is_small && !is_reserved),
	};

	if (run->start == run->end)
		return 0;
	if (run->kind == PAGE_DATA)
		plan->data_bytes += run->end - run->start;
	return append(plan, &segment);
}

/* Adds pages to the run, or begins another run with them. */
static int extend(struct rp_dump_plan *plan, struct page_run *run, enum page_kind kind,
		  uint64_t start, uint64_t end)
{
	int r = 0;

	if (kind != run->kind) {
		r = append_run(plan, run);
		run->kind = kind;
		run->start = start;
	}
	run->end = end;
	return r;
}

static int divide(struct rp_dump_plan *plan, const struct rp_dump_mapping *mapping,
		  enum rp_dump_choice choice)
{
	struct page_run run = { mapping, choice, PAGE_NOT_WANTED, mapping->start, mapping->start };
	uint64_t entries[PAGES_AT_ONCE];
	int r = 0;

	for (uint64_t at = mapping->start; at < mapping->end && r == 0;) {
		uint64_t end = end_of_hole(plan, mapping, choice, at);
		size_t count = (mapping->end - at) / plan->page_bytes;

		if (end > at) {
			r = extend(plan, &run, classify(plan, mapping, choice, at, 0), at, end);
			at = end;
			continue;
		}
		count = count < PAGES_AT_ONCE ? count : PAGES_AT_ONCE;
		read_entries(plan, at, count, entries);
		for (size_t i = 0; i < count && r == 0; i++, at += plan->page_bytes)
			r = extend(plan, &run, classify(plan, mapping, choice, at, entries[i]),
				   at, at + plan->page_bytes);
	}
	return r < 0 ? r : append_run(plan, &run);
}

static bool has_ranges(const struct rp_dump_plan *plan, const struct rp_dump_mapping *mapping)
{
	for (size_t i = 0; i < plan->range_count; i++) {
		if (plan->ranges[i].start < mapping->end && plan->ranges[i].end > mapping->start)
			return true;
	}
	return false;
}

static int plan_mapping(struct rp_dump_plan *plan, const struct rp_dump_mapping *mapping,
			enum rp_dump_type type)
{
	enum rp_dump_choice choice = rp_dump_choose(mapping, type);
	struct page_run whole = { mapping, choice, PAGE_ZERO, mapping->start, mapping->end };

	if (mapping->excluded || (choice == RP_DUMP_NOTHING && !has_ranges(plan, mapping))) {
		whole.kind = PAGE_NOT_WANTED;
		return append_run(plan, &whole);
	}
	/* Skip untouched mappings: they may reserve terabytes. */
	if (choice == RP_DUMP_PRESENT && !mapping->touched)
		return append_run(plan, &whole);
	return divide(plan, mapping, choice);
}

static int compare_ranges(const void *left, const void *right)
{
	const struct rp_dump_range *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

static const struct rp_dump_mapping *find_mapping(const struct rp_dump_maps *maps, uint64_t address)
{
	const size_t at = RP_PARTITION_POINT(i, maps->count, maps->rows[i].end <= address);

	return at < maps->count && maps->rows[at].start <= address ? &maps->rows[at] : NULL;
}

static void add_range(struct rp_dump_plan *plan, uint64_t start, uint64_t end)
{
	uint64_t mask = ~(plan->page_bytes - 1);

	plan->ranges[plan->range_count++] = (struct rp_dump_range){
		start & mask, (end + plan->page_bytes - 1) & mask,
	};
}

static uint64_t stack_pointer(const struct rp_tracee_thread *thread)
{
	/* Indices in elf_gregset_t: the kernel's struct user_regs_struct and user_pt_regs. */
#if defined(__x86_64__)
	return thread->status.pr_reg[19];
#else
	return thread->status.pr_reg[31];
#endif
}

static void add_thread(struct rp_dump_plan *plan, const struct rp_dump_maps *maps,
		       const struct rp_tracee_thread *thread)
{
	const uint64_t low = stack_pointer(thread) - RED_ZONE_BYTES;
	const struct rp_dump_mapping *stack = find_mapping(maps, low + RED_ZONE_BYTES);

	if (stack) {
		bool is_deep = stack->end - low > STACK_BYTES_MAX;

		add_range(plan, low > stack->start ? low : stack->start,
			  is_deep ? low + STACK_BYTES_MAX : stack->end);
	}
	for (size_t i = 0; i < ELF_NGREG; i++) {
		uint64_t value = thread->status.pr_reg[i];

		if (find_mapping(maps, value))
			add_range(plan, value, value + 1);
	}
}

struct loader_ranges {
	struct rp_dump_plan *plan;
	const struct rp_dump_maps *maps;
};

static void add_loaders(uint64_t address, uint64_t bytes, void *data)
{
	const struct loader_ranges *ranges = data;
	const struct rp_dump_mapping *mapping = find_mapping(ranges->maps, address);

	if (mapping)
		add_range(ranges->plan, address, bytes < mapping->end - address ? address + bytes :
			  mapping->end);
}

/*
 * Collects the ranges of a mini dump: the stacks, the pages that registers point to, and the
 * loader's list, without which a debugger finds no library.
 */
static int collect_ranges(struct rp_dump_plan *plan, const struct rp_dump_maps *maps,
			  const struct rp_tracee *tracee)
{
	struct loader_ranges loader = { plan, maps };
	size_t kept = 0;

	plan->ranges = calloc(tracee->count * (ELF_NGREG + 1) + RP_DUMP_LOADER_MAX,
			      sizeof(*plan->ranges));
	if (!plan->ranges)
		return -ENOMEM;
	rp_dump_loader_find(tracee->pid, add_loaders, &loader);
	for (size_t i = 0; i < tracee->count; i++) {
		if (tracee->threads[i].stopped)
			add_thread(plan, maps, &tracee->threads[i]);
	}
	qsort(plan->ranges, plan->range_count, sizeof(*plan->ranges), compare_ranges);
	for (size_t i = 0; i < plan->range_count; i++) {
		if (kept > 0 && plan->ranges[kept - 1].end >= plan->ranges[i].start) {
			if (plan->ranges[kept - 1].end < plan->ranges[i].end)
				plan->ranges[kept - 1].end = plan->ranges[i].end;
		} else {
			plan->ranges[kept++] = plan->ranges[i];
		}
	}
	plan->range_count = kept;
	return 0;
}

int rp_dump_plan_make(struct rp_dump_plan *plan, const struct rp_dump_maps *maps,
		      const struct rp_tracee *tracee, enum rp_dump_type type)
{
	char path[64];
	int r = 0;

	*plan = (struct rp_dump_plan){ .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE) };
	snprintf(path, sizeof(path), "/proc/%d/pagemap", tracee->pid);
	plan->pagemap_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (plan->pagemap_fd < 0)
		return -errno;
	if (type == RP_DUMP_MINI || type == RP_DUMP_TRIAGE)
		r = collect_ranges(plan, maps, tracee);
	for (size_t i = 0; i < maps->count && r == 0; i++)
		r = plan_mapping(plan, &maps->rows[i], type);
	return r;
}

void rp_dump_plan_pages(const struct rp_dump_plan *plan, const struct rp_dump_segment *segment,
			uint64_t start, size_t count, bool *ret_wanted)
{
	uint64_t entries[PAGES_AT_ONCE];

	for (size_t done = 0; done < count;) {
		size_t some = count - done < PAGES_AT_ONCE ? count - done : PAGES_AT_ONCE;

		read_entries(plan, start, some, entries);
		for (size_t i = 0; i < some; i++, start += plan->page_bytes)
			ret_wanted[done + i] = classify(plan, segment->mapping, segment->choice,
							start, entries[i]) == PAGE_DATA;
		done += some;
	}
}

void rp_dump_plan_fini(struct rp_dump_plan *plan)
{
	if (plan->pagemap_fd >= 0)
		close(plan->pagemap_fd);
	free(plan->ranges);
	free(plan->segments);
}
