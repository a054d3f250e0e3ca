/* SPDX-License-Identifier: MIT */
/*
 *	Elf64_Ehdr
 *	Elf64_Phdr	of the notes, then one for each segment
 *	Elf64_Shdr	only with more than 65,534 program headers: its sh_info has their number
 *	notes
 *	memory		from the next page on, segments with data in order
 *
 * Source: elf(5), "Extended numbering" in the System V gABI for PN_XNUM.
 */
#include "tools/ringpipe-dump/core_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_PAGES 256u

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#error "the machine's number in an ELF header is not known here"
#endif

static bool needs_section(const struct rp_dump_plan *plan)
{
	return plan->count + 1 >= PN_XNUM;
}

static uint64_t notes_offset(const struct rp_dump_plan *plan)
{
	return sizeof(Elf64_Ehdr) + (plan->count + 1) * sizeof(Elf64_Phdr) +
	       (needs_section(plan) ? sizeof(Elf64_Shdr) : 0);
}

static uint64_t memory_offset(const struct rp_dump_plan *plan, const struct rp_dump_notes *notes)
{
	return (notes_offset(plan) + notes->size + plan->page_bytes - 1) & ~(plan->page_bytes - 1);
}

static int write_at(int fd, const void *bytes, size_t size, uint64_t offset)
{
	const uint8_t *at = bytes;

	while (size > 0) {
		ssize_t n = pwrite(fd, at, size, (off_t)offset);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			at += n;
			size -= (size_t)n;
			offset += (uint64_t)n;
		}
	}
	return 0;
}

struct copy {
	int memory_fd;
	int fd;
	const struct rp_dump_plan *plan;
	uint64_t done_bytes;
	uint8_t *buffer;
};

/* Reads page by page if one page of the range cannot be read. */
static void read_pages(const struct copy *copy, uint64_t start, size_t bytes)
{
	const size_t page = copy->plan->page_bytes;

	if (pread(copy->memory_fd, copy->buffer, bytes, (off_t)start) == (ssize_t)bytes)
		return;
	for (size_t at = 0; at < bytes; at += page) {
		if (pread(copy->memory_fd, copy->buffer + at, page, (off_t)(start + at)) !=
		    (ssize_t)page)
			memset(copy->buffer + at, 0, page);
	}
}

static bool is_zero(const uint8_t *page, size_t bytes)
{
	return page[0] == 0 && memcmp(page, page + 1, bytes - 1) == 0;
}

/* Writes `bytes` of the buffer; pages of zeros become holes. */
static int write_pages(const struct copy *copy, size_t bytes, uint64_t offset)
{
	const size_t page = copy->plan->page_bytes;
	size_t begin = 0;
	int r = 0;

	for (size_t at = 0; at < bytes && r == 0; at += page) {
		if (!is_zero(copy->buffer + at, page))
			continue;
		r = write_at(copy->fd, copy->buffer + begin, at - begin, offset + begin);
		begin = at + page;
	}
	if (r == 0 && begin < bytes)
		r = write_at(copy->fd, copy->buffer + begin, bytes - begin, offset + begin);
	return r;
}

static int copy_chunk(struct copy *copy, const struct rp_dump_segment *segment, uint64_t start,
		      size_t pages, uint64_t offset)
{
	const size_t page = copy->plan->page_bytes;
	bool wanted[CHUNK_PAGES];
	int r = 0;

	rp_dump_plan_pages(copy->plan, segment, start, pages, wanted);
	for (size_t i = 0; i < pages && r == 0;) {
		size_t run = 0;

		while (i + run < pages && wanted[i + run] == wanted[i])
			run++;
		if (wanted[i]) {
			read_pages(copy, start + i * page, run * page);
			r = write_pages(copy, run * page, offset + i * page);
			copy->done_bytes += run * page;
		}
		i += run;
	}
	return r;
}

static int copy_segment(struct copy *copy, const struct rp_dump_segment *segment, uint64_t offset,
			rp_dump_progress progress, void *data)
{
	const size_t page = copy->plan->page_bytes;
	int r = 0;

	for (uint64_t at = segment->start; at < segment->end && r == 0;) {
		size_t pages = (segment->end - at) / page;

		pages = pages < CHUNK_PAGES ? pages : CHUNK_PAGES;
		r = copy_chunk(copy, segment, at, pages, offset + (at - segment->start));
		if (r == 0)
			r = progress(copy->done_bytes, data);
		at += pages * page;
	}
	return r;
}

int rp_dump_core_write_memory(int fd, pid_t pid, const struct rp_dump_plan *plan,
			      const struct rp_dump_notes *notes, rp_dump_progress progress,
			      void *data)
{
	struct copy copy = { .fd = fd, .plan = plan };
	uint64_t offset = memory_offset(plan, notes);
	char path[64];
	int r = 0;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	copy.memory_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (copy.memory_fd < 0)
		return -errno;
	copy.buffer = malloc(CHUNK_PAGES * plan->page_bytes);
	if (!copy.buffer)
		r = -ENOMEM;
	for (size_t i = 0; i < plan->count && r == 0; i++) {
		const struct rp_dump_segment *segment = &plan->segments[i];

		if (!segment->has_data)
			continue;
		r = copy_segment(&copy, segment, offset, progress, data);
		offset += segment->end - segment->start;
	}
	free(copy.buffer);
	close(copy.memory_fd);
	return r;
}

static Elf64_Ehdr make_header(const struct rp_dump_plan *plan)
{
	Elf64_Ehdr header = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_CORE,
		.e_machine = MACHINE,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = needs_section(plan) ? PN_XNUM : (Elf64_Half)(plan->count + 1),
	};

	if (needs_section(plan)) {
		header.e_shoff = notes_offset(plan) - sizeof(Elf64_Shdr);
		header.e_shentsize = sizeof(Elf64_Shdr);
		header.e_shnum = 1;
	}
	return header;
}

static Elf64_Phdr make_load(const struct rp_dump_plan *plan, const struct rp_dump_segment *segment,
			    uint64_t offset)
{
	const struct rp_dump_mapping *mapping = segment->mapping;
	const uint64_t size = segment->end - segment->start;

	return (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = (mapping->readable ? PF_R : 0u) | (mapping->writable ? PF_W : 0u) |
			   (mapping->executable ? PF_X : 0u),
		.p_offset = offset,
		.p_vaddr = segment->start,
		.p_filesz = segment->has_data ? size : 0,
		.p_memsz = size,
		.p_align = plan->page_bytes,
	};
}

int rp_dump_core_write_headers(int fd, const struct rp_dump_plan *plan,
			       const struct rp_dump_notes *notes, uint64_t *ret_file_bytes)
{
	Elf64_Phdr *table = calloc(plan->count + 1, sizeof(*table));
	const Elf64_Ehdr header = make_header(plan);
	const Elf64_Shdr section = { .sh_info = (Elf64_Word)plan->count + 1 };
	uint64_t offset = memory_offset(plan, notes);
	int r;

	if (!table)
		return -ENOMEM;
	table[0] = (Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = notes_offset(plan),
				 .p_filesz = notes->size, .p_align = 4 };
	for (size_t i = 0; i < plan->count; i++) {
		table[i + 1] = make_load(plan, &plan->segments[i], offset);
		offset += table[i + 1].p_filesz;
	}
	r = write_at(fd, &header, sizeof(header), 0);
	if (r == 0)
		r = write_at(fd, table, (plan->count + 1) * sizeof(*table), sizeof(header));
	if (r == 0 && needs_section(plan))
		r = write_at(fd, &section, sizeof(section), header.e_shoff);
	if (r == 0)
		r = write_at(fd, notes->bytes, notes->size, notes_offset(plan));
	if (r == 0 && ftruncate(fd, (off_t)offset) < 0)
		r = -errno;
	free(table);
	if (r == 0)
		*ret_file_bytes = offset;
	return r;
}
