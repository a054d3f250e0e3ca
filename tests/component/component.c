/* SPDX-License-Identifier: MIT */
/* A component that does not link ringpipe. Also built as C++ and with version 1 of the contract. */
#include "contract.h"

RP_BEGIN_DECLS

extern RP_PUBLIC const struct test_functions test_functions;
RP_PUBLIC int rp_component_start(const struct rp_component_host *host,
				 struct rp_component *component);

static struct rp_component_state state;
static struct test_events events;
static uint32_t evaluated;
static void (*stopping)(void);

static uint32_t count(uint32_t value)
{
	evaluated++;
	return value;
}

static void fire_known(uint32_t number, const char *why, uint64_t bytes, uint32_t objects)
{
	RP_COMPONENT_FIRE(&state, &events, collected, RP_COMPONENT_DEFAULT,
			  RP_LEVEL_INFORMATIONAL, KEYWORD_COLLECTIONS, count(number), why);
	RP_COMPONENT_FIRE(&state, &events, moved, RP_COMPONENT_PRIVATE, RP_LEVEL_VERBOSE,
			  KEYWORD_MOVES, bytes);
	RP_COMPONENT_FIRE(&state, &events, slept, RP_COMPONENT_PRIVATE, RP_LEVEL_VERBOSE,
			  KEYWORD_MOVES);
#if CONTRACT >= 2
	RP_COMPONENT_FIRE(&state, &events, pinned, RP_COMPONENT_DEFAULT, RP_LEVEL_INFORMATIONAL, 0,
			  objects);
#else
	(void)objects;
#endif
}

#ifdef FIRE_DYNAMIC
static void fire_dynamic(uint32_t number, const char *text);
#else
#define FIRE_DYNAMIC fire_dynamic
#endif

static void FIRE_DYNAMIC(uint32_t number, const char *text)
{
	const struct rp_guid guid = { { 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe } };
	const bool yes = true;
	const signed char negative = -5;
	const short small = -300;
	const unsigned short medium = 60000;
	const long long large = INT64_MIN;
	const unsigned char byte = 200;

	RP_COMPONENT_FIRE_DYNAMIC(&state, RP_COMPONENT_DEFAULT, RP_LEVEL_WARNING,
				  KEYWORD_COLLECTIONS, "HeapResized",
				  RP_COMPONENT_FIELD("number", count(number)),
				  RP_COMPONENT_FIELD("text", text),
				  RP_COMPONENT_FIELD("yes", yes),
				  RP_COMPONENT_FIELD("negative", negative),
				  RP_COMPONENT_FIELD("byte", byte),
				  RP_COMPONENT_FIELD("small", small),
				  RP_COMPONENT_FIELD("medium", medium),
				  RP_COMPONENT_FIELD("whole", -70000),
				  RP_COMPONENT_FIELD("large", large),
				  RP_COMPONENT_FIELD("unsigned", UINT64_MAX),
				  RP_COMPONENT_FIELD("single", 0.5f),
				  RP_COMPONENT_FIELD("double", 0.1),
				  RP_COMPONENT_FIELD("pointer", (const void *)(uintptr_t)4096),
				  RP_COMPONENT_FIELD("guid", &guid),
				  RP_COMPONENT_BLOB("blob", "\x01\x02\xff", 3));
}

static int fire_raw(uint32_t provider, uint32_t level, const char *name, const void *payload,
		    uint32_t payload_bytes)
{
	return state.host.fire_dynamic(state.host.context, provider, level, name, payload,
				       payload_bytes);
}

static void stop(void *data)
{
	(void)data;
	if (stopping)
		stopping();
}

#ifdef __cplusplus
#define LANGUAGE "C++"
#else
#define LANGUAGE "C"
#endif

const struct test_functions test_functions = {
	&state, LANGUAGE, fire_known, fire_dynamic, fire_raw, &evaluated, &stopping,
};

int rp_component_start(const struct rp_component_host *host, struct rp_component *component)
{
	int ret = rp_component_init(&state, host, &events, sizeof(events), component);

	if (ret == 0)
		component->stop = stop;
	return ret;
}

RP_END_DECLS
