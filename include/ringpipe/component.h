/* SPDX-License-Identifier: MIT */
/*
 * Events of a component: a library that a program loads, that does not link ringpipe, and that
 * writes events through the program. The program, its *host*, links ringpipe and attaches the
 * component (component_host.h). A component may be built and shipped apart from its host: the
 * structs here have a `size` and can grow, and each side accepts an older and a newer other side.
 *
 * This header needs no library. It is the contract of both sides, with inline helpers for the
 * component:
 *
 *	static struct rp_component_state state;
 *	static struct cache_events events;	(the contract between this host and this component)
 *
 *	int rp_component_start(const struct rp_component_host *host, struct rp_component *component)
 *	{
 *		return rp_component_init(&state, host, &events, sizeof(events), component);
 *	}
 *
 *	RP_COMPONENT_FIRE(&state, &events, evicted, RP_COMPONENT_DEFAULT, RP_LEVEL_INFORMATIONAL,
 *			  CACHE_KEYWORD, key, age_ms);
 *	RP_COMPONENT_FIRE_DYNAMIC(&state, RP_COMPONENT_DEFAULT, RP_LEVEL_VERBOSE, CACHE_KEYWORD,
 *				  "CacheResized", RP_COMPONENT_FIELD("bytes", bytes));
 *
 * A component has two kinds of events. A *known* event is a function in a table that the host
 * fills, so the host can add values that the component does not know. A *dynamic* event has a name
 * and a payload, and the host knows neither. doc/components.md describes both sides.
 */
#ifndef RINGPIPE_COMPONENT_H
#define RINGPIPE_COMPONENT_H

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <ringpipe/detail/map.h>
#include <ringpipe/types.h>

RP_BEGIN_DECLS

/* The providers of a component. A host may give both roles, or only the first. */
enum rp_component_provider {
	RP_COMPONENT_DEFAULT = 0,
	RP_COMPONENT_PRIVATE = 1,	/* events for the component's own developers */
};

#define RP_COMPONENT_PROVIDERS 2

/*
 * The host, as a component sees it. The host keeps the struct until the component has stopped. A
 * component copies it with rp_component_init().
 */
struct rp_component_host {
	uint32_t size;
	uint32_t reserved;
	void *context;		/* the first argument of fire_dynamic() */
	void *data;		/* the first argument of the host's functions in `events` */
	/*
	 * The functions for known events, or NULL. The struct is a contract between this host and
	 * this component. Its first member is `uint32_t size`, and its functions are after the
	 * first 8 bytes. A function may be NULL.
	 */
	const void *events;
	/*
	 * Write a dynamic event. The host copies the arguments.
	 * @provider: enum rp_component_provider.
	 * @level: enum rp_level.
	 * @name: UTF-8, up to RP_NAME_MAX bytes; a longer name is cut.
	 * @payload, @payload_bytes: any bytes. RP_COMPONENT_FIRE_DYNAMIC makes payloads that
	 * describe themselves.
	 *
	 * Context: any thread, any signal handler, even while all other threads are stopped. Does
	 * not allocate or wait, except as rp_event_write(). Also legal while the event is disabled.
	 * Return: as rp_event_write(); 0 also if no session wants the event; -EINVAL if the
	 * provider or the level is unknown or `name` is NULL; -EPIPE if the component was detached.
	 */
	int (*fire_dynamic)(void *context, uint32_t provider, uint32_t level, const char *name,
			    const void *payload, uint32_t payload_bytes);
};

#define RP_COMPONENT_HOST_SIZE_V1 RP_SIZE_THROUGH_(struct rp_component_host, fire_dynamic)

/* A component, as its host sees it. Each function may be NULL. */
struct rp_component {
	uint32_t size;
	uint32_t reserved;
	void *data;		/* the first argument of the functions */
	/*
	 * Receive the state of a provider. The host calls this function after the component has
	 * started, and then after each change by a session, a listener, or another tracer.
	 * @provider: enum rp_component_provider.
	 * @keywords: the keywords of all sessions.
	 * @levels: a bit vector: bit L is set if a session wants events of level L. 0: the provider
	 * is off.
	 *
	 * Context: as rp_provider_callback. Calls for one provider do not overlap; calls for both
	 * providers may.
	 */
	void (*control)(void *data, uint32_t provider, uint64_t keywords, uint32_t levels);
	/*
	 * Stop the component. No thread may call a function of the host after this function has
	 * returned. Until then the component may write events.
	 *
	 * Context: the thread that detaches the component.
	 */
	void (*stop)(void *data);
};

#define RP_COMPONENT_SIZE_V1 RP_SIZE_THROUGH_(struct rp_component, stop)

/*
 * The function that a component exports, and its name for dlsym(3). The host sets
 * component->size to the size that it knows, and all other members to zero. The component writes no
 * more than that. It starts its threads after rp_component_init() has succeeded and `stop` is set.
 * Return: 0: if the host then refuses the component, it calls stop(). A negative errno value, which
 * the host's caller gets: the component has ended its threads itself, and the host does not call
 * stop().
 */
typedef int (*rp_component_entry)(const struct rp_component_host *host,
				  struct rp_component *component);

#define RP_COMPONENT_ENTRY "rp_component_start"

/* The sessions' keywords and levels for one provider, as bit vectors. */
struct rp_component_words {
	uint64_t keywords;
	uint64_t levels;
};

/* The state of a component: a static variable, zero before rp_component_init(). */
struct rp_component_state {
	struct rp_component_words words[RP_COMPONENT_PROVIDERS];
	struct rp_component_host host;	/* members that an older host lacks are zero */
};

/*
 * Copy a struct that begins with its size, in a version that may be older or newer. A pointer of
 * which the size contains only a part counts as missing.
 * @to, @to_bytes: the copy. Its size becomes `to_bytes`, and members that `from` lacks become zero.
 * @from: the struct, or NULL.
 *
 * Context: any.
 */
static inline void rp_component_copy(void *to, uint32_t to_bytes, const void *from)
{
	uint32_t from_bytes = 0;

	memset(to, 0, to_bytes);
	if (from)
		memcpy(&from_bytes, from, sizeof(from_bytes));
	from_bytes -= from_bytes % RP_CAST_(uint32_t, sizeof(void *));
	if (from_bytes)
		memcpy(to, from, from_bytes < to_bytes ? from_bytes : to_bytes);
	memcpy(to, &to_bytes, sizeof(to_bytes));
}

/*
 * Store a provider's state. rp_component_init() makes this function the component's control().
 * @state: the struct rp_component_state of the component.
 * @provider: enum rp_component_provider; a number of a later version is ignored.
 * @keywords, @levels: the state, as control() of struct rp_component receives it.
 *
 * Context: any.
 */
static inline void rp_component_control(void *state, uint32_t provider, uint64_t keywords,
					uint32_t levels)
{
	struct rp_component_words *words;

	if (provider >= RP_COMPONENT_PROVIDERS)
		return;		/* of a newer host */
	words = &RP_CAST_(struct rp_component_state *, state)->words[provider];
	__atomic_store_n(&words->keywords, keywords, __ATOMIC_RELAXED);
	__atomic_store_n(&words->levels, levels, __ATOMIC_RELAXED);
}

/*
 * Begin to use a host. Call this function in the component's entry.
 * @state: the component's state; zero.
 * @host, @component: the arguments of the entry.
 * @events: the component's copy of the host's functions, whose first member is `uint32_t size`.
 * Functions that an older host lacks become NULL. NULL: the component has no known events.
 * @events_bytes: the size of `events`.
 *
 * Context: the component's entry.
 * Return: 0; -EINVAL if the host's or the component's struct is too short.
 */
static inline int rp_component_init(struct rp_component_state *state,
				    const struct rp_component_host *host, void *events,
				    uint32_t events_bytes, struct rp_component *component)
{
	const uint32_t space = component->size;
	struct rp_component own;

	if (host->size < RP_COMPONENT_HOST_SIZE_V1 || space < RP_COMPONENT_SIZE_V1)
		return -EINVAL;
	rp_component_copy(&state->host, sizeof(state->host), host);
	if (events)
		rp_component_copy(events, events_bytes, host->events);
	memset(&own, 0, sizeof(own));
	own.size = sizeof(own);
	own.data = state;
	own.control = rp_component_control;
	rp_component_copy(component, space, &own);
	return 0;
}

/*
 * The start of a table of known events whose functions have signatures, in place of the first 8
 * bytes of other tables. `ringpipe gen --to component` generates such tables. Host and component
 * may have generated them from two versions of a manifest, with events in another order.
 */
struct rp_component_table {
	uint32_t size;		/* of the table, with the functions after this struct */
	uint32_t count;		/* of the functions */
	const uint64_t *signatures;	/* one for each function */
};

/*
 * Take those functions of a host's table whose signatures the component has too.
 * @to: the component's table. Functions that the host lacks become NULL.
 * @to_bytes: the size of `to`.
 * @signatures: those of the functions in `to`; must outlive `to`.
 * @from: the host's table, which begins with struct rp_component_table, or NULL.
 *
 * Context: the component's entry.
 */
static inline void rp_component_match(void *to, uint32_t to_bytes, const uint64_t *signatures,
				      const void *from)
{
	const uint32_t begin = RP_CAST_(uint32_t, sizeof(struct rp_component_table));
	const uint32_t bytes = RP_CAST_(uint32_t, sizeof(void (*)(void)));
	struct rp_component_table own, given;
	uint32_t space;

	memset(to, 0, to_bytes);
	own.size = to_bytes;
	own.count = (to_bytes - begin) / bytes;
	own.signatures = signatures;
	memcpy(to, &own, sizeof(own));
	rp_component_copy(&given, sizeof(given), from);
	if (!given.signatures)
		return;
	memcpy(&given.size, from, sizeof(given.size));
	space = (given.size - begin) / bytes;
	for (uint32_t i = 0; i < own.count; i++) {
		for (uint32_t j = 0; j < given.count && j < space; j++) {
			if (own.signatures[i] != given.signatures[j])
				continue;
			memcpy(RP_CAST_(char *, to) + begin + i * bytes,
			       RP_CAST_(const char *, from) + begin + j * bytes, bytes);
			break;
		}
	}
}

/*
 * Return whether a session wants events of this provider, level and keywords: two loads and two
 * tests, without a call. The function may return true although no session wants the event, because
 * the state is the union of all sessions. The host's own event then decides.
 * @provider: enum rp_component_provider.
 * @level: enum rp_level.
 * @keywords: a constant; 0: the event is in every session of the provider.
 *
 * Context: any.
 * Return: true if a session may want the event.
 */
static inline bool rp_component_enabled(const struct rp_component_state *state, uint32_t provider,
					uint32_t level, uint64_t keywords)
{
	const struct rp_component_words *words = &state->words[provider];

	return ((__atomic_load_n(&words->levels, __ATOMIC_RELAXED) >> level) & 1) &&
	       (!keywords || (__atomic_load_n(&words->keywords, __ATOMIC_RELAXED) & keywords));
}

/*
 * Write a known event if a session wants it and the host has its function. After the keywords, the
 * arguments of that function follow, up to 31. They are evaluated only if the event is written.
 * @events: the component's copy of the host's functions.
 * @event: the member of `events`. Its first parameter is the `data` of the host.
 */
#define RP_COMPONENT_FIRE(state, events, event, provider, level, ...) \
	RP_CAT_(RP_COMPONENT_FIRE_, RP_ARITY_(__VA_ARGS__)) \
	(state, events, event, provider, level, __VA_ARGS__)
#define RP_COMPONENT_FIRE_0_(state, events, event, provider, level, keywords) \
	RP_COMPONENT_FIRE_I_(state, events, event, provider, level, keywords, (state)->host.data)
#define RP_COMPONENT_FIRE_N_(state, events, event, provider, level, keywords, ...) \
	RP_COMPONENT_FIRE_I_(state, events, event, provider, level, keywords, (state)->host.data, \
			     __VA_ARGS__)
#define RP_COMPONENT_FIRE_I_(state, events, event, provider, level, keywords, ...) \
	do { \
		if (__builtin_expect(rp_component_enabled(state, provider, level, keywords), 0) && \
		    (events)->event) \
			(events)->event(__VA_ARGS__); \
	} while (0)

RP_END_DECLS

#include <ringpipe/detail/component_payload.h>

/*
 * Write a dynamic event whose payload describes itself, if a session wants it. The remaining
 * arguments are its fields, at least one:
 *
 *	RP_COMPONENT_FIELD(name, value)		a bool, char, integer, floating-point number,
 *						pointer, string (const char *, UTF-8; NULL: ""), or
 *						const struct rp_guid *
 *	RP_COMPONENT_BLOB(name, base, bytes)	bytes
 *
 * They are evaluated only if a session wants the event. Traces contain the event twice: as a raw
 * event with the bytes, and as an event `name` with these fields. Fields beyond
 * RP_COMPONENT_PAYLOAD_MAX bytes in total are omitted, and the raw event shows that.
 * @name: a string. Two events of one provider with the same name need not have the same fields.
 */
#define RP_COMPONENT_FIRE_DYNAMIC(state, provider, level, keywords, name, ...) \
	do { \
		if (__builtin_expect(rp_component_enabled(state, provider, level, keywords), 0) && \
		    (state)->host.fire_dynamic) { \
			struct rp_component_payload rp_payload_; \
			rp_component_payload_init(&rp_payload_); \
			__VA_ARGS__; \
			(void)(state)->host.fire_dynamic((state)->host.context, provider, level, \
							 name, rp_payload_.bytes, \
							 rp_payload_.used); \
		} \
	} while (0)

#define RP_COMPONENT_FIELD(name, value) RP_COMPONENT_PUT_(&rp_payload_, name, value)
#define RP_COMPONENT_BLOB(name, base, bytes) \
	rp_component_put_blob(&rp_payload_, name, base, bytes)

#endif
