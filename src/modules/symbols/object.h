/* SPDX-License-Identifier: MIT */
/*
 * An ELF file, or an image of one in memory. libelf reads and checks the headers. Tables are read
 * in pieces with pread(2), so a large table takes no memory, and a file that is truncated meanwhile
 * ends early.
 */
#ifndef RP_SYMBOLS_OBJECT_H
#define RP_SYMBOLS_OBJECT_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rp_object_file {
	Elf *elf;
	int fd;			/* -1: in memory */
	const uint8_t *image;
	size_t image_bytes;
};

/*
 * Open a regular file. Return: 0; -ENOENT if the file does not exist or cannot be read; -ENOEXEC if
 * it is not an ELF file of this machine's kind.
 */
int rp_object_open(const char *path, struct rp_object_file *ret_object);

/* The same for an open file, whose descriptor is closed with the object or here; -1: no file. */
int rp_object_open_fd(int fd, struct rp_object_file *ret_object);

/* The caller keeps the ownership of the image. */
int rp_object_open_image(const void *image, size_t size, struct rp_object_file *ret_object);

/*
 * Open the small symbol table that some distributions pack into .gnu_debugdata, as a separate
 * object. Return: 0; -ENOENT if the object has none.
 */
int rp_object_open_packed(const struct rp_object_file *object, struct rp_object_file *ret_packed);

void rp_object_close(struct rp_object_file *object);

/* Reads up to `size` bytes; fewer at the end, or if the file cannot be read. */
size_t rp_object_read(const struct rp_object_file *object, uint64_t offset, void *buffer,
		      size_t size);

/* Whether the object has this build id. */
bool rp_object_has_build_id(const struct rp_object_file *object, const void *id, size_t size);

/* Finds the first section of a type (or, with `name`, of that name); `ret_index` is its index. */
bool rp_object_section(const struct rp_object_file *object, uint32_t type, const char *name,
		       GElf_Shdr *ret_section);

#endif
