/* SPDX-License-Identifier: MIT */
/*
 * Reads damaged traces with a reader that resumes after damage, in a limited address space.
 *
 *	resume_reader FILE MEGABYTES [pipe]
 *
 * FILE has traces one after another, each after its u32 size. For each trace, the program prints
 * its events, one on each line, then a line `= RESULT LOST RANGES BYTES` and a line
 * `! OFFSET BYTES REASON` for each damaged range, and then an empty line.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ringpipe/reader.h>

struct trace {
	const uint8_t *bytes;
	uint32_t size;
	int pipe;
};

static void print_hex(const void *bytes, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *at = bytes;

	for (size_t i = 0; i < size; i++) {
		putchar_unlocked(digits[at[i] >> 4]);
		putchar_unlocked(digits[at[i] & 15]);
	}
}

static void print_fields(const struct rp_reader_field *fields, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		printf("%s:%u,", fields[i].name, fields[i].type);
		print_fields(fields[i].members, fields[i].member_count);
	}
}

static void print_event(const struct rp_reader_event *event, uint32_t pointer_bytes)
{
	const struct rp_reader_type *type = event->type;

	printf("%" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %u ", event->time_ns,
	       event->thread, event->process, event->capture_thread, event->sequence,
	       event->processor);
	printf("%s|%u|%s|%u|%u|%u|%" PRIx64 " ", type->provider, type->id, type->name,
	       event->event_version, event->level, event->opcode, event->keywords);
	print_hex(&event->activity, 16);
	putchar(' ');
	print_hex(&event->related_activity, 16);
	putchar(' ');
	print_hex(event->trace_id, 16);
	printf(" %016" PRIx64 " %s ", event->span_id, event->thread_name);
	for (uint32_t i = 0; i < event->label_count; i++) {
		const struct rp_reader_label *label = &event->labels[i];

		if (label->text)
			printf("%s=%s;", label->key, label->text);
		else
			printf("%s=%" PRId64 ";", label->key, label->number);
	}
	putchar(' ');
	print_fields(type->fields, type->field_count);
	putchar(' ');
	print_hex(event->payload, event->payload_bytes);
	putchar('\t');
	print_hex(event->frames, (size_t)event->frame_count * pointer_bytes);
	putchar('\n');
}

static void read_trace(struct rp_reader *reader)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_damage damage = RP_READER_DAMAGE_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader_info info = RP_READER_INFO_INIT;
	int ret;

	rp_reader_get_info(reader, &info);
	if (rp_reader_resume_after_damage(reader))
		exit(1);
	while ((ret = rp_reader_next(reader, &event)) == 1)
		print_event(&event, info.pointer_bytes);
	rp_reader_get_stats(reader, &stats);
	printf("= %d %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", ret, stats.lost_to_damage,
	       stats.damaged_ranges, stats.damaged_bytes);
	for (uint64_t i = 0; rp_reader_get_damage(reader, i, &damage) == 0; i++)
		printf("! %" PRIu64 " %" PRIu64 " %s\n", damage.offset, damage.bytes,
		       damage.reason);
}

static void *fill_pipe(void *data)
{
	const struct trace *trace = data;
	const uint8_t *at = trace->bytes;
	size_t left = trace->size;

	while (left) {
		ssize_t wrote = write(trace->pipe, at, left < 777 ? left : 777);

		if (wrote < 0)
			break;
		at += wrote;
		left -= (size_t)wrote;
	}
	close(trace->pipe);
	return NULL;
}

/* A pipe cannot seek, and its bytes arrive in pieces. */
static void read_pipe(struct trace *trace)
{
	struct rp_reader *reader;
	pthread_t writer;
	int ends[2], ret;

	if (pipe(ends) || (trace->pipe = ends[1], pthread_create(&writer, NULL, fill_pipe, trace)))
		exit(1);
	ret = rp_reader_open_fd(ends[0], &reader);
	if (ret == 0) {
		read_trace(reader);
		rp_reader_close(reader);
	} else {
		printf("= %d 0 0 0\n", ret);
	}
	close(ends[0]);
	pthread_join(writer, NULL);
}

static void read_memory(const struct trace *trace)
{
	struct rp_reader *reader;
	int ret = rp_reader_open_memory(trace->bytes, trace->size, &reader);

	if (ret) {
		printf("= %d 0 0 0\n", ret);
		return;
	}
	read_trace(reader);
	rp_reader_close(reader);
}

int main(int argc, char **argv)
{
	struct rlimit limit = { 0 };
	const uint8_t *bytes, *at;
	struct trace trace;
	struct stat status;
	int fd;

	if (argc < 3)
		return 2;
	limit.rlim_cur = limit.rlim_max = strtoull(argv[2], NULL, 10) << 20;
	if (limit.rlim_max && setrlimit(RLIMIT_AS, &limit))
		return 1;
	fd = open(argv[1], O_RDONLY);
	if (fd < 0 || fstat(fd, &status))
		return 1;
	bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return 1;
	for (at = bytes; at < bytes + status.st_size; at += trace.size) {
		memcpy(&trace.size, at, 4);
		at += 4;
		trace.bytes = at;
		if (argc > 3)
			read_pipe(&trace);
		else
			read_memory(&trace);
		putchar('\n');
	}
	return fflush(stdout) ? 1 : 0;
}
