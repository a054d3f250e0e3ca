/* SPDX-License-Identifier: MIT */
#include "tools/formats/span_tracks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "tools/trace/system_event.h"
#include "tools/trace/trace_merge.h"

#define SLOTS_MIN 64u
#define THREAD_NAME_EVENT (RP_TRACE_MERGE_END + 1)
/* The most open spans of one id that a search examines, so that no trace makes it slow. */
#define EXAMINED_MAX 1000u

struct rp_open_track_span {
	struct rp_thread_track *track;
	struct rp_open_track_span *below, *above;	/* on the track's stack, if it nests */
	struct rp_open_track_span *next, **link;	/* in the slot of its activity id */
	struct rp_guid activity;
	int64_t start_ns;
	void *user;
	bool nests;
	uint32_t text_bytes;
	char text[];
};

static uint64_t mix(uint64_t a, uint64_t b)
{
	a = (a ^ (b << 32 | b >> 32)) * 0x9e3779b97f4a7c15u;
	return a ^ a >> 29;
}

static bool is_zero(const struct rp_guid *guid)
{
	static const struct rp_guid none;

	return memcmp(guid, &none, sizeof(none)) == 0;
}

static uint64_t hash_of_guid(const struct rp_guid *guid)
{
	uint64_t low, high;

	memcpy(&low, guid->bytes, sizeof(low));
	memcpy(&high, guid->bytes + sizeof(low), sizeof(high));
	return mix(low * 0xbf58476d1ce4e5b9u, high);
}

/* Replace a name by a copy. Return: 1: it is new; 0: it is the same; -ENOMEM. */
static int set_name(char **name, const char *given)
{
	char *copy;

	if (*name && !strcmp(*name, given))
		return 0;
	copy = strdup(given);
	if (!copy)
		return -ENOMEM;
	free(*name);
	*name = copy;
	return 1;
}

static int grow_threads(struct rp_span_tracks *tracks)
{
	const size_t slots = tracks->thread_slots ? 2 * tracks->thread_slots : SLOTS_MIN;
	struct rp_thread_track **grown = calloc(slots, sizeof(struct rp_thread_track *));

	if (!grown)
		return -ENOMEM;
	for (size_t i = 0; i < tracks->thread_slots; i++) {
		for (struct rp_thread_track *track = tracks->threads[i], *next; track;
		     track = next) {
			const uint64_t slot = mix(track->process, track->thread) & (slots - 1);

			next = track->next;
			track->next = grown[slot];
			grown[slot] = track;
		}
	}
	free(tracks->threads);
	tracks->threads = grown;
	tracks->thread_slots = slots;
	return 0;
}

static int grow_processes(struct rp_span_tracks *tracks)
{
	const size_t slots = tracks->process_slot_count ? 2 * tracks->process_slot_count :
							  SLOTS_MIN;
	struct rp_process_track **grown = calloc(slots, sizeof(struct rp_process_track *));

	if (!grown)
		return -ENOMEM;
	for (size_t i = 0; i < tracks->process_slot_count; i++) {
		for (struct rp_process_track *row = tracks->process_slots[i], *next; row;
		     row = next) {
			const uint64_t slot = mix(row->process, 0) & (slots - 1);

			next = row->next;
			row->next = grown[slot];
			grown[slot] = row;
		}
	}
	free(tracks->process_slots);
	tracks->process_slots = grown;
	tracks->process_slot_count = slots;
	return 0;
}

static struct rp_open_track_span *reverse(struct rp_open_track_span *open)
{
	struct rp_open_track_span *reversed = NULL;

	while (open) {
		struct rp_open_track_span *next = open->next;

		open->next = reversed;
		reversed = open;
		open = next;
	}
	return reversed;
}

static int grow_activities(struct rp_span_tracks *tracks)
{
	const size_t slots = tracks->activity_slots ? 2 * tracks->activity_slots : SLOTS_MIN;
	struct rp_open_track_span **grown = calloc(slots, sizeof(struct rp_open_track_span *));

	if (!grown)
		return -ENOMEM;
	for (size_t i = 0; i < tracks->activity_slots; i++) {
		/* The youngest span of an id stays the first. */
		for (struct rp_open_track_span *open = reverse(tracks->activities[i]), *next; open;
		     open = next) {
			struct rp_open_track_span **slot =
				&grown[hash_of_guid(&open->activity) & (slots - 1)];

			next = open->next;
			open->next = *slot;
			open->link = slot;
			if (*slot)
				(*slot)->link = &open->next;
			*slot = open;
		}
	}
	free(tracks->activities);
	tracks->activities = grown;
	tracks->activity_slots = slots;
	return 0;
}

/* Return: 0 with the process, which the format has announced; -errno. */
static int find_process(struct rp_span_tracks *tracks, uint64_t process,
			struct rp_process_track **ret_row)
{
	struct rp_process_track *row = NULL, **slot;

	if (tracks->process_slot_count)
		row = tracks->process_slots[mix(process, 0) & (tracks->process_slot_count - 1)];
	while (row && row->process != process)
		row = row->next;
	*ret_row = row;
	if (row)
		return 0;
	if (tracks->process_count >= tracks->process_slot_count && grow_processes(tracks) < 0)
		return -ENOMEM;
	row = calloc(1, sizeof(*row));
	if (!row)
		return -ENOMEM;
	slot = &tracks->process_slots[mix(process, 0) & (tracks->process_slot_count - 1)];
	row->process = process;
	row->number = tracks->process_count + 1;
	row->next = *slot;
	*slot = row;
	tracks->process_count++;
	*ret_row = row;
	return tracks->calls->process(row, tracks->data);
}

static int name_process(struct rp_span_tracks *tracks, uint64_t process, const char *name)
{
	struct rp_process_track *row;
	int ret = find_process(tracks, process, &row);

	if (ret == 0 && *name)
		ret = set_name(&row->name, name);
	return ret == 1 ? tracks->calls->process(row, tracks->data) : ret;
}

static int add_thread(struct rp_span_tracks *tracks, uint64_t process, uint64_t thread,
		      struct rp_thread_track **ret_track)
{
	struct rp_process_track *row;
	struct rp_thread_track *track, **slot;
	int ret = find_process(tracks, process, &row);

	if (ret < 0)
		return ret;
	if (tracks->thread_count >= tracks->thread_slots && grow_threads(tracks) < 0)
		return -ENOMEM;
	track = calloc(1, sizeof(*track));
	if (!track)
		return -ENOMEM;
	slot = &tracks->threads[mix(process, thread) & (tracks->thread_slots - 1)];
	*track = (struct rp_thread_track){
		.process = process, .thread = thread, .number = ++tracks->thread_count,
		.owner = row,
		.next = *slot,
	};
	*slot = track;
	*ret_track = track;
	return tracks->calls->thread(track, tracks->data);
}

static int find_thread(struct rp_span_tracks *tracks, uint64_t process, uint64_t thread,
		       struct rp_thread_track **ret_track)
{
	struct rp_thread_track *track = tracks->last;

	if (!track || track->thread != thread || track->process != process) {
		track = tracks->thread_slots ?
			tracks->threads[mix(process, thread) & (tracks->thread_slots - 1)] : NULL;
		while (track && (track->thread != thread || track->process != process))
			track = track->next;
	}
	if (!track) {
		int ret = add_thread(tracks, process, thread, &track);

		if (ret < 0)
			return ret;
	}
	*ret_track = tracks->last = track;
	return 0;
}

static int name_thread(struct rp_span_tracks *tracks, struct rp_thread_track *track,
		       const char *name)
{
	int ret = *name ? set_name(&track->name, name) : 0;

	return ret == 1 ? tracks->calls->thread(track, tracks->data) : ret;
}

/* Version 4 states the names of threads by events of their own. */
static int take_thread_name(struct rp_span_tracks *tracks, const struct rp_reader_event *event,
			    uint64_t process)
{
	struct rp_value thread = RP_VALUE_INIT, name = RP_VALUE_INIT;
	struct rp_thread_track *track;
	struct rp_fields fields;
	char text[256];
	int ret;

	rp_reader_get_fields(event, &fields);
	if (rp_fields_find(&fields, "thread", &thread) != 0 ||
	    rp_fields_find(&fields, "name", &name) != 0)
		return 0;
	rp_value_get_text(&name, text, sizeof(text));
	ret = find_thread(tracks, process, thread.u64, &track);
	return ret ? ret : name_thread(tracks, track, text);
}

static int take_system_event(struct rp_span_tracks *tracks, const struct rp_reader_event *event)
{
	const uint8_t *bytes = event->payload;
	struct rp_cursor payload = { bytes, bytes + event->payload_bytes };
	char *name;
	int ret;

	rp_system_take_number(&payload);
	name = rp_system_take_text(&payload);
	if (!name)
		return 0;
	ret = name_process(tracks, event->process, name);
	free(name);
	return ret;
}

/* Learn the names that the event states, and find its process. */
static int take_names(struct rp_span_tracks *tracks, const struct rp_reader_event *event,
		      uint64_t *ret_process)
{
	const struct rp_reader_type *type = event->type;
	int ret = rp_processes_follow_id(&tracks->processes, event, ret_process);

	while (ret == 0 && tracks->processes_seen < tracks->processes.count) {
		const struct rp_process *row = &tracks->processes.rows[tracks->processes_seen++];

		ret = name_process(tracks, row->pid, row->name);
	}
	if (ret == 0 && type->id == THREAD_NAME_EVENT &&
	    !strcmp(type->provider, RP_TRACE_MERGE_PROVIDER))
		ret = take_thread_name(tracks, event, *ret_process);
	if (ret == 0 && type->id <= RP_SYSTEM_PROCESS_CREATE && rp_system_is_event(event))
		ret = take_system_event(tracks, event);
	return ret;
}

static void push(const struct rp_span_tracks *tracks, struct rp_open_track_span *open)
{
	struct rp_thread_track *track = open->track;

	if ((track->has_times && open->start_ns < track->latest_ns) ||
	    (tracks->starts_differ && track->top && track->top->start_ns == open->start_ns))
		return;
	track->has_times = true;
	track->latest_ns = open->start_ns;
	open->nests = true;
	open->below = track->top;
	if (track->top)
		track->top->above = open;
	track->top = open;
}

static void remove_from_track(struct rp_open_track_span *open)
{
	if (!open->nests)
		return;
	*(open->above ? &open->above->below : &open->track->top) = open->below;
	if (open->below)
		open->below->above = open->above;
}

static int add_activity(struct rp_span_tracks *tracks, struct rp_open_track_span *open)
{
	struct rp_open_track_span **slot;

	if (is_zero(&open->activity))
		return 0;
	if (tracks->activity_count >= tracks->activity_slots && grow_activities(tracks) < 0)
		return -ENOMEM;
	slot = &tracks->activities[hash_of_guid(&open->activity) & (tracks->activity_slots - 1)];
	open->next = *slot;
	open->link = slot;
	if (*slot)
		(*slot)->link = &open->next;
	*slot = open;
	tracks->activity_count++;
	return 0;
}

static void forget(struct rp_span_tracks *tracks, struct rp_open_track_span *open)
{
	remove_from_track(open);
	if (open->user)
		tracks->calls->release(open->user, tracks->data);
	if (open->link) {
		*open->link = open->next;
		if (open->next)
			open->next->link = open->link;
		tracks->activity_count--;
	}
	tracks->text_bytes -= open->text_bytes;
	free(open);
}

/* Return: the youngest open span with the id; NULL: there is none, or it is zero. */
static struct rp_open_track_span *find_open(const struct rp_span_tracks *tracks,
					    const struct rp_guid *activity)
{
	struct rp_open_track_span *open;

	if (is_zero(activity) || !tracks->activity_slots)
		return NULL;
	open = tracks->activities[hash_of_guid(activity) & (tracks->activity_slots - 1)];
	for (unsigned int i = 0; open && memcmp(&open->activity, activity, sizeof(*activity)) != 0;
	     i++)
		open = i < EXAMINED_MAX ? open->next : NULL;
	return open;
}

void *rp_span_tracks_find(const struct rp_span_tracks *tracks, const struct rp_guid *activity)
{
	const struct rp_open_track_span *open = find_open(tracks, activity);

	return open ? open->user : NULL;
}

void *rp_span_tracks_innermost(const struct rp_span_tracks *tracks)
{
	return tracks->track->top ? tracks->track->top->user : NULL;
}

static int follow_parent(struct rp_span_tracks *tracks, const struct rp_guid *parent)
{
	const struct rp_open_track_span *open = find_open(tracks, parent);
	struct rp_track_flow flow;

	if (!open || open->track == tracks->track)
		return 0;
	flow = (struct rp_track_flow){
		.number = ++tracks->flow_count, .time_ns = tracks->event->time_ns,
		.from = open->track, .to = tracks->track,
	};
	return tracks->calls->flow ? tracks->calls->flow(&flow, tracks->data) : 0;
}

static int start(struct rp_trace_span *span, void *data)
{
	struct rp_span_tracks *tracks = data;
	struct rp_open_track_span *open;
	const char *text = NULL;
	size_t bytes = 0;
	int ret = follow_parent(tracks, &span->parent);

	if (ret == 0)
		ret = tracks->calls->start(tracks->event, &text, &bytes, tracks->data);
	if (ret < 0)
		return ret;
	/* The event itself is then written now, so that nothing of it is lost. */
	if (bytes > RP_TRACK_TEXTS_MAX - tracks->text_bytes) {
		bytes = 0;
		ret = tracks->calls->instant(tracks->event, tracks->track, tracks->data);
	}
	open = ret < 0 ? NULL : malloc(sizeof(*open) + bytes);
	if (!open)
		return ret < 0 ? ret : -ENOMEM;
	*open = (struct rp_open_track_span){
		.track = tracks->track, .activity = span->activity, .start_ns = span->start_ns,
		.text_bytes = (uint32_t)bytes, .user = tracks->user,
	};
	tracks->user = NULL;
	if (bytes)
		memcpy(open->text, text, bytes);
	tracks->text_bytes += bytes;
	tracks->is_taken = true;
	span->user = open;
	push(tracks, open);
	return add_activity(tracks, open);
}

static int pass(struct rp_span_tracks *tracks, const struct rp_trace_span *span, bool nests,
		const struct rp_reader_event *stop)
{
	const struct rp_open_track_span *open = span->user;
	const struct rp_track_span passed = {
		.span = span, .stop = stop, .track = open->track, .nests = nests,
		.text = open->text_bytes ? open->text : NULL, .text_bytes = open->text_bytes,
		.user = open->user,
	};

	return tracks->calls->span(&passed, tracks->data);
}

/* Too many spans are open: write the dropped span like those that never stop. */
static void forgotten(const struct rp_trace_span *span, void *data)
{
	struct rp_span_tracks *tracks = data;
	struct rp_trace_span dropped = *span;
	int ret = 0;

	if (!span->user)
		return;
	dropped.stop_thread = span->thread;
	dropped.stop_ns = tracks->latest_ns > span->start_ns ? tracks->latest_ns : span->start_ns;
	if (!tracks->is_ending)
		ret = pass(tracks, &dropped, false, NULL);
	if (ret < 0)
		tracks->dropped_error = ret;
	forget(tracks, span->user);
}

static int stopped(const struct rp_trace_span *span, void *data)
{
	struct rp_span_tracks *tracks = data;
	struct rp_open_track_span *open = span->user;
	struct rp_thread_track *track = open->track;
	const int64_t time_ns = tracks->event->time_ns;
	const bool nests = open->nests && track->top == open && track == tracks->track &&
			   time_ns >= track->latest_ns;
	int ret;

	tracks->is_taken = true;
	if (nests)
		track->latest_ns = time_ns;
	ret = pass(tracks, span, nests, tracks->event);
	forget(tracks, open);
	return ret;
}

static int never_stopped(const struct rp_trace_span *span, void *data)
{
	struct rp_span_tracks *tracks = data;
	const struct rp_open_track_span *open = span->user;

	/* All of them end with the trace, so those of one thread nest. */
	return pass(tracks, span, open->nests, NULL);
}

void rp_span_tracks_init(struct rp_span_tracks *tracks, const struct rp_track_calls *calls,
			 void *data)
{
	*tracks = (struct rp_span_tracks){
		.calls = calls, .data = data,
		.spans = { .visit = stopped, .started = start, .forgotten = forgotten,
			   .data = tracks },
	};
}

int rp_span_tracks_take(struct rp_span_tracks *tracks, const struct rp_reader_event *event)
{
	uint64_t process;
	int ret = take_names(tracks, event, &process);

	if (ret == 0)
		ret = find_thread(tracks, process, event->thread, &tracks->track);
	if (ret == 0)
		ret = name_thread(tracks, tracks->track, event->thread_name);
	if (ret < 0)
		return ret;
	if (!tracks->has_events || event->time_ns > tracks->latest_ns)
		tracks->latest_ns = event->time_ns;
	tracks->has_events = true;
	tracks->event = event;
	tracks->is_taken = false;
	ret = rp_trace_spans_take(&tracks->spans, event);
	if (ret == 0)
		ret = tracks->dropped_error;
	if (ret == 0 && !tracks->is_taken)
		ret = tracks->calls->instant(event, tracks->track, tracks->data);
	return ret;
}

int rp_span_tracks_end(struct rp_span_tracks *tracks)
{
	return rp_trace_spans_visit_open(&tracks->spans, tracks->latest_ns, never_stopped, tracks);
}

void rp_span_tracks_fini(struct rp_span_tracks *tracks)
{
	tracks->is_ending = true;
	if (tracks->user)
		tracks->calls->release(tracks->user, tracks->data);
	rp_trace_spans_fini(&tracks->spans);
	for (size_t i = 0; i < tracks->thread_slots; i++) {
		for (struct rp_thread_track *track = tracks->threads[i], *next; track;
		     track = next) {
			next = track->next;
			free(track->name);
			free(track);
		}
	}
	for (size_t i = 0; i < tracks->process_slot_count; i++) {
		for (struct rp_process_track *row = tracks->process_slots[i], *next; row;
		     row = next) {
			next = row->next;
			free(row->name);
			free(row);
		}
	}
	free(tracks->threads);
	free(tracks->process_slots);
	free(tracks->activities);
	rp_processes_fini(&tracks->processes);
	*tracks = (struct rp_span_tracks){ 0 };
}
