/* SPDX-License-Identifier: MIT */
/*
 * ringpipe report FILE json: the fields that the JSON events of each source have, with a typed
 * event that has the same fields. A member of an object has the name `object.member`.
 */
#include "tools/ringpipe/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "tools/cli/display_text.h"
#include "tools/cli/identifier.h"
#include "tools/cli/rows.h"
#include "tools/trace/json_event.h"
#include "tools/trace/trace_symbols.h"

/* Names come from data, so there may be any number of them. */
#define SOURCES_MAX 4096u
#define SOURCE_FIELDS_MAX 1024u
#define PATH_BYTES 1024
/* The fields that RP_EVENT accepts. */
#define DECLARED_MAX 32u

struct json_field {
	char *path;
	uint8_t type, element;		/* enum rp_type */
	bool is_mixed;			/* values have different types */
	uint64_t events;
};

struct json_source {
	char *provider, *name;
	uint64_t hash;
	uint32_t level;			/* of the most severe event */
	struct json_field *fields;	/* in the order of their first events, later sorted */
	size_t field_count, field_capacity;
};

struct json_report {
	const struct rp_report *report;
	struct rp_json_decoder decoder;
	struct rp_processes processes;
	struct json_source *sources;
	size_t count, capacity;
	uint64_t left_out;		/* fields and sources beyond the limits */
};

static struct json_source *find_source(struct json_report *json, const char *provider,
				       const char *name)
{
	const uint64_t hash = rp_hash_text(rp_hash_text(RP_HASH_BEGIN, provider), name);
	struct json_source *source;

	for (size_t i = 0; i < json->count; i++) {
		source = &json->sources[i];
		if (source->hash == hash && strcmp(source->name, name) == 0 &&
		    strcmp(source->provider, provider) == 0)
			return source;
	}
	source = json->count == SOURCES_MAX ? NULL :
		 rp_array_reserve(json->sources, json->count, &json->capacity, 1, sizeof(*source));
	if (!source)
		return NULL;
	json->sources = source;
	source += json->count;
	*source = (struct json_source){
		.provider = strdup(provider), .name = strdup(name), .hash = hash,
		.level = RP_LEVEL_VERBOSE,
	};
	if (source->provider && source->name) {
		json->count++;
		return source;
	}
	free(source->provider);
	free(source->name);
	return NULL;
}

static bool is_number(uint8_t type)
{
	return type == RP_TYPE_I64 || type == RP_TYPE_U64 || type == RP_TYPE_F64;
}

static void merge_types(struct json_field *field, const struct rp_reader_field *from)
{
	if (is_number(field->type) && is_number(from->type)) {
		if (field->type != from->type)
			field->type = RP_TYPE_F64;
		return;
	}
	field->is_mixed |= field->type != from->type || field->element != from->element;
}

static void add_field(struct json_report *json, struct json_source *source, const char *path,
		      const struct rp_reader_field *from)
{
	struct json_field *field;

	for (size_t i = 0; i < source->field_count; i++) {
		field = &source->fields[i];
		if (strcmp(field->path, path) != 0)
			continue;
		field->events++;
		merge_types(field, from);
		return;
	}
	field = source->field_count == SOURCE_FIELDS_MAX ? NULL :
		rp_array_reserve(source->fields, source->field_count, &source->field_capacity, 1,
				 sizeof(*field));
	if (!field) {
		json->left_out++;
		return;
	}
	source->fields = field;
	field += source->field_count;
	*field = (struct json_field){
		.path = strdup(path), .type = from->type, .element = from->element, .events = 1,
	};
	if (field->path)
		source->field_count++;
	else
		json->left_out++;
}

/* Add the fields; those of structs instead of the structs. `path` is `bytes` long. */
static void add_fields(struct json_report *json, struct json_source *source, char *path,
		       size_t bytes, const struct rp_reader_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const size_t name_bytes = strlen(fields[i].name);

		if (bytes + name_bytes + 2 > PATH_BYTES) {
			json->left_out++;
			continue;
		}
		memcpy(path + bytes, fields[i].name, name_bytes + 1);
		if (fields[i].type != RP_TYPE_STRUCT) {
			add_field(json, source, path, &fields[i]);
			continue;
		}
		path[bytes + name_bytes] = '.';
		add_fields(json, source, path, bytes + name_bytes + 1, fields[i].members,
			   fields[i].member_count);
	}
}

static void take_event(struct json_report *json, const struct rp_reader_event *event)
{
	const struct rp_reader_field *fields = event->type->fields;
	size_t count = event->type->field_count;
	struct rp_value value = RP_VALUE_INIT;
	struct json_source *source;
	struct rp_fields walk;
	char path[PATH_BYTES];

	rp_reader_get_fields(event, &walk);
	if (rp_fields_next(&walk, &value) != 1)
		return;
	source = find_source(json, event->type->provider, value.bytes);
	if (!source) {
		json->left_out++;
		return;
	}
	if (event->level < source->level)
		source->level = event->level;
	/* The source is the first field. An invalid text is the second, before the reason. */
	if (count == 3 && strcmp(fields[2].name, RP_JSON_INVALID) == 0)
		fields++, count--;
	add_fields(json, source, path, 0, fields + 1, count - 1);
}

static int read_events(struct json_report *json)
{
	const struct rp_report *report = json->report;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	int ret;

	while ((ret = rp_reader_next(report->reader, &event)) == 1) {
		const struct rp_reader_event *decoded;

		ret = rp_processes_follow_id(&json->processes, &event, &event.process);
		if (ret < 0)
			return ret;
		if (!rp_json_event_is(event.type) ||
		    !rp_time_range_has(&report->range, event.time_ns) ||
		    !rp_report_takes(report, &event, event.process))
			continue;
		decoded = rp_json_decode(&json->decoder, &event);
		if (!decoded)
			return -ENOMEM;
		if (decoded != &event)
			take_event(json, decoded);
	}
	return ret;
}

static int compare_sources(const void *a, const void *b)
{
	const struct json_source *one = a, *other = b;
	const int by_provider = strcmp(one->provider, other->provider);

	return by_provider ? by_provider : strcmp(one->name, other->name);
}

static int compare_fields(const void *a, const void *b)
{
	return strcmp(((const struct json_field *)a)->path, ((const struct json_field *)b)->path);
}

/* Return: the name of a type in the table; NULL for the reason of an invalid text. */
static const char *type_name(const struct json_field *field)
{
	const bool is_array = field->type == RP_TYPE_ARRAY;

	if (strcmp(field->path, RP_JSON_INVALID) == 0)
		return NULL;
	if (field->is_mixed)
		return "mixed";
	switch (is_array ? field->element : field->type) {
	case RP_TYPE_BOOL:
		return is_array ? "bool[]" : "bool";
	case RP_TYPE_I64:
		return is_array ? "i64[]" : "i64";
	case RP_TYPE_U64:
		return is_array ? "u64[]" : "u64";
	case RP_TYPE_F64:
		return is_array ? "f64[]" : "f64";
	case RP_TYPE_STRING:
		return is_array ? "string[]" : "string";
	}
	return "struct[]";
}

static void add_rows(struct rp_rows *out, const struct json_source *source)
{
	for (size_t i = 0; i < source->field_count; i++) {
		const struct json_field *field = &source->fields[i];

		rp_rows_add_string(out, source->provider);
		rp_rows_add_string(out, source->name);
		rp_rows_add_string(out, field->path);
		rp_rows_add_string(out, type_name(field));
		rp_rows_add_u64(out, field->events);
	}
}

/* Print the field's macro up to its name. A list of texts or structs becomes a JSON text. */
static void print_macro(const struct json_field *field)
{
	const bool is_array = field->type == RP_TYPE_ARRAY;
	const uint8_t type = is_array ? field->element : field->type;
	const char *name = type == RP_TYPE_BOOL ? "BOOL" : type == RP_TYPE_I64 ? "I64" :
			   type == RP_TYPE_U64 ? "U64" : type == RP_TYPE_F64 ? "F64" : NULL;

	if (field->is_mixed || !name)
		fputs("RP_STRING(", stdout);
	else if (is_array)
		printf("RP_ARRAY(%s, ", name);
	else
		printf("RP_%s(", name);
}

static const char *level_name(uint32_t level)
{
	static const char *const names[] = {
		"LOG_ALWAYS", "CRITICAL", "ERROR", "WARNING", "INFORMATIONAL", "VERBOSE",
	};

	return names[level <= RP_LEVEL_VERBOSE ? level : RP_LEVEL_VERBOSE];
}

static bool has_valid_text(const struct json_source *source)
{
	return source->field_count > 1 ||
	       (source->field_count && type_name(&source->fields[0]));
}

/* Different members may become the same identifier, such as `a.b` and `a_b`. */
static void print_unique(const char *name, char *const *taken, size_t count)
{
	size_t same = 0;

	for (size_t i = 0; i < count; i++)
		same += strcmp(taken[i], name) == 0;
	if (same)
		printf("%s_%zu)", name, same + 1);
	else
		printf("%s)", name);
}

/* Print the declaration of a typed event with the fields of the source. Return: 0; -ENOMEM. */
static int print_declaration(const struct json_source *source)
{
	size_t declared = 0, column = 9;
	char *taken[DECLARED_MAX] = { NULL }, *name;
	int ret;

	if (!has_valid_text(source))
		return 0;
	name = rp_identifier_make(source->name);
	ret = name ? 0 : -ENOMEM;
	if (ret == 0)
		printf("\nRP_EVENT(provider, %s, RP_EVENT_ID_AUTO, RP_LEVEL_%s, 0", name,
		       level_name(source->level));
	free(name);
	for (size_t i = 0; ret == 0 && i < source->field_count; i++) {
		if (!type_name(&source->fields[i]) || declared == DECLARED_MAX)
			continue;
		name = rp_identifier_make(source->fields[i].path);
		if (!name)
			ret = -ENOMEM;
		else {
			column += strlen(name) + 14;
			fputs(declared && column < 100 ? ", " : ",\n\t ", stdout);
			if (!declared++ || column >= 100)
				column = 9 + strlen(name) + 14;
			print_macro(&source->fields[i]);
			print_unique(name, taken, declared - 1);
			taken[declared - 1] = name;
		}
	}
	if (ret == 0)
		puts(");");
	for (size_t i = 0; i < declared; i++)
		free(taken[i]);
	return ret;
}

static int print_sources(struct json_report *json)
{
	static const struct rp_column columns[] = {
		{ "provider", "PROVIDER", 0, false, false },
		{ "source", "SOURCE", 0, false, false },
		{ "field", "FIELD", 0, false, false }, { "type", "TYPE", 0, false, false },
		{ "events", "EVENTS", 0, true, false },
	};
	const enum rp_format format = json->report->options->format;
	struct rp_rows out;
	int status, ret = 0;

	rp_rows_init(&out, format, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < json->count; i++)
		add_rows(&out, &json->sources[i]);
	status = rp_rows_print(&out);
	rp_rows_fini(&out);
	for (size_t i = 0; format == RP_FORMAT_TEXT && ret == 0 && i < json->count; i++)
		ret = print_declaration(&json->sources[i]);
	if (ret) {
		rp_tool_error("out of memory");
		status = RP_EXIT_FAILURE;
	}
	return status;
}

static void fini(struct json_report *json)
{
	for (size_t i = 0; i < json->count; i++) {
		struct json_source *source = &json->sources[i];

		for (size_t field = 0; field < source->field_count; field++)
			free(source->fields[field].path);
		free(source->fields);
		free(source->provider);
		free(source->name);
	}
	free(json->sources);
	rp_json_decoder_fini(&json->decoder);
	rp_processes_fini(&json->processes);
}

int rp_report_json(const struct rp_report *report)
{
	struct json_report json = { .report = report };
	char text[RP_TEXT_MAX];
	int ret = read_events(&json), status;

	if (json.count)
		qsort(json.sources, json.count, sizeof(*json.sources), compare_sources);
	for (size_t i = 0; i < json.count; i++) {
		if (json.sources[i].field_count)
			qsort(json.sources[i].fields, json.sources[i].field_count,
			      sizeof(struct json_field), compare_fields);
	}
	if (json.count || report->options->format != RP_FORMAT_TEXT)
		status = print_sources(&json);
	else
		status = puts("The trace has no JSON events.") < 0 ? RP_EXIT_FAILURE : RP_EXIT_OK;
	if (json.left_out)
		rp_tool_error("report: json: the names of sources and fields exceed a limit; they "
			      "were left out %s", rp_text_counted(json.left_out, "time", text));
	fini(&json);
	return ret < 0 ? rp_report_end(report, ret) : status;
}
