/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe/top_view.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/cli/display_text.h"
#include "tools/ringpipe/counter_views.h"

/* The columns of numbers have one blank before them. */
#define NUMBER_COLUMNS 10u
#define NAME_COLUMNS_MAX 50u
#define NAME_COLUMNS_MIN 8u
#define NUMBERS_MAX 9u

static int compare_numbers(double a, double b)
{
	return (a < b) - (a > b);
}

static int compare_names(const struct rp_top_span_row *a, const struct rp_top_span_row *b)
{
	int order;

	/* The row of all other names is last. */
	if (!a->name || !b->name)
		return (a->name == NULL) - (b->name == NULL);
	order = strcmp(a->provider, b->provider);
	return order ? order : strcmp(a->name, b->name);
}

static double sort_key(const struct rp_top_span_row *row, enum rp_top_sort sort)
{
	switch (sort) {
	case RP_TOP_BY_RATE:
		return (double)row->now.count;
	case RP_TOP_BY_TOTAL:
		return (double)row->now.total_ns;
	case RP_TOP_BY_P99:
		return (double)row->now.p99_ns;
	case RP_TOP_BY_MAX:
		return (double)row->now.max_ns;
	default:
		return 0;
	}
}

static int compare_rows(const void *left, const void *right, void *data)
{
	const struct rp_top_span_row *a = left, *b = right;
	const enum rp_top_sort sort = *(const enum rp_top_sort *)data;
	int order = compare_numbers(sort_key(a, sort), sort_key(b, sort));

	if (order == 0 && sort != RP_TOP_BY_NAME)
		order = compare_numbers((double)a->all.count, (double)b->all.count);
	return order ? order : compare_names(a, b);
}

void rp_top_view_sort(struct rp_top_view *view)
{
	qsort_r(view->cut.spans, view->cut.span_count, sizeof(*view->cut.spans), compare_rows,
		&view->sort);
}

void rp_top_view_fini(struct rp_top_view *view)
{
	rp_top_cut_fini(&view->cut);
	free(view->functions);
	free(view->counters);
	view->functions = NULL;
	view->counters = NULL;
	view->function_count = view->counter_count = 0;
}

const char *rp_top_sort_name(enum rp_top_sort sort)
{
	static const char *const names[] = {
		[RP_TOP_BY_RATE] = "rate", [RP_TOP_BY_TOTAL] = "total time",
		[RP_TOP_BY_P99] = "p99", [RP_TOP_BY_MAX] = "max", [RP_TOP_BY_NAME] = "name",
	};

	return names[sort];
}

/* Add a line, which the lines then own. */
static void add_line(struct rp_top_lines *lines, char *line)
{
	char **grown = line ? rp_array_reserve(lines->rows, lines->count, &lines->capacity, 1,
					       sizeof(char *)) : NULL;

	if (!grown) {
		free(line);
		lines->failed = true;
		return;
	}
	lines->rows = grown;
	grown[lines->count++] = line;
}

static void __attribute__((format(printf, 2, 3))) add_text(struct rp_top_lines *lines,
							    const char *format, ...)
{
	va_list arguments;
	char *text, *clean;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	clean = text ? rp_text_clean(text, true) : NULL;
	free(text);
	add_line(lines, clean);
}

/* A row of a table: a name, and numbers that are shown as far as the width permits. */
struct table_row {
	char *name;			/* for free(); NULL: no memory */
	char numbers[NUMBERS_MAX][RP_TEXT_MAX + 1];
	unsigned int count;
	size_t name_columns;
};

/* Cut the text to a number of characters. */
static void cut_text(char *text, size_t columns)
{
	for (; *text; text++) {
		if (((unsigned char)*text & 0xc0) != 0x80 && columns-- == 0) {
			*text = '\0';
			return;
		}
	}
}

static size_t name_columns(size_t columns, unsigned int numbers)
{
	const size_t all = numbers * (NUMBER_COLUMNS + 1);

	if (columns >= all + NAME_COLUMNS_MAX)
		return NAME_COLUMNS_MAX;
	/* With little space, the last columns are left out. */
	return columns >= all + 2 * NAME_COLUMNS_MIN ? columns - all :
	       (columns - NAME_COLUMNS_MIN) % (NUMBER_COLUMNS + 1) + NAME_COLUMNS_MIN;
}

static void add_row(struct rp_top_lines *lines, struct table_row *row, size_t columns)
{
	const size_t width = columns < NAME_COLUMNS_MIN ? columns :
			     name_columns(columns, row->count);
	size_t left = columns - width, size;
	char *clean = row->name ? rp_text_clean(row->name, true) : NULL, *line = NULL;
	FILE *stream = clean ? open_memstream(&line, &size) : NULL;

	free(row->name);
	row->name = NULL;
	if (!stream) {
		free(clean);
		lines->failed = true;
		return;
	}
	cut_text(clean, width);
	fprintf(stream, "%s%*s", clean, (int)(width - rp_text_width(clean)), "");
	for (unsigned int i = 0; i < row->count && left > NUMBER_COLUMNS; i++) {
		fprintf(stream, " %*s", (int)NUMBER_COLUMNS, row->numbers[i]);
		left -= NUMBER_COLUMNS + 1;
	}
	free(clean);
	if (fclose(stream) != 0) {
		free(line);
		line = NULL;
	}
	add_line(lines, line);
}

static void __attribute__((format(printf, 2, 3))) set_name(struct table_row *row,
							    const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&row->name, format, arguments) < 0)
		row->name = NULL;
	va_end(arguments);
	row->count = 0;
}

static void put_text(struct table_row *row, const char *text)
{
	snprintf(row->numbers[row->count++], sizeof(row->numbers[0]), "%s", text);
}

static void put_count(struct table_row *row, uint64_t count)
{
	(void)rp_text_count(count, row->numbers[row->count++]);
}

static void put_time(struct table_row *row, uint64_t count, uint64_t ns)
{
	if (count)
		(void)rp_text_short_time(ns, row->numbers[row->count++]);
	else
		put_text(row, "-");
}

static void put_heading(struct rp_top_lines *lines, size_t columns, const char *name,
			const char *const *titles, unsigned int count)
{
	struct table_row row;

	add_text(lines, "%s", "");
	set_name(&row, "%s", name);
	for (unsigned int i = 0; i < count; i++)
		put_text(&row, titles[i]);
	add_row(lines, &row, columns);
}

static double per_second(const struct rp_top_view *view, uint64_t count)
{
	return view->interval_s > 0 ? (double)count / view->interval_s : 0;
}

static void put_rate(struct table_row *row, const struct rp_top_view *view, uint64_t count)
{
	const double rate = per_second(view, count);

	if (rate >= 100)
		put_count(row, (uint64_t)(rate + 0.5));
	else
		snprintf(row->numbers[row->count++], sizeof(row->numbers[0]), "%.1f", rate);
}

static void add_rest(struct rp_top_lines *lines, size_t count, size_t limit)
{
	if (count > limit)
		add_text(lines, "(%zu more)", count - limit);
}

static void add_spans(struct rp_top_lines *lines, const struct rp_top_view *view, size_t columns,
		      size_t limit)
{
	static const char *const titles[] = {
		"spans/s", "p50", "p99", "max", "errors", "all", "all p50", "all p99", "all max",
	};
	struct table_row row;

	put_heading(lines, columns, "SPAN", titles, 9);
	for (size_t i = 0; i < view->cut.span_count && i < limit; i++) {
		const struct rp_top_span_row *span = &view->cut.spans[i];

		if (span->name)
			set_name(&row, "%s/%s", span->provider, span->name);
		else
			set_name(&row, "(all other names)");
		put_rate(&row, view, span->now.count);
		put_time(&row, span->now.count, span->now.p50_ns);
		put_time(&row, span->now.count, span->now.p99_ns);
		put_time(&row, span->now.count, span->now.max_ns);
		put_count(&row, span->all.errors);
		put_count(&row, span->all.count);
		put_time(&row, 1, span->all.p50_ns);
		put_time(&row, 1, span->all.p99_ns);
		put_time(&row, 1, span->all.max_ns);
		add_row(lines, &row, columns);
	}
	if (!view->cut.span_count)
		add_text(lines, "no span has ended so far");
	add_rest(lines, view->cut.span_count, limit);
}

static double share(uint64_t part, uint64_t all)
{
	return all ? 100 * (double)part / (double)all : 0;
}

static void put_share(struct table_row *row, uint64_t part, uint64_t all)
{
	snprintf(row->numbers[row->count++], sizeof(row->numbers[0]), "%.1f %%", share(part, all));
}

/*
 * Find the class and the name of a method in its full name. A name in brackets is an argument of a
 * generic type, and the names of constructors begin with a dot. Return: its length, from `ret_at`.
 */
static size_t shorten_method(const char *name, const char **ret_at)
{
	const size_t length = strcspn(name, "(");
	unsigned int depth = 0, dots = 0;
	size_t at = length;

	while (at > 0) {
		const char c = name[at - 1];

		depth += c == ']';
		depth -= c == '[' && depth;
		if (c == '.' && !depth && ++dots == 2)
			break;
		at--;
		if (c == '.' && dots == 1 && at > 0 && name[at - 1] == '.')
			at--;
	}
	*ret_at = name + at;
	return length - at;
}

static void add_functions(struct rp_top_lines *lines, const struct rp_top_view *view,
			  size_t columns, size_t limit)
{
	static const char *const titles[] = { "now", "all", "samples" };
	struct table_row row;

	if (!view->cut.all.samples)
		return;
	put_heading(lines, columns, "FUNCTION", titles, 3);
	for (size_t i = 0; i < view->function_count && i < limit; i++) {
		const struct rp_top_function *function = &view->functions[i];
		const char *name = function->name ? function->name : "?";
		size_t length = strlen(name);

		if (function->is_method)
			length = shorten_method(name, &name);
		if (!function->name && !function->file)
			set_name(&row, "0x%llx", (unsigned long long)function->address);
		else if (function->file)
			set_name(&row, "%.*s (%s)", (int)length, name, function->file);
		else
			set_name(&row, "%.*s", (int)length, name);
		put_share(&row, function->now, view->cut.now.samples);
		put_share(&row, function->all, view->cut.all.samples);
		put_count(&row, function->all);
		add_row(lines, &row, columns);
	}
	add_rest(lines, view->function_count, limit);
}

static void add_counters(struct rp_top_lines *lines, const struct rp_top_view *view,
			 size_t columns, size_t limit)
{
	static const char *const titles[] = { "value" };
	struct table_row row;

	if (!view->counter_count)
		return;
	put_heading(lines, columns, "COUNTER", titles, 1);
	for (size_t i = 0; i < view->counter_count && i < limit; i++) {
		const struct rp_counter_sample *sample = &view->counters[i].last;
		char label[sizeof(sample->name) + sizeof(sample->tags) + 128];
		char number[RP_TEXT_MAX + 1];

		rp_counter_label(sample, NULL, label, sizeof(label));
		set_name(&row, "%s/%s", sample->provider, label);
		put_text(&row, rp_counter_format(rp_counter_shown(sample), number));
		add_row(lines, &row, columns);
	}
	add_rest(lines, view->counter_count, limit);
}

/* A negative number is unknown. */
static const char *format_percent(double percent, char *text)
{
	if (percent < 0)
		return "?";
	snprintf(text, RP_TEXT_MAX, "%.1f %%", percent);
	return text;
}

static void add_summary(struct rp_top_lines *lines, const struct rp_top_view *view)
{
	char rate[RP_TEXT_MAX], now[RP_TEXT_MAX], all[RP_TEXT_MAX], time[RP_TEXT_MAX];
	char process[RP_TEXT_MAX], command[RP_TEXT_MAX];

	add_text(lines, "%.8s  process %d (%s)", rp_text_utc(view->utc_ns, time) + 11,
		 view->target->pid, view->target->name);
	add_text(lines, "%s events/s  %s dropped  %s dropped in all",
		 rp_text_count((uint64_t)(per_second(view, view->cut.now.events) + 0.5), rate),
		 rp_text_count(view->cut.now.lost, now), rp_text_count(view->cut.all.lost, all));
	add_text(lines, "tracing takes %s of a core in the process, %s here",
		 format_percent(view->process_percent, process),
		 format_percent(view->command_percent, command));
}

void rp_top_lines_format(struct rp_top_lines *lines, const struct rp_top_view *view,
			 size_t columns, size_t limit)
{
	add_summary(lines, view);
	add_spans(lines, view, columns, limit);
	add_functions(lines, view, columns, limit);
	add_counters(lines, view, columns, limit);
}

void rp_top_lines_fini(struct rp_top_lines *lines)
{
	for (size_t i = 0; i < lines->count; i++)
		free(lines->rows[i]);
	free(lines->rows);
	*lines = (struct rp_top_lines){ 0 };
}
