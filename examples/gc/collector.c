/* SPDX-License-Identifier: MIT */
/*
 * Boehm's garbage collector as a component. It links libgc and not ringpipe.
 *
 * Each event is written by the callback that libgc calls at that moment. The collector's lock is
 * held then, and between SUSPEND and RESTART all other registered threads are stopped, perhaps
 * inside malloc(3). Writing an event needs no lock and no memory.
 */
#define GC_THREADS
#include <gc/gc.h>

#include "gc_contract.h"

extern RP_PUBLIC const struct gc_functions gc_functions;
RP_PUBLIC int rp_component_start(const struct rp_component_host *host,
				 struct rp_component *component);

static struct rp_component_state state;
static struct gc_events events;
static GC_word first;			/* the count of libgc before the first collection */
static uint32_t collection;		/* the present one, from 1 */
/* libgc calls back on the thread that collects. */
static __thread bool is_requested;

#define FIRE(event, ...) \
	RP_COMPONENT_FIRE(&state, &events, event, RP_COMPONENT_DEFAULT, RP_LEVEL_INFORMATIONAL, \
			  GC_KEYWORD, ##__VA_ARGS__)
#define FIRE_DYNAMIC(provider, name, ...) \
	RP_COMPONENT_FIRE_DYNAMIC(&state, provider, RP_LEVEL_INFORMATIONAL, GC_KEYWORD, name, \
				  __VA_ARGS__)

static void on_collection(GC_EventType type)
{
	switch (type) {
	case GC_EVENT_PRE_STOP_WORLD:
		collection = (uint32_t)(GC_get_gc_no() - first) + 1;
		FIRE(suspend_begin, collection);
		break;
	case GC_EVENT_POST_STOP_WORLD:
		FIRE(suspend_end);
		break;
	case GC_EVENT_MARK_START:
		FIRE(start, collection, is_requested);
		break;
	case GC_EVENT_MARK_END:
		/* The threads may continue now; libgc sweeps while they run. */
		FIRE(end, collection);
		FIRE(heap_size, GC_get_heap_size());
		break;
	case GC_EVENT_PRE_START_WORLD:
		FIRE(restart_begin);
		break;
	case GC_EVENT_POST_START_WORLD:
		FIRE(restart_end);
		break;
	case GC_EVENT_RECLAIM_START:
		FIRE_DYNAMIC(RP_COMPONENT_PRIVATE, "ReclaimStarted",
			     RP_COMPONENT_FIELD("collection", collection));
		break;
	case GC_EVENT_RECLAIM_END:
		FIRE_DYNAMIC(RP_COMPONENT_PRIVATE, "ReclaimEnded",
			     RP_COMPONENT_FIELD("collection", collection),
			     RP_COMPONENT_FIELD("free_bytes", (uint64_t)GC_get_free_bytes()));
		break;
	default:
		break;
	}
}

static void on_heap_resize(GC_word heap_bytes)
{
	FIRE_DYNAMIC(RP_COMPONENT_DEFAULT, "HeapResized",
		     RP_COMPONENT_FIELD("heap_bytes", (uint64_t)heap_bytes),
		     RP_COMPONENT_FIELD("collections", (uint64_t)(GC_get_gc_no() - first)));
}

static void init(void)
{
	GC_INIT();
	GC_allow_register_threads();
	first = GC_get_gc_no();
	GC_set_on_collection_event(on_collection);
	GC_set_on_heap_resize(on_heap_resize);
}

static int add_thread(void)
{
	struct GC_stack_base base;

	if (GC_get_stack_base(&base) != GC_SUCCESS)
		return -1;
	return GC_register_my_thread(&base) == GC_SUCCESS ? 0 : -1;
}

static void remove_thread(void)
{
	(void)GC_unregister_my_thread();
}

static void *allocate(size_t bytes)
{
	return GC_malloc(bytes);
}

static void collect(void)
{
	is_requested = true;
	GC_gcollect();
	is_requested = false;
}

static uint64_t collections(void)
{
	return GC_get_gc_no() - first;
}

static void stop(void *data)
{
	(void)data;
	GC_set_on_collection_event(0);
	GC_set_on_heap_resize(0);
}

const struct gc_functions gc_functions = {
	.size = sizeof(gc_functions),
	.init = init,
	.add_thread = add_thread,
	.remove_thread = remove_thread,
	.allocate = allocate,
	.collect = collect,
	.collections = collections,
};

int rp_component_start(const struct rp_component_host *host, struct rp_component *component)
{
	int ret = rp_component_init(&state, host, &events, sizeof(events), component);

	if (ret == 0)
		component->stop = stop;
	return ret;
}
