/* SPDX-License-Identifier: MIT */
/* Opens readers: of paths, descriptors, memory and other sources, with the header of the file. */
#include "nettrace/reader_parts.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Return the days from 1970-01-01 to a Gregorian date. A year begins with March here. */
static int64_t days_since_1970(int64_t year, int month, int day)
{
	int64_t shifted = month <= 2 ? year - 1 : year;
	int64_t era = shifted / 400, of_era = shifted % 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* The bytes: year, month, day of week, day, hour, minute, second, millisecond, each a u16. */
int64_t rp_reader_utc_ns(const uint8_t *bytes)
{
	uint16_t f[8];
	int64_t seconds;

	memcpy(f, bytes, sizeof(f));
	/* Nanoseconds in 64 bits reach from 1678 to 2262. */
	if (f[0] < 1700 || f[0] > 2261 || f[1] < 1 || f[1] > 12 || f[3] < 1 || f[3] > 31 ||
	    f[4] > 23 || f[5] > 59 || f[6] > 60 || f[7] > 999)
		return 0;
	seconds = days_since_1970(f[0], f[1], f[3]) * 86400 + f[4] * 3600 + f[5] * 60 + f[6];
	return seconds * 1000000000 + f[7] * 1000000ll;
}

int rp_reader_check_info(struct rp_reader *reader)
{
	const struct rp_reader_info *info = &reader->info;

	if (!info->ticks_per_second || info->ticks_per_second > INT64_MAX)
		return rp_reader_fail(reader, -EBADMSG, reader->source.offset,
				      "a clock without a rate");
	if (info->pointer_bytes != 4 && info->pointer_bytes != 8)
		return rp_reader_fail(reader, -EBADMSG, reader->source.offset,
				      "pointers of %u bytes", info->pointer_bytes);
	return 0;
}

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
