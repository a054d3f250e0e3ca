/* SPDX-License-Identifier: MIT */
#include "tools/formats/event_printer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/display_text.h"
#include "tools/cli/json.h"
#include "tools/cli/rows.h"
#include "tools/trace/event_names.h"
#include "tools/trace/guids.h"
#include "tools/trace/stack_frame.h"

/* Formats a name for the output. Return: the text, for free(), or NULL without memory. */
static char *render_name(enum rp_format format, const char *name)
{
	struct json_object *string;
	char *text = NULL;
	size_t size;
	FILE *stream;

	if (format != RP_FORMAT_JSON)
		return rp_text_clean(name, true);
	string = rp_json_string(name);
	stream = string ? open_memstream(&text, &size) : NULL;
	if (stream)
		rp_json_put(stream, string, 0);
	json_object_put(string);
	if (!stream || fclose(stream) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static void forget_type(struct rp_event_printer *printer)
{
	free(printer->provider);
	free(printer->name);
}

static int take_type(struct rp_event_printer *printer, const struct rp_reader_type *type)
{
	if (printer->type == type)
		return 0;
	forget_type(printer);
	printer->type = NULL;
	printer->provider = render_name(printer->format, type->provider);
	printer->name = render_name(printer->format, type->name);
	if (!printer->provider || !printer->name)
		return -ENOMEM;
	printer->type = type;
	return 0;
}

static const char *utc_of(const struct rp_event_printer *printer,
			  const struct rp_reader_event *event, char *buffer)
{
	/* The times in a damaged trace may have any value, so subtract as unsigned numbers. */
	uint64_t utc_ns = (uint64_t)printer->info.start_utc_ns + (uint64_t)event->time_ns;

	return rp_text_utc_ns((int64_t)utc_ns, buffer);
}

/* Return: the function's name; NULL if the trace does not contain it. */
static const char *function_of(const struct rp_event_printer *printer,
			       const struct rp_reader_event *event, uint32_t index)
{
	struct rp_symbol symbol;

	rp_symbols_find(&printer->symbols, printer->process, event->time_ns,
			rp_stack_frame(event, printer->info.pointer_bytes, index), &symbol);
	return symbol.function;
}

static void print_json_guid(const struct rp_event_printer *printer, const char *key,
			    const struct rp_guid *guid)
{
	char text[RP_GUID_TEXT];

	if (*rp_guid_text(guid, text))
		fprintf(printer->stream, ",\"%s\":\"%s\"", key, text);
}

static void print_json_frames(const struct rp_event_printer *printer,
			      const struct rp_reader_event *event)
{
	if (!event->frame_count)
		return;
	fputs(",\"stack\":[", printer->stream);
	for (uint32_t i = 0; i < event->frame_count; i++)
		fprintf(printer->stream, "%s\"0x%" PRIx64 "\"", i ? "," : "",
			rp_stack_frame(event, printer->info.pointer_bytes, i));
	putc(']', printer->stream);
	if (!printer->symbols.functions.count)
		return;
	fputs(",\"functions\":[", printer->stream);
	for (uint32_t i = 0; i < event->frame_count; i++) {
		const char *function = function_of(printer, event, i);

		fprintf(printer->stream, "%s%s", i ? "," : "", function ? function : "null");
	}
	putc(']', printer->stream);
}

/* W3C trace context: hexadecimal digits, as in the header `traceparent`. */
static void print_json_trace(const struct rp_event_printer *printer,
			     const struct rp_reader_event *event)
{
	static const uint8_t none[sizeof(event->trace_id)];
	char text[2 * sizeof(none) + 1];

	if (!memcmp(event->trace_id, none, sizeof(none)))
		return;
	rp_text_hex(event->trace_id, sizeof(none), text);
	fprintf(printer->stream, ",\"trace_id\":\"%s\"", text);
	if (event->span_id)
		fprintf(printer->stream, ",\"span_id\":\"%016" PRIx64 "\"", event->span_id);
}

static void print_json_text(const struct rp_event_printer *printer, const char *text)
{
	struct json_object *string = rp_json_string(text);

	rp_json_put(printer->stream, string, 0);
	json_object_put(string);
}

static void print_json_labels(const struct rp_event_printer *printer,
			      const struct rp_reader_event *event)
{
	const char *comma = "";

	if (!event->label_count)
		return;
	fputs(",\"labels\":{", printer->stream);
	for (uint32_t i = 0; i < event->label_count; i++) {
		const struct rp_reader_label *label = &event->labels[i];

		fputs(comma, printer->stream);
		print_json_text(printer, label->key);
		putc(':', printer->stream);
		if (label->text)
			print_json_text(printer, label->text);
		else
			fprintf(printer->stream, "%" PRId64, label->number);
		comma = ",";
	}
	putc('}', printer->stream);
}

static int print_json(const struct rp_event_printer *printer, const struct rp_reader_event *event)
{
	char utc[RP_TEXT_MAX];

	fprintf(printer->stream, "{\"time_ns\":%" PRId64 ",\"time_utc\":\"%s\"", event->time_ns,
	       utc_of(printer, event, utc));
	if (printer->shows_process)
		fprintf(printer->stream, ",\"process_id\":%" PRIu64, printer->process);
	fprintf(printer->stream, ",\"thread_id\":%" PRIu64, event->thread);
	/* The .NET runtime writes -1 if it does not know the processor. */
	if (event->processor == UINT32_MAX)
		fputs(",\"processor\":null", printer->stream);
	else
		fprintf(printer->stream, ",\"processor\":%" PRIu32, event->processor);
	fprintf(printer->stream, ",\"provider\":%s,\"event\":%s,\"id\":%" PRIu32, printer->provider,
	       printer->name, event->type->id);
	print_json_guid(printer, "activity", &event->activity);
	print_json_guid(printer, "related_activity", &event->related_activity);
	print_json_trace(printer, event);
	print_json_labels(printer, event);
	print_json_frames(printer, event);
	fputs(",\"fields\":", printer->stream);
	errno = EIO;
	return rp_reader_print_json(event, printer->stream) ||
	       fputs("}\n", printer->stream) < 0 ? -errno : 0;
}

static int print_text(const struct rp_event_printer *printer, const struct rp_reader_event *event)
{
	char utc[RP_TEXT_MAX], activity[RP_GUID_TEXT];

	fprintf(printer->stream, "%s  ", utc_of(printer, event, utc));
	if (printer->shows_process)
		fprintf(printer->stream, "%" PRIu64 "/", printer->process);
	fprintf(printer->stream, "%" PRIu64 "  %s/%s  ", event->thread, printer->provider,
		printer->name);
	errno = EIO;
	if (rp_reader_print_json(event, printer->stream))
		return -errno;
	if (*rp_guid_text(&event->activity, activity))
		fprintf(printer->stream, "  activity %s", activity);
	putc('\n', printer->stream);
	for (uint32_t i = 0; i < event->frame_count; i++) {
		const char *function = function_of(printer, event, i);

		if (function && rp_symbol_is_generated(function))
			continue;
		fprintf(printer->stream, "    0x%012" PRIx64 "%s%s\n",
			rp_stack_frame(event, printer->info.pointer_bytes, i),
			function ? "  " : "", function ? function : "");
	}
	return ferror(printer->stream) ? -errno : 0;
}

static int print_csv_fields(const struct rp_event_printer *printer,
			    const struct rp_reader_event *event)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	int ret;

	if (!stream)
		return -ENOMEM;
	ret = rp_reader_print_json(event, stream);
	if (fclose(stream) != 0 || ret)
		ret = -ENOMEM;
	else
		rp_csv_put(printer->stream, text);
	free(text);
	return ret;
}

/* Prints functions, or addresses without a name, innermost first, separated by semicolons. */
static int print_csv_stack(const struct rp_event_printer *printer,
			   const struct rp_reader_event *event)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	const char *semicolon = "";

	if (!stream)
		return -ENOMEM;
	for (uint32_t i = 0; i < event->frame_count; i++) {
		const char *function = function_of(printer, event, i);

		if (function && rp_symbol_is_generated(function))
			continue;
		fputs(semicolon, stream);
		semicolon = ";";
		if (function)
			fputs(function, stream);
		else
			fprintf(stream, "0x%" PRIx64,
				rp_stack_frame(event, printer->info.pointer_bytes, i));
	}
	if (fclose(stream) != 0) {
		free(text);
		return -ENOMEM;
	}
	rp_csv_put(printer->stream, text);
	free(text);
	return 0;
}

static int print_csv(const struct rp_event_printer *printer, const struct rp_reader_event *event)
{
	char utc[RP_TEXT_MAX], activity[RP_GUID_TEXT], related[RP_GUID_TEXT];
	int ret;

	fprintf(printer->stream, "%s,%" PRId64 ",%" PRIu64 ",%" PRIu64 ",",
		utc_of(printer, event, utc), event->time_ns, printer->process, event->thread);
	if (event->processor != UINT32_MAX)
		fprintf(printer->stream, "%" PRIu32, event->processor);
	putc(',', printer->stream);
	rp_csv_put(printer->stream, printer->provider);
	putc(',', printer->stream);
	rp_csv_put(printer->stream, printer->name);
	fprintf(printer->stream, ",%" PRIu32 ",%s,%s,", event->type->id,
		rp_guid_text(&event->activity, activity),
		rp_guid_text(&event->related_activity, related));
	ret = print_csv_fields(printer, event);
	putc(',', printer->stream);
	if (ret == 0 && event->frame_count)
		ret = print_csv_stack(printer, event);
	errno = EIO;
	return putc('\n', printer->stream) < 0 ? -errno : ret;
}

void rp_event_printer_begin(const struct rp_event_printer *printer)
{
	if (printer->format == RP_FORMAT_CSV)
		fputs("time_utc,time_ns,process_id,thread_id,processor,provider,event,id,activity,"
		      "related_activity,fields,stack\n", printer->stream);
}

static char *render_function(const char *name, void *data)
{
	const struct rp_event_printer *printer = data;

	return render_name(printer->format, name);
}

int rp_event_printer_name_functions(struct rp_event_printer *printer, const char *file)
{
	const int ret = rp_symbols_read(&printer->symbols, file, NULL, NULL);

	return ret ? ret : rp_symbols_render(&printer->symbols, render_function, printer);
}

int rp_event_printer_print(struct rp_event_printer *printer, const struct rp_reader_event *event,
			   uint64_t process, bool shows_process)
{
	int ret;

	if (!printer->all &&
	    rp_event_is_internal(event->type->provider, event->type->name))
		return 0;
	if (printer->where && !rp_expression_matches(printer->where, event, process))
		return 0;
	ret = take_type(printer, event->type);
	if (ret)
		return ret;
	printer->process = process;
	printer->shows_process = shows_process;
	printer->printed++;
	return printer->format == RP_FORMAT_JSON ? print_json(printer, event) :
	       printer->format == RP_FORMAT_TEXT ? print_text(printer, event) :
						   print_csv(printer, event);
}

void rp_event_printer_fini(struct rp_event_printer *printer)
{
	forget_type(printer);
	rp_symbols_fini(&printer->symbols);
}
