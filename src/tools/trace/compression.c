/* SPDX-License-Identifier: MIT */
#include "tools/trace/compression.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/array.h"
#include "tools/trace/output.h"

#define LEVEL 3
#define FRAME_BYTES (1u << 20)	/* of the trace, in a frame; a reader's buffer */
#define FRAMES_MAX 0x8000000u

struct zstd_frame {
	uint32_t compressed, plain;
};

struct rp_compressor {
	ZSTD_CCtx *context;
	uint8_t *plain;			/* the current frame's */
	size_t plain_bytes;
	uint8_t *compressed;
	size_t compressed_capacity;
	struct zstd_frame *frames;
	size_t frame_count, frame_capacity;
	uint64_t bytes;			/* written */
};

bool rp_compression_is_supported(void)
{
	return true;
}

void rp_compressor_destroy(struct rp_compressor *compressor)
{
	if (!compressor)
		return;
	ZSTD_freeCCtx(compressor->context);
	free(compressor->plain);
	free(compressor->compressed);
	free(compressor->frames);
	free(compressor);
}

struct rp_compressor *rp_compressor_create(void)
{
	struct rp_compressor *compressor = calloc(1, sizeof(*compressor));

	if (!compressor)
		return NULL;
	compressor->compressed_capacity = ZSTD_compressBound(FRAME_BYTES);
	compressor->context = ZSTD_createCCtx();
	compressor->plain = malloc(FRAME_BYTES);
	compressor->compressed = malloc(compressor->compressed_capacity);
	if (compressor->context && compressor->plain && compressor->compressed) {
		/* With a checksum, a damaged frame is found, however it is damaged. */
		ZSTD_CCtx_setParameter(compressor->context, ZSTD_c_compressionLevel, LEVEL);
		ZSTD_CCtx_setParameter(compressor->context, ZSTD_c_checksumFlag, 1);
		return compressor;
	}
	rp_compressor_destroy(compressor);
	return NULL;
}

static int put(struct rp_compressor *compressor, struct rp_output *output,
	       const void *bytes, size_t size)
{
	const int ret = rp_output_put(output, bytes, size);

	if (ret == 0)
		compressor->bytes += size;
	return ret;
}

static int write_frame(struct rp_compressor *compressor, struct rp_output *output)
{
	struct zstd_frame *grown;
	size_t size;

	if (!compressor->plain_bytes)
		return 0;
	if (compressor->frame_count == FRAMES_MAX)
		return -EFBIG;
	grown = rp_array_reserve(compressor->frames, compressor->frame_count,
				 &compressor->frame_capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	compressor->frames = grown;
	size = ZSTD_compress2(compressor->context, compressor->compressed,
			      compressor->compressed_capacity, compressor->plain,
			      compressor->plain_bytes);
	if (ZSTD_isError(size))
		return -ENOMEM;
	grown[compressor->frame_count++] = (struct zstd_frame){
		(uint32_t)size, (uint32_t)compressor->plain_bytes,
	};
	compressor->plain_bytes = 0;
	return put(compressor, output, compressor->compressed, size);
}

int rp_compressor_write(struct rp_compressor *compressor, struct rp_output *output,
			const void *bytes, size_t size)
{
	const uint8_t *at = bytes;
	int ret = 0;

	while (ret == 0 && size) {
		size_t space = FRAME_BYTES - compressor->plain_bytes;
		size_t part = size < space ? size : space;

		memcpy(compressor->plain + compressor->plain_bytes, at, part);
		compressor->plain_bytes += part;
		at += part;
		size -= part;
		if (compressor->plain_bytes == FRAME_BYTES)
			ret = write_frame(compressor, output);
	}
	return ret;
}

int rp_compressor_end(struct rp_compressor *compressor, struct rp_output *output,
		      uint64_t *ret_bytes)
{
	int ret = write_frame(compressor, output);
	const uint32_t count = (uint32_t)compressor->frame_count;
	const uint32_t entries = count * (uint32_t)sizeof(struct zstd_frame);
	const uint32_t size = entries + RP_FRAME_TABLE_FOOTER_BYTES;
	const uint32_t header[2] = { RP_SKIPPABLE_MAGIC, size };
	/* The descriptor is 0: entries without checksums. */
	uint8_t footer[RP_FRAME_TABLE_FOOTER_BYTES] = { 0 };

	memcpy(footer, &count, 4);
	memcpy(footer + 5, &(uint32_t){ RP_FRAME_TABLE_MAGIC }, 4);
	if (ret == 0)
		ret = put(compressor, output, header, sizeof(header));
	if (ret == 0)
		ret = put(compressor, output, compressor->frames, entries);
	if (ret == 0)
		ret = put(compressor, output, footer, sizeof(footer));
	*ret_bytes = compressor->bytes;
	return ret;
}

struct rp_decompressor {
	ZSTD_DCtx *context;
	rp_compression_read read;
	void *data;
	uint8_t *compressed;
	size_t compressed_capacity;
	ZSTD_inBuffer in;
	uint8_t *plain;
	uint64_t plain_offset;		/* of `plain` in the trace */
	size_t plain_bytes, given;
	uint64_t wanted_offset;		/* of a seek into the next frame; or 0 */
	const char *error;
};

void rp_decompressor_destroy(struct rp_decompressor *decompressor)
{
	if (!decompressor)
		return;
	ZSTD_freeDCtx(decompressor->context);
	free(decompressor->compressed);
	free(decompressor->plain);
	free(decompressor);
}

struct rp_decompressor *rp_decompressor_create(rp_compression_read read, void *data,
					       const void *start, size_t start_bytes)
{
	struct rp_decompressor *decompressor = calloc(1, sizeof(*decompressor));

	if (!decompressor)
		return NULL;
	decompressor->read = read;
	decompressor->data = data;
	decompressor->error = "";
	decompressor->compressed_capacity = ZSTD_DStreamInSize();
	decompressor->compressed = malloc(decompressor->compressed_capacity);
	decompressor->plain = malloc(FRAME_BYTES + 1);
	decompressor->context = ZSTD_createDCtx();
	if (!decompressor->compressed || !decompressor->plain || !decompressor->context) {
		rp_decompressor_destroy(decompressor);
		return NULL;
	}
	memcpy(decompressor->compressed, start, start_bytes);
	decompressor->in = (ZSTD_inBuffer){ decompressor->compressed, start_bytes, 0 };
	return decompressor;
}

/* Get more of the file. Return: whether there is more; -errno. */
static int fill(struct rp_decompressor *decompressor)
{
	ssize_t got = decompressor->read(decompressor->data, decompressor->compressed,
					 decompressor->compressed_capacity);

	if (got < 0)
		return (int)got;
	decompressor->in.pos = 0;
	decompressor->in.size = (size_t)got;
	return got > 0;
}

/*
 * Decompress a frame, up to the size of the buffer. The buffer has one byte more than a frame of
 * rp_compressor_write(). Such a frame does not fill it, so the loop also takes the checksum at the
 * frame's end before any byte of the frame is used. Return: 0; -errno.
 */
static int take_frame(struct rp_decompressor *decompressor)
{
	ZSTD_outBuffer out = { decompressor->plain, FRAME_BYTES + 1, 0 };
	ZSTD_inBuffer *in = &decompressor->in;
	size_t left;

	decompressor->plain_offset += decompressor->plain_bytes;
	decompressor->given = decompressor->plain_bytes = 0;
	do {
		int more = in->pos < in->size ? 1 : fill(decompressor);

		if (more < 0)
			return more;
		left = ZSTD_decompressStream(decompressor->context, &out, in);
		if (ZSTD_isError(left)) {
			decompressor->error = ZSTD_getErrorName(left);
			return -EBADMSG;
		}
		if (!more)
			break;
	} while ((left || out.pos == 0) && out.pos < out.size);
	decompressor->plain_bytes = out.pos;
	return 0;
}

/* Decompress and drop what is before the offset that is wanted. Return: 0; -errno. */
static int skip(struct rp_decompressor *decompressor)
{
	uint64_t step = decompressor->wanted_offset - decompressor->plain_offset;
	int ret = 0;

	while (ret == 0 && step >= decompressor->plain_bytes && decompressor->plain_bytes) {
		ret = take_frame(decompressor);
		step = decompressor->wanted_offset - decompressor->plain_offset;
	}
	if (ret == 0 && decompressor->plain_bytes)
		decompressor->given = (size_t)step;
	decompressor->wanted_offset = 0;
	return ret;
}

ssize_t rp_decompressor_read(struct rp_decompressor *decompressor, void *buffer, size_t size)
{
	size_t left;
	int ret = 0;

	if (decompressor->given == decompressor->plain_bytes)
		ret = take_frame(decompressor);
	if (ret == 0 && decompressor->wanted_offset > decompressor->plain_offset)
		ret = skip(decompressor);
	if (ret < 0)
		return ret;
	left = decompressor->plain_bytes - decompressor->given;
	if (size > left)
		size = left;
	memcpy(buffer, decompressor->plain + decompressor->given, size);
	decompressor->given += size;
	return (ssize_t)size;
}

int rp_decompressor_seek(struct rp_decompressor *decompressor, const struct rp_frame_table *table,
			 uint64_t offset, uint64_t *ret_file_offset)
{
	const struct rp_frame *frame = rp_frame_table_find(table, offset);

	if (offset >= decompressor->plain_offset &&
	    offset - decompressor->plain_offset < decompressor->plain_bytes) {
		decompressor->given = (size_t)(offset - decompressor->plain_offset);
		decompressor->wanted_offset = 0;
		return 0;
	}
	ZSTD_DCtx_reset(decompressor->context, ZSTD_reset_session_only);
	decompressor->in.pos = decompressor->in.size = 0;
	decompressor->plain_bytes = decompressor->given = 0;
	decompressor->plain_offset = frame->plain;
	decompressor->wanted_offset = offset;
	*ret_file_offset = frame->compressed;
	return 1;
}

const char *rp_decompressor_error(const struct rp_decompressor *decompressor)
{
	return decompressor->error;
}
