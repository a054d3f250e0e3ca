/* SPDX-License-Identifier: MIT */
/*
 * Sources: core(5), elf(5), fs/binfmt_elf.c of Linux for the order and the content of NT_FILE.
 *
 *	note		u32 name bytes, u32 content bytes, u32 type, name, content, each padded to 4
 *	NT_FILE		u64 count, u64 page size, {u64 start, u64 end, u64 offset in pages}…, names
 */
#include "tools/ringpipe-dump/notes.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define AUXV_BYTES_MAX 4096u

static void put(struct rp_dump_notes *notes, const void *bytes, size_t size)
{
	size_t capacity = notes->capacity;
	uint8_t *grown;

	if (notes->error)
		return;
	while (capacity < notes->size + size)
		capacity = capacity ? 2 * capacity : 65536;
	if (capacity != notes->capacity) {
		grown = realloc(notes->bytes, capacity);
		if (!grown) {
			notes->error = -ENOMEM;
			return;
		}
		notes->bytes = grown;
		notes->capacity = capacity;
	}
	if (size)
		memcpy(notes->bytes + notes->size, bytes, size);
	notes->size += size;
}

static void pad(struct rp_dump_notes *notes)
{
	static const uint8_t zeros[4];

	put(notes, zeros, -notes->size & 3);
}

/* Begins a note whose content follows; end_note() fills in the size. */
static size_t begin_note(struct rp_dump_notes *notes, const char *name, uint32_t type)
{
	size_t begin = notes->size;
	const Elf64_Nhdr header = { .n_namesz = (uint32_t)strlen(name) + 1, .n_type = type };

	put(notes, &header, sizeof(header));
	put(notes, name, strlen(name) + 1);
	pad(notes);
	return begin;
}

static void end_note(struct rp_dump_notes *notes, size_t begin)
{
	uint32_t name_bytes, size;

	if (notes->error)
		return;
	memcpy(&name_bytes, notes->bytes + begin, sizeof(name_bytes));
	size = (uint32_t)(notes->size - begin - sizeof(Elf64_Nhdr) - ((name_bytes + 3) & ~3u));
	memcpy(notes->bytes + begin + offsetof(Elf64_Nhdr, n_descsz), &size, sizeof(size));
	pad(notes);
}

static void put_note(struct rp_dump_notes *notes, const char *name, uint32_t type,
		     const void *bytes, size_t size)
{
	size_t begin = begin_note(notes, name, type);

	put(notes, bytes, size);
	end_note(notes, begin);
}

static void put_process(struct rp_dump_notes *notes, const struct rp_tracee *tracee)
{
	const struct rp_tracee_thread *first = &tracee->threads[0];
	struct elf_prpsinfo info = { .pr_sname = 'R', .pr_pid = tracee->pid };
	char path[64];
	struct stat owner;
	ssize_t n;

	info.pr_ppid = first->status.pr_ppid;
	info.pr_pgrp = getpgid(tracee->pid);
	info.pr_sid = getsid(tracee->pid);
	snprintf(path, sizeof(path), "/proc/%d", tracee->pid);
	if (stat(path, &owner) == 0) {
		info.pr_uid = owner.st_uid;
		info.pr_gid = owner.st_gid;
	}
	memcpy(info.pr_fname, first->name, sizeof(info.pr_fname));
	snprintf(path, sizeof(path), "/proc/%d/cmdline", tracee->pid);
	n = rp_file_read(path, info.pr_psargs, sizeof(info.pr_psargs) - 1);
	for (ssize_t i = 0; i + 1 < n; i++) {
		if (info.pr_psargs[i] == '\0')
			info.pr_psargs[i] = ' ';
	}
	put_note(notes, "CORE", NT_PRPSINFO, &info, sizeof(info));
}

static void put_auxv(struct rp_dump_notes *notes, const struct rp_tracee *tracee)
{
	char path[64], auxv[AUXV_BYTES_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/auxv", tracee->pid);
	n = rp_file_read(path, auxv, sizeof(auxv));
	if (n > 0)
		put_note(notes, "CORE", NT_AUXV, auxv, (size_t)n);
}

static bool is_file(const struct rp_dump_mapping *mapping)
{
	return mapping->inode != 0 && mapping->path[0] == '/';
}

static void put_files(struct rp_dump_notes *notes, const struct rp_dump_maps *maps)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	size_t begin = begin_note(notes, "CORE", NT_FILE);
	uint64_t head[2] = { 0, page };

	for (size_t i = 0; i < maps->count; i++)
		head[0] += is_file(&maps->rows[i]);
	put(notes, head, sizeof(head));
	for (size_t i = 0; i < maps->count; i++) {
		const struct rp_dump_mapping *row = &maps->rows[i];
		const uint64_t place[3] = { row->start, row->end, row->offset / page };

		if (is_file(row))
			put(notes, place, sizeof(place));
	}
	for (size_t i = 0; i < maps->count; i++) {
		if (is_file(&maps->rows[i]))
			put(notes, maps->rows[i].path, strlen(maps->rows[i].path) + 1);
	}
	end_note(notes, begin);
}

static void put_status(struct rp_dump_notes *notes, const struct rp_tracee_thread *thread)
{
	put_note(notes, "CORE", NT_PRSTATUS, &thread->status, sizeof(thread->status));
}

static void put_registers(struct rp_dump_notes *notes, const struct rp_tracee_thread *thread)
{
	if (thread->has_fp)
		put_note(notes, "CORE", NT_PRFPREG, &thread->fp, sizeof(thread->fp));
	if (thread->xstate)
		put_note(notes, "LINUX", NT_X86_XSTATE, thread->xstate, thread->xstate_bytes);
}

static void put_names(struct rp_dump_notes *notes, const struct rp_tracee *tracee)
{
	size_t begin = begin_note(notes, RP_DUMP_NOTE_NAME, RP_DUMP_NOTE_THREAD_NAMES);

	for (size_t i = 0; i < tracee->count; i++) {
		const uint32_t tid = (uint32_t)tracee->threads[i].tid;

		put(notes, &tid, sizeof(tid));
		put(notes, tracee->threads[i].name, RP_THREAD_NAME_BYTES);
	}
	end_note(notes, begin);
}

int rp_dump_notes_make(struct rp_dump_notes *notes, const struct rp_tracee *tracee,
		       const struct rp_dump_maps *maps)
{
	*notes = (struct rp_dump_notes){ 0 };
	/* Linux puts the notes of the process between the first thread's two notes. */
	put_status(notes, &tracee->threads[0]);
	put_process(notes, tracee);
	put_auxv(notes, tracee);
	put_files(notes, maps);
	put_registers(notes, &tracee->threads[0]);
	for (size_t i = 1; i < tracee->count; i++) {
		put_status(notes, &tracee->threads[i]);
		put_registers(notes, &tracee->threads[i]);
	}
	put_names(notes, tracee);
	return notes->error;
}

void rp_dump_notes_fini(struct rp_dump_notes *notes)
{
	free(notes->bytes);
}
