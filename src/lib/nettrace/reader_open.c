/* SPDX-License-Identifier: MIT */
/* Opens readers: of paths, descriptors, memory and other sources, with the header of the file. */
#include "nettrace/reader_parts.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Before version 6, the length of a name follows the magic; after it, 0 and the version. */
static int take_header(struct rp_reader *reader)
{
	const uint8_t *bytes;
	uint32_t name_bytes = 0;
	int ret = rp_reader_take(reader, 8, &bytes);

	if (ret < 0)
		return ret;
	if (memcmp(bytes, RP_NETTRACE_MAGIC, 8))
		return -EBADMSG;
	ret = rp_reader_take_u32(reader, &name_bytes);
	if (ret < 0)
		return ret;
	return name_bytes ? rp_reader_take_header_v4(reader, name_bytes) :
	       rp_reader_take_header_v6(reader);
}

/* `message`: a buffer for the sentence of rp_reader_error() about a failure; or NULL. */
static int open_reader(struct rp_byte_source source, int own_fd, struct rp_reader **ret_reader,
		       char *message, size_t message_bytes)
{
	struct rp_reader *reader = calloc(1, sizeof(*reader));
	int ret;

	if (!reader) {
		if (own_fd >= 0)
			close(own_fd);
		return -ENOMEM;
	}
	reader->source = source;
	reader->own_fd = own_fd;
	reader->info.size = sizeof(reader->info);
	reader->stats.size = sizeof(reader->stats);
	ret = take_header(reader);
	if (message)
		snprintf(message, message_bytes, "%s", reader->message);
	if (ret < 0) {
		rp_reader_close(reader);
		return ret == -ENODATA ? -EBADMSG : ret;
	}
	*ret_reader = reader;
	return 0;
}

int rp_reader_open(const char *path, struct rp_reader **ret_reader)
{
	struct rp_byte_source source;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	rp_byte_source_init_fd(&source, fd);
	return open_reader(source, fd, ret_reader, NULL, 0);
}

int rp_reader_open_fd(int fd, struct rp_reader **ret_reader)
{
	struct rp_byte_source source;

	rp_byte_source_init_fd(&source, fd);
	return open_reader(source, -1, ret_reader, NULL, 0);
}

int rp_reader_open_explained(int fd, struct rp_reader **ret_reader, char *ret_message,
			     size_t message_bytes)
{
	struct rp_byte_source source;

	rp_byte_source_init_fd(&source, fd);
	return open_reader(source, -1, ret_reader, ret_message, message_bytes);
}

int rp_reader_open_source(const struct rp_byte_source *source, struct rp_reader **ret_reader,
			  char *ret_message, size_t message_bytes)
{
	return open_reader(*source, -1, ret_reader, ret_message, message_bytes);
}

int rp_reader_open_memory(const void *bytes, size_t size, struct rp_reader **ret_reader)
{
	struct rp_byte_source source;

	rp_byte_source_init_memory(&source, bytes, size);
	return open_reader(source, -1, ret_reader, NULL, 0);
}

void rp_reader_close(struct rp_reader *reader)
{
	if (!reader)
		return;
	rp_byte_source_fini(&reader->source);
	if (reader->own_fd >= 0)
		close(reader->own_fd);
	rp_type_table_fini(&reader->types);
	rp_thread_table_fini(&reader->threads);
	rp_thread_rows_fini(&reader->thread_rows);
	rp_label_lists_fini(&reader->labels);
	rp_outbuf_fini(&reader->key_values);
	rp_point_index_fini(&reader->frames);
	rp_reader_resume_fini(&reader->resume);
	free(reader->spans);
	free(reader);
}
