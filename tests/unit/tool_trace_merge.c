/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ringpipe/field.h>

#include "nettrace_trace.h"

#include "tools/trace/processes.h"
#include "tools/trace/trace_merge.h"

static const struct rp_field members[] = {
	{ .name = "x", .type = RP_TYPE_I16 }, { .name = "name", .type = RP_TYPE_STRING },
};

static const struct rp_field fields[] = {
	{ .name = "text", .type = RP_TYPE_STRING },
	{ .name = "flag", .type = RP_TYPE_BOOL },
	{ .name = "real", .type = RP_TYPE_F64 },
	{ .name = "time", .type = RP_TYPE_TIME },
	{ .name = "id", .type = RP_TYPE_GUID },
	{ .name = "inner", .type = RP_TYPE_STRUCT, .members = members, .member_count = 2 },
	{ .name = "bytes", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U8 },
};

static const uint8_t payload[] =
	"Zo\xc3\xab\0"			/* the string */
	"\x01" "\0\0\0\0\0\0\xf0\x3f"	/* true, 1.0 */
	"\x00\x00\x5d\x3f\x1e\x9a\x97\x17"
	"0123456789abcdef"
	"\xfe\xff" "in\0"
	"\x02\x00" "\x07\x08";

/* Makes a file in memory, with its offset at the start, without its last `cut` bytes. */
static int file_of(struct rp_encoder *encoder, size_t cut)
{
	int fd = memfd_create("weave", MFD_CLOEXEC);
	size_t size;
	uint8_t *bytes = trace_end(encoder, &size);

	cr_assert_geq(fd, 0);
	cr_assert_eq(pwrite(fd, bytes, size - cut, 0), (ssize_t)(size - cut));
	free(bytes);
	return fd;
}

static void put(struct rp_encoder *encoder, const struct rp_encoder_event_type *type,
		uint64_t time_ns, uint64_t thread)
{
	trace_event(encoder, type, TRACE_START_NS + time_ns, thread, payload, sizeof(payload) - 1);
}

static int merge_into(struct rp_output *output, struct rp_trace_merge_source *sources, size_t count)
{
	struct rp_trace_merge *merge;
	int ret;

	cr_assert_eq(rp_trace_merge_create(sources[0].pid, trace_version(), output, &merge), 0);
	for (size_t i = 0; i < count; i++)
		cr_assert_eq(rp_trace_merge_add(merge, &sources[i]), 0);
	ret = rp_trace_merge_finish(merge);
	rp_trace_merge_destroy(merge);
	return ret;
}

static int merge(struct rp_trace_merge_source *sources, size_t count)
{
	struct rp_output output = {
		.fd = memfd_create("woven", MFD_CLOEXEC), .filter_fd = -1, .status_fd = -1,
	};

	cr_assert_geq(output.fd, 0);
	for (size_t i = 0; i < count; i++) {
		sources[i].name = "name";
		sources[i].command_line = "name --option";
	}
	cr_assert_eq(merge_into(&output, sources, count), 0);
	cr_assert_eq(lseek(output.fd, 0, SEEK_SET), 0);
	return output.fd;
}

/* In version 6, processes are also described by these. */
static bool is_description(const struct rp_reader_event *event)
{
	return !strcmp(event->type->provider, RP_TRACE_MERGE_PROVIDER) ||
	       !strcmp(event->type->provider, "Universal.System") ||
	       !strcmp(event->type->provider, "Microsoft-DotNETCore-EventPipe");
}

/* Writes "name@time/thread:pid " of each event of the sources. */
static struct rp_reader_stats report(int fd, struct rp_processes *processes, char text[4096])
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats;
	struct rp_reader *reader;
	size_t index;
	int ret;

	*text = '\0';
	memset(processes, 0, sizeof(*processes));
	cr_assert_eq(rp_reader_open_fd(fd, &reader), 0);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		cr_assert_eq(rp_processes_follow(processes, &event, &index), 0);
		if (trace_version() == 6)
			cr_expect(index == SIZE_MAX || processes->rows[index].pid == event.process);
		if (!is_description(&event))
			sprintf(text + strlen(text), "%s@%lld/%llu:%u ", event.type->name,
				(long long)event.time_ns, (unsigned long long)event.thread,
				index < processes->count ? processes->rows[index].pid : 0);
	}
	cr_expect_eq(ret, 0, "%s", rp_reader_error(reader));
	stats = trace_stats(reader);
	rp_reader_close(reader);
	return stats;
}

Test(tool_trace_merge, events_of_all_are_in_the_order_of_time_as_their_own)
{
	struct rp_encoder *one = trace_begin(), *two = trace_begin();
	struct rp_encoder_event_type *first = trace_define(one, "First", 1, fields, 7);
	struct rp_encoder_event_type *second = trace_define(two, "Second", 1, fields, 7);
	struct rp_trace_merge_source sources[2] = { { .pid = 10 }, { .pid = 11, .parent = 10 } };
	struct rp_processes processes;
	struct rp_reader_stats stats;
	char text[4096];
	int fd;

	/* Thread 7 ends in one process, and the other process reuses its id. */
	put(one, first, 100, 7);
	put(one, first, 200, 7);
	put(one, first, 500, 6);
	put(two, second, 150, 8);
	put(two, second, 300, 7);
	put(two, second, 501, 7);
	sources[0].fd = file_of(one, 0);
	sources[1].fd = file_of(two, 0);
	fd = merge(sources, 2);
	stats = report(fd, &processes, text);
	cr_expect_str_eq(text, trace_version() == 6 ?
			 "First@100/7:10 Second@150/8:11 First@200/7:10 Second@300/8388615:11 "
			 "First@500/6:10 Second@501/8388615:11 " :
			 "First@100/7:10 Second@150/8:11 First@200/7:10 Second@300/7:11 "
			 "First@500/6:10 Second@501/7:11 ");
	cr_expect_eq(stats.lost, 0);
	cr_expect_eq(stats.unordered, 0);
	cr_assert_eq(processes.count, 2);
	cr_expect_eq(processes.rows[0].events, trace_version() == 6 ? 3 + 2 : 3);
	cr_expect_eq(processes.rows[1].parent, 10);
	cr_expect_str_eq(processes.rows[1].command_line, "name --option");
	cr_expect(processes.rows[0].complete && processes.rows[1].complete);
	rp_processes_fini(&processes);
	close(sources[0].fd);
	close(sources[1].fd);
	close(fd);
}

/* Writes "id@time/thread:process " of each event of Universal.System. */
static void report_lives(int fd, char text[4096])
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;

	*text = '\0';
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	cr_assert_eq(rp_reader_open_fd(fd, &reader), 0);
	while (rp_reader_next(reader, &event) == 1)
		if (!strcmp(event.type->provider, "Universal.System"))
			sprintf(text + strlen(text), "%u@%lld/%llu:%llu ", event.type->id,
				(long long)event.time_ns, (unsigned long long)event.thread,
				(unsigned long long)event.process);
	rp_reader_close(reader);
}

/* Pid 10 is a process, then the program that replaces it, and later another process. */
Test(tool_trace_merge, lives_of_an_id_are_apart_in_version_6)
{
	struct rp_trace_merge_source sources[4] = {
		{ .pid = 10 }, { .pid = 10, .replaces = true, .exited = true },
		{ .pid = 11, .is_new = true, .exited = true }, { .pid = 10 },
	};
	const uint64_t times[4] = { 100, 200, 300, 400 };
	struct rp_processes processes;
	char text[4096];
	int fd;

	for (size_t i = 0; i < 4; i++) {
		struct rp_encoder *encoder = trace_begin();
		struct rp_encoder_event_type *type = trace_define(encoder, "Some", 1, fields, 7);

		put(encoder, type, times[i], 10);
		put(encoder, type, times[i] + 1, 11);
		sources[i].fd = file_of(encoder, 0);
	}
	fd = merge(sources, 4);
	report(fd, &processes, text);
	if (trace_version() == 6) {
		cr_expect_str_eq(text,
				 "Some@100/10:10 Some@101/11:10 Some@200/10:10 Some@201/11:10 "
				 "Some@300/12582922:11 Some@301/12582923:11 "
				 "Some@400/16777226:10 Some@401/16777227:10 ");
		report_lives(fd, text);
		cr_expect_str_eq(text, "0@100/10:10 0@200/10:10 2@201/10:10 1@300/12582923:11 "
				 "2@301/12582923:11 1@400/16777226:10 ");
	}
	cr_expect_eq(processes.count, 4);
	for (size_t i = 0; i < processes.count; i++)
		cr_expect_geq(processes.rows[i].events, 2);
	rp_processes_fini(&processes);
	close(fd);
	for (size_t i = 0; i < 4; i++)
		close(sources[i].fd);
}

Test(tool_trace_merge, losses_are_summed_and_reported_for_each)
{
	struct rp_trace_merge_source sources[2] = { { .pid = 10 }, { .pid = 11 } };
	struct rp_processes processes;
	struct rp_reader_stats stats;
	char text[4096];
	int fd;

	for (uint64_t i = 0; i < 2; i++) {
		struct rp_encoder *encoder = trace_begin();
		struct rp_encoder_event_type *type = trace_define(encoder, "Some", 1, fields, 7);

		cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS, 0), 0);
		put(encoder, type, 100 + i, 20 + i);
		cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS + 200, 2 + i), 0);
		put(encoder, type, 300 + i, 20 + i);
		cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS + 400, 7 + i), 0);
		sources[i].fd = file_of(encoder, 0);
	}
	fd = merge(sources, 2);
	stats = report(fd, &processes, text);
	cr_expect_eq(stats.lost, 7 + 8);
	cr_expect_eq(stats.events, trace_version() == 6 ? 4 + 2 + 2 * 2 + 2 : 4 + 2 + 2 + 2);
	cr_expect_eq(processes.rows[0].lost, 7);
	cr_expect_eq(processes.rows[1].lost, 8);
	rp_processes_fini(&processes);
	close(sources[0].fd);
	close(sources[1].fd);
	close(fd);
}

Test(tool_trace_merge, part_that_is_cut_is_there_up_to_its_end_and_reported)
{
	struct rp_trace_merge_source sources[3] = { { .pid = 10 }, { .pid = 11 }, { .pid = 12 } };
	struct rp_processes processes;
	char text[4096];
	int fd;

	for (size_t i = 0; i < 2; i++) {
		struct rp_encoder *encoder = trace_begin();

		put(encoder, trace_define(encoder, "Some", 1, fields, 7), 100 + i, 20 + i);
		sources[i].fd = file_of(encoder, i);
	}
	/* A source without data. */
	sources[2].fd = memfd_create("nothing", MFD_CLOEXEC);
	fd = merge(sources, 3);
	report(fd, &processes, text);
	cr_expect_str_eq(text, "Some@100/20:10 Some@101/21:11 ");
	cr_expect(sources[0].whole && !sources[1].whole && !sources[2].whole);
	cr_assert_eq(processes.count, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct rp_process *process = &processes.rows[i];

		cr_expect_eq(process->complete, process->pid == 10);
		cr_expect_eq(process->events, (process->pid == 12 ? 0u : 1u) +
			     (trace_version() == 6 ? 2u : 0u));
		close(sources[i].fd);
	}
	rp_processes_fini(&processes);
	close(fd);
}

/* Return: fields, stack and activities of the first event of a source. */
static char *describe_all(int fd)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	char *json, *text = NULL;

	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	cr_assert_eq(rp_reader_open_fd(fd, &reader), 0);
	do
		cr_assert_eq(rp_reader_next(reader, &event), 1);
	while (is_description(&event));
	json = trace_json(&event);
	cr_assert_eq(event.frame_count, 2);
	cr_assert_gt(asprintf(&text, "%s %s %u %u %u %u %u %llx %.16s %.16s %.16s %.16s %llx", json,
			      event.type->name, event.type->id, event.event_version,
			      event.level, event.opcode, event.processor,
			      (unsigned long long)event.keywords,
			      (const char *)event.frames, event.activity.bytes,
			      event.related_activity.bytes, event.trace_id,
			      (unsigned long long)event.span_id), 0);
	for (uint32_t i = 0; i < event.label_count; i++) {
		const struct rp_reader_label *label = &event.labels[i];
		char *before = text;

		cr_assert_gt(asprintf(&text, "%s %s=%s%lld", before, label->key,
				      label->text ? label->text : "",
				      (long long)label->number), 0);
		free(before);
	}
	free(json);
	rp_reader_close(reader);
	return text;
}

Test(tool_trace_merge, nothing_of_an_event_is_changed)
{
	const struct rp_definition definition = {
		.provider = "Test-Provider", .name = "Whole", .id = 77, .version = 3, .level = 2,
		.opcode = 9, .keywords = 0xf00000000000000full, .fields = fields, .field_count = 7,
	};
	const uint64_t frames[2] = { 0x6867666564636261, 0x7877767574737271 };
	const struct rp_guid ids[2] = { { "ABCDEFGHIJKLMNO" }, { "PQRSTUVWXYZabcd" } };
	/* A label of each kind that the format has. */
	static const uint8_t labels[] =
		"\1DCBAFEHGIJKLMNO" "\0" "\2SRQPUTWVXYZabcd" "\0" "\3trace id of w3c!"
		"\4\x88\x77\x66\x55\x44\x33\x22\x11" "\5\4zone\2eu" "\6\5count\011" "\7\013"
		"\x08\1\0\0\0\0\0\0\0" "\x09\5" "\x8a\7";
	struct rp_trace_merge_source source = { .pid = 10 };
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event event = {
		.time_ns = TRACE_START_NS + 5, .thread = 7, .processor = 2, .frame_count = 2,
		.frames = frames, .activity = &ids[0], .related_activity = &ids[1],
		.labels = labels, .label_bytes = sizeof(labels) - 1,
		.payload = payload, .payload_bytes = sizeof(payload) - 1,
	};
	struct rp_encoder_event_type *type;
	char *before, *after;
	int fd;

	cr_assert_eq(rp_encoder_define(encoder, &definition, &type), 0);
	event.type = type;
	cr_assert_eq(rp_encoder_event(encoder, &event), 0);
	source.fd = file_of(encoder, 0);
	before = describe_all(source.fd);
	cr_assert_eq(lseek(source.fd, 0, SEEK_SET), 0);
	fd = merge(&source, 1);
	after = describe_all(fd);
	cr_expect_str_eq(after, before);
	if (trace_version() == 6)
		cr_expect(strstr(after, " Whole 77 7 5 11 2 1 abcdefghqrstuvwx ABCDEFGHIJKLMNO "
				 "PQRSTUVWXYZabcd trace id of w3c! 1122334455667788 zone=eu0 "
				 "count=-5"), "%s", after);
	cr_expect(strstr(after, "\"inner\":{\"x\":-2,\"name\":\"in\"},\"bytes\":\"0708\""), "%s",
		  after);
	free(before);
	free(after);
	close(source.fd);
	close(fd);
}

Test(tool_trace_merge, nothing_at_all_is_no_trace)
{
	struct rp_trace_merge_source source = { .fd = memfd_create("nothing", MFD_CLOEXEC),
						.name = "", .command_line = "" };
	struct rp_output output = { .fd = -1, .filter_fd = -1, .status_fd = -1 };

	cr_expect_eq(merge_into(&output, &source, 1), -ENODATA);
	close(source.fd);
}

/* A file whose trace is written in parts. */
struct growing {
	struct rp_encoder *encoder;
	struct rp_encoder_event_type *type;
	struct rp_trace_merge_source source;
	off_t bytes;
};

static struct growing begin_growing_at(uint64_t time_ns, pid_t pid, const char *name)
{
	struct growing file = { .encoder = trace_begin_at(TRACE_START_NS + time_ns) };

	file.type = trace_define(file.encoder, name, 1, fields, 7);
	file.source = (struct rp_trace_merge_source){
		.fd = memfd_create("growing", MFD_CLOEXEC), .pid = pid, .name = "name",
		.command_line = "name",
	};
	return file;
}

static struct growing begin_growing(pid_t pid, const char *name)
{
	return begin_growing_at(0, pid, name);
}

/* Writes all but the last `held` bytes of what the encoder has. */
static void grow(struct growing *file, size_t held)
{
	const uint8_t *bytes;
	size_t size;

	cr_assert_eq(rp_encoder_flush(file->encoder), 0);
	bytes = rp_encoder_output(file->encoder, &size);
	cr_assert_gt(size, held);
	size -= held;
	cr_assert_eq(pwrite(file->source.fd, bytes, size, file->bytes), (ssize_t)size);
	file->bytes += (off_t)size;
	rp_encoder_consume(file->encoder, size);
}

static void end_growing(struct growing *file)
{
	cr_assert_eq(rp_encoder_end(file->encoder), 0);
	grow(file, 0);
	rp_encoder_destroy(file->encoder);
}

/* The events that the output has so far. */
static void expect_so_far(const struct rp_output *output, const char *expected)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	char text[4096] = "";

	cr_assert_eq(lseek(output->fd, 0, SEEK_SET), 0);
	cr_assert_eq(rp_reader_open_fd(output->fd, &reader), 0);
	while (rp_reader_next(reader, &event) == 1)
		if (!is_description(&event))
			sprintf(text + strlen(text), "%s@%lld ", event.type->name,
				(long long)event.time_ns);
	cr_expect_str_eq(text, expected);
	rp_reader_close(reader);
	cr_assert_geq(lseek(output->fd, 0, SEEK_END), 0);
}

/* The numbers of late events that the trace states, as "process:number ". */
static void expect_ends(const struct rp_output *output, const char *expected)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	char text[4096] = "";

	cr_assert_eq(lseek(output->fd, 0, SEEK_SET), 0);
	cr_assert_eq(rp_reader_open_fd(output->fd, &reader), 0);
	while (rp_reader_next(reader, &event) == 1) {
		struct rp_value process = RP_VALUE_INIT, late = RP_VALUE_INIT;
		struct rp_fields found;

		if (strcmp(event.type->name, "ProcessEnd") != 0)
			continue;
		rp_reader_get_fields(&event, &found);
		cr_assert_eq(rp_fields_find(&found, "process_id", &process), 0);
		cr_assert_eq(rp_fields_find(&found, "late", &late), 0);
		sprintf(text + strlen(text), "%llu:%llu ", (unsigned long long)process.u64,
			(unsigned long long)late.u64);
	}
	cr_expect_str_eq(text, expected);
	rp_reader_close(reader);
}

static struct rp_trace_merge *begin_merge(struct rp_output *output, struct growing *files)
{
	struct rp_trace_merge *merge;

	*output = (struct rp_output){
		.fd = memfd_create("woven", MFD_CLOEXEC), .filter_fd = -1, .status_fd = -1,
	};
	cr_assert_eq(rp_trace_merge_create(10, trace_version(), output, &merge), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(rp_trace_merge_add(merge, &files[i].source), 0);
	return merge;
}

static void end_merge(struct rp_trace_merge *merge, const struct rp_output *output,
		      const struct growing *files)
{
	rp_trace_merge_destroy(merge);
	close(output->fd);
	for (int i = 0; i < 2; i++)
		close(files[i].source.fd);
}

Test(tool_trace_merge, pass_writes_the_events_up_to_its_limit_in_whole_blocks)
{
	struct growing files[2] = { begin_growing(10, "A"), begin_growing(11, "B") };
	struct rp_output output;
	struct rp_trace_merge *merge = begin_merge(&output, files);

	/* Nothing has a header yet. */
	cr_assert_eq(rp_trace_merge_pass(merge, TRACE_START_NS + 50), 0);
	put(files[0].encoder, files[0].type, 100, 20);
	put(files[0].encoder, files[0].type, 300, 20);
	grow(&files[0], 0);
	put(files[1].encoder, files[1].type, 200, 21);
	grow(&files[1], 5);
	cr_assert_eq(rp_trace_merge_pass(merge, TRACE_START_NS + 250), 0);
	expect_so_far(&output, "A@100 ");
	grow(&files[1], 0);
	cr_assert_eq(rp_trace_merge_pass(merge, TRACE_START_NS + 250), 0);
	expect_so_far(&output, "A@100 B@200 ");
	cr_assert_eq(rp_trace_merge_pass(merge, TRACE_START_NS + 300), 0);
	expect_so_far(&output, "A@100 B@200 A@300 ");
	/* This one comes too late for its place. */
	put(files[1].encoder, files[1].type, 290, 21);
	put(files[1].encoder, files[1].type, 400, 21);
	grow(&files[1], 0);
	cr_assert_eq(rp_trace_merge_pass(merge, TRACE_START_NS + 1000), 0);
	expect_so_far(&output, "A@100 B@200 A@300 B@300 B@400 ");
	for (int i = 0; i < 2; i++)
		end_growing(&files[i]);
	cr_assert_eq(rp_trace_merge_finish(merge), 0);
	expect_so_far(&output, "A@100 B@200 A@300 B@300 B@400 ");
	expect_ends(&output, "10:0 11:1 ");
	end_merge(merge, &output, files);
}

Test(tool_trace_merge, pass_waits_for_a_source_that_states_its_progress)
{
	struct growing files[2] = { begin_growing(10, "A"), begin_growing(11, "B") };
	struct rp_output output;
	struct rp_trace_merge *merge = begin_merge(&output, files);

	files[0].source.states_progress = true;
	put(files[0].encoder, files[0].type, 100, 20);
	grow(&files[0], 0);
	for (uint64_t time_ns = 150; time_ns <= 350; time_ns += 100)
		put(files[1].encoder, files[1].type, time_ns, 21);
	grow(&files[1], 0);
	cr_assert_eq(rp_trace_merge_pass(merge, TRACE_START_NS + 1000), 0);
	expect_so_far(&output, "A@100 ");
	if (trace_version() == 6) {
		cr_assert_eq(rp_encoder_sequence_point(files[0].encoder, TRACE_START_NS + 260, 0),
			     0);
		grow(&files[0], 0);
		cr_assert_eq(rp_trace_merge_pass(merge, TRACE_START_NS + 1000), 0);
		expect_so_far(&output, "A@100 B@150 B@250 ");
	}
	put(files[0].encoder, files[0].type, 300, 20);
	for (int i = 0; i < 2; i++)
		end_growing(&files[i]);
	cr_assert_eq(rp_trace_merge_finish(merge), 0);
	expect_so_far(&output, "A@100 B@150 B@250 A@300 B@350 ");
	cr_expect_eq(files[0].source.late + files[1].source.late, 0);
	end_merge(merge, &output, files);
}

Test(tool_trace_merge, trace_begins_with_a_source_that_states_its_progress)
{
	struct growing files[2] = { begin_growing(10, "A"), begin_growing_at(150, 11, "B") };
	struct rp_output output;
	struct rp_trace_merge *merge = begin_merge(&output, files);

	files[0].source.states_progress = true;
	put(files[1].encoder, files[1].type, 200, 21);
	grow(&files[1], 0);
	cr_assert_eq(rp_trace_merge_pass(merge, TRACE_START_NS + 1000), 0);
	put(files[0].encoder, files[0].type, 100, 20);
	for (int i = 0; i < 2; i++)
		end_growing(&files[i]);
	cr_assert_eq(rp_trace_merge_finish(merge), 0);
	expect_so_far(&output, "A@100 B@200 ");
	cr_expect_eq(files[0].source.late, 0);
	end_merge(merge, &output, files);
}

Test(tool_trace_merge, part_of_a_process_that_exits_after_its_stream_ends_with_its_exit)
{
	struct growing files[2] = { begin_growing(10, "A"), begin_growing(11, "B") };
	struct rp_processes processes;
	struct rp_output output;
	struct rp_trace_merge *merge = begin_merge(&output, files);
	char text[4096];

	put(files[0].encoder, files[0].type, 100, 20);
	put(files[1].encoder, files[1].type, 200, 21);
	for (int i = 0; i < 2; i++)
		end_growing(&files[i]);
	cr_assert_eq(rp_trace_merge_pass(merge, TRACE_START_NS + 1000), 0);
	files[1].source.exited = true;
	files[1].source.is_complete = true;
	cr_expect(!files[1].source.is_done);
	cr_assert_eq(rp_trace_merge_pass(merge, TRACE_START_NS + 1000), 0);
	cr_expect(files[1].source.is_done && !files[0].source.is_done);
	cr_assert_eq(ftruncate(files[1].source.fd, 0), 0, "the file is needed no more");
	cr_assert_eq(rp_trace_merge_finish(merge), 0);
	cr_assert_eq(lseek(output.fd, 0, SEEK_SET), 0);
	report(output.fd, &processes, text);
	cr_assert_eq(processes.count, 2);
	cr_expect(processes.rows[0].complete && processes.rows[1].complete);
	cr_expect_str_eq(text, "A@100/20:10 B@200/21:11 ");
	rp_processes_fini(&processes);
	end_merge(merge, &output, files);
}
