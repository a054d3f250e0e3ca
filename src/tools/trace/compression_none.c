/* SPDX-License-Identifier: MIT */
/* Without libzstd. */
#include "tools/trace/compression.h"

#include <errno.h>

bool rp_compression_is_supported(void)
{
	return false;
}

struct rp_compressor *rp_compressor_create(void)
{
	return NULL;
}

void rp_compressor_destroy(struct rp_compressor *compressor)
{
	(void)compressor;
}

int rp_compressor_write(struct rp_compressor *compressor, struct rp_output *output,
			const void *bytes, size_t size)
{
	(void)compressor, (void)output, (void)bytes, (void)size;
	return -EOPNOTSUPP;
}

int rp_compressor_end(struct rp_compressor *compressor, struct rp_output *output,
		      uint64_t *ret_bytes)
{
	(void)compressor, (void)output, (void)ret_bytes;
	return -EOPNOTSUPP;
}

struct rp_decompressor *rp_decompressor_create(rp_compression_read read, void *data,
					       const void *start, size_t start_bytes)
{
	(void)read, (void)data, (void)start, (void)start_bytes;
	return NULL;
}

void rp_decompressor_destroy(struct rp_decompressor *decompressor)
{
	(void)decompressor;
}

ssize_t rp_decompressor_read(struct rp_decompressor *decompressor, void *buffer, size_t size)
{
	(void)decompressor, (void)buffer, (void)size;
	return -EOPNOTSUPP;
}

int rp_decompressor_seek(struct rp_decompressor *decompressor, const struct rp_frame_table *table,
			 uint64_t offset, uint64_t *ret_file_offset)
{
	(void)decompressor, (void)table, (void)offset, (void)ret_file_offset;
	return -ESPIPE;
}

const char *rp_decompressor_error(const struct rp_decompressor *decompressor)
{
	(void)decompressor;
	return "";
}
