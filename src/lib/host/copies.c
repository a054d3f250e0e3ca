/* SPDX-License-Identifier: MIT */
/*
 * Copies hide their symbols from each other. So each copy has an ELF note that points to a mark in
 * its data, and the loader's list of objects leads to the notes. Copies in another namespace of
 * dlmopen(3) are not on that list.
 */
#include "host/copies.h"

#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/event.h>
#include <ringpipe/host.h>

#include "base/atomic.h"
#include "base/thread.h"

#define NOTE_NAME "ringpipe"
#define NOTE_TYPE 1

/* As in core/core.c: links the constructor into a static program that calls nothing else. */
static void (*const constructor_file)(struct rp_object *object) __attribute__((used)) =
	rp_object_register;

/* Other versions of this library read this struct: its layout must not change. */
struct mark {
	int32_t process;	/* the copy's process; 0: not entered yet */
	uint32_t order;		/* order of loading, from 1 */
};

/* The asm below refers to this. */
extern struct mark rp_copy_mark __attribute__((visibility("hidden")));
__attribute__((used)) struct mark rp_copy_mark;

/*
 * The note's description is the distance from itself to the mark. The note is in this object file,
 * because a static link would omit a separate object file without a referenced symbol.
 */
__asm__(
	".pushsection .note.ringpipe, \"a\", %note\n\t"
	".balign 4\n\t"
	".4byte 9, 8, 1\n\t"
	".asciz \"" NOTE_NAME "\"\n\t"
	".balign 4\n"
	"1:\t"
	".8byte rp_copy_mark - 1b\n\t"
	".popsection\n");

struct note {
	ElfW(Nhdr) head;
	char name[12];
	int32_t distance[2];
};

struct copies_walk {
	pid_t process;		/* a mark with another process was copied by fork(2) */
	uint32_t count, highest;
	rp_host_copy_callback callback;		/* NULL: only count */
	void *data;
	int ret;
};

static void visit(struct copies_walk *walk, const char *path, const struct mark *mark)
{
	const struct rp_host_copy copy = {
		.size = sizeof(copy),
		.order = rp_load_relaxed(&mark->order),
		.path = path,
		.is_caller = mark == &rp_copy_mark,
	};

	/* Not entered yet, or in a forked child that did not run its fork handlers. */
	if (rp_load_relaxed(&mark->process) != walk->process)
		return;
	walk->count++;
	if (copy.order > walk->highest)
		walk->highest = copy.order;
	if (walk->callback && walk->ret == 0)
		walk->ret = walk->callback(&copy, walk->data);
}

static void visit_notes(struct copies_walk *walk, const char *path, const char *at, size_t size,
			size_t align)
{
	struct note note;
	int64_t distance;

	while (size >= sizeof(note.head)) {
		size_t step;

		memcpy(&note.head, at, sizeof(note.head));
		step = sizeof(note.head) +
		       ((note.head.n_namesz + align - 1) & ~(align - 1)) +
		       ((note.head.n_descsz + align - 1) & ~(align - 1));
		if (step > size)
			return;
		if (note.head.n_type == NOTE_TYPE && step == sizeof(note) &&
		    note.head.n_namesz == sizeof(NOTE_NAME) &&
		    memcmp(at + sizeof(note.head), NOTE_NAME, sizeof(NOTE_NAME)) == 0) {
			memcpy(&distance, at + offsetof(struct note, distance), sizeof(distance));
			visit(walk, path, (const void *)(at + offsetof(struct note, distance) +
							 distance));
		}
		at += step;
		size -= step;
	}
}

static int visit_object(struct dl_phdr_info *object, size_t size, void *data)
{
	(void)size;
	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];

		if (part->p_type == PT_NOTE)
			visit_notes(data, object->dlpi_name,
				    (const char *)(object->dlpi_addr + part->p_vaddr),
				    part->p_memsz, part->p_align == 8 ? 8 : 4);
	}
	return ((struct copies_walk *)data)->ret;
}

pid_t rp_copies_enter(void)
{
	struct copies_walk others = { .process = getpid() };

	if (rp_copy_mark.order == 0) {
		dl_iterate_phdr(visit_object, &others);
		rp_store_relaxed(&rp_copy_mark.order, others.highest + 1);
	}
	rp_store_relaxed(&rp_copy_mark.process, others.process);
	return others.process;
}

uint32_t rp_copies_count(void)
{
	struct copies_walk walk = { .process = getpid() };

	dl_iterate_phdr(visit_object, &walk);
	return walk.count;
}

RP_PUBLIC int rp_host_list_copies(rp_host_copy_callback callback, void *data)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct copies_walk walk = { .process = getpid(), .callback = callback, .data = data };

	dl_iterate_phdr(visit_object, &walk);
	return walk.ret;
}
