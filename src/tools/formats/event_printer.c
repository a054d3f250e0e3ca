/* SPDX-License-Identifier: MIT */
#include "tools/formats/event_printer.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/display_text.h"
#include "tools/cli/json.h"
#include "tools/cli/rows.h"
#include "tools/formats/json_out.h"
#include "tools/trace/event_names.h"
#include "tools/trace/guids.h"
#include "tools/trace/stack_frame.h"

#define NS_PER_S 1000000000
#define NS_DIGITS 9u		/* of the nanoseconds of a second */

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

static void forget_type(struct rp_printed_type *known)
{
	free(known->provider);
	free(known->name);
	*known = (struct rp_printed_type){ 0 };
}

/* Return: the names of the type in the format; NULL: no memory. */
static const struct rp_printed_type *find_type(struct rp_event_printer *printer,
					       const struct rp_reader_type *type)
{
	struct rp_printed_type *known =
		&printer->types[(uintptr_t)type / sizeof(*type) % RP_PRINTED_TYPES];

	if (known->type == type)
		return known;
	forget_type(known);
	known->provider = render_name(printer->format, type->provider);
	known->name = render_name(printer->format, type->name);
	if (!known->provider || !known->name) {
		forget_type(known);
		return NULL;
	}
	known->type = type;
	return known;
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

	rp_symbols_resolve(&printer->symbols, printer->process, event->time_ns,
			   rp_stack_frame(event, printer->info.pointer_bytes, index), &symbol);
	return symbol.function;
}

static void put_json_frames(struct rp_event_printer *printer, const struct rp_reader_event *event)
{
	struct rp_format_out *row = &printer->row;
	char text[32];

	if (!event->frame_count)
		return;
	rp_out_text(row, ",\"stack\":[");
	for (uint32_t i = 0; i < event->frame_count; i++) {
		snprintf(text, sizeof(text), "%s\"0x%" PRIx64 "\"", i ? "," : "",
			 rp_stack_frame(event, printer->info.pointer_bytes, i));
		rp_out_text(row, text);
	}
	rp_out_char(row, ']');
	if (!printer->symbols.functions.count)
		return;
	rp_out_text(row, ",\"functions\":[");
	for (uint32_t i = 0; i < event->frame_count; i++) {
		const char *function = function_of(printer, event, i);

		if (i)
			rp_out_char(row, ',');
		rp_out_text(row, function ? function : "null");
	}
	rp_out_char(row, ']');
}

static int put_json_text(struct rp_format_out *row, const char *text)
{
	char *rendered = render_name(RP_FORMAT_JSON, text);

	if (!rendered)
		return -ENOMEM;
	rp_out_text(row, rendered);
	free(rendered);
	return 0;
}

static int put_json_labels(struct rp_format_out *row, const struct rp_reader_event *event)
{
	int ret = 0;

	if (!event->label_count)
		return 0;
	rp_out_text(row, ",\"labels\":{");
	for (uint32_t i = 0; ret == 0 && i < event->label_count; i++) {
		const struct rp_reader_label *label = &event->labels[i];

		if (i)
			rp_out_char(row, ',');
		ret = put_json_text(row, label->key);
		rp_out_char(row, ':');
		if (!label->text)
			rp_out_i64(row, label->number);
		else if (ret == 0)
			ret = put_json_text(row, label->text);
	}
	rp_out_char(row, '}');
	return ret;
}

/* Write the time as rp_text_utc_ns() does, which runs once for each second of the trace. */
static void put_json_utc(struct rp_event_printer *printer, const struct rp_reader_event *event)
{
	const int64_t utc_ns = (int64_t)((uint64_t)printer->info.start_utc_ns +
					 (uint64_t)event->time_ns);
	const int64_t second = utc_ns / NS_PER_S - (utc_ns % NS_PER_S < 0);
	uint32_t rest = (uint32_t)(utc_ns - second * NS_PER_S);
	char digits[NS_DIGITS];

	if (!printer->has_second || printer->second != second) {
		rp_text_utc_ns(utc_ns, printer->second_text);
		/* The digits of nanoseconds and the letter Z follow the second. */
		printer->second_bytes = strlen(printer->second_text) - NS_DIGITS - 1;
		printer->second = second;
		printer->has_second = true;
	}
	rp_out_bytes(&printer->row, printer->second_text, printer->second_bytes);
	for (size_t i = NS_DIGITS; i > 0; i--, rest /= 10)
		digits[i - 1] = (char)('0' + rest % 10);
	rp_out_bytes(&printer->row, digits, sizeof(digits));
	rp_out_char(&printer->row, 'Z');
}

static int print_row(struct rp_event_printer *printer)
{
	const struct rp_format_out *row = &printer->row;

	if (row->error)
		return row->error;
	errno = EIO;
	return fwrite(row->buffer, 1, row->used, printer->stream) == row->used ? 0 : -errno;
}

static int print_json(struct rp_event_printer *printer, const struct rp_reader_event *event)
{
	struct rp_format_out *row = &printer->row;
	int ret;

	row->used = 0;
	rp_out_text(row, "{\"time_ns\":");
	rp_out_i64(row, event->time_ns);
	rp_out_text(row, ",\"time_utc\":\"");
	put_json_utc(printer, event);
	rp_out_char(row, '"');
	if (printer->shows_process) {
		rp_out_text(row, ",\"process_id\":");
		rp_out_u64(row, printer->process);
	}
	rp_out_text(row, ",\"thread_id\":");
	rp_out_u64(row, event->thread);
	rp_out_text(row, ",\"processor\":");
	/* The .NET runtime writes -1 if it does not know the processor. */
	if (event->processor == UINT32_MAX)
		rp_out_text(row, "null");
	else
		rp_out_u64(row, event->processor);
	rp_out_text(row, ",\"provider\":");
	rp_out_text(row, printer->names->provider);
	rp_out_text(row, ",\"event\":");
	rp_out_text(row, printer->names->name);
	rp_out_text(row, ",\"id\":");
	rp_out_u64(row, event->type->id);
	rp_json_out_guid_member(row, ",\"activity\":", &event->activity);
	rp_json_out_guid_member(row, ",\"related_activity\":", &event->related_activity);
	rp_json_out_trace_ids(row, event->trace_id, event->span_id);
	ret = put_json_labels(row, event);
	put_json_frames(printer, event);
	rp_out_text(row, ",\"fields\":");
	rp_json_out_exact(row, event);
	rp_out_text(row, "}\n");
	return ret ? ret : print_row(printer);
}

static int print_text(struct rp_event_printer *printer, const struct rp_reader_event *event)
{
	char utc[RP_TEXT_MAX], activity[RP_GUID_TEXT];

	fprintf(printer->stream, "%s  ", utc_of(printer, event, utc));
	if (printer->shows_process)
		fprintf(printer->stream, "%" PRIu64 "/", printer->process);
	fprintf(printer->stream, "%" PRIu64 "  %s/%s  ", event->thread, printer->names->provider,
		printer->names->name);
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

static int print_csv_fields(struct rp_event_printer *printer, const struct rp_reader_event *event)
{
	struct rp_format_out *row = &printer->row;

	row->used = 0;
	rp_json_out_exact(row, event);
	rp_out_char(row, '\0');
	if (row->error)
		return row->error;
	rp_csv_put(printer->stream, row->buffer);
	return 0;
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

static int print_csv(struct rp_event_printer *printer, const struct rp_reader_event *event)
{
	char utc[RP_TEXT_MAX], activity[RP_GUID_TEXT], related[RP_GUID_TEXT];
	int ret;

	fprintf(printer->stream, "%s,%" PRId64 ",%" PRIu64 ",%" PRIu64 ",",
		utc_of(printer, event, utc), event->time_ns, printer->process, event->thread);
	if (event->processor != UINT32_MAX)
		fprintf(printer->stream, "%" PRIu32, event->processor);
	putc(',', printer->stream);
	rp_csv_put(printer->stream, printer->names->provider);
	putc(',', printer->stream);
	rp_csv_put(printer->stream, printer->names->name);
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
	const int ret = rp_symbols_read(&printer->symbols, file, &RP_TIME_RANGE_ALL,
					NULL, NULL);

	return ret ? ret : rp_symbols_render(&printer->symbols, render_function, printer);
}

int rp_event_printer_print(struct rp_event_printer *printer, const struct rp_reader_event *event,
			   uint64_t process, bool shows_process)
{
	if (!printer->all &&
	    rp_event_is_internal(event->type->provider, event->type->name))
		return 0;
	if (printer->where && !rp_expression_matches(printer->where, event, process))
		return 0;
	event = rp_json_decode(&printer->json, event);
	if (!event)
		return -ENOMEM;
	printer->names = find_type(printer, event->type);
	if (!printer->names)
		return -ENOMEM;
	event = rp_known_decode(&printer->known, event);
	printer->process = process;
	printer->shows_process = shows_process;
	printer->printed++;
	return printer->format == RP_FORMAT_JSON ? print_json(printer, event) :
	       printer->format == RP_FORMAT_TEXT ? print_text(printer, event) :
						   print_csv(printer, event);
}

void rp_event_printer_fini(struct rp_event_printer *printer)
{
	for (size_t i = 0; i < RP_PRINTED_TYPES; i++)
		forget_type(&printer->types[i]);
	rp_out_fini(&printer->row);
	rp_json_decoder_fini(&printer->json);
	rp_symbols_fini(&printer->symbols);
}
