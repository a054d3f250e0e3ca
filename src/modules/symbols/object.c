/* SPDX-License-Identifier: MIT */
#include "modules/symbols/object.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PACKED_MAX (16u << 20)
#define COPY_BYTES 65536u

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_ORDER ELFDATA2LSB
#else
#define NATIVE_ORDER ELFDATA2MSB
#endif

/* Whether the tables can be read as this machine's own structs. */
static bool is_native(Elf *elf)
{
	const char *ident = elf_getident(elf, NULL);

	return elf_kind(elf) == ELF_K_ELF && ident && ident[EI_DATA] == NATIVE_ORDER &&
	       ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32);
}

static int check(struct rp_object_file *object, struct rp_object_file *ret_object)
{
	if (!object->elf || !is_native(object->elf)) {
		rp_object_close(object);
		return -ENOEXEC;
	}
	*ret_object = *object;
	return 0;
}

int rp_object_open(const char *path, struct rp_object_file *ret_object)
{
	return rp_object_open_fd(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK),
				 ret_object);
}

int rp_object_open_fd(int fd, struct rp_object_file *ret_object)
{
	struct rp_object_file object = { .fd = fd };
	struct stat stat;

	elf_version(EV_CURRENT);
	if (fd < 0)
		return -ENOENT;
	if (fstat(object.fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
		rp_object_close(&object);
		return -ENOENT;
	}
	object.elf = elf_begin(object.fd, ELF_C_READ, NULL);
	return check(&object, ret_object);
}

int rp_object_open_image(const void *image, size_t size, struct rp_object_file *ret_object)
{
	struct rp_object_file object = { .fd = -1, .image = image, .image_bytes = size };

	elf_version(EV_CURRENT);
	object.elf = elf_memory((char *)(uintptr_t)image, size);
	return check(&object, ret_object);
}

void rp_object_close(struct rp_object_file *object)
{
	elf_end(object->elf);
	if (object->fd >= 0)
		close(object->fd);
}

size_t rp_object_read(const struct rp_object_file *object, uint64_t offset, void *buffer,
		      size_t size)
{
	size_t done = 0;

	if (object->fd < 0) {
		if (offset >= object->image_bytes)
			return 0;
		done = object->image_bytes - offset < size ? object->image_bytes - offset : size;
		memcpy(buffer, object->image + offset, done);
		return done;
	}
	while (done < size && offset <= INT64_MAX - done) {
		ssize_t got = pread(object->fd, (char *)buffer + done, size - done,
				    (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

bool rp_object_has_build_id(const struct rp_object_file *object, const void *id, size_t size)
{
	const void *own;
	ssize_t own_size = dwelf_elf_gnu_build_id(object->elf, &own);

	return own_size > 0 && (size_t)own_size == size && memcmp(own, id, size) == 0;
}

bool rp_object_section(const struct rp_object_file *object, uint32_t type, const char *name,
		       GElf_Shdr *ret_section)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(object->elf, &names) != 0)
		return false;
	while ((section = elf_nextscn(object->elf, section)) != NULL) {
		const char *own;

		if (!gelf_getshdr(section, ret_section) || ret_section->sh_type != type)
			continue;
		own = elf_strptr(object->elf, names, ret_section->sh_name);
		if (!name || (own && strcmp(own, name) == 0))
			return true;
	}
	return false;
}

static int copy_to(const struct rp_object_file *object, const GElf_Shdr *section, int fd)
{
	char buffer[COPY_BYTES];

	for (uint64_t done = 0; done < section->sh_size;) {
		uint64_t left = section->sh_size - done;
		size_t part = left < sizeof(buffer) ? (size_t)left : sizeof(buffer);

		if (rp_object_read(object, section->sh_offset + done, buffer, part) != part ||
		    write(fd, buffer, part) != (ssize_t)part)
			return -EIO;
		done += part;
	}
	return 0;
}

int rp_object_open_packed(const struct rp_object_file *object, struct rp_object_file *ret_packed)
{
	struct rp_object_file packed = { .fd = -1 };
	GElf_Shdr section;
	size_t size = 0;
	int fd;

	if (!rp_object_section(object, SHT_PROGBITS, ".gnu_debugdata", &section) ||
	    section.sh_size > PACKED_MAX)
		return -ENOENT;
	fd = memfd_create("ringpipe-symbols", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* libdw decompresses the content, whatever the method. */
	if (copy_to(object, &section, fd) == 0)
		packed.elf = dwelf_elf_begin(fd);
	if (packed.elf)
		packed.image = (const uint8_t *)elf_rawfile(packed.elf, &size);
	packed.image_bytes = size;
	close(fd);
	if (!packed.image) {
		rp_object_close(&packed);
		return -ENOENT;
	}
	return check(&packed, ret_packed);
}
