/* SPDX-License-Identifier: MIT */
/*
 * The table is the content of a frame that decompressors skip:
 *
 *	u32 magic of a skippable frame, u32 bytes of its content
 *	for each frame: u32 compressed bytes, u32 bytes of the content, and u32 checksum if the
 *		descriptor has HAS_CHECKSUMS
 *	u32 number of frames, u8 descriptor, u32 magic of the table
 */
#include "tools/trace/frame_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER_BYTES 8u
#define FOOTER_BYTES RP_FRAME_TABLE_FOOTER_BYTES
#define HAS_CHECKSUMS 0x80u
#define RESERVED_BITS 0x7cu

/* Return: 0: all bytes were read; -ENOENT: the file ends before; -errno. */
static int read_at(int fd, uint64_t offset, uint8_t *bytes, size_t size)
{
	while (size) {
		const ssize_t got = pread(fd, bytes, size, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -ENOENT;
		bytes += got;
		offset += (uint64_t)got;
		size -= (size_t)got;
	}
	return 0;
}

static uint32_t take_u32(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* Parse `size` bytes, the frame of a table. `entry`: the bytes of an entry. */
static int parse(const uint8_t *bytes, size_t size, size_t entry, struct rp_frame_table *table)
{
	struct rp_frame at = { 0 };

	if (take_u32(bytes) != RP_SKIPPABLE_MAGIC || take_u32(bytes + 4) != size - HEADER_BYTES)
		return -ENOENT;
	bytes += HEADER_BYTES;
	for (size_t i = 0; i < table->count; i++, bytes += entry) {
		table->frames[i] = at;
		at.compressed += take_u32(bytes);
		at.plain += take_u32(bytes + 4);
	}
	table->frames[table->count] = at;
	return 0;
}

int rp_frame_table_read(int fd, uint64_t bytes, struct rp_frame_table *ret_table)
{
	struct rp_frame_table table = { 0 };
	uint8_t footer[FOOTER_BYTES], *read = NULL;
	size_t entry, size;
	int ret = bytes < FOOTER_BYTES ? -ENOENT :
		  read_at(fd, bytes - FOOTER_BYTES, footer, FOOTER_BYTES);

	if (ret < 0)
		return ret;
	if (take_u32(footer + 5) != RP_FRAME_TABLE_MAGIC || footer[4] & RESERVED_BITS)
		return -ENOENT;
	entry = footer[4] & HAS_CHECKSUMS ? 12 : 8;
	table.count = take_u32(footer);
	size = HEADER_BYTES + table.count * entry + FOOTER_BYTES;
	if (!table.count || size > bytes)
		return -ENOENT;
	table.frames = reallocarray(NULL, table.count + 1, sizeof(*table.frames));
	read = malloc(size);
	ret = table.frames && read ? read_at(fd, bytes - size, read, size) : -ENOMEM;
	if (ret == 0)
		ret = parse(read, size, entry, &table);
	if (ret == 0 && table.frames[table.count].compressed != bytes - size)
		ret = -ENOENT;
	free(read);
	if (ret < 0)
		free(table.frames);
	else
		*ret_table = table;
	return ret;
}

const struct rp_frame *rp_frame_table_find(const struct rp_frame_table *table, uint64_t plain)
{
	size_t low = 0, high = table->count + 1;

	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;

		if (table->frames[middle].plain <= plain)
			low = middle;
		else
			high = middle;
	}
	return &table->frames[low];
}

void rp_frame_table_fini(struct rp_frame_table *table)
{
	free(table->frames);
	*table = (struct rp_frame_table){ 0 };
}
