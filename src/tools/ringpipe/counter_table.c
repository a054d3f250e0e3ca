/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tools/ringpipe/counter_views.h"
#include "tools/cli/display_text.h"

/* This long after the first counter of an interval, the others have arrived. */
#define SETTLE_MS 100
#define LABEL_COLUMNS 58

struct rp_counter_table {
	struct rp_counter_board *board;
	const struct rp_target *target;
	FILE *out;
	int error;			/* -errno of the first drawing that failed */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t touched;
	bool is_dirty;
	bool is_over;
	bool on_terminal;
};

/* The state of one drawing. */
struct drawing {
	FILE *out;
	size_t lines_left;
	size_t hidden;
	char provider[sizeof(((struct rp_counter_sample *)0)->provider)];
};

void rp_counter_label(const struct rp_counter_sample *sample,
		      const struct rp_counter_quantile *quantile, char *text, size_t space)
{
	const char *unit = sample->unit, *slash = "";
	char percentile[32] = "";

	if (sample->form == RP_COUNTER_RATE) {
		unit = *unit ? unit : "Count";
		slash = " / 1 sec";
	}
	if (quantile)
		snprintf(percentile, sizeof(percentile), "Percentile=%g", quantile->at * 100);
	snprintf(text, space, "%s%s%s%s%s", sample->name, *unit ? " (" : "", unit, slash,
		 *unit ? ")" : "");
	if (*sample->tags || quantile) {
		size_t length = strlen(text);

		snprintf(text + length, space - length, "[%s%s%s]", sample->tags,
			 *sample->tags && quantile ? "," : "", percentile);
	}
}

const char *rp_counter_format(double number, char *text)
{
	if (isfinite(number) && fabs(number) < 1e15 && number == (double)(int64_t)number) {
		text[0] = '-';
		rp_text_count((uint64_t)fabs(number), number < 0 ? text + 1 : text);
		return text;
	}
	snprintf(text, RP_TEXT_MAX, fabs(number) >= 1000 ? "%.1f" : "%.4g", number);
	return text;
}

static void draw_line(struct drawing *drawing, const struct rp_counter_sample *sample,
		      const struct rp_counter_quantile *quantile)
{
	char label[sizeof(sample->name) + sizeof(sample->tags) + 128], number[RP_TEXT_MAX + 1];
	char *clean;
	size_t width;

	if (drawing->lines_left == 0) {
		drawing->hidden++;
		return;
	}
	drawing->lines_left--;
	rp_counter_label(sample, quantile, label, sizeof(label));
	clean = rp_text_clean(label, true);
	width = clean ? rp_text_width(clean) : 0;
	fprintf(drawing->out, "    %s%*s %16s\n", clean ? clean : "?",
		width < LABEL_COLUMNS ? (int)(LABEL_COLUMNS - width) : 0, "",
		rp_counter_format(quantile ? quantile->value : rp_counter_shown(sample), number));
	free(clean);
}

static void draw_row(const struct rp_counter_row *row, void *data)
{
	const struct rp_counter_sample *sample = &row->last;
	struct drawing *drawing = data;

	if (strcmp(drawing->provider, sample->provider) != 0) {
		char *clean = rp_text_clean(sample->provider, true);

		memcpy(drawing->provider, sample->provider, sizeof(sample->provider));
		if (drawing->lines_left > 0) {
			fprintf(drawing->out, "[%s]\n", clean ? clean : "?");
			drawing->lines_left--;
		}
		free(clean);
	}
	if (sample->form != RP_COUNTER_SPREAD)
		draw_line(drawing, sample, NULL);
	for (uint32_t i = 0; i < sample->quantile_count; i++)
		draw_line(drawing, sample, &sample->quantiles[i]);
}

static size_t screen_lines(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row < 4)
		return 24;
	return size.ws_row;
}

/* Return: 0; -errno. */
static int draw(const struct rp_counter_table *table)
{
	struct drawing drawing = { .out = table->out, .lines_left = SIZE_MAX };

	if (table->on_terminal) {
		/*
		 * Reserve three lines: the heading, the line about hidden rows, and the line of the
		 * cursor.
		 */
		drawing.lines_left = screen_lines() - 3;
		fputs("\033[H\033[J", table->out);
	}
	rp_tool_say(table->out, "Process %d (%s)%s", table->target->pid, table->target->name,
		    table->on_terminal ? "    Ctrl-C ends" : "");
	rp_counter_board_walk(table->board, draw_row, &drawing);
	if (drawing.hidden > 0)
		fprintf(table->out, "    … and %zu more; a taller window shows them\n",
			drawing.hidden);
	if (!table->on_terminal)
		putc('\n', table->out);
	return fflush(table->out) != 0 ? -errno : 0;
}

static void *draw_on(void *data)
{
	const struct timespec settle = { .tv_nsec = SETTLE_MS * 1000000L };
	struct rp_counter_table *table = data;
	int error;

	pthread_mutex_lock(&table->lock);
	while (!table->is_over) {
		if (!table->is_dirty) {
			pthread_cond_wait(&table->touched, &table->lock);
			continue;
		}
		pthread_mutex_unlock(&table->lock);
		nanosleep(&settle, NULL);
		pthread_mutex_lock(&table->lock);
		table->is_dirty = false;
		pthread_mutex_unlock(&table->lock);
		error = draw(table);
		pthread_mutex_lock(&table->lock);
		table->error = table->error ? table->error : error;
	}
	pthread_mutex_unlock(&table->lock);
	return NULL;
}

int rp_counter_table_start(struct rp_counter_board *board, const struct rp_target *target,
			   FILE *out, struct rp_counter_table **ret_table)
{
	struct rp_counter_table *table = calloc(1, sizeof(*table));
	int error;

	if (!table)
		return -ENOMEM;
	table->board = board;
	table->target = target;
	table->out = out;
	table->on_terminal = isatty(STDOUT_FILENO);
	pthread_mutex_init(&table->lock, NULL);
	pthread_cond_init(&table->touched, NULL);
	error = pthread_create(&table->thread, NULL, draw_on, table);
	if (error) {
		free(table);
		return -error;
	}
	*ret_table = table;
	return 0;
}

int rp_counter_table_touch(struct rp_counter_table *table)
{
	int error;

	pthread_mutex_lock(&table->lock);
	table->is_dirty = true;
	error = table->error;
	pthread_cond_signal(&table->touched);
	pthread_mutex_unlock(&table->lock);
	return error;
}

int rp_counter_table_stop(struct rp_counter_table *table)
{
	int error;

	if (!table)
		return 0;
	pthread_mutex_lock(&table->lock);
	table->is_over = true;
	pthread_cond_signal(&table->touched);
	pthread_mutex_unlock(&table->lock);
	pthread_join(table->thread, NULL);
	error = table->error;
	if (table->is_dirty && !error)
		error = draw(table);
	pthread_mutex_destroy(&table->lock);
	pthread_cond_destroy(&table->touched);
	free(table);
	return error;
}
