/* SPDX-License-Identifier: MIT */
/*
 * The data of a declaration, and their registration with the library. The layouts are ABI between a
 * program that was compiled earlier and a later version of the library: structs grow only at the
 * end, and `size` states their length.
 */
#ifndef RINGPIPE_DETAIL_LAYOUT_H
#define RINGPIPE_DETAIL_LAYOUT_H

#include <stdbool.h>
#include <string.h>

#include <ringpipe/detail/data.h>
#include <ringpipe/types.h>

#ifdef __cplusplus
#define RP_ASSERT_ static_assert
#define RP_NULL_ nullptr
#else
#define RP_ASSERT_ _Static_assert
#define RP_NULL_ NULL
#endif
/* Consumes the semicolon after a macro. It declares nothing and is valid in any namespace. */
#define RP_SEMICOLON_ RP_ASSERT_(1, "")

RP_ASSERT_(sizeof(void *) == 8, "ringpipe knows 64-bit machines only");

#define RP_FIELDS_MAX 128u	/* of a dynamic event; a declared event has up to 32 */

struct rp_provider;

/* A declared provider. The library sets and uses `core`. */
struct rp_provider_decl {
	uint32_t size;
	uint32_t reserved;
	const char *name;
	struct rp_provider *core;
};

#define RP_PROVIDER_DECL_SIZE_V1 RP_SIZE_THROUGH_(struct rp_provider_decl, core)

/* The constant part of an event. */
struct rp_event_decl {
	uint32_t size;
	uint32_t id;
	struct rp_provider_decl *provider;
	const char *name;
	const char *message;		/* or NULL */
	const struct rp_field *fields;
	uint64_t keywords;
	uint16_t field_count;
	uint8_t version;
	uint8_t level;
	uint8_t opcode;
	uint8_t flags;			/* enum rp_event_flags */
	uint16_t reserved;
	uint32_t one_in;		/* write the first of each `one_in`; 0: all */
	uint32_t per_second;		/* the most to write in a second; 0: all */
};

#define RP_EVENT_DECL_SIZE_V1 RP_SIZE_THROUGH_(struct rp_event_decl, reserved)
#define RP_EVENT_DECL_INIT RP_INIT_(struct rp_event_decl)

enum rp_event_flags {
	RP_EVENT_NO_STACK = 1,		/* never capture a stack for this event */
	RP_EVENT_STATE = 2,		/* overwriting sessions keep it: RP_STATE_EVENT */
	RP_EVENT_WIRE = 4,		/* the payload has the layout of nettrace: RP_RAW_EVENT */
};

/*
 * An event in one executable or shared object. `enable` is the enable word, which is not 0 while a
 * session or tracer wants the event. Bits 0-39 are for sessions, bits 40-46 for exporters, and bits
 * 48-63 are the kernel's USDT semaphore, which only the kernel writes.
 */
struct rp_event {
	uint64_t enable;
	uint32_t index;			/* index of the definition in the library */
	uint32_t flags;			/* enum rp_event_flags, once registered */
	const struct rp_event_decl *decl;
	void *core;
};

struct rp_observation;

/* The constant part of a counter; see counter.h. */
struct rp_counter_decl {
	uint32_t size;
	uint8_t kind;			/* enum rp_counter_kind */
	uint8_t reserved[3];		/* 0 */
	struct rp_provider_decl *provider;	/* of a declared counter */
	const char *name;
	const char *unit;		/* or NULL */
	const char *display_name;	/* or NULL */
	const char *metadata;		/* "key:value,key2:value2", or NULL */
	int (*observe)(struct rp_observation *observation, void *data);
	void *data;
	uint32_t rate_seconds;		/* clients show the rate per this time; 0: 1 */
	uint32_t reserved2;		/* 0 */
};

#define RP_COUNTER_DECL_SIZE_V1 RP_SIZE_THROUGH_(struct rp_counter_decl, reserved2)
#define RP_COUNTER_DECL_INIT RP_INIT_(struct rp_counter_decl)

/* A counter in one executable or shared object, or a series of a counter. */
struct rp_counter {
	char *cells;			/* address in the first processor's row; NULL: none yet */
	uint32_t kind;
	uint32_t reserved;
	uint64_t early;			/* the value counted while `cells` is NULL */
	const struct rp_counter_decl *decl;
	void *core;
};

/*
 * A call site with a static key. `site` is the distance to the site, and `event` the distance to
 * its enable word, each from the member itself. Distances need no relocation by the loader.
 */
struct rp_key {
	int32_t site;
	int32_t event;
};

/* The declarations that one executable or shared object uses. */
struct rp_object {
	uint32_t size;
	uint32_t registered;
	struct rp_event **events, **events_end;
	struct rp_provider_decl **providers, **providers_end;
	struct rp_counter **counters, **counters_end;
	const struct rp_key *keys, *keys_end;
};

#define RP_OBJECT_SIZE_V1 RP_SIZE_THROUGH_(struct rp_object, keys_end)

RP_BEGIN_DECLS
RP_PUBLIC void rp_object_register(struct rp_object *object);
RP_PUBLIC void rp_object_unregister(struct rp_object *object);
/*
 * Write an event whose payload has up to 32 bytes and a fixed size. The words contain the payload
 * in memory order; bytes after the payload are zero. The contract is that of rp_event_write().
 */
RP_PUBLIC int rp_event_write_regs(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
				  struct rp_event *event, size_t bytes);

/* The linker defines these symbols at the start and the end of each object's own tables. */
extern struct rp_event *__start_rp_events[] __attribute__((weak, visibility("hidden")));
extern struct rp_event *__stop_rp_events[] __attribute__((weak, visibility("hidden")));
extern struct rp_provider_decl *__start_rp_providers[] __attribute__((weak, visibility("hidden")));
extern struct rp_provider_decl *__stop_rp_providers[] __attribute__((weak, visibility("hidden")));
extern struct rp_counter *__start_rp_counters[] __attribute__((weak, visibility("hidden")));
extern struct rp_counter *__stop_rp_counters[] __attribute__((weak, visibility("hidden")));
extern const struct rp_key __start_rp_keys[] __attribute__((weak, visibility("hidden")));
extern const struct rp_key __stop_rp_keys[] __attribute__((weak, visibility("hidden")));

extern struct rp_object rp_object_ __attribute__((visibility("hidden")));
RP_END_DECLS

RP_OUT_OF_LINE_ void rp_object_constructor_(void)
{
	rp_object_.events = __start_rp_events;
	rp_object_.events_end = __stop_rp_events;
	rp_object_.providers = __start_rp_providers;
	rp_object_.providers_end = __stop_rp_providers;
	rp_object_.counters = __start_rp_counters;
	rp_object_.counters_end = __stop_rp_counters;
	rp_object_.keys = __start_rp_keys;
	rp_object_.keys_end = __stop_rp_keys;
	rp_object_register(&rp_object_);
}

RP_OUT_OF_LINE_ void rp_object_destructor_(void)
{
	rp_object_unregister(&rp_object_);
}

/* data.h emits these structs byte by byte. */
RP_ASSERT_(sizeof(struct rp_provider_decl) == 24 && RP_EVENT_DECL_SIZE_V1 == 56 &&
	   sizeof(struct rp_event_decl) == 64 &&
	   sizeof(struct rp_event) == 32 && sizeof(struct rp_field) == 32 &&
	   sizeof(struct rp_counter_decl) == 72 && sizeof(struct rp_counter) == 40,
	   "a struct grew, and what data.h writes did not");

RP_INLINE_ void rp_object_data_(void)
{
	RP_OBJECT_DATA_(rp_object_constructor_, rp_object_destructor_);
}

#endif
