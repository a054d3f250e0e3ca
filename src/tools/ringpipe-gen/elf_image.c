/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-gen/elf_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/tool.h"

/* Read the whole file, so that no other process can change or truncate what was checked. */
static int read_file(struct rp_elf_image *image, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret = 0;
	struct stat status;
	ssize_t size = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) != 0)
		ret = -errno;
	else if (!S_ISREG(status.st_mode))
		ret = -EINVAL;
	else
		image->bytes = malloc((size_t)status.st_size + 1);
	if (ret == 0 && !image->bytes)
		ret = -ENOMEM;
	while (ret == 0 && image->size < (size_t)status.st_size) {
		size = read(fd, image->bytes + image->size, (size_t)status.st_size - image->size);
		if (size < 0)
			ret = -errno;
		if (size <= 0)
			break;
		image->size += (size_t)size;
	}
	close(fd);
	return ret;
}

/* Return: whether the range is in the file. */
static bool is_inside(const struct rp_elf_image *image, uint64_t offset, uint64_t bytes)
{
	return offset <= image->size && bytes <= image->size - offset;
}

/* Return: the file's bytes for a range of addresses, of which the segment has `ret_left` more. */
static const uint8_t *find_bytes(const struct rp_elf_image *image, uint64_t address,
				 uint64_t bytes, uint64_t *ret_left)
{
	for (uint32_t i = 0; i < image->header.e_phnum; i++) {
		Elf64_Phdr segment;

		memcpy(&segment, image->bytes + image->header.e_phoff + i * sizeof(segment),
		       sizeof(segment));
		if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
		    address - segment.p_vaddr > segment.p_filesz ||
		    bytes > segment.p_filesz - (address - segment.p_vaddr) ||
		    !is_inside(image, segment.p_offset, segment.p_filesz))
			continue;
		*ret_left = segment.p_filesz - (address - segment.p_vaddr) - bytes;
		return image->bytes + segment.p_offset + (address - segment.p_vaddr);
	}
	return NULL;
}

bool rp_elf_read(const struct rp_elf_image *image, uint64_t address, void *out, size_t bytes)
{
	uint64_t left;
	const uint8_t *at = find_bytes(image, address, bytes, &left);

	if (at)
		memcpy(out, at, bytes);
	return at;
}

static int compare_places(const void *a, const void *b)
{
	const Elf64_Rela *x = a, *y = b;

	return (x->r_offset > y->r_offset) - (x->r_offset < y->r_offset);
}

bool rp_elf_pointer(const struct rp_elf_image *image, uint64_t address, uint64_t *ret_pointer)
{
	const Elf64_Rela key = { .r_offset = address };
	const Elf64_Rela *found = image->relocation_count ?
		bsearch(&key, image->relocations, image->relocation_count, sizeof(key),
			compare_places) : NULL;

	if (found)
		*ret_pointer = (uint64_t)found->r_addend;
	/* Without an entry, the linker stored the address itself. */
	return found || rp_elf_read(image, address, ret_pointer, sizeof(*ret_pointer));
}

const char *rp_elf_text(const struct rp_elf_image *image, uint64_t address, size_t max)
{
	uint64_t left;
	const uint8_t *at = find_bytes(image, address, 0, &left);

	if (!at || !memchr(at, 0, left < max + 1 ? left : max + 1))
		return NULL;
	return (const char *)at;
}

static uint32_t relative_type(const struct rp_elf_image *image)
{
	return image->header.e_machine == EM_AARCH64 ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE;
}

/* The dynamic section has the address of the table of relocations, and its size. */
static void find_relocations(const struct rp_elf_image *image, uint64_t *ret_address,
			     uint64_t *ret_bytes)
{
	for (uint32_t i = 0; i < image->header.e_phnum; i++) {
		Elf64_Phdr segment;
		Elf64_Dyn entry;

		memcpy(&segment, image->bytes + image->header.e_phoff + i * sizeof(segment),
		       sizeof(segment));
		if (segment.p_type != PT_DYNAMIC ||
		    !is_inside(image, segment.p_offset, segment.p_filesz))
			continue;
		for (uint64_t at = 0; at + sizeof(entry) <= segment.p_filesz; at += sizeof(entry)) {
			memcpy(&entry, image->bytes + segment.p_offset + at, sizeof(entry));
			if (entry.d_tag == DT_RELA)
				*ret_address = entry.d_un.d_ptr;
			else if (entry.d_tag == DT_RELASZ)
				*ret_bytes = entry.d_un.d_val;
		}
	}
}

static int read_relocations(struct rp_elf_image *image)
{
	uint64_t address = 0, bytes = 0, left;
	const uint8_t *table;

	find_relocations(image, &address, &bytes);
	table = bytes ? find_bytes(image, address, bytes, &left) : NULL;
	if (!table)
		return 0;
	image->relocations = malloc(bytes);
	if (!image->relocations)
		return -ENOMEM;
	for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= bytes; at += sizeof(Elf64_Rela)) {
		Elf64_Rela *entry = &image->relocations[image->relocation_count];

		memcpy(entry, table + at, sizeof(*entry));
		if (ELF64_R_TYPE(entry->r_info) == relative_type(image))
			image->relocation_count++;
	}
	qsort(image->relocations, image->relocation_count, sizeof(Elf64_Rela), compare_places);
	return 0;
}

/* Return: NULL, or why the file is not one of those that this module reads. */
static const char *check_header(struct rp_elf_image *image)
{
	const uint8_t order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
	Elf64_Ehdr *header = &image->header;

	if (image->size < sizeof(*header) || memcmp(image->bytes, ELFMAG, SELFMAG) != 0)
		return "it is not an ELF file";
	memcpy(header, image->bytes, sizeof(*header));
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != order)
		return "it is for another kind of machine";
	if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
		return "it is neither an executable nor a shared library";
	if ((header->e_phnum && header->e_phentsize != sizeof(Elf64_Phdr)) ||
	    !is_inside(image, header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr)))
		return "it is damaged";
	return NULL;
}

int rp_elf_open(struct rp_elf_image *image, const char *path)
{
	const char *reason;
	int ret;

	*image = (struct rp_elf_image){ 0 };
	ret = read_file(image, path);
	if (ret == 0) {
		reason = check_header(image);
		if (reason) {
			rp_tool_error("cannot read %s: %s", path, reason);
			return -EBADMSG;
		}
		ret = read_relocations(image);
	}
	if (ret < 0)
		rp_tool_error("cannot read %s: %s", path,
			      ret == -EINVAL ? "it is not a regular file" : strerror(-ret));
	return ret;
}

void rp_elf_close(struct rp_elf_image *image)
{
	free(image->bytes);
	free(image->relocations);
	*image = (struct rp_elf_image){ 0 };
}

/* Return: whether the table of sections has a row of this number. */
static bool read_section(const struct rp_elf_image *image, uint32_t number, Elf64_Shdr *ret_section)
{
	const uint64_t offset = image->header.e_shoff + (uint64_t)number * sizeof(*ret_section);

	if (number >= image->header.e_shnum || image->header.e_shentsize != sizeof(*ret_section) ||
	    offset < image->header.e_shoff || !is_inside(image, offset, sizeof(*ret_section)))
		return false;
	memcpy(ret_section, image->bytes + offset, sizeof(*ret_section));
	return true;
}

/* Return: 0; -ENOENT; -EBADMSG: a damaged table of sections. */
static int find_section(const struct rp_elf_image *image, const char *name, Elf64_Shdr *ret_section)
{
	const size_t length = strlen(name) + 1;
	Elf64_Shdr names;

	if (!read_section(image, image->header.e_shstrndx, &names) ||
	    !is_inside(image, names.sh_offset, names.sh_size))
		return -EBADMSG;
	for (uint32_t i = 0; read_section(image, i, ret_section); i++) {
		if (ret_section->sh_name <= names.sh_size &&
		    length <= names.sh_size - ret_section->sh_name &&
		    !memcmp(image->bytes + names.sh_offset + ret_section->sh_name, name, length))
			return 0;
	}
	return -ENOENT;
}

int rp_elf_section(const struct rp_elf_image *image, const char *name, uint64_t *ret_address,
		   uint64_t *ret_bytes)
{
	Elf64_Shdr section;
	int ret = find_section(image, name, &section);

	if (ret == 0 && section.sh_type == SHT_NOBITS)
		ret = -EBADMSG;
	if (ret == 0) {
		*ret_address = section.sh_addr;
		*ret_bytes = section.sh_size;
	}
	return ret;
}

const uint8_t *rp_elf_contents(const struct rp_elf_image *image, const char *name,
			       uint64_t *ret_bytes)
{
	Elf64_Shdr section;

	if (find_section(image, name, &section) < 0 || section.sh_type == SHT_NOBITS ||
	    !is_inside(image, section.sh_offset, section.sh_size))
		return NULL;
	*ret_bytes = section.sh_size;
	return image->bytes + section.sh_offset;
}
