/* SPDX-License-Identifier: MIT */
/* The table of frames at the end of a file in zstd's seekable format; see compression.h. */
#ifndef RP_TOOL_FRAME_TABLE_H
#define RP_TOOL_FRAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define RP_SKIPPABLE_MAGIC 0x184d2a5eu	/* of a frame that decompressors skip */
#define RP_FRAME_TABLE_MAGIC 0x8f92eab1u
#define RP_FRAME_TABLE_FOOTER_BYTES 9u

/* A frame: where it begins in the file, and where its content begins in the decompressed data. */
struct rp_frame {
	uint64_t compressed, plain;
};

/* Initialise it with zeros. */
struct rp_frame_table {
	struct rp_frame *frames;	/* ascending, and one more for the end of the last */
	size_t count;
};

/*
 * Read the table of a file.
 * @bytes: the size of the file.
 * Return: 0; -ENOENT: the file has no table, or its table does not describe the file; -ENOMEM;
 * -errno of pread(2).
 */
int rp_frame_table_read(int fd, uint64_t bytes, struct rp_frame_table *ret_table);

/*
 * Return: the frame with the byte at an offset of the decompressed data; the end of the last frame
 * if there is no such byte.
 */
const struct rp_frame *rp_frame_table_find(const struct rp_frame_table *table, uint64_t plain);

void rp_frame_table_fini(struct rp_frame_table *table);

#endif
