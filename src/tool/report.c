/* SPDX-License-Identifier: MIT */
/* ringpipe report: a trace summed up, or its events one by one. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/json.h"
#include "tool/places.h"
#include "tool/summary.h"
#include "tool/text.h"
#include "tool/tool.h"

/* Names as JSON strings, made once for a run of events of one kind. */
struct printer {
	const struct rp_reader_type *type;
	struct json_object *provider;
	struct json_object *name;
	const struct rp_summary *summary;	/* in the making */
	struct rp_names names;		/* of functions, as JSON strings */
	uint32_t pointer_bytes;
};

static void forget_type(struct printer *printer)
{
	json_object_put(printer->provider);
	json_object_put(printer->name);
}

static uint64_t frame_of(const struct printer *printer, const struct rp_reader_event *event,
			 uint32_t index)
{
	uint64_t address = 0;

	memcpy(&address, (const char *)event->frames + (size_t)index * printer->pointer_bytes,
	       printer->pointer_bytes);
	return address;
}

static void print_guid(const char *key, const struct rp_guid *guid)
{
	static const struct rp_guid none;
	const uint8_t *b = guid->bytes;

	if (!memcmp(guid, &none, sizeof(none)))
		return;
	printf(",\"%s\":\"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\"",
	       key, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
	       b[12], b[13], b[14], b[15]);
}

static void print_frames(const struct printer *printer, const struct rp_reader_event *event)
{
	if (!event->frame_count)
		return;
	fputs(",\"stack\":[", stdout);
	for (uint32_t i = 0; i < event->frame_count; i++)
		printf("%s\"0x%" PRIx64 "\"", i ? "," : "", frame_of(printer, event, i));
	putchar(']');
	if (!printer->names.functions.count)
		return;
	fputs(",\"functions\":[", stdout);
	for (uint32_t i = 0; i < event->frame_count; i++) {
		const struct rp_place *place = rp_place_find(&printer->names.functions,
							     frame_of(printer, event, i));

		printf("%s%s", i ? "," : "", place ? place->name : "null");
	}
	putchar(']');
}

static int print_event(const struct rp_reader_event *event, void *data)
{
	struct printer *printer = data;

	if (printer->type != event->type) {
		forget_type(printer);
		printer->type = event->type;
		printer->provider = rp_json_string(event->type->provider);
		printer->name = rp_json_string(event->type->name);
	}
	printf("{\"time_ns\":%" PRId64, event->time_ns);
	if (printer->summary->process != SIZE_MAX)
		printf(",\"process\":%" PRIu32,
		       printer->summary->processes.rows[printer->summary->process].pid);
	printf(",\"thread\":%" PRIu64, event->thread);
	/* The .NET runtime writes -1 where it does not know. */
	if (event->processor == UINT32_MAX)
		fputs(",\"processor\":null", stdout);
	else
		printf(",\"processor\":%" PRIu32, event->processor);
	fputs(",\"provider\":", stdout);
	rp_json_put(stdout, printer->provider, 0);
	fputs(",\"event\":", stdout);
	rp_json_put(stdout, printer->name, 0);
	printf(",\"id\":%" PRIu32, event->type->id);
	print_guid("activity", &event->activity);
	print_guid("related_activity", &event->related_activity);
	print_frames(printer, event);
	fputs(",\"fields\":", stdout);
	errno = EIO;
	return rp_reader_print_json(event, stdout) || puts("}") < 0 ? -errno : 0;
}

/* NULL when all is well, else a sentence for the user; the buffer may hold it. */
static const char *explain(const struct rp_reader *reader, int error, char *buffer, size_t size)
{
	const char *said = rp_reader_error(reader), *offset = strstr(said, " at offset ");

	if (error == 0)
		return NULL;
	if (error == -ENODATA)
		snprintf(buffer, size, "the trace stops before its end%s", offset ? offset : "");
	else if (error == -EBADMSG)
		snprintf(buffer, size, "the trace is damaged%s%s", *said ? ": " : "", said);
	else
		snprintf(buffer, size, "%s", strerror(-error));
	return buffer;
}

static int read_functions(const char *file, struct rp_names *names)
{
	struct rp_places *functions = &names->functions;
	int ret = rp_names_read(names, file);

	for (size_t i = 0; ret == 0 && i < functions->count; i++) {
		struct json_object *string = rp_json_string(functions->rows[i].name);
		char *json = NULL;
		size_t size;
		FILE *text = string ? open_memstream(&json, &size) : NULL;

		if (text)
			rp_json_put(text, string, 0);
		json_object_put(string);
		if (!text || fclose(text) != 0)
			return -ENOMEM;
		free(functions->rows[i].name);
		functions->rows[i].name = json;
	}
	return ret;
}

/* `file`: to be read before for the names of functions, which stand at its end; or NULL. */
static int report_events(struct rp_reader *reader, const char *path, const char *file)
{
	struct rp_summary summary;
	struct printer printer = { .summary = &summary };
	struct rp_reader_info info = { .size = sizeof(info) };
	char buffer[512];
	const char *error;
	int ret;

	rp_reader_get_info(reader, &info);
	/* A reader lets only 4 and 8 pass; a wider one would not fit the address. */
	printer.pointer_bytes = info.pointer_bytes > 8 ? 8 : info.pointer_bytes;
	ret = file ? read_functions(file, &printer.names) : 0;
	if (ret == 0) {
		ret = rp_summary_read(reader, print_event, &printer, &summary);
		rp_summary_fini(&summary);
	}
	forget_type(&printer);
	rp_names_fini(&printer.names);
	error = explain(reader, ret, buffer, sizeof(buffer));
	if (ferror(stdout))
		rp_tool_error("cannot write the output: %s", strerror(-ret));
	else if (error)
		rp_tool_error("%s: %s", path, error);
	return error ? RP_EXIT_FAILURE : RP_EXIT_OK;
}

static int report_summary(struct rp_reader *reader, const char *path,
			  const struct rp_tool_options *options)
{
	struct rp_summary summary;
	char buffer[512];
	int ret = rp_summary_read(reader, NULL, NULL, &summary), status = RP_EXIT_OK;
	struct rp_summary_view view = {
		.path = path,
		.error = explain(reader, ret, buffer, sizeof(buffer)),
		.top = options->top,
	};

	if (options->given & RP_OPTION_JSON)
		status = rp_json_print(rp_summary_to_json(&summary, &view));
	else
		rp_summary_print_text(&summary, &view);
	rp_summary_fini(&summary);
	if (view.error) {
		fflush(stdout);
		rp_tool_error("%s: %s; what came before is in the summary", path, view.error);
		status = RP_EXIT_FAILURE;
	}
	return status;
}

static bool is_regular(const char *path)
{
	struct stat stat_;

	return stat(path, &stat_) == 0 && S_ISREG(stat_.st_mode);
}

int rp_command_report(const struct rp_tool_options *options)
{
	const char *path = options->operands[0];
	bool is_stdin = !strcmp(path, "-");
	struct rp_reader *reader;
	int ret, status;

	if ((options->given & RP_OPTION_EVENTS) && (options->given & RP_OPTION_TOP)) {
		rp_tool_error("report: --top goes with the summary, not with --events");
		return RP_EXIT_USAGE;
	}
	ret = is_stdin ? rp_reader_open_fd(STDIN_FILENO, &reader) : rp_reader_open(path, &reader);
	if (is_stdin)
		path = "standard input";
	if (ret == -EBADMSG)
		rp_tool_error("%s: not a nettrace file, or its beginning is damaged", path);
	else if (ret == -EPROTONOSUPPORT)
		rp_tool_error("%s: a nettrace version that this command does not read", path);
	else if (ret)
		rp_tool_error("%s: %s", path, strerror(-ret));
	if (ret)
		return RP_EXIT_FAILURE;
	if (options->given & RP_OPTION_EVENTS)
		status = report_events(reader, path, !is_stdin && is_regular(path) ? path : NULL);
	else
		status = report_summary(reader, path, options);
	rp_reader_close(reader);
	return status;
}
