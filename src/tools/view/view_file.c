/* SPDX-License-Identifier: MIT */
#include "tools/view/view_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/formats/json_out.h"
#include "tools/view/view_answers.h"
#include "tools/view/view_page.h"

#define ANSWERS_BYTES_MAX (64u << 20)
#define PARTS_MAX 16u			/* of the whole trace */
#define EXPLAINED_MAX 200u		/* spans; the file is read for each of them */
#define SLOWEST_OF_NAME 10u
#define MARK "<!--recorded-->"

/* The page looks an answer up by its parameters, sorted by name. */
struct recording_of_view {
	const struct rp_traces *view;
	struct rp_format_out answers, answer, key;
	bool is_full, has_answers;
};

static bool is_unreserved(char c)
{
	return isalnum((unsigned char)c) || strchr("-_.!~*'()", c);
}

/* Append a parameter, as encodeURIComponent() writes it. */
static void put_parameter(struct rp_format_out *key, const char *name, const char *value)
{
	rp_out_char(key, memchr(key->buffer, '?', key->used) ? '&' : '?');
	rp_out_text(key, name);
	rp_out_char(key, '=');
	for (; *value; value++) {
		if (isascii((unsigned char)*value) && is_unreserved(*value)) {
			rp_out_char(key, *value);
			continue;
		}
		snprintf(rp_out_reserve(key, 4) ? key->buffer + key->used : (char[4]){ 0 }, 4,
			 "%%%02X", (unsigned int)(unsigned char)*value);
		key->used += key->error ? 0 : 3;
	}
}

/* Record one answer. `parameters` are pairs, sorted by name; a NULL value is left out. */
static int record(struct recording_of_view *recording, const char *what,
		  const char *const (*parameters)[2], size_t count)
{
	struct pollfd signalled = { .fd = recording->view->signal_fd, .events = POLLIN };
	struct rp_view_query query;

	if (poll(&signalled, 1, 0) > 0)
		return -ECANCELED;
	if (recording->is_full)
		return 0;
	recording->answer.used = recording->key.used = 0;
	rp_view_query_init(&query, what);
	rp_out_text(&recording->key, what);
	for (size_t i = 0; i < count; i++) {
		if (!parameters[i][1])
			continue;
		put_parameter(&recording->key, parameters[i][0], parameters[i][1]);
		if (rp_view_query_set(&query, parameters[i][0], parameters[i][1]) < 0)
			return -EINVAL;
	}
	if (rp_view_answer(recording->view, &query, &recording->answer) != RP_VIEW_OK)
		return recording->answer.error;
	if (recording->answers.used + recording->answer.used > ANSWERS_BYTES_MAX) {
		recording->is_full = true;
		return 0;
	}
	if (recording->has_answers)
		rp_out_char(&recording->answers, ',');
	recording->has_answers = true;
	rp_json_out_utf8(&recording->answers, (const uint8_t *)recording->key.buffer,
			 recording->key.used);
	rp_out_char(&recording->answers, ':');
	rp_out_bytes(&recording->answers, recording->answer.buffer, recording->answer.used);
	return recording->answers.error;
}

static int record_flames(struct recording_of_view *recording, const char *trace, const char *from,
			 const char *to, const struct rp_span_name *name)
{
	static const char *const kinds[] = { "cpu", "offcpu" };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < 2; i++)
		ret = record(recording, "flame", (const char *const[][2]){
			{ "from", from }, { "kind", kinds[i] },
			{ "provider", name ? name->provider : NULL },
			{ "span", name ? name->name : NULL }, { "to", to }, { "trace", trace },
		}, 6);
	return ret;
}

/* Record what the panes show of one range. */
static int record_range(struct recording_of_view *recording, size_t index, int64_t from_ns,
			int64_t to_ns)
{
	const struct rp_view_trace *trace = &recording->view->traces[index];
	char number[32], from[32], to[32];
	int ret;

	snprintf(number, sizeof(number), "%zu", index);
	snprintf(from, sizeof(from), "%" PRId64, from_ns);
	snprintf(to, sizeof(to), "%" PRId64, to_ns);
	ret = record(recording, "spans", (const char *const[][2]){
		{ "from", from }, { "to", to }, { "trace", number } }, 3);
	if (ret == 0)
		ret = record(recording, "timeline", (const char *const[][2]){
			{ "bins", "1024" }, { "from", from }, { "to", to }, { "trace", number },
		}, 4);
	if (ret == 0)
		ret = record(recording, "counters", (const char *const[][2]){
			{ "from", from }, { "points", "1024" }, { "to", to }, { "trace", number },
		}, 4);
	for (int i = 0; ret == 0 && i < 2; i++)
		ret = record(recording, "functions", (const char *const[][2]){
			{ "from", from }, { "kind", i ? "offcpu" : "cpu" }, { "to", to },
			{ "trace", number },
		}, 4);
	if (ret == 0)
		ret = record_flames(recording, number, from, to, NULL);
	for (size_t i = 0; ret == 0 && i < trace->spans.name_count; i++)
		ret = record_flames(recording, number, from, to, trace->spans.names[i]);
	return ret ? ret : record(recording, "events", (const char *const[][2]){
		{ "from", from }, { "limit", "2000" }, { "to", to }, { "trace", number } }, 4);
}

/* Explain the slowest spans of each name. */
static int record_explanations(struct recording_of_view *recording, size_t index)
{
	const struct rp_view_trace *trace = &recording->view->traces[index];
	struct rp_slowest_spans slowest;
	struct rp_format_out key;
	char number[32];
	int ret = rp_out_init(&key, NULL);
	unsigned int explained = 0;

	snprintf(number, sizeof(number), "%zu", index);
	for (size_t name = 0; ret == 0 && name < trace->spans.name_count; name++) {
		ret = rp_slowest_spans_init(&slowest, SLOWEST_OF_NAME);
		for (size_t i = 0; ret == 0 && i < trace->span_count; i++) {
			const struct rp_view_span *span = &trace->all_spans[i];

			if (span->name == name)
				rp_slowest_spans_add(&slowest, &(struct rp_trace_span){
					.start_ns = span->start_ns,
					.stop_ns = span->start_ns + (int64_t)span->duration_ns,
					.user = (void *)span,
				});
		}
		for (size_t i = 0; ret == 0 && i < slowest.count && explained < EXPLAINED_MAX;
		     i++, explained++) {
			key.used = 0;
			rp_view_put_key(&key, trace, slowest.spans[i].user);
			/* The key is text in quotes. */
			if (key.error || !key.used)
				ret = -ENOMEM;
			else
				key.buffer[key.used - 1] = '\0';
			if (ret == 0)
				ret = record(recording, "explain", (const char *const[][2]){
					{ "key", key.buffer + 1 }, { "trace", number } }, 2);
		}
		rp_slowest_spans_fini(&slowest);
	}
	rp_out_fini(&key);
	return ret;
}

/* Coarse ranges come first, because the finer ones are left out if there are too many bytes. */
static int record_all(struct recording_of_view *recording, struct rp_format_out *ranges)
{
	bool is_first = true;
	int ret = record(recording, "traces", NULL, 0);

	for (unsigned int parts = 1; ret == 0 && parts <= PARTS_MAX; parts *= 2) {
		for (size_t i = 0; i < recording->view->count; i++) {
			const int64_t end = recording->view->traces[i].end_ns;

			for (unsigned int part = 0; ret == 0 && part < parts; part++) {
				const int64_t from = (int64_t)((__int128)end * part / parts);
				const int64_t to = (int64_t)((__int128)end * (part + 1) / parts);

				if (from >= to || recording->is_full)
					continue;
				ret = record_range(recording, i, from, to);
				rp_view_comma(ranges, &is_first);
				rp_out_char(ranges, '[');
				rp_json_out_i64(ranges, from);
				rp_out_char(ranges, ',');
				rp_json_out_i64(ranges, to);
				rp_out_char(ranges, ']');
			}
			if (ret == 0 && parts == 1)
				ret = record_explanations(recording, i);
		}
	}
	return ret;
}

static int write_page(FILE *file, struct recording_of_view *recording,
		      const struct rp_format_out *ranges)
{
	const char *page = (const char *)rp_view_page;
	const char *mark = memmem(page, rp_view_page_bytes, MARK, strlen(MARK));
	const char *rest = mark ? mark + strlen(MARK) : page;

	if (!mark)
		return -EINVAL;
	fwrite(page, 1, (size_t)(mark - page), file);
	fputs("<script type=\"application/json\" id=\"recorded\">{\"ranges\":[", file);
	fwrite(ranges->buffer, 1, ranges->used, file);
	fputs("],\"answers\":{", file);
	fwrite(recording->answers.buffer, 1, recording->answers.used, file);
	fputs("}}</script>", file);
	fwrite(rest, 1, rp_view_page_bytes - (size_t)(rest - page), file);
	errno = EIO;
	return fflush(file) != 0 || ferror(file) || fsync(fileno(file)) < 0 ? -errno : 0;
}

/* Write a temporary file next to `path`, and rename it to `path`. */
static int write_file(const char *path, bool force, struct recording_of_view *recording,
		      const struct rp_format_out *ranges)
{
	char *part = NULL;
	FILE *file;
	int ret, fd;

	if (asprintf(&part, "%s.XXXXXX", path) < 0)
		return -ENOMEM;
	fd = mkostemp(part, O_CLOEXEC);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file) {
		ret = -errno;
		if (fd >= 0)
			close(fd);
	} else {
		ret = write_page(file, recording, ranges);
		if (fclose(file) != 0 && ret == 0)
			ret = -errno;
	}
	/* The trace may contain secrets, so the file stays readable for its owner alone. */
	if (ret == 0 && force ? rename(part, path) : ret == 0 ? link(part, path) : 0)
		ret = -errno;
	if (fd >= 0 && (ret || !force))
		unlink(part);
	free(part);
	return ret;
}

int rp_view_file_write(const struct rp_traces *view, const struct rp_tool_options *options)
{
	struct recording_of_view recording = { .view = view };
	struct rp_format_out ranges = { 0 };
	int ret = rp_out_init(&recording.answers, NULL);

	if (ret == 0)
		ret = rp_out_init(&recording.answer, NULL);
	if (ret == 0)
		ret = rp_out_init(&recording.key, NULL);
	if (ret == 0)
		ret = rp_out_init(&ranges, NULL);
	if (ret == 0)
		ret = record_all(&recording, &ranges);
	if (ret == 0)
		ret = write_file(options->html, options->given & RP_OPTION_FORCE, &recording,
				 &ranges);
	if (ret == 0 && recording.is_full)
		rp_tool_error("view: %s has less detail in short ranges, so that it stays below "
			      "64 MB", options->html);
	else if (ret < 0 && ret != -ECANCELED)
		rp_tool_error("view: cannot write %s: %s", options->html, strerror(-ret));
	rp_out_fini(&ranges);
	rp_out_fini(&recording.key);
	rp_out_fini(&recording.answer);
	rp_out_fini(&recording.answers);
	return ret == 0 ? RP_EXIT_OK : ret == -ECANCELED ? RP_EXIT_GAVE_UP : RP_EXIT_FAILURE;
}
