/* SPDX-License-Identifier: MIT */
/*
 * ringpipe stacks: the current stack of each thread of a process, from a short session of the
 * sampler. The sampler samples sleeping threads immediately and running ones at their next tick.
 * The command shows the first stack of each thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ringpipe/reader.h>

#include "base/array.h"
#include "tools/trace/trace_symbols.h"
#include "tools/cli/json.h"
#include "tools/client/proc.h"
#include "tools/client/recording.h"
#include "tools/cli/rows.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"

#define SAMPLER "Microsoft-DotNETCore-SampleProfiler"
#define DURATION_MS 500u
#define BUFFER_MB 8u

/* The events of the sampler. */
enum {
	THREAD_SAMPLE = 0,	/* an i32: 1 asleep, 2 running */
	THREAD_NAME = 1,	/* a u32, the thread, and its name */
};

#define ASLEEP 1

struct thread {
	uint64_t id;
	char *name;			/* or NULL */
	const char *state;		/* or NULL: no sample arrived */
	uint64_t *frames;
	uint32_t frame_count;
	bool is_there;			/* the thread has not ended */
};

struct stacks {
	struct thread *threads;
	size_t count, capacity;
	struct rp_symbols symbols;
	uint64_t process;		/* as the trace has it */
};

static struct thread *thread_of(struct stacks *stacks, uint64_t id)
{
	struct thread *grown;

	for (size_t i = 0; i < stacks->count; i++) {
		if (stacks->threads[i].id == id)
			return &stacks->threads[i];
	}
	grown = rp_array_reserve(stacks->threads, stacks->count,
				 &stacks->capacity, 1, sizeof(*grown));
	if (!grown)
		return NULL;
	stacks->threads = grown;
	stacks->threads[stacks->count] = (struct thread){ .id = id };
	return &stacks->threads[stacks->count++];
}

static int take_name(struct stacks *stacks, const struct rp_reader_event *event)
{
	struct thread *thread;
	uint32_t id;

	if (event->payload_bytes < sizeof(id))
		return 0;
	memcpy(&id, event->payload, sizeof(id));
	thread = thread_of(stacks, id);
	if (!thread)
		return -ENOMEM;
	free(thread->name);
	thread->name = rp_text_from_utf16((const uint8_t *)event->payload + sizeof(id),
					  (event->payload_bytes - sizeof(id)) / 2);
	return thread->name ? 0 : -ENOMEM;
}

static int take_stack(struct stacks *stacks, const struct rp_reader_event *event)
{
	struct thread *thread = thread_of(stacks, event->thread);
	int32_t type;

	stacks->process = event->process;
	if (!thread)
		return -ENOMEM;
	if (thread->frames || event->frame_count == 0 || event->payload_bytes < sizeof(type))
		return 0;
	memcpy(&type, event->payload, sizeof(type));
	thread->frames = calloc(event->frame_count, sizeof(*thread->frames));
	if (!thread->frames)
		return -ENOMEM;
	memcpy(thread->frames, event->frames, event->frame_count * sizeof(*thread->frames));
	thread->frame_count = event->frame_count;
	thread->state = type == ASLEEP ? "sleeping" : "running";
	return 0;
}

static int take_event(struct stacks *stacks, const struct rp_reader_event *event)
{
	if (strcmp(event->type->provider, SAMPLER) != 0)
		return rp_symbols_take(&stacks->symbols, event);
	if (event->type->id == THREAD_NAME)
		return take_name(stacks, event);
	if (event->type->id == THREAD_SAMPLE)
		return take_stack(stacks, event);
	return 0;
}

static int read_trace(int fd, struct stacks *stacks)
{
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	int ret;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	ret = rp_reader_open_fd(fd, &reader);
	if (ret != 0)
		return ret;
	rp_reader_get_info(reader, &info);
	ret = info.pointer_bytes == sizeof(uint64_t) ? 1 : -EPROTONOSUPPORT;
	while (ret == 1) {
		ret = rp_reader_next(reader, &event);
		if (ret == 1 && take_event(stacks, &event) != 0)
			ret = -ENOMEM;
	}
	rp_reader_close(reader);
	if (rp_symbols_sort(&stacks->symbols) != 0)
		return -ENOMEM;
	return ret;
}

/* One frame with its names. */
struct frame {
	uint64_t address;
	const char *function;		/* or NULL */
	const char *file;		/* or NULL */
	uint64_t offset;		/* from the start of the function, or of the mapping */
};

static void name_frame(const struct stacks *stacks, const struct thread *thread, uint32_t at,
		       struct frame *ret_frame)
{
	uint64_t address = thread->frames[at];
	/*
	 * A call may be the last instruction of its function; its return address is then in the
	 * next one.
	 */
	uint64_t inside = at ? address - 1 : address;
	struct rp_symbol symbol;
	const char *slash;

	rp_symbols_resolve(&stacks->symbols, stacks->process, INT64_MAX, inside, &symbol);
	slash = symbol.file ? strrchr(symbol.file, '/') : NULL;
	ret_frame->address = address;
	ret_frame->function = symbol.function;
	ret_frame->file = slash ? slash + 1 : symbol.file;
	ret_frame->offset = address - (symbol.function ? symbol.function_start :
				       symbol.file ? symbol.mapping_start : address);
}

static void print_clean(const char *text)
{
	char *clean = rp_text_clean(text, true);

	fputs(clean ? clean : "?", stdout);
	free(clean);
}

static void print_frame(const struct frame *frame)
{
	printf("    0x%012" PRIx64 "  ", frame->address);
	print_clean(frame->function ? frame->function : "?");
	if (frame->function)
		printf("+0x%" PRIx64, frame->offset);
	if (frame->file) {
		fputs("  (", stdout);
		print_clean(frame->file);
		putchar(')');
	}
	putchar('\n');
}

/* Return: false for a frame that is not shown. */
static bool get_frame(const struct stacks *stacks, const struct thread *thread, uint32_t at,
		      struct frame *ret_frame)
{
	name_frame(stacks, thread, at, ret_frame);
	return !ret_frame->function || !rp_symbol_is_generated(ret_frame->function);
}

static int print_text(const struct stacks *stacks)
{
	for (size_t i = 0; i < stacks->count; i++) {
		const struct thread *thread = &stacks->threads[i];

		printf("%sThread %" PRIu64 " ", i ? "\n" : "", thread->id);
		print_clean(thread->name ? thread->name : "?");
		printf(", %s\n", thread->state ? thread->state : "not seen");
		for (uint32_t at = 0; at < thread->frame_count; at++) {
			struct frame frame;

			if (get_frame(stacks, thread, at, &frame))
				print_frame(&frame);
		}
	}
	return RP_EXIT_OK;
}

static struct json_object *frame_to_json(const struct frame *frame)
{
	struct json_object *row = json_object_new_object();
	char address[32];

	snprintf(address, sizeof(address), "0x%" PRIx64, frame->address);
	json_object_object_add(row, "address", json_object_new_string(address));
	json_object_object_add(row, "function", rp_json_string(frame->function));
	json_object_object_add(row, "file", rp_json_string(frame->file));
	json_object_object_add(row, "offset", json_object_new_uint64(frame->offset));
	return row;
}

static void add_json_frames(struct rp_rows *rows, const struct stacks *stacks,
			    const struct thread *thread)
{
	struct json_object *frames = json_object_new_array();
	struct frame frame;

	for (uint32_t at = 0; at < thread->frame_count; at++) {
		if (get_frame(stacks, thread, at, &frame))
			json_object_array_add(frames, frame_to_json(&frame));
	}
	rp_rows_add(rows, frames, NULL);
}

/* As in CSV of events: functions, innermost first, separated by semicolons. */
static void add_csv_frames(struct rp_rows *rows, const struct stacks *stacks,
			   const struct thread *thread)
{
	const char *semicolon = "";
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	struct frame frame;

	for (uint32_t at = 0; stream && at < thread->frame_count; at++) {
		if (!get_frame(stacks, thread, at, &frame))
			continue;
		if (frame.function)
			fprintf(stream, "%s%s", semicolon, frame.function);
		else
			fprintf(stream, "%s0x%" PRIx64, semicolon, frame.address);
		semicolon = ";";
	}
	rows->failed |= !stream || fclose(stream) != 0;
	rp_rows_add_string(rows, text);
	free(text);
}

static int print_rows(const struct stacks *stacks, enum rp_format format)
{
	static const struct rp_column columns[] = {
		{ .key = "thread_id" }, { .key = "name" }, { .key = "state" }, { .key = "frames" },
	};
	struct rp_rows rows;
	int status;

	rp_rows_init(&rows, format, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < stacks->count; i++) {
		const struct thread *thread = &stacks->threads[i];

		rp_rows_add_u64(&rows, thread->id);
		rp_rows_add_string(&rows, thread->name);
		rp_rows_add_string(&rows, thread->state);
		if (format == RP_FORMAT_JSON)
			add_json_frames(&rows, stacks, thread);
		else
			add_csv_frames(&rows, stacks, thread);
	}
	status = rp_rows_print(&rows);
	rp_rows_fini(&rows);
	return status;
}

static void stacks_fini(struct stacks *stacks)
{
	for (size_t i = 0; i < stacks->count; i++) {
		free(stacks->threads[i].name);
		free(stacks->threads[i].frames);
	}
	free(stacks->threads);
	rp_symbols_fini(&stacks->symbols);
}

static int keep_thread(uint64_t id, pid_t outer, void *data)
{
	struct stacks *stacks = data;

	(void)outer;
	for (size_t i = 0; i < stacks->count; i++)
		stacks->threads[i].is_there |= stacks->threads[i].id == id;
	return 0;
}

/* Drops threads that have ended since. If the threads may not be read, all stay. */
static void drop_ended(struct stacks *stacks, const struct rp_target *target)
{
	size_t kept = 0;

	if (rp_proc_threads(target->pid, keep_thread, stacks))
		return;
	for (size_t i = 0; i < stacks->count; i++) {
		if (stacks->threads[i].is_there) {
			stacks->threads[kept++] = stacks->threads[i];
			continue;
		}
		free(stacks->threads[i].name);
		free(stacks->threads[i].frames);
	}
	stacks->count = kept;
}

/* Sorts by id, so the main thread is first. */
static int compare_threads(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int print_stacks(int fd, const struct rp_target *target,
			const struct rp_tool_options *options)
{
	struct stacks stacks = { 0 };
	int ret = read_trace(fd, &stacks), status = RP_EXIT_FAILURE;

	if (ret == 0)
		drop_ended(&stacks, target);
	if (ret != 0)
		rp_tool_error("process %d sent an invalid trace: %s", target->pid,
			      strerror(-ret));
	else if (stacks.count == 0)
		rp_tool_error("process %d reported no thread in this time; a longer --duration may "
			      "help", target->pid);
	if (ret == 0 && stacks.count > 0) {
		qsort(stacks.threads, stacks.count, sizeof(*stacks.threads), compare_threads);
		status = options->format == RP_FORMAT_TEXT ? print_text(&stacks) :
			 print_rows(&stacks, options->format);
	}
	stacks_fini(&stacks);
	return status;
}

static int run_session(const struct rp_target *target, int fd,
		       const struct rp_tool_options *options)
{
	const struct rp_session_provider provider = {
		.size = sizeof(provider), .level = 4, .name = SAMPLER, .keywords = ~0ull,
	};
	const struct rp_recording_plan plan = {
		.target = target, .providers = &provider, .provider_count = 1,
		.buffer_mb = BUFFER_MB,
		.rundown = true,
		.duration_ms = options->given & RP_OPTION_DURATION ? options->duration_ms :
			       DURATION_MS,
	};
	struct rp_recording_result result;
	struct rp_output output;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (rp_output_open(&output, path, true))
		return RP_EXIT_FAILURE;
	rp_recording_run(&plan, &output, &result);
	(void)rp_output_close(&output);
	if (result.end == RP_RECORDING_GAVE_UP)
		return RP_EXIT_GAVE_UP;
	if (result.end == RP_RECORDING_STOPPED || result.end == RP_RECORDING_PEER_ENDED)
		return print_stacks(fd, target, options);
	return RP_EXIT_FAILURE;
}

int rp_command_stacks(const struct rp_tool_options *options)
{
	struct rp_target target;
	int fd, status;

	if (rp_target_find(options->pid, options->name, &target))
		return RP_EXIT_FAILURE;
	fd = memfd_create("ringpipe-stacks", MFD_CLOEXEC);
	if (fd < 0) {
		rp_tool_error("cannot allocate memory for a trace: %s", strerror(errno));
		status = RP_EXIT_FAILURE;
	} else {
		status = run_session(&target, fd, options);
		close(fd);
	}
	rp_target_fini(&target);
	return status;
}
