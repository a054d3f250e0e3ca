/* SPDX-License-Identifier: MIT */
#include "tools/analysis/trace_spans.h"

#include <ctype.h>
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <ringpipe/field.h>

#include "base/array.h"
#include "tools/trace/event_names.h"

#define OPCODE_START 1u
#define OPCODE_STOP 2u
#define STATUS_OF_ERRORS 500u		/* as in HTTP */
/* An event examines only this many spans with its id, so that no trace makes it slow. */
#define EXAMINED_MAX 1000u

bool rp_span_has_name(const struct rp_span_name *name, const char *wanted)
{
	const size_t provider = strlen(name->provider);

	return !wanted || !strcmp(wanted, name->name) ||
	       (!strncmp(wanted, name->provider, provider) && wanted[provider] == '/' &&
		!strcmp(wanted + provider + 1, name->name));
}

enum span_role { ROLE_NONE, ROLE_START, ROLE_STOP };

/* How to treat the events of a type. */
struct span_kind {
	const struct rp_reader_type *type;
	struct rp_span_name *name;
	enum span_role named;		/* by the end of the event's name */
};

/* The open spans with one activity id, or, without ids, of one thread. */
struct span_group {
	uint64_t process, thread;	/* thread: 0 if there is an activity id */
	struct rp_guid activity;
	struct rp_open_span *last;	/* the last to start */
};

struct rp_open_span {
	struct rp_trace_span span;
	struct span_group *group;
	struct rp_open_span *before, *after;	/* in the group */
	struct rp_open_span *older, *newer;
	bool is_wanted;
};

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_names(const void *left, const void *right)
{
	const struct rp_span_name *a = left, *b = right;
	const int order = strcmp(a->provider, b->provider);

	return order ? order : strcmp(a->name, b->name);
}

static int compare_kinds(const void *left, const void *right)
{
	const struct span_kind *a = left, *b = right;

	return compare_numbers((uintptr_t)a->type, (uintptr_t)b->type);
}

static int compare_groups(const void *left, const void *right)
{
	const struct span_group *a = left, *b = right;
	int order = memcmp(&a->activity, &b->activity, sizeof(a->activity));

	if (order == 0)
		order = compare_numbers(a->process, b->process);
	return order ? order : compare_numbers(a->thread, b->thread);
}

static bool is_zero(const struct rp_guid *guid)
{
	static const struct rp_guid none;

	return memcmp(guid, &none, sizeof(none)) == 0;
}

/* Return: the length of the name without a version such as _V2 at its end. */
static size_t length_without_version(const char *name)
{
	const size_t length = strlen(name);
	size_t at = length;

	while (at > 0 && isdigit((unsigned char)name[at - 1]))
		at--;
	return at < length && at > 2 && !strncmp(name + at - 2, "_V", 2) ? at - 2 : length;
}

/* Return: what the end of the name says, with the length of the name before it. */
static enum span_role role_of_name(const char *name, size_t *ret_length)
{
	static const struct {
		const char *end;
		enum span_role role;
	} ends[] = {
		{ "start", ROLE_START }, { "begin", ROLE_START },
		{ "stop", ROLE_STOP }, { "end", ROLE_STOP },
	};
	const size_t length = length_without_version(name);

	*ret_length = strlen(name);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const size_t end = strlen(ends[i].end);
		const char *at = name + length - end;

		/* A word of its own: Start, _start or /start, but not "restart". */
		if (length <= end || strncasecmp(at, ends[i].end, end) != 0 ||
		    (islower((unsigned char)*at) && !strchr("_/ .:-", at[-1])))
			continue;
		*ret_length = length - end;
		if (*ret_length > 1 && strchr("_/ .:-", name[*ret_length - 1]))
			--*ret_length;
		return ends[i].role;
	}
	return ROLE_NONE;
}

static struct rp_span_name *add_name(struct rp_trace_spans *spans, const char *provider,
				     const char *name, size_t length)
{
	struct rp_span_name *made = malloc(sizeof(*made)), **found, **grown;

	if (!made)
		return NULL;
	*made = (struct rp_span_name){ strdup(provider), strndup(name, length),
				       spans->name_count };
	if (made->provider && made->name) {
		found = tfind(made, &spans->name_tree, compare_names);
		grown = rp_array_reserve(spans->names, spans->name_count, &spans->name_capacity, 1,
					 sizeof(struct rp_span_name *));
		if (grown)
			spans->names = grown;
		if (!found && grown && tsearch(made, &spans->name_tree, compare_names)) {
			spans->names[spans->name_count++] = made;
			return made;
		}
	} else {
		found = NULL;
	}
	free(made->provider);
	free(made->name);
	free(made);
	return found ? *found : NULL;
}

/* Return: the kind of the event's type; NULL: no memory. */
static struct span_kind *find_kind(struct rp_trace_spans *spans,
				   const struct rp_reader_type *type)
{
	struct span_kind key = { .type = type }, **found, *kind;
	size_t length;

	found = tfind(&key, &spans->kind_tree, compare_kinds);
	if (found)
		return *found;
	key.named = role_of_name(type->name, &length);
	if (!rp_event_is_own(type->provider) && (key.named || type->opcode == OPCODE_START ||
	    type->opcode == OPCODE_STOP)) {
		key.name = add_name(spans, type->provider, type->name, length);
		if (!key.name)
			return NULL;
	}
	kind = malloc(sizeof(*kind));
	if (!kind)
		return NULL;
	*kind = key;
	if (!tsearch(kind, &spans->kind_tree, compare_kinds)) {
		free(kind);
		return NULL;
	}
	return kind;
}

/* An opcode that an event states is better evidence than its name. */
static enum span_role role_of(const struct span_kind *kind, const struct rp_reader_event *event)
{
	if (!kind->name)
		return ROLE_NONE;
	if (event->opcode == OPCODE_START)
		return ROLE_START;
	if (event->opcode == OPCODE_STOP)
		return ROLE_STOP;
	return event->opcode == 0 ? kind->named : ROLE_NONE;
}

static struct span_group key_of(const struct rp_reader_event *event)
{
	return (struct span_group){
		.process = event->process,
		.thread = is_zero(&event->activity) ? event->thread : 0,
		.activity = event->activity,
	};
}

static struct span_group *find_group(const struct rp_trace_spans *spans,
				     const struct rp_reader_event *event)
{
	const struct span_group key = key_of(event);
	struct span_group **found = tfind(&key, &spans->group_tree, compare_groups);

	return found ? *found : NULL;
}

static struct span_group *add_group(struct rp_trace_spans *spans,
				    const struct rp_reader_event *event)
{
	struct span_group *group = find_group(spans, event);

	if (group)
		return group;
	group = malloc(sizeof(*group));
	if (!group)
		return NULL;
	*group = key_of(event);
	if (!tsearch(group, &spans->group_tree, compare_groups)) {
		free(group);
		return NULL;
	}
	return group;
}

static void remove_group_if_empty(struct rp_trace_spans *spans, struct span_group *group)
{
	if (group->last)
		return;
	tdelete(group, &spans->group_tree, compare_groups);
	free(group);
}

static void remove_open(struct rp_trace_spans *spans, struct rp_open_span *open)
{
	*(open->after ? &open->after->before : &open->group->last) = open->before;
	if (open->before)
		open->before->after = open->after;
	remove_group_if_empty(spans, open->group);
	*(open->older ? &open->older->newer : &spans->oldest) = open->newer;
	*(open->newer ? &open->newer->older : &spans->newest) = open->older;
	spans->open_count--;
	spans->open_wanted -= open->is_wanted;
	free(open);
}

static void forget_oldest(struct rp_trace_spans *spans)
{
	if (spans->forgotten)
		spans->forgotten(&spans->oldest->span, spans->data);
	remove_open(spans, spans->oldest);
}

static bool is_wanted(const struct rp_trace_spans *spans, const struct rp_reader_event *event)
{
	return (!spans->range || rp_time_range_has(spans->range, event->time_ns)) &&
	       (!spans->where || rp_expression_matches(spans->where, event, event->process));
}

static int start(struct rp_trace_spans *spans, const struct rp_span_name *name,
		 const struct rp_reader_event *event)
{
	struct rp_open_span *open;
	struct span_group *group;

	if (spans->open_count >= RP_SPANS_OPEN_MAX) {
		forget_oldest(spans);
		spans->dropped++;
	}
	group = add_group(spans, event);
	open = group ? malloc(sizeof(*open)) : NULL;
	if (!open) {
		if (group)
			remove_group_if_empty(spans, group);
		return -ENOMEM;
	}
	*open = (struct rp_open_span){
		.span = {
			.name = name, .process = event->process, .thread = event->thread,
			.start_ns = event->time_ns, .activity = event->activity,
			.parent = event->related_activity, .span_id = event->span_id,
		},
		.group = group, .before = group->last, .older = spans->newest,
		.is_wanted = is_wanted(spans, event),
	};
	memcpy(open->span.trace_id, event->trace_id, sizeof(event->trace_id));
	if (group->last)
		group->last->after = open;
	*(spans->newest ? &spans->newest->newer : &spans->oldest) = open;
	spans->newest = open;
	group->last = open;
	spans->open_count++;
	spans->open_wanted += open->is_wanted;
	return spans->started ? spans->started(&open->span, spans->data) : 0;
}

static bool is_level_of_errors(const struct rp_reader_event *event)
{
	return event->level == RP_LEVEL_CRITICAL || event->level == RP_LEVEL_ERROR;
}

static bool is_error_status(const struct rp_fields *fields, const char *name)
{
	struct rp_value value = RP_VALUE_INIT;

	return rp_fields_find(fields, name, &value) == 0 && value.type >= RP_TYPE_I8 &&
	       value.type <= RP_TYPE_U64 && value.i64 >= (int64_t)STATUS_OF_ERRORS;
}

static bool states_error(const struct rp_reader_event *event)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;
	char first[8];

	rp_reader_get_fields(event, &fields);
	if (is_error_status(&fields, "status") ||
	    is_error_status(&fields, "http_response_status_code"))
		return true;
	if (rp_fields_find(&fields, "error", &value) != 0)
		return false;
	if (value.type == RP_TYPE_STRING || value.type == RP_TYPE_STRING16)
		return rp_value_get_text(&value, first, sizeof(first)) > 0;
	return value.u64 != 0;
}

static int stop(struct rp_trace_spans *spans, const struct rp_span_name *name,
		const struct rp_reader_event *event)
{
	struct span_group *group = find_group(spans, event);
	struct rp_open_span *open = group ? group->last : NULL;
	struct rp_trace_span span;
	bool was_wanted;

	for (unsigned int i = 0; open && open->span.name != name; i++)
		open = i < EXAMINED_MAX ? open->before : NULL;
	if (!open) {
		spans->stops_alone++;
		return 0;
	}
	span = open->span;
	was_wanted = open->is_wanted;
	remove_open(spans, open);
	if (!was_wanted)
		return 0;
	span.stop_thread = event->thread;
	/* A clock may have gone backwards. */
	span.stop_ns = event->time_ns > span.start_ns ? event->time_ns : span.start_ns;
	span.has_error = span.has_error || is_level_of_errors(event) || states_error(event);
	return spans->visit(&span, spans->data);
}

static void mark_errors(struct rp_trace_spans *spans, const struct rp_reader_event *event)
{
	struct span_group *group = find_group(spans, event);

	struct rp_open_span *open = group ? group->last : NULL;

	for (unsigned int i = 0; open && i < EXAMINED_MAX; i++, open = open->before)
		open->span.has_error = true;
}

int rp_trace_spans_take(struct rp_trace_spans *spans, const struct rp_reader_event *event)
{
	const struct span_kind *kind = find_kind(spans, event->type);

	if (!kind)
		return -ENOMEM;
	switch (role_of(kind, event)) {
	case ROLE_START:
		return start(spans, kind->name, event);
	case ROLE_STOP:
		return stop(spans, kind->name, event);
	case ROLE_NONE:
		if (is_level_of_errors(event) && !is_zero(&event->activity))
			mark_errors(spans, event);
	}
	return 0;
}

bool rp_trace_spans_are_complete(const struct rp_trace_spans *spans,
				 const struct rp_reader *reader)
{
	return spans->open_wanted == 0 && rp_trace_index_is_past(reader);
}

int rp_trace_spans_visit_open(const struct rp_trace_spans *spans, int64_t end_ns,
			      rp_span_visit visit, void *data)
{
	int ret = 0;

	for (struct rp_open_span *open = spans->oldest; open && ret == 0; open = open->newer) {
		struct rp_trace_span span = open->span;

		if (!open->is_wanted)
			continue;
		span.stop_thread = span.thread;
		span.stop_ns = end_ns > span.start_ns ? end_ns : span.start_ns;
		ret = visit(&span, data);
	}
	return ret;
}

void rp_trace_spans_forget_open(struct rp_trace_spans *spans)
{
	while (spans->oldest)
		forget_oldest(spans);
}

void rp_trace_spans_fini(struct rp_trace_spans *spans)
{
	rp_trace_spans_forget_open(spans);
	for (size_t i = 0; i < spans->name_count; i++) {
		tdelete(spans->names[i], &spans->name_tree, compare_names);
		free(spans->names[i]->provider);
		free(spans->names[i]->name);
		free(spans->names[i]);
	}
	free(spans->names);
	while (spans->kind_tree) {
		struct span_kind *kind = *(struct span_kind **)spans->kind_tree;

		tdelete(kind, &spans->kind_tree, compare_kinds);
		free(kind);
	}
	*spans = (struct rp_trace_spans){ 0 };
}
