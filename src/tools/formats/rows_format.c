/* SPDX-License-Identifier: MIT */
/* JSON lines and CSV: the rows of `ringpipe report FILE events --all`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/formats/event_printer.h"
#include "tools/formats/format_writer.h"

#define STREAM_BYTES 65536u

struct row_writer {
	struct rp_format_out *out;
	struct rp_event_printer rows;
	struct rp_processes processes;
	char buffer[STREAM_BYTES];
};

static ssize_t write_stream(void *cookie, const char *bytes, size_t size)
{
	struct rp_format_out *out = cookie;

	rp_out_bytes(out, bytes, size);
	if (!out->error)
		return (ssize_t)size;
	errno = -out->error;
	return 0;
}

static void close_rows(void *state)
{
	struct row_writer *writer = state;

	fclose(writer->rows.stream);
	rp_event_printer_fini(&writer->rows);
	rp_processes_fini(&writer->processes);
	free(writer);
}

static int open_rows(const struct rp_format_source *source, struct rp_format_out *out,
		     enum rp_format format, void **ret_state)
{
	const cookie_io_functions_t functions = { .write = write_stream };
	struct row_writer *writer = calloc(1, sizeof(*writer));
	int ret = 0;

	if (!writer)
		return -ENOMEM;
	writer->out = out;
	writer->rows = (struct rp_event_printer){
		.stream = fopencookie(out, "w", functions), .format = format,
		.all = true, .where = source->where, .info = source->info,
	};
	if (!writer->rows.stream) {
		free(writer);
		return -ENOMEM;
	}
	setvbuf(writer->rows.stream, writer->buffer, _IOFBF, sizeof(writer->buffer));
	/* A damaged trace may lack names. The conversion reports the damage. */
	if (source->file)
		ret = rp_event_printer_name_functions(&writer->rows, source->file);
	if (ret == -ENOMEM) {
		close_rows(writer);
		return ret;
	}
	rp_event_printer_begin(&writer->rows);
	*ret_state = writer;
	return 0;
}

static int open_json_lines(const struct rp_format_source *source, struct rp_format_out *out,
			   void **ret_state)
{
	return open_rows(source, out, RP_FORMAT_JSON, ret_state);
}

static int open_csv(const struct rp_format_source *source, struct rp_format_out *out,
		    void **ret_state)
{
	return open_rows(source, out, RP_FORMAT_CSV, ret_state);
}

static int take_event(void *state, const struct rp_reader_event *event)
{
	struct row_writer *writer = state;
	size_t index;
	int ret = rp_processes_follow(&writer->processes, event, &index);
	/* The trace has events of several processes. */
	const bool is_found = ret == 0 && index != SIZE_MAX;

	return ret ? ret : rp_event_printer_print(&writer->rows, event, event->process, is_found ||
						  event->process != writer->rows.info.process_id);
}

static int end_rows(void *state)
{
	struct row_writer *writer = state;

	fflush(writer->rows.stream);
	return 0;
}

const struct rp_format_writer rp_format_json_lines = {
	.name = "jsonl", .open = open_json_lines, .event = take_event, .end = end_rows,
	.close = close_rows,
};

const struct rp_format_writer rp_format_csv = {
	.name = "csv", .open = open_csv, .event = take_event, .end = end_rows,
	.close = close_rows,
};
