/* SPDX-License-Identifier: MIT */
/*
 * An executable or shared library of 64 bits in the byte order of this machine, as the loader would
 * put it into memory at the addresses that it states. Everything in the file is untrusted.
 */
#ifndef RP_TOOL_ELF_IMAGE_H
#define RP_TOOL_ELF_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rp_elf_image {
	uint8_t *bytes;
	size_t size;
	Elf64_Ehdr header;
	Elf64_Rela *relocations;	/* those that store an address, sorted by their place */
	size_t relocation_count;
};

/*
 * Read a file. Return: 0; -errno, after an error line. rp_elf_close() is necessary in both cases.
 */
int rp_elf_open(struct rp_elf_image *image, const char *path);
void rp_elf_close(struct rp_elf_image *image);

/*
 * Find a section by its name. Return: 0; -ENOENT if there is none; -EBADMSG if the file has no
 * contents of the section, or a damaged table of sections.
 */
int rp_elf_section(const struct rp_elf_image *image, const char *name, uint64_t *ret_address,
		   uint64_t *ret_bytes);

/*
 * Find the contents of a section, which need not be in memory. Return: the contents; NULL if the
 * file has none.
 */
const uint8_t *rp_elf_contents(const struct rp_elf_image *image, const char *name,
			       uint64_t *ret_bytes);

/* Copy bytes at an address, without relocations. Return: whether the file has them. */
bool rp_elf_read(const struct rp_elf_image *image, uint64_t address, void *out, size_t bytes);

/* Read the pointer at an address, as the loader would store it. Return: as rp_elf_read(). */
bool rp_elf_pointer(const struct rp_elf_image *image, uint64_t address, uint64_t *ret_pointer);

/* Return: the text at an address, of up to `max` bytes without its NUL; NULL if there is none. */
const char *rp_elf_text(const struct rp_elf_image *image, uint64_t address, size_t max);

#endif
