/* SPDX-License-Identifier: MIT */
/*
 * Stands in for the library: checks what an object registers. The other file is in the same object,
 * or with DATA_SHARED in a library.
 */
#include "data.h"

#include <stdio.h>
#include <string.h>

#define OBJECTS_MAX 2u

#ifdef DATA_SHARED
#define OBJECTS 2u
#else
#define OBJECTS 1u
#endif

static struct rp_object *objects[OBJECTS_MAX];
/* Volatile: clang runs a constructor while it compiles, where nothing speaks against that. */
static volatile unsigned int object_count, too_many, registered_early;
static const void *volatile used;
static int failures;

#define check(condition) \
	do { \
		if (!(condition)) { \
			printf("line %d: %s\n", __LINE__, #condition); \
			failures++; \
		} \
	} while (0)

#ifdef __cplusplus
extern "C" {
#endif

RP_PUBLIC void rp_object_register(struct rp_object *object)
{
	if (object_count < OBJECTS) {
		objects[object_count] = object;
		object_count = object_count + 1;
	} else {
		too_many = too_many + 1;
	}
}

RP_PUBLIC void rp_object_unregister(struct rp_object *object)
{
	(void)object;
}

RP_PUBLIC int rp_event_write(struct rp_event *event, const struct rp_part *parts,
			     unsigned int part_count)
{
	(void)parts, (void)part_count;
	used = event;
	return 1;
}

RP_PUBLIC int rp_event_write_regs(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
				  struct rp_event *event, size_t bytes)
{
	(void)a, (void)b, (void)c, (void)d, (void)bytes;
	used = event;
	return 1;
}

RP_PUBLIC int rp_counter_add(struct rp_counter *counter, int64_t by)
{
	(void)by;
	used = counter;
	return 0;
}

RP_PUBLIC int rp_counter_record(struct rp_counter *counter, double value)
{
	(void)value;
	used = counter;
	return 0;
}

#ifdef __cplusplus
}
#endif

/* The program's own constructor: its object has to be registered by then. */
__attribute__((constructor)) static void early(void)
{
	registered_early = object_count;
}

void data_look_here(struct data_seen *ret_seen)
{
	data_sum_add(1);
	data_spread_record(1.5);
	ret_seen->written = call_both() + data_here(1);
	ret_seen->both = &data_both_event_;
	ret_seen->bare = &data_bare_event_;
	ret_seen->sum = data_sum_counter();
	ret_seen->asked = NULL;
}

/* Return: the only event of this name in the object, NULL for none and for several. */
static struct rp_event *event_of(const struct rp_object *object, const char *name)
{
	struct rp_event *found = NULL;

	for (struct rp_event **entry = object->events; entry < object->events_end; entry++) {
		if (strcmp((*entry)->decl->name, name) != 0)
			continue;
		if (found)
			return NULL;
		found = *entry;
	}
	return found;
}

static struct rp_counter *counter_of(const struct rp_object *object, const char *name)
{
	struct rp_counter *found = NULL;

	for (struct rp_counter **entry = object->counters; entry < object->counters_end; entry++) {
		if (strcmp((*entry)->decl->name, name) != 0)
			continue;
		if (found)
			return NULL;
		found = *entry;
	}
	return found;
}

static unsigned int providers_of(const struct rp_object *object, const char *name)
{
	unsigned int count = 0;

	for (struct rp_provider_decl **entry = object->providers; entry < object->providers_end;
	     entry++)
		count += strcmp((*entry)->name, name) == 0;
	return count;
}

static void check_field(const struct rp_field *field, const char *name, int type, int element,
			uint32_t flags, unsigned int members)
{
	check(strcmp(field->name, name) == 0);
	check(field->type == type && field->element == element && field->flags == flags);
	check(field->member_count == members && !field->members == !members);
	if (members) {
		check(strcmp(field->members[1].name, "y") == 0);
		check(field->members[1].type == RP_TYPE_I64);
	}
}

static void check_both(const struct rp_object *object)
{
	const struct rp_event *event = event_of(object, "both");
	const struct rp_event_decl *decl;
	const struct rp_field *fields;

	check(event);
	if (!event)
		return;
	check((uintptr_t)event % 32 == 0 && event->index == 0 && event->flags == 0 && !event->core);
	decl = event->decl;
	check(decl->size == RP_EVENT_DECL_SIZE_V1 && decl->id == 1 && decl->version == 2);
	check(decl->level == RP_LEVEL_ERROR && decl->opcode == 42 && decl->flags == 0);
	check(decl->keywords == 0x8000000180000001ull && decl->reserved == 0);
	check(strcmp(decl->message, "{0}% of \"them\"") == 0);
	check(strcmp(decl->provider->name, "Test-\"Data\" 100% {}") == 0);
	check(decl->provider->size == sizeof(*decl->provider) && !decl->provider->core);
	check(decl->field_count == 5);
	fields = decl->fields;
	check_field(&fields[0], "name", RP_TYPE_STRING, 0, RP_FIELD_SECRET, 0);
	check_field(&fields[1], "point", RP_TYPE_STRUCT, 0, 0, 2);
	check_field(&fields[2], "list", RP_TYPE_ARRAY, RP_TYPE_U16, 0, 0);
	check_field(&fields[3], "points", RP_TYPE_ARRAY, RP_TYPE_STRUCT, 0, 2);
	check_field(&fields[4], "shade", RP_TYPE_I32, 0, 0, 0);
	check(fields[4].enumeration && fields[4].enumeration->count == 2 && !fields[0].enumeration);
	check(strcmp(fields[4].enumeration->enumerators[1].name, "DATA_LIGHT") == 0);
}

static void check_others(const struct rp_object *object, int has_here, int has_there)
{
	const struct rp_event *bare = event_of(object, "bare"), *here = event_of(object, "here");
	const struct rp_counter *sum = counter_of(object, "sum");

	check(bare && !bare->decl->fields && bare->decl->field_count == 0 && !bare->decl->message);
	check(bare && bare->decl->flags == RP_EVENT_STATE && bare->decl->id == 65534);
	check(!here == !has_here && !event_of(object, "there") == !has_there);
	check(!here || here->decl->keywords == 0xffffffff);
	check(!event_of(object, "asked") == !has_there);
	check(object->events_end - object->events == 2 + has_here + 2 * has_there);
	check(sum && sum->decl->size == sizeof(*sum->decl) && sum->kind == RP_COUNTER_SUM);
	check(sum && !sum->cells && !sum->early && !sum->core && !sum->decl->observe);
	check(sum && strcmp(sum->decl->unit, "{sum}") == 0);
	check(sum && strcmp(sum->decl->display_name, "All \"of\" it") == 0);
	check(!counter_of(object, "spread") == !has_here);
	check(object->counters_end - object->counters == 1 + has_here);
	check(providers_of(object, "Test-\"Data\" 100% {}") == 1);
	check(providers_of(object, "Test-Data-Asked") == (unsigned int)has_there);
	check(object->providers_end - object->providers == 1 + has_there);
}

/* A file's words are those of its own object's table. */
static void check_words(const struct data_seen *seen, const struct rp_object *object)
{
	check(seen->both == event_of(object, "both"));
	check(seen->bare == event_of(object, "bare"));
	check(seen->sum == counter_of(object, "sum"));
}

static void set_all(uint64_t word)
{
	for (unsigned int i = 0; i < object_count; i++) {
		for (struct rp_event **entry = objects[i]->events; entry < objects[i]->events_end;
		     entry++)
			(*entry)->enable = word;
	}
}

int main(void)
{
	struct rp_object *here, *there;
	struct data_seen in_one, in_two;

	check(object_count == OBJECTS && !too_many && registered_early == OBJECTS);
	if (object_count != OBJECTS)
		return 1;
	there = objects[0];	/* a library is loaded before its program starts */
	here = objects[OBJECTS - 1];
	check(here->size == sizeof(*here));
	check_both(here);
	check_both(there);
	check_others(here, 1, OBJECTS == 1);
	if (OBJECTS == 2)
		check_others(there, 0, 1);
	data_look_here(&in_one);
	data_look_there(&in_two);
	check(in_one.written == 0 && in_two.written == 0);
	check_words(&in_one, here);
	check_words(&in_two, there);
	set_all(1);
	data_look_here(&in_one);
	data_look_there(&in_two);
	check(in_one.written == 3 && in_two.written == 4);
	return failures != 0;
}
