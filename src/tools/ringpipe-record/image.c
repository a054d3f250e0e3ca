/* SPDX-License-Identifier: MIT */
/*
 * An image's segments are mapped read-only, at the same distances as in the process, so that
 * src/lib/unwind finds its tables as it does those of this process. That code copies what it reads
 * by process_vm_readv(2), which fails where a file was truncated; a direct access would kill this
 * program.
 */
#include "tools/ringpipe-record/image.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/array.h"
#include "tools/ringpipe-record/foreign_file.h"

#define SEGMENTS_MAX 64u
#define NOTE_BYTES_MAX 4096u
#define PAGE_MASK 4095ull
#define CONTEXT_VARIABLE "otel_thread_ctx_v1"	/* of OpenTelemetry's OTEP 4947 */

/* Address space for one image; larger files have no tables. */
#define SPAN_MAX (1ull << 32)

struct rp_images {
	struct rp_image **images;
	size_t count, capacity;
	size_t open_count, open_max;	/* files */
	size_t closed;			/* earlier images have no file that may be closed */
};

/* The program headers of a file, and a function that reads from it. */
struct layout {
	int fd;				/* -1: in memory, at `memory` */
	const uint8_t *memory;
	Elf64_Phdr headers[SEGMENTS_MAX];
	uint32_t count;
	bool is_fixed;			/* the type is ET_EXEC */
	uint64_t low, high;		/* addresses of all segments, in pages */
};

int rp_images_create(struct rp_images **ret_images)
{
	struct rp_images *images = calloc(1, sizeof(*images));
	struct rlimit limit;

	if (!images)
		return -ENOMEM;
	images->open_max = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 4 : 0;
	*ret_images = images;
	return 0;
}

static void destroy_image(struct rp_image *image)
{
	if (image->fd >= 0)
		close(image->fd);
	if (image->span_bytes)
		munmap((void *)(uintptr_t)image->span, image->span_bytes);
	free(image->segments);
	free(image->path);
	free(image);
}

void rp_images_destroy(struct rp_images *images)
{
	if (!images)
		return;
	for (size_t i = 0; i < images->count; i++)
		destroy_image(images->images[i]);
	free(images->images);
	free(images);
}

int rp_images_visit(const struct rp_images *images,
		    int (*visit)(const struct rp_image *image, void *data), void *data)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < images->count; i++)
		ret = visit(images->images[i], data);
	return ret;
}

static bool read_layout_bytes(const struct layout *layout, uint64_t offset, void *buffer,
			      size_t size)
{
	if (layout->fd < 0) {
		memcpy(buffer, layout->memory + offset, size);
		return true;
	}
	return pread(layout->fd, buffer, size, (off_t)offset) == (ssize_t)size;
}

/* Return: whether it is a 64-bit ELF file of this machine with sensible program headers. */
static bool read_layout(struct layout *layout)
{
	Elf64_Ehdr header;

	if (!read_layout_bytes(layout, 0, &header, sizeof(header)) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
	    header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > SEGMENTS_MAX ||
	    !read_layout_bytes(layout, header.e_phoff, layout->headers,
			       header.e_phnum * sizeof(Elf64_Phdr)))
		return false;
	layout->count = header.e_phnum;
	layout->is_fixed = header.e_type == ET_EXEC;
	layout->low = UINT64_MAX;
	for (uint32_t i = 0; i < layout->count; i++) {
		const Elf64_Phdr *segment = &layout->headers[i];
		uint64_t end = segment->p_vaddr + segment->p_memsz;

		if (segment->p_type != PT_LOAD)
			continue;
		if (end < segment->p_vaddr || end > UINT64_MAX - PAGE_MASK)
			return false;
		if ((segment->p_vaddr & ~PAGE_MASK) < layout->low)
			layout->low = segment->p_vaddr & ~PAGE_MASK;
		if (((end + PAGE_MASK) & ~PAGE_MASK) > layout->high)
			layout->high = (end + PAGE_MASK) & ~PAGE_MASK;
	}
	return layout->low < layout->high;
}

/* Finds the note NT_GNU_BUILD_ID in a PT_NOTE segment. */
static void read_build_id(const struct layout *layout, const Elf64_Phdr *segment,
			  struct rp_image *image)
{
	size_t size = segment->p_filesz < NOTE_BYTES_MAX ? segment->p_filesz : NOTE_BYTES_MAX;
	uint8_t notes[NOTE_BYTES_MAX];
	Elf64_Nhdr note;

	if (!read_layout_bytes(layout, segment->p_offset, notes, size))
		return;
	for (size_t at = 0; at + sizeof(note) <= size;) {
		size_t name, value;

		memcpy(&note, notes + at, sizeof(note));
		name = at + sizeof(note);
		value = name + (((size_t)note.n_namesz + 3) & ~3ull);
		at = value + (((size_t)note.n_descsz + 3) & ~3ull);
		if (at > size)
			return;
		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    memcmp(notes + name, "GNU", 4) != 0 || note.n_descsz > RP_BUILD_ID_MAX)
			continue;
		memcpy(image->build_id, notes + value, note.n_descsz);
		image->build_id_bytes = note.n_descsz;
	}
}

static void read_build_ids(const struct layout *layout, struct rp_image *image)
{
	for (uint32_t i = 0; i < layout->count && image->build_id_bytes == 0; i++) {
		if (layout->headers[i].p_type == PT_NOTE)
			read_build_id(layout, &layout->headers[i], image);
	}
}

/* Map the segments at the distances that their addresses have. Return: the address of `low`. */
static uint64_t map_segments(const struct layout *layout, struct rp_image *image)
{
	uint64_t bytes = layout->high - layout->low;
	void *span;

	if (layout->fd < 0)
		return (uint64_t)(uintptr_t)layout->memory;
	if (bytes > SPAN_MAX)
		return 0;
	span = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (span == MAP_FAILED)
		return 0;
	image->span = (uint64_t)(uintptr_t)span;
	image->span_bytes = bytes;
	for (uint32_t i = 0; i < layout->count; i++) {
		const Elf64_Phdr *segment = &layout->headers[i];
		uint64_t skew = segment->p_vaddr & PAGE_MASK;
		uint64_t at = image->span + (segment->p_vaddr - skew - layout->low);

		if (segment->p_type != PT_LOAD || segment->p_filesz == 0 ||
		    segment->p_filesz > segment->p_memsz ||
		    (segment->p_offset & PAGE_MASK) != skew)
			continue;
		if (mmap((void *)(uintptr_t)at, segment->p_filesz + skew, PROT_READ,
			 MAP_PRIVATE | MAP_FIXED, layout->fd,
			 (off_t)(segment->p_offset - skew)) == MAP_FAILED)
			return 0;
	}
	return image->span;
}

/* Where the unwind tables are, in this program's memory. */
static void find_tables(const struct layout *layout, struct rp_image *image)
{
	const Elf64_Phdr *tables = NULL;
	uint64_t first = UINT64_MAX, last = 0, base;

	for (uint32_t i = 0; i < layout->count; i++) {
		const Elf64_Phdr *segment = &layout->headers[i];

		if (segment->p_type == PT_GNU_EH_FRAME)
			tables = segment;
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		if (segment->p_vaddr < first)
			first = segment->p_vaddr;
		if (segment->p_vaddr + segment->p_memsz > last)
			last = segment->p_vaddr + segment->p_memsz;
	}
	if (!tables || first >= last || tables->p_vaddr < layout->low ||
	    tables->p_vaddr + tables->p_memsz > layout->high)
		return;
	base = map_segments(layout, image);
	if (!base)
		return;
	base -= layout->low;
	image->text_vaddr = first;
	image->text = (struct rp_object_text){
		.start = base + first,
		.end = base + last,
		.header = base + tables->p_vaddr,
		.header_end = base + tables->p_vaddr + tables->p_memsz,
	};
}

/* Whether it may be the file of the mapping, as far as the kernel's record has its inode. */
static bool may_be_mapped(const struct stat *file, const struct rp_image *image)
{
	return image->inode == 0 ||
	       (file->st_ino == image->inode && ((uint64_t)major(file->st_dev) << 20 |
						 minor(file->st_dev)) == image->device);
}

/* Without memory for the segments, the image has neither addresses nor tables. */
static void use_layout(const struct layout *layout, struct rp_image *image)
{
	image->segments = calloc(layout->count, sizeof(*image->segments));
	if (!image->segments)
		return;
	for (uint32_t i = 0; i < layout->count; i++) {
		const Elf64_Phdr *segment = &layout->headers[i];

		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X))
			image->segments[image->segment_count++] = (struct rp_image_segment){
				segment->p_offset, segment->p_filesz, segment->p_vaddr,
			};
	}
	find_tables(layout, image);
	if (layout->fd >= 0)
		rp_tls_variable_find(&(struct rp_tls_file){
			.fd = layout->fd, .headers = layout->headers, .count = layout->count,
			.is_fixed = layout->is_fixed,
		}, CONTEXT_VARIABLE, &image->context);
}

/* Open a place where the file may be; its build id decides. */
static bool open_place(const char *path, const struct rp_image_place *place,
		       struct rp_image *image, struct layout *ret_layout)
{
	struct stat file;
	int fd = rp_foreign_file_open(path, 0, place->process, place->device, &file);

	if (fd < 0)
		return false;
	*ret_layout = (struct layout){ .fd = fd };
	if (may_be_mapped(&file, image) && read_layout(ret_layout)) {
		read_build_ids(ret_layout, image);
		if (!place->build_id_bytes ||
		    (image->build_id_bytes == place->build_id_bytes &&
		     !memcmp(image->build_id, place->build_id, place->build_id_bytes))) {
			image->fd = fd;
			return true;
		}
	}
	image->build_id_bytes = 0;
	close(fd);
	return false;
}

static bool try_open(const char *path, const struct rp_image_place *place, struct rp_image *image)
{
	struct layout layout;

	if (!open_place(path, place, image, &layout))
		return false;
	use_layout(&layout, image);
	return true;
}

/*
 * /proc/PID/map_files leads to the mapped file even if its path was deleted or replaced, but needs
 * CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE. The path is as the process saw it. If the process has
 * ended, the file may have this path here, too.
 */
static void open_mapped(const struct rp_image_place *place, struct rp_image *image)
{
	char path[PATH_MAX + 64];
	bool found;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, place->process,
		 place->start, place->end);
	found = try_open(path, place, image);
	if (!found && (size_t)snprintf(path, sizeof(path), "/proc/%d/root%s", place->process,
				       image->path) < sizeof(path))
		found = try_open(path, place, image);
	if (!found && (image->inode || place->build_id_bytes))
		(void)try_open(image->path, place, image);
}

/* The vDSO is the same in all processes, this one included. */
static void open_vdso(struct rp_image *image)
{
	struct layout layout = {
		.fd = -1, .memory = (const uint8_t *)getauxval(AT_SYSINFO_EHDR),
	};

	if (!layout.memory || !read_layout(&layout))
		return;
	image->memory = layout.memory;
	image->memory_bytes = layout.high - layout.low;
	read_build_ids(&layout, image);
	use_layout(&layout, image);
}

int rp_image_acquire(const struct rp_image *image)
{
	const struct rp_image_place place = {
		.path = image->path, .process = getpid(), .device = image->device,
		.build_id = image->build_id, .build_id_bytes = image->build_id_bytes,
	};
	struct rp_image again = { .inode = image->inode, .device = image->device, .fd = -1 };
	struct layout layout;

	if (image->fd >= 0)
		return image->fd;
	if (image->was_opened)
		(void)open_place(image->path, &place, &again, &layout);
	return again.fd;
}

void rp_image_release(const struct rp_image *image, int fd)
{
	if (fd >= 0 && fd != image->fd)
		close(fd);
}

static void close_file(struct rp_images *images, struct rp_image *image)
{
	close(image->fd);
	image->fd = -1;
	images->open_count--;
}

/* If many files are open, close that of an image that no stack has used, or of the new one. */
static void limit_files(struct rp_images *images, struct rp_image *image)
{
	image->was_opened = image->fd >= 0;
	images->open_count += image->was_opened;
	if (images->open_count <= images->open_max)
		return;
	for (; images->closed < images->count; images->closed++) {
		struct rp_image *other = images->images[images->closed];

		if (other->fd >= 0 && !other->is_used) {
			close_file(images, other);
			return;
		}
	}
	close_file(images, image);
}

static bool is_image(const struct rp_image *image, const struct rp_image_place *place)
{
	if (strcmp(image->path, place->path) != 0)
		return false;
	if (place->build_id_bytes)
		return image->build_id_bytes == place->build_id_bytes &&
		       memcmp(image->build_id, place->build_id, place->build_id_bytes) == 0;
	return place->inode == 0 || image->inode == 0 ||
	       (image->inode == place->inode && image->device == place->device);
}

static struct rp_image *make_image(const struct rp_image_place *place)
{
	struct rp_image *image = calloc(1, sizeof(*image));

	if (!image)
		return NULL;
	image->fd = -1;
	image->device = place->device;
	image->inode = place->inode;
	image->path = strdup(place->path);
	if (!image->path) {
		free(image);
		return NULL;
	}
	if (place->path[0] == '[')
		open_vdso(image);
	else
		open_mapped(place, image);
	if (place->build_id_bytes && image->build_id_bytes == 0) {
		memcpy(image->build_id, place->build_id, place->build_id_bytes);
		image->build_id_bytes = place->build_id_bytes;
	}
	return image;
}

struct rp_image *rp_images_get(struct rp_images *images, const struct rp_image_place *place)
{
	struct rp_image *image, **grown;

	for (size_t i = 0; i < images->count; i++) {
		if (is_image(images->images[i], place))
			return images->images[i];
	}
	grown = rp_array_reserve(images->images, images->count, &images->capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return NULL;
	images->images = grown;
	image = make_image(place);
	if (!image)
		return NULL;
	limit_files(images, image);
	images->images[images->count++] = image;
	return image;
}

bool rp_image_vaddr(const struct rp_image *image, uint64_t file_offset, uint64_t *ret_vaddr)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct rp_image_segment *segment = &image->segments[i];

		/* A mapping begins at a page, which may hold the end of the segment before. */
		if (file_offset < (segment->file_offset & ~PAGE_MASK) ||
		    file_offset >= segment->file_offset + segment->bytes)
			continue;
		*ret_vaddr = segment->vaddr + (file_offset - segment->file_offset);
		return true;
	}
	return false;
}
