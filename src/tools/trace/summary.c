/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/field.h>

#include "nettrace/reader_repeat.h"
#include "tools/trace/dotnet.h"
#include "tools/trace/event_names.h"
#include "tools/trace/loss_event.h"
#include "tools/trace/machine_clock.h"
#include "tools/trace/summary.h"

static int compare_kinds(const void *left, const void *right)
{
	const struct rp_kind *a = left, *b = right;
	const struct rp_event_key first = { a->provider, a->name, a->id, a->version };
	const struct rp_event_key second = { b->provider, b->name, b->id, b->version };

	return rp_event_key_compare(&first, &second);
}

static int compare_losses(const void *left, const void *right)
{
	const struct rp_loss *a = left, *b = right;
	int order = (a->ring > b->ring) - (a->ring < b->ring);

	return order ? order : strcmp(a->reason, b->reason);
}

static void free_kind(void *node)
{
	struct rp_kind *kind = node;

	free(kind->provider);
	free(kind->name);
	free(kind);
}

static void free_loss(void *node)
{
	struct rp_loss *loss = node;

	free(loss->reason);
	free(loss);
}

/* Appends to an array whose capacity doubles. Return: 0 or -ENOMEM. */
static int append(void ***array, size_t *count, void *item)
{
	/* The array is full at 0 and at each power of two. */
	if ((*count & (*count - 1)) == 0) {
		void **grown = realloc(*array, (*count ? *count * 2 : 1) * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		*array = grown;
	}
	(*array)[(*count)++] = item;
	return 0;
}

static enum rp_kind_role role_of(const struct rp_reader_type *type)
{
	static const char *const names[] = {
		[RP_KIND_SNAPSHOT] = "Snapshot",
		[RP_KIND_COARSE_TIME] = "CoarseTime",
		[RP_KIND_STACKS_CUT] = "StacksCut",
		[RP_KIND_EVENTS_SKIPPED] = "EventsSkipped",
		[RP_KIND_EVENTS_LOST] = "EventsLost",
	};

	if (!strcmp(type->provider, RP_MACHINE_PROVIDER))
		return !strcmp(type->name, RP_MACHINE_EVENT_DESCRIPTION) ? RP_KIND_MACHINE :
									   RP_KIND_PLAIN;
	if (!strcmp(type->provider, "Microsoft-DotNETCore-EventPipe"))
		return !strcmp(type->name, "ProcessInfo") ? RP_KIND_PROCESS_INFO : RP_KIND_PLAIN;
	if (strcmp(type->provider, "ringpipe") != 0)
		return RP_KIND_PLAIN;
	for (unsigned int role = 1; role < sizeof(names) / sizeof(*names); role++)
		if (!strcmp(type->name, names[role]))
			return role;
	return RP_KIND_PLAIN;
}

static struct rp_kind *add_kind(struct rp_summary *summary, const struct rp_reader_type *type)
{
	struct rp_kind key = {
		.provider = (char *)type->provider, .name = (char *)type->name,
		.id = type->id, .version = type->version,
	};
	struct rp_kind **found = tfind(&key, &summary->kind_tree, compare_kinds);
	struct rp_kind *kind;

	if (found)
		return *found;
	kind = malloc(sizeof(*kind));
	if (!kind)
		return NULL;
	*kind = (struct rp_kind){
		.provider = strdup(type->provider), .name = strdup(type->name),
		.id = type->id, .version = type->version, .level = type->level,
		.opcode = type->opcode, .keywords = type->keywords,
		.is_internal = rp_event_is_internal(type->provider, type->name),
		.is_own = rp_event_is_own(type->provider),
		.is_of_machine = strncmp(type->provider, "Universal.", 10) == 0,
		.role = role_of(type),
	};
	kind->is_plain = !kind->role && !kind->is_own && !kind->is_of_machine;
	if (!kind->provider || !kind->name || !tsearch(kind, &summary->kind_tree, compare_kinds)) {
		free_kind(kind);
		return NULL;
	}
	/* If append() fails, the tree still owns the kind. */
	return append((void ***)&summary->kinds, &summary->kind_count, kind) ? NULL : kind;
}

static int add_loss(struct rp_summary *summary, uint32_t ring, char *reason, uint64_t count)
{
	struct rp_loss key = { .ring = ring, .reason = reason };
	struct rp_loss **found = tfind(&key, &summary->loss_tree, compare_losses);
	struct rp_loss *loss;

	if (found) {
		(*found)->count += count;
		return 0;
	}
	loss = malloc(sizeof(*loss));
	if (!loss)
		return -ENOMEM;
	*loss = (struct rp_loss){ .ring = ring, .reason = strdup(reason), .count = count };
	if (!loss->reason || !tsearch(loss, &summary->loss_tree, compare_losses)) {
		free_loss(loss);
		return -ENOMEM;
	}
	return append((void ***)&summary->losses, &summary->loss_count, loss);
}

/* Payloads without the fields are ignored. */
static int read_loss(struct rp_summary *summary, const struct rp_reader_event *event)
{
	struct rp_loss_event loss;

	return rp_loss_event_read(event, &loss) ?
	       add_loss(summary, loss.ring, loss.reason, loss.lost) : 0;
}

/* Payload of Snapshot: u64 from, u64 to, on the clock of the trace's start. */
static void read_window(struct rp_summary *summary, const struct rp_reader_event *event)
{
	const struct rp_reader_field *fields = event->type->fields;

	if (event->type->field_count != 2 || fields[0].type != RP_TYPE_U64 ||
	    fields[1].type != RP_TYPE_U64 || event->payload_bytes != 16)
		return;
	memcpy(&summary->window_from, event->payload, 8);
	memcpy(&summary->window_to, (const char *)event->payload + 8, 8);
}

/* Payload of CoarseTime: u64 step. */
static void read_step(struct rp_summary *summary, const struct rp_reader_event *event)
{
	if (event->type->field_count == 1 && event->type->fields[0].type == RP_TYPE_U64 &&
	    event->payload_bytes == 8)
		memcpy(&summary->step_ns, event->payload, 8);
}

/* Payload of StacksCut: u64 rules, since the last such event. */
static void read_stacks_cut(struct rp_summary *summary, const struct rp_reader_event *event)
{
	uint64_t count;

	if (event->type->field_count != 1 || event->type->fields[0].type != RP_TYPE_U64 ||
	    event->payload_bytes != sizeof(count))
		return;
	memcpy(&count, event->payload, sizeof(count));
	summary->rules_missing += count;
}

/* Payload of EventsSkipped: provider, event, u64 count, since the last one of this event. */
static void read_skipped(struct rp_summary *summary, const struct rp_reader_event *event)
{
	const struct rp_reader_field *fields = event->type->fields;
	uint64_t count;

	if (event->type->field_count != 3 || fields[2].type != RP_TYPE_U64 ||
	    event->payload_bytes < sizeof(count))
		return;
	memcpy(&count, (const char *)event->payload + event->payload_bytes - sizeof(count),
	       sizeof(count));
	summary->skipped += count;
}

static void read_text(const struct rp_reader_event *event, const char *name, char *text,
		      size_t size)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;

	rp_reader_get_fields(event, &fields);
	if (!*text && rp_fields_find(&fields, name, &value) == 0)
		(void)rp_value_get_text(&value, text, size);
}

bool rp_summary_get_window(const struct rp_summary *summary, struct rp_summary_window *ret_window)
{
	uint64_t start = summary->info.start_ticks;

	if (!summary->window_to || summary->window_from < start ||
	    summary->window_to < summary->window_from || summary->window_to - start > INT64_MAX / 2)
		return false;
	ret_window->from_utc_ns = summary->info.start_utc_ns +
				  (int64_t)(summary->window_from - start);
	ret_window->to_utc_ns = summary->info.start_utc_ns + (int64_t)(summary->window_to - start);
	return true;
}

static int count_thread(struct rp_summary *summary, uint64_t thread)
{
	struct rp_thread_slot *slot;
	int ret;

	if (summary->threads && summary->last_thread == thread)
		return 0;
	ret = rp_thread_table_add(&summary->thread_ids, thread, &slot);
	if (ret)
		return ret;
	summary->last_thread = thread;
	summary->threads = summary->thread_ids.count;
	return 0;
}

/* Successive events of a thread mostly belong to one activity. */
static int count_activity(struct rp_summary *summary, const struct rp_guid *activity)
{
	if (!memcmp(activity, &summary->last_activity, sizeof(*activity)))
		return 0;
	summary->last_activity = *activity;
	return rp_guids_add(&summary->activities, activity);
}

/* No writer of 32-bit addresses marks stacks that are cut. */
static bool is_cut(const struct rp_summary *summary, const struct rp_reader_event *event)
{
	uint64_t last;

	if (event->frame_count == 0 || summary->info.pointer_bytes != sizeof(last))
		return false;
	memcpy(&last, (const char *)event->frames + (event->frame_count - 1) * sizeof(last),
	       sizeof(last));
	return last == RP_FRAME_CUT;
}

static int read_payload(struct rp_summary *summary, enum rp_kind_role role,
			const struct rp_reader_event *event)
{
	switch (role) {
	case RP_KIND_PLAIN:
		break;
	case RP_KIND_SNAPSHOT:
		read_window(summary, event);
		break;
	case RP_KIND_COARSE_TIME:
		read_step(summary, event);
		break;
	case RP_KIND_STACKS_CUT:
		read_stacks_cut(summary, event);
		break;
	case RP_KIND_EVENTS_SKIPPED:
		read_skipped(summary, event);
		break;
	case RP_KIND_EVENTS_LOST:
		return read_loss(summary, event);
	case RP_KIND_MACHINE:
		read_text(event, "host", summary->host, sizeof(summary->host));
		break;
	case RP_KIND_PROCESS_INFO:
		read_text(event, "CommandLine", summary->command, sizeof(summary->command));
		break;
	}
	return 0;
}

/* In version 4, events of their own state the processes of threads. */
static uint64_t process_of(const struct rp_summary *summary, const struct rp_reader_event *event)
{
	return summary->process == SIZE_MAX ? event->process :
					      summary->processes.rows[summary->process].pid;
}

static int take_hot(struct rp_summary *summary, const struct rp_reader_event *event)
{
	struct rp_reader_event own = *event;

	own.process = process_of(summary, event);
	return rp_hot_functions_take(&summary->hot, &own);
}

/* Learn from an event what describes the trace. `ret_kind`: the event's kind. */
static int follow_event(struct rp_summary *summary, const struct rp_reader_event *event,
			struct rp_kind **ret_kind)
{
	struct rp_kind *kind = event->type->user;
	int ret = rp_processes_follow(&summary->processes, event, &summary->process);

	if (ret)
		return ret;
	if (!kind) {
		/* Set the name once, for the summary and for each printed event. */
		if (!*event->type->name)
			event->type->name = rp_dotnet_event_name(event->type);
		kind = add_kind(summary, event->type);
		if (!kind)
			return -ENOMEM;
		event->type->user = kind;
	}
	*ret_kind = kind;
	if (kind->is_of_machine && !rp_hot_functions_is_sample(event->type)) {
		ret = take_hot(summary, event);
		if (ret)
			return ret;
	}
	return kind->role ? read_payload(summary, kind->role, event) : 0;
}

static int count_event(struct rp_summary *summary, struct rp_kind *kind,
		       const struct rp_reader_event *event)
{
	int ret = kind->is_own ? 0 : count_thread(summary, event->thread);

	kind->events++;
	kind->payload_bytes += event->payload_bytes;
	summary->stacks += event->frame_count > 0;
	summary->stacks_cut += is_cut(summary, event);
	if (!ret && kind->is_of_machine && rp_hot_functions_is_sample(event->type))
		ret = take_hot(summary, event);
	return ret ? ret : count_activity(summary, &event->activity);
}

/*
 * Count the next events for as long as they repeat the previous one, whose kind was plain: their
 * thread, activity and stack are those of that event. Return: whether `returned` of the reader is
 * an event that is not of a plain kind, and is not counted yet.
 */
static bool count_repeats(struct rp_summary *summary, struct rp_reader *reader)
{
	const struct rp_reader_event *event = &reader->returned;
	struct rp_repeat_run run = rp_repeat_run_begin(reader);
	bool is_other = false;
	int64_t latest_ns;

	while (!is_other && rp_repeat_run_next(&run)) {
		struct rp_kind *kind = run.type->user;

		is_other = !kind || !kind->is_plain;
		if (is_other)
			continue;
		kind->events++;
		kind->payload_bytes += run.repeat.payload_bytes;
	}
	rp_repeat_run_end(&run);
	run.count -= is_other;
	if (run.latest != INT64_MIN) {
		latest_ns = rp_reader_relative_ns(&reader->info, (uint64_t)run.latest +
						  reader->info.start_ticks);
		if (latest_ns > summary->last_ns)
			summary->last_ns = latest_ns;
	}
	if (event->frame_count)
		summary->stacks += run.count;
	if (is_cut(summary, event))
		summary->stacks_cut += run.count;
	if (summary->process != SIZE_MAX)
		summary->processes.rows[summary->process].events += run.count;
	return is_other;
}

static int by_provider(const void *left, const void *right)
{
	const struct rp_kind *a = *(struct rp_kind *const *)left;
	const struct rp_kind *b = *(struct rp_kind *const *)right;
	int order = strcmp(a->provider, b->provider);

	if (!order)
		order = (a->events < b->events) - (a->events > b->events);
	return order ? order : compare_kinds(a, b);
}

static int by_events(const void *left, const void *right)
{
	const struct rp_provider_sum *a = left, *b = right;
	int order = (a->events < b->events) - (a->events > b->events);

	return order ? order : strcmp(a->name, b->name);
}

static int by_ring(const void *left, const void *right)
{
	return compare_losses(*(void *const *)left, *(void *const *)right);
}

/* Kinds of which no event fulfilled the expression. The tree still owns them. */
static void drop_empty_kinds(struct rp_summary *summary)
{
	size_t count = 0;

	for (size_t i = 0; i < summary->kind_count; i++) {
		if (summary->kinds[i]->events)
			summary->kinds[count++] = summary->kinds[i];
	}
	summary->kind_count = count;
}

static int group(struct rp_summary *summary)
{
	struct rp_provider_sum *sum = NULL;

	if (summary->loss_count)
		qsort(summary->losses, summary->loss_count, sizeof(*summary->losses), by_ring);
	drop_empty_kinds(summary);
	if (!summary->kind_count)
		return 0;
	qsort(summary->kinds, summary->kind_count, sizeof(*summary->kinds), by_provider);
	summary->providers = calloc(summary->kind_count, sizeof(*summary->providers));
	if (!summary->providers)
		return -ENOMEM;
	for (size_t i = 0; i < summary->kind_count; i++) {
		struct rp_kind *kind = summary->kinds[i];

		if (!sum || strcmp(sum->name, kind->provider)) {
			sum = &summary->providers[summary->provider_count++];
			sum->name = kind->provider;
			sum->kinds = &summary->kinds[i];
		}
		sum->kind_count++;
		sum->events += kind->events;
		sum->payload_bytes += kind->payload_bytes;
	}
	qsort(summary->providers, summary->provider_count, sizeof(*summary->providers), by_events);
	return 0;
}

int rp_summary_read(struct rp_reader *reader, rp_summary_visit visit, void *data,
		    struct rp_summary *ret_summary)
{
	return rp_summary_read_where(reader, NULL, visit, data, ret_summary);
}

/* rp_processes_follow() has counted the event for its process. */
static bool is_wanted(struct rp_summary *summary, const struct rp_reader *reader,
		      struct rp_expression *where, const struct rp_reader_event *event)
{
	struct rp_process *process = summary->process == SIZE_MAX ? NULL :
				     &summary->processes.rows[summary->process];
	const bool is_wanted = rp_reader_is_inside(reader, event) &&
		(!where || rp_expression_matches(where, event, process_of(summary, event)));

	if (!is_wanted && process)
		process->events--;
	return is_wanted;
}

/* Read all events. `ret_counted`: those that were counted, if not all events are wanted. */
static int read_events(struct rp_summary *summary, struct rp_reader *reader,
		       struct rp_expression *where, rp_summary_visit visit, void *data,
		       uint64_t *ret_counted)
{
	const bool counts_all = !where && !visit && !reader->has_range;
	const struct rp_reader_event *event = &reader->returned;
	struct rp_kind *kind = NULL;
	bool is_read = false;
	int ret;

	while (is_read || (ret = rp_reader_next_ref(reader, &event)) == 1) {
		is_read = false;
		ret = follow_event(summary, event, &kind);
		if (rp_reader_is_inside(reader, event) && event->time_ns > summary->last_ns)
			summary->last_ns = event->time_ns;
		if (!ret && !is_wanted(summary, reader, where, event))
			continue;
		if (!ret)
			ret = count_event(summary, kind, event);
		if (!ret && visit)
			ret = visit(event, data);
		if (ret)
			break;
		++*ret_counted;
		is_read = counts_all && kind->is_plain && count_repeats(summary, reader);
	}
	return ret;
}

int rp_summary_read_where(struct rp_reader *reader, struct rp_expression *where,
			  rp_summary_visit visit, void *data, struct rp_summary *ret_summary)
{
	struct rp_summary *summary = ret_summary;
	uint64_t counted = 0;
	int ret, grouped;

	*summary = (struct rp_summary){
		.info.size = sizeof(summary->info),
		.stats.size = sizeof(summary->stats),
	};
	rp_reader_get_info(reader, &summary->info);
	if (reader->has_range && reader->from_ns > 0)
		summary->from_ns = reader->from_ns;
	summary->hot.pointer_bytes = summary->info.pointer_bytes;
	ret = read_events(summary, reader, where, visit, data, &counted);
	rp_reader_get_stats(reader, &summary->stats);
	if (where || reader->has_range)
		summary->stats.events = counted;
	grouped = group(summary);
	return ret ? ret : grouped;
}

void rp_summary_fini(struct rp_summary *summary)
{
	tdestroy(summary->kind_tree, free_kind);
	tdestroy(summary->loss_tree, free_loss);
	rp_guids_fini(&summary->activities);
	rp_hot_functions_fini(&summary->hot);
	rp_thread_table_fini(&summary->thread_ids);
	free(summary->kinds);
	free(summary->losses);
	free(summary->providers);
	rp_processes_fini(&summary->processes);
}
