/* SPDX-License-Identifier: MIT */
/*
 * The answer `explain`, for which the file is read again: by its index, only the blocks of the time
 * that is explained.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/analysis/explain_print.h"
#include "tools/analysis/explanation.h"
#include "tools/formats/json_out.h"
#include "tools/view/view_answers.h"

/* Write the text as a list of its lines. */
static void put_lines(struct rp_format_out *out, char *text)
{
	bool is_first = true;

	for (char *line = text, *end; *line; line = end + (end[0] != '\0')) {
		end = strchrnul(line, '\n');
		rp_view_comma(out, &is_first);
		rp_json_out_utf8(out, (const uint8_t *)line, (size_t)(end - line));
	}
}

static int put_words(struct rp_format_out *out, const struct rp_trace_span *span,
		     const struct rp_explanation *explanation)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	int status;

	if (!stream)
		return -ENOMEM;
	status = rp_explain_print_text(span, explanation->results,
				       explanation->holder_count ? explanation->holder_intervals :
								   NULL, stream);
	if (fclose(stream) == 0 && status == RP_EXIT_OK)
		put_lines(out, text);
	else
		status = -ENOMEM;
	free(text);
	return status ? -ENOMEM : 0;
}

static void put_parts(struct rp_format_out *out, const struct rp_thread_interval *interval)
{
	enum rp_time_part parts[RP_TIME_PART_COUNT];
	const size_t count = rp_explain_sort_parts(interval, parts);

	for (size_t i = 0; i < count; i++) {
		char *detail = rp_explain_describe(interval, parts[i]);

		rp_out_text(out, i ? ",{\"part\":" : "{\"part\":");
		rp_view_text(out, rp_time_part_key(parts[i]));
		rp_out_text(out, ",\"ns\":");
		rp_json_out_u64(out, interval->parts_ns[parts[i]]);
		rp_out_text(out, ",\"detail\":");
		rp_view_text(out, detail);
		rp_out_char(out, '}');
		free(detail);
	}
}

static int put_explanation(struct rp_format_out *out, const struct rp_view_trace *trace,
			   const struct rp_view_span *instance, const struct rp_trace_span *span,
			   const struct rp_explanation *explanation)
{
	char doubts[RP_EXPLAIN_DOUBTS][RP_EXPLAIN_DOUBT_BYTES];
	const size_t count = rp_explain_doubts(&explanation->time, doubts);
	int ret;

	rp_out_text(out, "{\"instance\":");
	if (instance)
		rp_view_put_instance(out, trace, instance);
	else
		rp_out_text(out, "null");
	rp_out_text(out, ",\"words\":[");
	ret = put_words(out, span, explanation);
	rp_out_text(out, "],\"parts\":[");
	put_parts(out, explanation->results);
	rp_out_text(out, "],\"missing\":[");
	for (size_t i = 0; i < count; i++) {
		if (i)
			rp_out_char(out, ',');
		rp_view_text(out, doubts[i]);
	}
	rp_out_text(out, "]}");
	return ret;
}

/* Return: the process of the query's thread; false: the trace has no such thread. */
static bool find_process(const struct rp_view_question *question, uint64_t *ret_process)
{
	for (size_t i = 0; i < question->trace->thread_count; i++) {
		if (rp_view_wants_thread(question->query, question->trace->threads[i])) {
			*ret_process = question->trace->threads[i]->process;
			return true;
		}
	}
	return false;
}

enum rp_view_status rp_view_answer_explain(const struct rp_view_question *question,
					   struct rp_format_out *out)
{
	const struct rp_view_trace *trace = question->trace;
	const struct rp_view_query *query = question->query;
	const struct rp_view_span *instance = query->key ? rp_view_find_span(trace, query->key) :
					      NULL;
	struct rp_thread_interval interval = {
		.thread = query->tid, .from_ns = question->from, .to_ns = question->to,
	};
	struct rp_trace_span span;
	struct rp_explanation explanation = {
		.path = trace->path, .signal_fd = question->view->signal_fd,
		.pointer_bytes = trace->info.pointer_bytes, .symbols = &trace->cpu.symbols,
		.index = trace->index, .kinds = &question->whole->recorded,
		.interval = &interval,
	};
	int ret;

	if (query->key && !instance)
		return rp_view_refuse(out, RP_VIEW_NOT_FOUND, trace->is_excerpt ?
				      "The events that were read do not have the span. Read the "
				      "whole trace." : "There is no such span.");
	if (!query->key && (!query->has_tid || !find_process(question, &interval.process)))
		return rp_view_refuse(out, RP_VIEW_NOT_FOUND, "There is no such thread.");
	if (instance) {
		span = (struct rp_trace_span){
			.name = trace->spans.names[instance->name], .process = instance->process,
			.thread = instance->tid, .stop_thread = instance->stop_tid,
			.start_ns = instance->start_ns,
			.stop_ns = instance->start_ns + (int64_t)instance->duration_ns,
			.activity = instance->activity, .parent = instance->parent,
			.span_id = instance->span_id, .has_error = instance->has_error,
		};
		memcpy(span.trace_id, instance->trace_id, sizeof(span.trace_id));
		explanation.spans = &span;
		explanation.span_count = 1;
	}
	ret = rp_explanation_divide(&explanation);
	if (ret == 0)
		ret = put_explanation(out, trace, instance, instance ? &span : NULL, &explanation);
	rp_explanation_fini(&explanation);
	return ret ? rp_view_refuse(out, RP_VIEW_FAILED, "The file cannot be read.") : RP_VIEW_OK;
}
