/* SPDX-License-Identifier: MIT */
/* The forms of `ringpipe top` for pipes: a block of text, a line of JSON, rows of CSV. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/cli/display_text.h"
#include "tools/cli/json.h"
#include "tools/cli/rows.h"
#include "tools/ringpipe/counter_views.h"
#include "tools/ringpipe/top_view.h"

#define TEXT_COLUMNS 150u

static int print_text(const struct rp_top_view *view, size_t limit)
{
	struct rp_top_lines lines = { 0 };
	int ret;

	rp_top_lines_format(&lines, view, TEXT_COLUMNS, limit);
	for (size_t i = 0; i < lines.count; i++)
		printf("%s\n", lines.rows[i]);
	putchar('\n');
	ret = lines.failed ? -ENOMEM : 0;
	rp_top_lines_fini(&lines);
	return ret;
}

static void add_u64(struct json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

static void add_double(struct json_object *object, const char *key, double value)
{
	json_object_object_add(object, key, json_object_new_double(value));
}

static void add_text(struct json_object *object, const char *key, const char *text)
{
	json_object_object_add(object, key, rp_json_string(text));
}

/* A negative number is unknown. */
static void add_percent(struct json_object *object, const char *key, double percent)
{
	json_object_object_add(object, key, percent < 0 ? NULL : json_object_new_double(percent));
}

static struct json_object *make_latency(const struct rp_top_latency *latency)
{
	struct json_object *object = json_object_new_object();

	add_u64(object, "count", latency->count);
	add_u64(object, "errors", latency->errors);
	add_u64(object, "p50_ns", latency->p50_ns);
	add_u64(object, "p99_ns", latency->p99_ns);
	add_u64(object, "max_ns", latency->max_ns);
	add_u64(object, "total_ns", latency->total_ns);
	return object;
}

static double per_second(const struct rp_top_view *view, uint64_t count)
{
	return view->interval_s > 0 ? (double)count / view->interval_s : 0;
}

static struct json_object *make_spans(const struct rp_top_view *view, size_t limit)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < view->cut.span_count && i < limit; i++) {
		const struct rp_top_span_row *span = &view->cut.spans[i];
		struct json_object *row = json_object_new_object();

		add_text(row, "provider", span->provider);
		add_text(row, "span", span->name);
		add_double(row, "per_second", per_second(view, span->now.count));
		json_object_object_add(row, "interval", make_latency(&span->now));
		json_object_object_add(row, "all", make_latency(&span->all));
		json_object_array_add(array, row);
	}
	return array;
}

static struct json_object *make_functions(const struct rp_top_view *view, size_t limit)
{
	struct json_object *array = json_object_new_array();
	char address[32];

	for (size_t i = 0; i < view->function_count && i < limit; i++) {
		const struct rp_top_function *function = &view->functions[i];
		struct json_object *row = json_object_new_object();

		snprintf(address, sizeof(address), "0x%" PRIx64, function->address);
		add_text(row, "function", function->name);
		add_text(row, "file", function->file);
		add_text(row, "address", address);
		add_u64(row, "samples", function->now);
		add_u64(row, "all_samples", function->all);
		json_object_array_add(array, row);
	}
	return array;
}

static struct json_object *make_counters(const struct rp_top_view *view, size_t limit)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < view->counter_count && i < limit; i++) {
		const struct rp_counter_sample *sample = &view->counters[i].last;
		struct json_object *row = json_object_new_object();

		add_text(row, "provider", sample->provider);
		add_text(row, "counter", sample->name);
		add_text(row, "unit", sample->unit);
		add_text(row, "tags", sample->tags);
		add_double(row, "value", rp_counter_shown(sample));
		json_object_array_add(array, row);
	}
	return array;
}

static struct json_object *make_view(const struct rp_top_view *view, size_t limit)
{
	struct json_object *object = json_object_new_object();
	char time[RP_TEXT_MAX];

	add_text(object, "time_utc", rp_text_utc_ns(view->utc_ns, time));
	add_u64(object, "process_id", (uint64_t)view->target->pid);
	add_text(object, "process", view->target->name);
	add_double(object, "interval_s", view->interval_s);
	add_u64(object, "events", view->cut.now.events);
	add_u64(object, "dropped", view->cut.now.lost);
	add_u64(object, "samples", view->cut.now.samples);
	add_u64(object, "all_events", view->cut.all.events);
	add_u64(object, "all_dropped", view->cut.all.lost);
	add_u64(object, "all_samples", view->cut.all.samples);
	add_u64(object, "open_spans", view->cut.open_count);
	add_percent(object, "process_cpu_percent", view->process_percent);
	add_percent(object, "command_cpu_percent", view->command_percent);
	json_object_object_add(object, "spans", make_spans(view, limit));
	json_object_object_add(object, "functions", make_functions(view, limit));
	json_object_object_add(object, "counters", make_counters(view, limit));
	return object;
}

static int print_json(const struct rp_top_view *view, size_t limit)
{
	struct json_object *object = make_view(view, limit);

	if (!object)
		return -ENOMEM;
	rp_json_put(stdout, object, JSON_C_TO_STRING_PLAIN);
	putchar('\n');
	json_object_put(object);
	return 0;
}

/* The columns of CSV; a row leaves those empty that do not apply to its kind. */
struct csv_row {
	const char *kind, *group, *name;
	double value;
	const struct rp_top_latency *now, *all;
};

static void put_csv_latency(const struct rp_top_latency *latency)
{
	if (latency)
		printf(",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, latency->count,
		       latency->errors, latency->p50_ns, latency->p99_ns, latency->max_ns);
	else
		fputs(",,,,,", stdout);
}

static void put_csv_text(const char *text)
{
	char *clean = rp_text_clean(text, true);

	putchar(',');
	rp_csv_put(stdout, clean ? clean : "?");
	free(clean);
}

static void put_csv(const struct rp_top_view *view, const struct csv_row *row)
{
	char time[RP_TEXT_MAX];

	printf("%s,%s", rp_text_utc_ns(view->utc_ns, time), row->kind);
	put_csv_text(row->group);
	put_csv_text(row->name);
	printf(",%.10g", row->value);
	put_csv_latency(row->now);
	put_csv_latency(row->all);
	putchar('\n');
}

static void put_csv_number(const struct rp_top_view *view, const char *name, double value)
{
	put_csv(view, &(struct csv_row){ .kind = "session", .name = name, .value = value });
}

static void print_csv(const struct rp_top_view *view, size_t limit)
{
	put_csv_number(view, "interval_s", view->interval_s);
	put_csv_number(view, "events", (double)view->cut.now.events);
	put_csv_number(view, "dropped", (double)view->cut.now.lost);
	put_csv_number(view, "samples", (double)view->cut.now.samples);
	if (view->process_percent >= 0)
		put_csv_number(view, "process_cpu_percent", view->process_percent);
	if (view->command_percent >= 0)
		put_csv_number(view, "command_cpu_percent", view->command_percent);
	for (size_t i = 0; i < view->cut.span_count && i < limit; i++) {
		const struct rp_top_span_row *span = &view->cut.spans[i];

		put_csv(view, &(struct csv_row){ "span", span->provider, span->name,
						 per_second(view, span->now.count), &span->now,
						 &span->all });
	}
	for (size_t i = 0; i < view->function_count && i < limit; i++)
		put_csv(view, &(struct csv_row){ .kind = "function",
						 .group = view->functions[i].file,
						 .name = view->functions[i].name,
						 .value = (double)view->functions[i].now });
	for (size_t i = 0; i < view->counter_count && i < limit; i++)
		put_csv(view, &(struct csv_row){ .kind = "counter",
						 .group = view->counters[i].last.provider,
						 .name = view->counters[i].last.name,
						 .value = rp_counter_shown(
							 &view->counters[i].last) });
}

void rp_top_view_begin(enum rp_format format)
{
	if (format == RP_FORMAT_CSV)
		puts("time_utc,kind,group,name,value,count,errors,p50_ns,p99_ns,max_ns,all_count,"
		     "all_errors,all_p50_ns,all_p99_ns,all_max_ns");
}

int rp_top_view_print(const struct rp_top_view *view, enum rp_format format, size_t limit)
{
	int ret = 0;

	errno = 0;
	if (format == RP_FORMAT_TEXT)
		ret = print_text(view, limit);
	else if (format == RP_FORMAT_JSON)
		ret = print_json(view, limit);
	else
		print_csv(view, limit);
	if (fflush(stdout) != 0 || ferror(stdout))
		ret = errno ? -errno : -EIO;
	return ret;
}
