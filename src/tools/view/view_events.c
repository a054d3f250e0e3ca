/* SPDX-License-Identifier: MIT */
/* The answer `events`, for which the file is read again. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/formats/json_out.h"
#include "tools/formats/shown_event.h"
#include "tools/trace/event_expression.h"
#include "tools/trace/event_names.h"
#include "tools/trace/guids.h"
#include "tools/trace/input.h"
#include "tools/trace/json_event.h"
#include "tools/trace/known_fields.h"
#include "tools/view/view_answers.h"

#define EVENTS_MAX 10000u
#define ANSWER_BYTES_MAX (32u << 20)	/* an event may have megabytes of fields */

struct event_search {
	const struct rp_view_question *question;
	struct rp_format_out *out;
	struct rp_expression *where;
	struct rp_processes processes;
	struct rp_json_decoder json;
	struct rp_known_event known;
	uint64_t number;		/* of the event among those that are read, from 1 on */
	uint64_t next;			/* the last event of this answer; 0: there are no more */
	uint32_t found;
};

/* Write a number that the expressions of an offline page know, unless it is 0. */
static void put_number(struct rp_format_out *out, const char *name, uint64_t number)
{
	if (!number)
		return;
	rp_out_text(out, name);
	rp_json_out_u64(out, number);
}

static void put_hex(struct rp_format_out *out, const char *name, uint64_t high, uint64_t low,
		    int digits)
{
	char text[40];

	if (!high && !low)
		return;
	snprintf(text, sizeof(text), "%016" PRIx64 "%016" PRIx64, high, low);
	rp_out_text(out, name);
	rp_view_text(out, text + 32 - digits);
}

/* Write what the table of events does not show, for the expressions of an offline page. */
static void put_details(struct rp_format_out *out, const struct rp_reader_event *event)
{
	uint64_t trace_id[2];
	char related[RP_GUID_TEXT];

	put_number(out, ",\"id\":", event->type->id);
	put_number(out, ",\"version\":", event->event_version);
	put_number(out, ",\"opcode\":", event->opcode);
	put_number(out, ",\"keywords\":", event->keywords);
	if (event->processor != UINT32_MAX) {
		rp_out_text(out, ",\"processor\":");
		rp_json_out_u64(out, event->processor);
	}
	if (*event->thread_name) {
		rp_out_text(out, ",\"thread_name\":");
		rp_view_text(out, event->thread_name);
	}
	if (*rp_guid_text(&event->related_activity, related)) {
		rp_out_text(out, ",\"related_activity\":");
		rp_json_out_guid(out, &event->related_activity);
	}
	memcpy(trace_id, event->trace_id, sizeof(trace_id));
	put_hex(out, ",\"trace_id\":", be64toh(trace_id[0]), be64toh(trace_id[1]), 32);
	put_hex(out, ",\"span_id\":", 0, event->span_id, 16);
}

static void put_event(struct rp_format_out *out, const struct rp_reader_event *event,
		      uint64_t process)
{
	char buffer[RP_SHOWN_NAME], activity[RP_GUID_TEXT];

	rp_out_text(out, "{\"time_ns\":");
	rp_json_out_i64(out, event->time_ns);
	rp_out_text(out, ",\"pid\":");
	rp_json_out_u64(out, process);
	rp_out_text(out, ",\"tid\":");
	rp_json_out_u64(out, event->thread);
	rp_out_text(out, ",\"provider\":");
	rp_view_text(out, event->type->provider);
	rp_out_text(out, ",\"name\":");
	rp_view_text(out, rp_shown_event_name(event->type, buffer));
	rp_out_text(out, ",\"level\":");
	rp_json_out_u64(out, event->level);
	rp_out_text(out, ",\"activity\":");
	if (*rp_guid_text(&event->activity, activity))
		rp_json_out_guid(out, &event->activity);
	else
		rp_out_text(out, "null");
	put_details(out, event);
	rp_out_text(out, ",\"fields\":");
	rp_json_out_fields(out, event);
	rp_out_char(out, '}');
}

/* Return: 0; 1: the answer is full; -ENOMEM. */
static int take_event(struct event_search *search, const struct rp_reader_event *event)
{
	const struct rp_view_question *question = search->question;
	const struct rp_view_query *query = question->query;
	const uint32_t limit = query->limit < EVENTS_MAX ? query->limit : EVENTS_MAX;
	uint64_t process;
	int ret = rp_processes_follow_id(&search->processes, event, &process);

	search->number++;
	if (ret || search->number <= query->after ||
	    (!question->is_whole &&
	     (event->time_ns < question->from || event->time_ns >= question->to)) ||
	    rp_event_is_internal(event->type->provider, event->type->name) ||
	    (query->has_pid && process != query->pid) ||
	    (query->has_tid && event->thread != query->tid) ||
	    (search->where && !rp_expression_matches(search->where, event, process)))
		return ret;
	if (search->found == limit || search->out->used > ANSWER_BYTES_MAX)
		return 1;
	event = rp_json_decode(&search->json, event);
	if (!event)
		return -ENOMEM;
	if (search->found++)
		rp_out_char(search->out, ',');
	put_event(search->out, rp_known_decode(&search->known, event), process);
	search->next = search->number;
	return 0;
}

/* Read only the blocks that may have events for the answer. Return: 0; -ENOMEM. */
static int select_blocks(const struct event_search *search, struct rp_reader *reader)
{
	const struct rp_view_question *question = search->question;
	const struct rp_view_query *query = question->query;
	const struct rp_trace_query wanted = {
		.from_ns = question->is_whole ? INT64_MIN : question->from,
		.to_ns = question->is_whole ? INT64_MAX : question->to,
		.has_descriptions = true, .where = search->where,
		.has_process = query->has_pid, .process = query->pid,
		.has_thread = query->has_tid, .thread = query->tid,
	};

	return question->trace->index ?
	       rp_trace_index_select(question->trace->index, &wanted, reader) : 0;
}

static int read_events(struct event_search *search)
{
	const struct rp_view_trace *trace = search->question->trace;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	/* Only a trace in the order of time has nothing for the range after its end. */
	const bool may_stop = !trace->stats.unordered && !search->question->is_whole &&
			      !trace->is_excerpt;
	struct rp_input input;
	struct rp_reader *reader;
	int ret = rp_input_open(&input, trace->path, search->question->view->signal_fd, &reader);
	bool is_full = false;

	if (ret)
		return ret;
	ret = select_blocks(search, reader);
	while (ret == 0 && (ret = rp_reader_next(reader, &event)) == 1) {
		if (may_stop && event.time_ns >= search->question->to)
			break;
		ret = take_event(search, &event);
		is_full = ret == 1;
	}
	if (!is_full)
		search->next = 0;
	if (search->where)
		rp_expression_forget(search->where);
	rp_json_decoder_fini(&search->json);
	rp_reader_close(reader);
	rp_input_close(&input);
	return ret == -ENOMEM || ret == -ECANCELED ? ret : 0;
}

static enum rp_view_status refuse_expression(struct rp_format_out *out,
					     const struct rp_expression_error *error)
{
	out->used = 0;
	rp_out_text(out, "{\"error\":");
	rp_json_out_text(out, error->message);
	rp_out_text(out, ",\"position\":");
	rp_out_u64(out, error->at);
	rp_out_char(out, '}');
	return RP_VIEW_BAD;
}

enum rp_view_status rp_view_answer_events(const struct rp_view_question *question,
					  struct rp_format_out *out)
{
	struct event_search search = { .question = question, .out = out };
	const char *where = question->query->where;
	struct rp_expression_error error;
	int ret = where && *where ? rp_expression_compile(where, &search.where, &error) : 0;

	if (ret == -EINVAL)
		return refuse_expression(out, &error);
	rp_out_text(out, "{\"events\":[");
	if (ret == 0)
		ret = read_events(&search);
	rp_out_text(out, "],\"next\":");
	if (search.next) {
		rp_out_char(out, '"');
		rp_out_u64(out, search.next);
		rp_out_text(out, "\"}");
	} else {
		rp_out_text(out, "null}");
	}
	rp_expression_destroy(search.where);
	rp_processes_fini(&search.processes);
	return ret ? rp_view_refuse(out, RP_VIEW_FAILED, "The file cannot be read.") : RP_VIEW_OK;
}
