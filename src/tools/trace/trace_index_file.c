/* SPDX-License-Identifier: MIT */
/*
 * The file of an index. Numbers are little-endian; the version changes with every change.
 *
 *	0	"RPIDX\0\0\3"
 *	8	u64 bytes of the trace, i64 its time of modification in ns, u64 hash of its first
 *		and last 64 KB
 *	32	u64 blocks, u64 types, u64 bytes of texts, u64 events, i64 first_ns, i64 last_ns,
 *		u64 end, u64 flags: 1 is_whole, 2 has_processes
 *	96	the blocks, 64 bytes each: struct rp_index_block
 *		the types, 16 bytes each: u32 id, u32 version, u64 events
 *		the texts: of each type, its provider and its name, each with its NUL
 *		u64 hash of all bytes before
 */
#include "tools/trace/trace_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/file.h"
#include "base/hash.h"
#include "nettrace/outbuf.h"

#define MAGIC "RPIDX\0\0\3"
#define MAGIC_BYTES 8u
#define HEADER_BYTES 96u
#define TYPE_BYTES 16u
#define ENDS_BYTES (64u << 10)
#define IS_WHOLE 1u
#define HAS_PROCESSES 2u

_Static_assert(sizeof(struct rp_index_block) == 64, "the file has this struct");

/* The properties that identify a trace. */
struct index_key {
	uint64_t bytes;
	int64_t modified_ns;
	uint64_t hash;
};

static int hash_part(int fd, uint64_t offset, uint64_t *hash)
{
	uint8_t *buffer = malloc(ENDS_BYTES);
	ssize_t got = buffer ? pread(fd, buffer, ENDS_BYTES, (off_t)offset) : -1;
	const int ret = got >= 0 ? 0 : buffer ? -errno : -ENOMEM;

	if (ret == 0)
		*hash = rp_hash_bytes(*hash, buffer, (size_t)got);
	free(buffer);
	return ret;
}

/* Return: 0; -ESPIPE: no regular file; other -errno. */
static int find_key(int fd, struct index_key *ret_key)
{
	struct stat status;
	int ret;

	if (fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -ESPIPE;
	*ret_key = (struct index_key){
		.bytes = (uint64_t)status.st_size,
		.modified_ns = status.st_mtim.tv_sec * 1000000000ll + status.st_mtim.tv_nsec,
		.hash = RP_HASH_BEGIN,
	};
	ret = hash_part(fd, 0, &ret_key->hash);
	if (ret == 0 && ret_key->bytes > ENDS_BYTES)
		ret = hash_part(fd, ret_key->bytes - ENDS_BYTES, &ret_key->hash);
	return ret;
}

static char *index_path(const char *path, const char *end)
{
	char *made;

	return asprintf(&made, "%s%s", path, end) < 0 ? NULL : made;
}

/* Read a whole file. Return: 0, and bytes for free(); -ESTALE: it cannot be used; -ENOMEM. */
static int read_index(const char *path, uint8_t **ret_bytes, size_t *ret_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat status;
	size_t size = 0;
	ssize_t got = 1;
	uint8_t *bytes;

	if (fd < 0)
		return -ESTALE;
	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
	    status.st_size < (off_t)(HEADER_BYTES + 8)) {
		close(fd);
		return -ESTALE;
	}
	bytes = malloc((size_t)status.st_size);
	while (bytes && got > 0 && size < (size_t)status.st_size) {
		got = read(fd, bytes + size, (size_t)status.st_size - size);
		size += got > 0 ? (size_t)got : 0;
	}
	close(fd);
	if (!bytes)
		return -ENOMEM;
	*ret_bytes = bytes;
	*ret_size = size;
	return 0;
}

/* FNV would take longer than the reading of the file. */
static uint64_t checksum(const uint8_t *bytes, size_t size)
{
	uint64_t hash = RP_HASH_BEGIN ^ size, word;

	for (; size >= sizeof(word); bytes += sizeof(word), size -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return rp_hash_bytes(hash, bytes, size);
}

static bool is_text_list(const char *texts, size_t bytes, uint64_t count)
{
	uint64_t found = 0;

	for (size_t i = 0; i < bytes; i++)
		found += !texts[i];
	return found == count && (!bytes || !texts[bytes - 1]);
}

static int take_types(struct rp_trace_index *index, struct rp_cursor *c, uint64_t count,
		      uint64_t text_bytes)
{
	const uint8_t *rows = c->at;
	const char *text;

	index->types = calloc(count + 1, sizeof(*index->types));
	index->texts = malloc(text_bytes + 1);
	if (!index->types || !index->texts)
		return -ENOMEM;
	memcpy(index->texts, rows + count * TYPE_BYTES, text_bytes);
	if (!is_text_list(index->texts, text_bytes, 2 * count))
		return -ESTALE;
	text = index->texts;
	for (uint64_t i = 0; i < count; i++, rows += TYPE_BYTES) {
		struct rp_index_type *type = &index->types[i];

		memcpy(&type->id, rows, 4);
		memcpy(&type->version, rows + 4, 4);
		memcpy(&type->events, rows + 8, 8);
		type->provider = text;
		type->name = text + strlen(text) + 1;
		text = type->name + strlen(type->name) + 1;
	}
	index->type_count = count;
	return 0;
}

static int take_blocks(struct rp_trace_index *index, struct rp_cursor *c, uint64_t count)
{
	uint64_t before = 0;

	index->blocks = malloc(count * sizeof(*index->blocks) + 1);
	if (!index->blocks)
		return -ENOMEM;
	rp_cursor_get(c, index->blocks, count * sizeof(*index->blocks));
	for (uint64_t i = 0; i < count; i++) {
		const struct rp_index_block *block = &index->blocks[i];

		if (block->begin < before || block->end < block->begin)
			return -ESTALE;
		before = block->end;
	}
	index->block_count = count;
	return before <= index->end ? 0 : -ESTALE;
}

static int parse(struct rp_trace_index *index, const struct index_key *key, const uint8_t *bytes,
		 size_t size)
{
	struct rp_cursor c = rp_cursor_over(bytes, size);
	struct index_key of_file;
	uint64_t blocks, types, texts, flags, hash;
	int ret;

	if (size < HEADER_BYTES + 8 || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0)
		return -ESTALE;
	memcpy(&hash, bytes + size - 8, 8);
	if (hash != checksum(bytes, size - 8))
		return -ESTALE;
	rp_cursor_skip(&c, MAGIC_BYTES);
	rp_cursor_get(&c, &of_file, sizeof(of_file));
	if (of_file.bytes != key->bytes || of_file.modified_ns != key->modified_ns ||
	    of_file.hash != key->hash)
		return -ESTALE;
	blocks = rp_cursor_get_u64(&c);
	types = rp_cursor_get_u64(&c);
	texts = rp_cursor_get_u64(&c);
	index->events = rp_cursor_get_u64(&c);
	index->first_ns = (int64_t)rp_cursor_get_u64(&c);
	index->last_ns = (int64_t)rp_cursor_get_u64(&c);
	index->end = rp_cursor_get_u64(&c);
	flags = rp_cursor_get_u64(&c);
	index->is_whole = flags & IS_WHOLE;
	index->has_processes = flags & HAS_PROCESSES;
	if (blocks > size / sizeof(*index->blocks) || types > size / TYPE_BYTES || texts > size ||
	    HEADER_BYTES + blocks * sizeof(*index->blocks) + types * TYPE_BYTES + texts + 8 != size)
		return -ESTALE;
	ret = take_blocks(index, &c, blocks);
	return ret < 0 ? ret : take_types(index, &c, types, texts);
}

int rp_trace_index_load(const char *path, int fd, struct rp_trace_index *ret_index)
{
	char *name = index_path(path, RP_TRACE_INDEX_SUFFIX);
	struct index_key key;
	uint8_t *bytes = NULL;
	size_t size = 0;
	int ret = name ? find_key(fd, &key) : -ENOMEM;

	*ret_index = (struct rp_trace_index){ 0 };
	if (ret == 0)
		ret = read_index(name, &bytes, &size);
	if (ret == 0)
		ret = parse(ret_index, &key, bytes, size);
	free(bytes);
	free(name);
	return ret;
}

static void put_index(struct rp_outbuf *out, const struct index_key *key,
		      const struct rp_trace_index *index)
{
	struct rp_outbuf texts = { 0 };

	for (size_t i = 0; i < index->type_count; i++) {
		const struct rp_index_type *type = &index->types[i];

		rp_outbuf_put(&texts, type->provider, strlen(type->provider) + 1);
		rp_outbuf_put(&texts, type->name, strlen(type->name) + 1);
	}
	rp_outbuf_put(out, MAGIC, MAGIC_BYTES);
	rp_outbuf_put(out, key, sizeof(*key));
	rp_outbuf_put_u64(out, index->block_count);
	rp_outbuf_put_u64(out, index->type_count);
	rp_outbuf_put_u64(out, texts.size);
	rp_outbuf_put_u64(out, index->events);
	rp_outbuf_put_u64(out, (uint64_t)index->first_ns);
	rp_outbuf_put_u64(out, (uint64_t)index->last_ns);
	rp_outbuf_put_u64(out, index->end);
	rp_outbuf_put_u64(out, (index->is_whole ? IS_WHOLE : 0) |
			       (index->has_processes ? HAS_PROCESSES : 0));
	rp_outbuf_put(out, index->blocks, index->block_count * sizeof(*index->blocks));
	for (size_t i = 0; i < index->type_count; i++) {
		rp_outbuf_put_u32(out, index->types[i].id);
		rp_outbuf_put_u32(out, index->types[i].version);
		rp_outbuf_put_u64(out, index->types[i].events);
	}
	rp_outbuf_put(out, texts.bytes, texts.size);
	out->failed |= texts.failed;
	rp_outbuf_put_u64(out, out->failed ? 0 : checksum(out->bytes, out->size));
	rp_outbuf_fini(&texts);
}

/* Write a new file and rename it, so that a reader never sees a part. */
static int replace(const char *path, int trace, const struct rp_outbuf *out)
{
	char *name = index_path(path, RP_TRACE_INDEX_SUFFIX);
	char *made = index_path(path, RP_TRACE_INDEX_SUFFIX ".XXXXXX");
	int fd = name && made ? mkostemp(made, O_CLOEXEC) : -1;
	int ret = !name || !made ? -ENOMEM : fd < 0 ? -errno : 0;
	struct stat status;

	/* Whoever may read the trace may read its index. */
	if (ret == 0 && (fstat(trace, &status) < 0 || fchmod(fd, status.st_mode & 0666) < 0))
		ret = -errno;
	if (ret == 0)
		ret = rp_file_write(fd, out->bytes, out->size);
	if (fd >= 0 && close(fd) < 0 && ret == 0)
		ret = -errno;
	if (ret == 0 && rename(made, name) < 0)
		ret = -errno;
	if (fd >= 0 && ret < 0)
		unlink(made);
	free(name);
	free(made);
	return ret;
}

int rp_trace_index_store(const char *path, int fd, const struct rp_trace_index *index)
{
	struct rp_outbuf out = { 0 };
	struct index_key key;
	int ret = find_key(fd, &key);

	if (ret < 0)
		return ret;
	put_index(&out, &key, index);
	ret = out.failed ? -ENOMEM : replace(path, fd, &out);
	rp_outbuf_fini(&out);
	return ret;
}
