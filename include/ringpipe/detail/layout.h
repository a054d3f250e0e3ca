/* SPDX-License-Identifier: MIT */
/*
 * The data of a declaration, and their registration with the library. The layouts are ABI between
 * an object compiled today and the library of tomorrow: structs grow at the end, and `size` says
 * how far.
 */
#ifndef RINGPIPE_DETAIL_LAYOUT_H
#define RINGPIPE_DETAIL_LAYOUT_H

#include <stdbool.h>
#include <string.h>

#include <ringpipe/detail/data.h>
#include <ringpipe/types.h>

#ifdef __cplusplus
#include <uchar.h>
typedef char16_t rp_char16;
#define RP_ASSERT_ static_assert
#define RP_NULL_ nullptr
#define RP_CAST_(type, value) static_cast<type>(value)
#else
typedef uint_least16_t rp_char16;
#define RP_ASSERT_ _Static_assert
#define RP_NULL_ NULL
#define RP_CAST_(type, value) ((type)(value))
#endif
/* Takes the semicolon behind a macro, and declares nothing, in whichever namespace it stands. */
#define RP_SEMICOLON_ RP_ASSERT_(1, "")

RP_ASSERT_(sizeof(void *) == 8, "ringpipe knows 64-bit machines only");

#define RP_FIELDS_MAX 128u	/* of a dynamic event; a declared one has up to 32 */

struct rp_provider;

/* A declared provider. `core` is the library's. */
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
	uint32_t one_in;		/* write one in so many; 0: all */
	uint32_t per_second;		/* and at most so many in a second; 0: all */
};

#define RP_EVENT_DECL_SIZE_V1 RP_SIZE_THROUGH_(struct rp_event_decl, reserved)
#define RP_EVENT_DECL_INIT RP_INIT_(struct rp_event_decl)

enum rp_event_flags {
	RP_EVENT_NO_STACK = 1,		/* never capture a stack for this one */
	RP_EVENT_STATE = 2,		/* sessions that overwrite keep it: RP_STATE_EVENT */
};

/*
 * An event in one object. `enable` is the whole question "does anyone want this": bits 0-39
 * sessions, 40-46 exporters, 48-63 the kernel's USDT semaphore, which only the kernel writes.
 */
struct rp_event {
	uint64_t enable;
	uint32_t index;			/* the library's number for it */
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
	struct rp_provider_decl *provider;	/* of a declared one */
	const char *name;
	const char *unit;		/* or NULL */
	const char *display_name;	/* or NULL */
	const char *metadata;		/* "key:value,key2:value2", or NULL */
	int (*observe)(struct rp_observation *observation, void *data);
	void *data;
	uint32_t rate_seconds;		/* the rate a client shows: per so many seconds; 0: 1 */
	uint32_t reserved2;		/* 0 */
};

#define RP_COUNTER_DECL_SIZE_V1 RP_SIZE_THROUGH_(struct rp_counter_decl, reserved2)
#define RP_COUNTER_DECL_INIT RP_INIT_(struct rp_counter_decl)

/* A counter in one object, or a series of one. */
struct rp_counter {
	char *cells;			/* its place in the first processor's row; NULL: none yet */
	uint32_t kind;
	uint32_t reserved;
	uint64_t early;			/* counted without cells */
	const struct rp_counter_decl *decl;
	void *core;
};

/*
 * A site with a static key: where it is and whose enable word it stands for, each as the distance
 * from here. The loader has nothing to do for it.
 */
struct rp_key {
	int32_t site;
	int32_t event;
};

/* Everything declared in one executable or shared object. */
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
 * As rp_event_write(), of a payload of up to 32 bytes, in words as memory has them; what is behind
 * it in the last is zero.
 */
RP_PUBLIC int rp_event_write_regs(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
				  struct rp_event *event, size_t bytes);

/* The linker makes these at the ends of each object's own tables. */
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

/* The layouts that data.h writes by the byte. */
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
