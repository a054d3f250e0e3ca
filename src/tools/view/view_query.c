/* SPDX-License-Identifier: MIT */
#include "tools/view/view_query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/tool.h"
#include "tools/view/view_answers.h"
#include "tools/view/view_load.h"
#include "tools/view/view_ranges.h"

#define TEXT_MAX 65536u

void rp_view_query_init(struct rp_view_query *query, const char *what)
{
	*query = (struct rp_view_query){
		.what = what, .bins = 1024, .limit = 200, .points = 1024, .max_ns = UINT64_MAX,
	};
}

/* The page computes times, and may ask for fractions of a nanosecond. */
static int take_time(const char *value, int64_t *ret_ns)
{
	char *end;
	double ns;

	if (!*value || strlen(value) > 40 || strspn(value, "0123456789.-+e") != strlen(value))
		return -EINVAL;
	errno = 0;
	*ret_ns = strtoll(value, &end, 10);
	if (!*end)
		return errno ? -EINVAL : 0;
	ns = strtod(value, &end);
	if (*end || !(ns > -9e18 && ns < 9e18))
		return -EINVAL;
	*ret_ns = (int64_t)ns;
	return 0;
}

static int take_small(const char *value, uint32_t max, uint32_t *ret_number)
{
	uint64_t number;

	if (rp_number_parse(value, max, &number))
		return -EINVAL;
	*ret_number = (uint32_t)number;
	return 0;
}

static int take_kind(const char *value, bool *ret_is_offcpu)
{
	*ret_is_offcpu = !strcmp(value, "offcpu");
	return *ret_is_offcpu || !strcmp(value, "cpu") ? 0 : -EINVAL;
}

static int take_number(struct rp_view_query *query, const char *name, const char *value)
{
	uint32_t *small = !strcmp(name, "trace") ? &query->trace :
			  !strcmp(name, "limit") ? &query->limit :
			  !strcmp(name, "bins") ? &query->bins :
			  !strcmp(name, "points") ? &query->points : NULL;
	uint64_t *large = !strcmp(name, "pid") ? &query->pid :
			  !strcmp(name, "tid") ? &query->tid :
			  !strcmp(name, "min_ns") ? &query->min_ns :
			  !strcmp(name, "max_ns") ? &query->max_ns :
			  !strcmp(name, "after") ? &query->after : NULL;

	query->has_pid |= large == &query->pid;
	query->has_tid |= large == &query->tid;
	if (small)
		return take_small(value, small == &query->bins ? RP_VIEW_BINS_MAX : 100000, small);
	return large && rp_number_parse(value, UINT64_MAX, large) == 0 ? 0 : -EINVAL;
}

int rp_view_query_set(struct rp_view_query *query, const char *name, const char *value)
{
	const char **text = !strcmp(name, "provider") ? &query->provider :
			    !strcmp(name, "span") ? &query->span :
			    !strcmp(name, "name") ? &query->name :
			    !strcmp(name, "where") ? &query->where :
			    !strcmp(name, "q") ? &query->q :
			    !strcmp(name, "key") ? &query->key : NULL;

	if (!value || strlen(value) > TEXT_MAX)
		return -EINVAL;
	if (text) {
		*text = value;
		return 0;
	}
	if (!strcmp(name, "kind"))
		return take_kind(value, &query->is_offcpu);
	if (!strcmp(name, "from")) {
		query->has_from = true;
		return take_time(value, &query->from);
	}
	if (!strcmp(name, "to")) {
		query->has_to = true;
		return take_time(value, &query->to);
	}
	return take_number(query, name, value);
}

static const struct answer {
	const char *what;
	rp_view_answer_function write;
	bool has_span;			/* the key of the query has the range */
	bool has_excerpt;		/* the answer to an excerpt lacks the other events */
} answers[] = {
	{ "timeline", rp_view_answer_timeline, .has_excerpt = true },
	{ "spans", rp_view_answer_spans, .has_excerpt = true },
	{ "instances", rp_view_answer_instances, .has_excerpt = true },
	{ "flame", rp_view_answer_flame, .has_excerpt = true },
	{ "functions", rp_view_answer_functions, .has_excerpt = true },
	{ "counters", rp_view_answer_counters, .has_excerpt = true },
	{ "events", rp_view_answer_events, .has_excerpt = false },
	{ "explain", rp_view_answer_explain, .has_span = true },
	{ "search", rp_view_answer_search, .has_excerpt = true },
};

static void set_range(struct rp_view_question *question)
{
	const struct rp_view_query *query = question->query;
	const int64_t end_ns = question->trace->end_ns;

	question->from = query->has_from && query->from > 0 ? query->from : 0;
	question->to = query->has_to && query->to < end_ns ? query->to : end_ns;
	question->is_whole = question->from == 0 && question->to == end_ns;
}

/* Write an answer, and how much of its range was read. */
static enum rp_view_status write_part(const struct answer *answer,
				      const struct rp_view_question *question,
				      struct rp_format_out *out)
{
	const enum rp_view_status status = answer->write(question, out);

	if (status != RP_VIEW_OK || out->error || !answer->has_excerpt ||
	    !question->trace->is_excerpt)
		return status;
	out->used--;
	rp_out_text(out, ",\"excerpt\":");
	rp_view_put_excerpt(out, question->trace);
	rp_out_char(out, '}');
	return status;
}

/* Answer from the events of the range if only parts of the trace were read. */
static enum rp_view_status write_from_range(const struct answer *answer,
					    struct rp_view_question *question,
					    struct rp_format_out *out)
{
	int64_t from_ns = question->from, to_ns = question->to;
	const bool has_key = answer->has_span && question->query->key &&
			     rp_view_key_range(question->query->key, &from_ns, &to_ns);
	enum rp_view_status status;
	int ret;

	if (!question->trace->is_excerpt || (question->is_whole && !has_key) ||
	    !(answer->has_excerpt || answer->has_span))
		return write_part(answer, question, out);
	ret = rp_view_ranges_get(question->whole, from_ns, to_ns, question->view->signal_fd,
				 &question->trace);
	if (ret)
		return rp_view_refuse(out, RP_VIEW_FAILED, ret == -ENOMEM ?
				      "There is no memory." : "The file cannot be read.");
	status = write_part(answer, question, out);
	rp_view_ranges_put(question->whole);
	return status;
}

static enum rp_view_status write_answer(const struct rp_traces *view,
					const struct rp_view_query *query,
					struct rp_format_out *out)
{
	struct rp_view_question question = { .view = view, .query = query };
	enum rp_view_status status = RP_VIEW_OK;
	const struct answer *answer = NULL;

	if (!strcmp(query->what, "load"))
		rp_view_load_start(view->load);
	if (!strcmp(query->what, "load") || !strcmp(query->what, "traces")) {
		rp_view_answer_traces(view, out);
		return out->error ? RP_VIEW_FAILED : RP_VIEW_OK;
	}
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		if (!strcmp(answers[i].what, query->what))
			answer = &answers[i];
	}
	if (!answer)
		return rp_view_refuse(out, RP_VIEW_NOT_FOUND, "There is no such answer.");
	if (query->trace >= view->count)
		return rp_view_refuse(out, RP_VIEW_NOT_FOUND, "There is no such trace.");
	question.trace = question.whole = &view->traces[query->trace];
	set_range(&question);
	if (question.to <= question.from)
		return rp_view_refuse(out, RP_VIEW_BAD, "The range is empty.");
	status = write_from_range(answer, &question, out);
	return out->error ? RP_VIEW_FAILED : status;
}

enum rp_view_status rp_view_answer(const struct rp_traces *view, const struct rp_view_query *query,
				   struct rp_format_out *out)
{
	enum rp_view_status status;

	pthread_rwlock_rdlock(view->lock);
	status = write_answer(view, query, out);
	pthread_rwlock_unlock(view->lock);
	return status;
}
