/* SPDX-License-Identifier: MIT */
/*
 * Traces in zstd's seekable format: frames that can be decompressed separately, and at the end a
 * table of their sizes in a frame that other readers skip. `zstd -d` restores the trace. Source:
 * contrib/seekable_format/zstd_seekable_compression_format.md in the repository facebook/zstd.
 */
#ifndef RP_TOOL_COMPRESSION_H
#define RP_TOOL_COMPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/trace/frame_table.h"

/* Whether this build can compress and decompress. */
bool rp_compression_is_supported(void);

/* Whether a trace of this name is to be compressed: it ends in .zst. */
bool rp_compression_is_named(const char *path);

/* Whether a file that begins with these 4 bytes is compressed. */
bool rp_compression_is_magic(const uint8_t bytes[4]);

struct rp_compressor;
struct rp_output;

/* Return: NULL: no memory, or not supported. */
struct rp_compressor *rp_compressor_create(void);
void rp_compressor_destroy(struct rp_compressor *compressor);

/* Compress bytes and write them. 0; -ENOMEM; -EFBIG; -errno of rp_output_put(). */
int rp_compressor_write(struct rp_compressor *compressor, struct rp_output *output,
			const void *bytes, size_t size);

/* Write the rest and the table. `ret_bytes`: the size of the file. Return: likewise. */
int rp_compressor_end(struct rp_compressor *compressor, struct rp_output *output,
		      uint64_t *ret_bytes);

struct rp_decompressor;

/* Put up to `size` bytes of the file into the buffer. Return: their number; 0: the end; -errno. */
typedef ssize_t (*rp_compression_read)(void *data, void *buffer, size_t size);

/*
 * `start`: the first bytes of the file, which were read before. Return: NULL: no memory, or not
 * supported.
 */
struct rp_decompressor *rp_decompressor_create(rp_compression_read read, void *data,
					       const void *start, size_t start_bytes);
void rp_decompressor_destroy(struct rp_decompressor *decompressor);

/*
 * Get up to `size` bytes of the trace. Return: their number; 0: the file ends, possibly inside a
 * frame; -EBADMSG: damaged, see rp_decompressor_error(); -errno of `read`.
 */
ssize_t rp_decompressor_read(struct rp_decompressor *decompressor, void *buffer, size_t size);

/*
 * Continue to read at an offset of the trace.
 * @table: of the file.
 * @ret_file_offset: if the result is 1, where the decompressor's function `read` must continue.
 *
 * Return: 0: the file stays where it is; 1; -ESPIPE: not supported.
 */
int rp_decompressor_seek(struct rp_decompressor *decompressor, const struct rp_frame_table *table,
			 uint64_t offset, uint64_t *ret_file_offset);
const char *rp_decompressor_error(const struct rp_decompressor *decompressor);

#endif
