/* SPDX-License-Identifier: MIT */
/*
 * Writes any bytes in each format of other tools: whatever types the trace defines, a text in JSON
 * is valid. reader_fuzz.c shows how to run it; link all of src/lib/ and src/tools/ringpipe/.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "input_file.h"
#include "tools/cli/json.h"
#include "tools/formats/format_writer.h"

static const struct {
	const struct rp_format_writer *writer;
	bool is_json, is_lines;		/* one text; one on each line */
} formats[] = {
	{ &rp_format_chrome, true, false }, { &rp_format_csv, false, false },
	{ &rp_format_firefox, true, false }, { &rp_format_folded, false, false },
	{ &rp_format_json_lines, true, true }, { &rp_format_otlp, true, true },
	{ &rp_format_otlp_profiles, false, false }, { &rp_format_perfetto, false, false },
	{ &rp_format_pprof, false, false }, { &rp_format_speedscope, true, false },
};

static void check_json(const char *text, size_t size)
{
	struct json_tokener *tokener = json_tokener_new_ex(1000);
	struct json_object *json;

	/* The strict mode of version 0.18 refuses all characters above 127. */
	json_tokener_set_flags(tokener, JSON_TOKENER_VALIDATE_UTF8 |
			       (JSON_C_VERSION_NUM == 0x1200 ? 0 : JSON_TOKENER_STRICT));
	json = size <= INT_MAX ? json_tokener_parse_ex(tokener, text, (int)size) : NULL;
	if (!json || json_tokener_get_error(tokener) != json_tokener_success)
		abort();
	json_object_put(json);
	json_tokener_free(tokener);
}

static void check_lines(const char *text, size_t size)
{
	const char *end = size ? text + size : text;	/* an empty text may be NULL */

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));

		if (!newline)
			abort();
		check_json(text, (size_t)(newline - text));
		text = newline + 1;
	}
}

/* Return: whether the format wrote the trace. Otherwise memory is missing. */
static bool write_trace(const struct rp_format_writer *writer,
			const struct rp_format_source *source, struct rp_format_out *out)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	void *state = NULL;
	int ret = writer->open(source, out, &state);

	if (ret)
		return false;
	while (ret == 0 && rp_reader_next(source->reader, &event) == 1)
		ret = writer->event(state, &event);
	if (ret == 0)
		ret = writer->end(state);
	writer->close(state);
	return ret == 0 && out->error == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *path = fuzz_file(bytes, size);

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct rp_format_source source = {
			.info = RP_READER_INFO_INIT, .file = path, .range = RP_TIME_RANGE_ALL,
		};
		struct rp_format_out out;

		if (rp_reader_open_memory(bytes, size, &source.reader) < 0)
			return 0;
		rp_reader_get_info(source.reader, &source.info);
		if (rp_out_init(&out, NULL) < 0)
			abort();
		if (write_trace(formats[i].writer, &source, &out) && formats[i].is_json) {
			if (formats[i].is_lines)
				check_lines(out.buffer, out.used);
			else
				check_json(out.buffer, out.used);
		}
		rp_out_fini(&out);
		rp_reader_close(source.reader);
	}
	return 0;
}
