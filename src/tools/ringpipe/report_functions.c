/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe/report_functions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/display_text.h"
#include "tools/cli/json.h"

#define STACK_SHOWN 3u			/* functions of a stack in text */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

const char *rp_function_text(const struct rp_call_function *function, char *buffer)
{
	static const char end[] = "…";
	size_t length = RP_FUNCTION_TEXT_MAX - sizeof(end);

	if (function->name && strlen(function->name) < RP_FUNCTION_TEXT_MAX) {
		strcpy(buffer, function->name);
	} else if (function->name) {
		/* Do not cut a character of UTF-8. */
		while (length > 0 && ((unsigned char)function->name[length] & 0xc0) == 0x80)
			length--;
		memcpy(buffer, function->name, length);
		memcpy(buffer + length, end, sizeof(end));
	} else if (function->file) {
		snprintf(buffer, RP_FUNCTION_TEXT_MAX, "[%s]", base_name(function->file));
	} else {
		strcpy(buffer, "[unknown]");
	}
	return buffer;
}

void rp_function_add(struct rp_rows *rows, const struct rp_call_function *function)
{
	char buffer[RP_FUNCTION_TEXT_MAX];

	rp_rows_add(rows, rp_json_string(function->name), rp_function_text(function, buffer));
	rp_rows_add_string(rows, function->file);
}

struct json_object *rp_function_to_json(const struct rp_call_function *function)
{
	struct json_object *json = json_object_new_object();

	json_object_object_add(json, "function", rp_json_string(function->name));
	json_object_object_add(json, "file", rp_json_string(function->file));
	return json;
}

void rp_stack_add(struct rp_rows *rows, const struct rp_call_tree *tree, uint32_t node)
{
	struct json_object *array = json_object_new_array();
	char name[RP_FUNCTION_TEXT_MAX], text[STACK_SHOWN * (RP_FUNCTION_TEXT_MAX + 3)] = "";
	unsigned int shown = 0;

	for (; node != RP_CALL_NONE; node = tree->nodes[node].parent) {
		const struct rp_call_function *function =
			&tree->functions[tree->nodes[node].function];

		rp_function_text(function, name);
		json_object_array_add(array, rp_json_string(name));
		if (shown++ >= STACK_SHOWN)
			continue;
		strcat(text, *text ? " < " : "");
		strcat(text, name);
	}
	rp_rows_add(rows, array, *text ? text : "-");
}

static void add_process(struct rp_rows *rows, uint64_t process, const char *name)
{
	rp_rows_add_u64(rows, process);
	rp_rows_add(rows, rp_json_string(name), name ? NULL : "?");
}

void rp_process_add(struct rp_rows *rows, const struct rp_profile *profile, uint64_t process)
{
	add_process(rows, process, rp_symbols_process(&profile->symbols, process,
						      profile->last_ns));
}

void rp_process_add_life(struct rp_rows *rows, const struct rp_profile *profile, uint64_t process,
			 uint32_t life)
{
	add_process(rows, process, rp_symbols_life_name(&profile->symbols, process, life,
							profile->last_ns));
}

double rp_share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

void rp_share_add(struct rp_rows *rows, uint64_t part, uint64_t whole)
{
	const double share = rp_share(part, whole);

	rp_rows_addf(rows, json_object_new_double(share), "%.1f %%", 100 * share);
}

void rp_time_add(struct rp_rows *rows, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = { { 1000000000, "s" }, { 1000000, "ms" }, { 1000, "us" } };
	size_t i = 0;

	while (i < 2 && ns < units[i].ns)
		i++;
	rp_rows_addf(rows, json_object_new_uint64(ns), "%.3f %s",
		     (double)ns / (double)units[i].ns, units[i].name);
}

int rp_report_profile_init(const struct rp_report *report, enum rp_profile_by by,
			   struct rp_profile *ret_profile)
{
	int ret = rp_profile_init(ret_profile, by, report->file, &report->range);

	if (ret == 0)
		return RP_EXIT_OK;
	/* Other errors come from rp_input_open(), which has printed them. */
	if (ret == -ENOMEM)
		rp_tool_error("out of memory");
	rp_profile_fini(ret_profile);
	return RP_EXIT_FAILURE;
}

uint64_t rp_report_top(const struct rp_report *report)
{
	const struct rp_tool_options *options = report->options;

	return options->given & RP_OPTION_TOP ? options->top : RP_REPORT_TOP;
}

int rp_report_print(const struct rp_report *report, const struct rp_column *columns,
		    size_t column_count, size_t row_count, rp_report_row add_row, const void *data)
{
	const uint64_t top = rp_report_top(report);
	struct rp_rows rows;
	int status;

	rp_rows_init(&rows, report->options->format, columns, column_count);
	for (size_t i = 0; i < row_count && i < top; i++)
		add_row(&rows, i, data);
	status = rp_rows_print(&rows);
	rp_rows_fini(&rows);
	return status;
}

bool rp_report_has_table(const struct rp_report *report, int error, bool has_rows,
			 const char *lack)
{
	if (error == -ENOMEM)
		rp_tool_error("out of memory");
	else if (error == 0 && !has_rows)
		rp_tool_error("%s: %s", report->path, lack);
	return error != -ENOMEM && (error || has_rows);
}

void rp_report_bounds(const struct rp_report *report, const struct rp_profile *profile)
{
	char text[RP_TEXT_MAX];

	if (profile->tree.cut)
		rp_tool_error("%s: cut %s, because they or the call tree became too large; … "
			      "stands for their other functions", report->path,
			      rp_text_counted(profile->tree.cut, "stack", text));
	if (profile->symbols.ignored)
		rp_tool_error("%s: ignored mappings and functions above %u: %s", report->path,
			      RP_SYMBOLS_MAX, rp_text_count(profile->symbols.ignored, text));
}
