/* SPDX-License-Identifier: MIT */
/*
 * The files from which processes execute code. Each file is opened once for all processes. Content
 * is untrusted: a file may be deleted, replaced or truncated at any time.
 *
 * Files stay open, as their paths may lead to others later, but no more than a quarter of the open
 * files that this program may have. Beyond that, files that no stack has used are closed first.
 */
#ifndef RP_RECORD_IMAGE_H
#define RP_RECORD_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/symbols.h"
#include "tools/ringpipe-record/tls_variable.h"
#include "unwind/loaded_objects.h"

/* An executable segment of the file. */
struct rp_image_segment {
	uint64_t file_offset, bytes, vaddr;
};

struct rp_image {
	char *path;			/* as the process saw it that mapped it first */
	uint64_t device, inode;		/* 0, 0: unknown */
	uint8_t build_id[RP_BUILD_ID_MAX];
	uint32_t build_id_bytes;	/* 0: it has none, or the file could not be read */
	int fd;				/* -1: not open */
	bool was_opened;
	struct rp_image_segment *segments;
	size_t segment_count;
	struct rp_object_text text;	/* unwind tables, in this program's memory; 0: none */
	uint64_t text_vaddr;		/* the file's address of text.start */
	uint64_t span, span_bytes;	/* the memory that is mapped for them */
	struct rp_tls_variable context;	/* the pointer to a thread's trace id, if it has one */
	bool is_used;			/* a stack of the trace has its code */
	const void *memory;		/* of the vDSO: the whole file */
	size_t memory_bytes;
};

struct rp_images;

int rp_images_create(struct rp_images **ret_images);
void rp_images_destroy(struct rp_images *images);

/* A mapping of a file, as /proc or the kernel's record describes it. */
struct rp_image_place {
	pid_t process;
	uint64_t start, end;
	const char *path;		/* as the process sees it */
	uint64_t device, inode;		/* 0, 0: unknown */
	const uint8_t *build_id;
	uint32_t build_id_bytes;	/* 0: unknown */
};

/* Get the image that a process has mapped there. Return: NULL: no memory. */
struct rp_image *rp_images_get(struct rp_images *images, const struct rp_image_place *place);

/*
 * Get a descriptor of the image's file, for rp_image_release(). A file that is not open any more is
 * opened again, if its path still leads to it.
 *
 * Context: not from two threads for one image.
 * Return: -1: none.
 */
int rp_image_acquire(const struct rp_image *image);
void rp_image_release(const struct rp_image *image, int fd);

/* Call a function for each image, until one call does not return 0. Return: the last result. */
int rp_images_visit(const struct rp_images *images,
		    int (*visit)(const struct rp_image *image, void *data), void *data);

/* Convert an offset in the file to an address of the ELF file. Return: false if it has none. */
bool rp_image_vaddr(const struct rp_image *image, uint64_t file_offset, uint64_t *ret_vaddr);

#endif
