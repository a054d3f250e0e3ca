/* SPDX-License-Identifier: MIT */
/*
 * Two lists of objects, of which one is current. A reader increments the list's count of readers
 * before it uses the list. The refresher fills the other list only while that list has no readers;
 * otherwise it leaves the change to the next refresh.
 *
 * ORDERING: a Dekker pair. Either the reader sees that its list is no longer current and retries,
 * or the refresher sees the reader's count and does not change the list.
 *
 *	reader						refresher
 *	------						---------
 *	readers[slot]++		[OBJ-READERS] seq_cst	current = other	[OBJ-CURRENT] seq_cst
 *	load current		[OBJ-CURRENT] seq_cst	load readers	[OBJ-READERS] seq_cst
 */
#include "unwind/loaded_objects.h"

#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/atomic.h"
#include "unwind/unwind.h"

struct list {
	struct rp_object_text *texts;
	size_t count, capacity;
	uint32_t generation;
	uint32_t readers;
};

static struct list lists[2];
static uint32_t current;		/* index of the current list */
static uint32_t generation;		/* only the refresher uses it */
static uint64_t seen_adds, seen_subs;	/* only the refresher uses them */

/* Locked whenever the refresher holds the dynamic loader's lock. */
static pthread_mutex_t loader_lock = PTHREAD_MUTEX_INITIALIZER;

void rp_objects_open(struct rp_objects *ret_objects)
{
	uint32_t slot;

	for (;;) {
		slot = rp_load_seq_cst(&current);
		rp_add_seq_cst(&lists[slot].readers, 1);	/* [OBJ-READERS] */
		if (rp_load_seq_cst(&current) == slot)		/* [OBJ-CURRENT] */
			break;
		rp_add_seq_cst(&lists[slot].readers, -1u);
	}
	ret_objects->texts = lists[slot].texts;
	ret_objects->count = (uint32_t)lists[slot].count;
	ret_objects->generation = lists[slot].generation;
	ret_objects->slot = slot;
}

void rp_objects_close(const struct rp_objects *objects)
{
	rp_add_seq_cst(&lists[objects->slot].readers, -1u);	/* [OBJ-READERS] */
}

uint32_t rp_objects_generation(void)
{
	return rp_load_relaxed(&lists[rp_load_relaxed(&current)].generation);
}

const struct rp_object_text *rp_objects_find(const struct rp_objects *objects, uint64_t address)
{
	uint32_t low = 0, high = objects->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct rp_object_text *text = &objects->texts[middle];

		if (address < text->start)
			high = middle;
		else if (address >= text->end)
			low = middle + 1;
		else
			return text;
	}
	return NULL;
}

bool rp_memory_peek(uint64_t address, void *ret_bytes, size_t size)
{
	struct iovec to = { ret_bytes, size };
	struct iovec from = { (void *)(uintptr_t)address, size };

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)size;
}

static int note_counts(struct dl_phdr_info *info, size_t size, void *data)
{
	uint64_t *counts = data;

	(void)size;
	counts[0] = info->dlpi_adds;
	counts[1] = info->dlpi_subs;
	return 1;
}

static bool add_text(struct list *list, const struct rp_object_text *text)
{
	struct rp_object_text *grown;

	grown = rp_array_reserve(list->texts, list->count, &list->capacity, 1, sizeof(*grown));
	if (!grown)
		return false;
	list->texts = grown;
	list->texts[list->count++] = *text;
	return true;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct rp_object_text text = { 0, 0, 0, 0 };

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type != PT_GNU_EH_FRAME)
			continue;
		text.header = info->dlpi_addr + header->p_vaddr;
		text.header_end = text.header + header->p_memsz;
	}
	for (int i = 0; text.header && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
			continue;
		text.start = info->dlpi_addr + header->p_vaddr;
		text.end = text.start + header->p_memsz;
		if (!add_text(data, &text))
			return 1;
	}
	return 0;
}

static int compare_texts(const void *a, const void *b)
{
	const struct rp_object_text *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static bool refresh(void)
{
	struct list *other = &lists[!rp_load_relaxed(&current)];
	uint64_t counts[2] = { 0, 0 };

	dl_iterate_phdr(note_counts, counts);
	if (counts[0] == seen_adds && counts[1] == seen_subs)
		return false;
	if (rp_load_seq_cst(&other->readers) != 0)	/* [OBJ-READERS] */
		return false;
	other->count = 0;
	if (dl_iterate_phdr(add_object, other) != 0)
		return false;	/* no memory: keep the old list */
	qsort(other->texts, other->count, sizeof(*other->texts), compare_texts);
	seen_adds = counts[0];
	seen_subs = counts[1];
	rp_store_relaxed(&other->generation, ++generation);
	rp_store_seq_cst(&current, (uint32_t)(other - lists));	/* [OBJ-CURRENT] */
	return true;
}

bool rp_unwind_refresh(void)
{
	bool ret;

	pthread_mutex_lock(&loader_lock);
	ret = refresh();
	pthread_mutex_unlock(&loader_lock);
	return ret;
}

void rp_unwind_fork_prepare(void)
{
	pthread_mutex_lock(&loader_lock);
}

void rp_unwind_fork_parent(void)
{
	pthread_mutex_unlock(&loader_lock);
}

void rp_unwind_fork_child(void)
{
	pthread_mutex_unlock(&loader_lock);
	/* The counted readers do not exist in the child. */
	rp_store_relaxed(&lists[0].readers, 0);
	rp_store_relaxed(&lists[1].readers, 0);
}
