/* SPDX-License-Identifier: MIT */
#include "accounts.h"

#include <stdatomic.h>
#include <string.h>

#include "events.h"

/* One cache line each, so that the counters do not make the threads wait for one another. */
struct book {
	_Alignas(64) _Atomic uint64_t offered;	/* serial numbers drawn */
	_Atomic uint64_t refused;		/* writes that did not return 0 */
	_Atomic uint64_t heard;			/* seen by the listener */
};

static struct book books[SHOP_EVENT_COUNT];

static const struct {
	const char *provider;
	const char *event;
	uint32_t id;
	int (*enabled)(void);
} kinds[] = {
#define X(index, provider, event, name, id) { name, #event, id, provider##_##event##_enabled },
	SHOP_EVENTS(X)
#undef X
};

static struct {
	struct rp_provider *(*provider)(void);
	const char *name;
	_Atomic int sessions;
} providers[] = {
	{ shop_http_provider, "Shop-Http", 0 },
	{ shop_orders_provider, "Shop-Orders", 0 },
	{ shop_storage_provider, "Shop-Storage", 0 },
};

#define PROVIDER_COUNT (sizeof(providers) / sizeof(providers[0]))

uint64_t shop_serial(enum shop_event event)
{
	return atomic_fetch_add_explicit(&books[event].offered, 1, memory_order_relaxed);
}

void shop_book(enum shop_event event, int written)
{
	if (written != 0)
		atomic_fetch_add_explicit(&books[event].refused, 1, memory_order_relaxed);
}

void shop_book_heard(const char *provider, uint32_t id)
{
	for (int i = 0; i < SHOP_EVENT_COUNT; i++) {
		if (kinds[i].id != id || strcmp(kinds[i].provider, provider) != 0)
			continue;
		atomic_fetch_add_explicit(&books[i].heard, 1, memory_order_relaxed);
		return;
	}
}

static void on_provider_state(struct rp_provider *provider,
			      const struct rp_provider_state *state, void *data)
{
	_Atomic int *sessions = data;

	(void)provider;
	atomic_fetch_add(sessions, state->source_enabled ? 1 : -1);
}

void shop_watch_sessions(void)
{
	for (size_t i = 0; i < PROVIDER_COUNT; i++)
		rp_provider_set_callback(providers[i].provider(), on_provider_state,
					 &providers[i].sessions);
}

void shop_print_books(FILE *stream)
{
	fputs("\"sessions\":{", stream);
	for (size_t i = 0; i < PROVIDER_COUNT; i++)
		fprintf(stream, "%s\"%s\":%d", i ? "," : "", providers[i].name,
			atomic_load(&providers[i].sessions));
	fputs("},\"events\":[", stream);
	for (int i = 0; i < SHOP_EVENT_COUNT; i++)
		fprintf(stream,
			"%s\n{\"provider\":\"%s\",\"event\":\"%s\",\"id\":%u,\"enabled\":%s,"
			"\"offered\":%llu,\"refused\":%llu,\"heard\":%llu}", i ? "," : "",
			kinds[i].provider, kinds[i].event, kinds[i].id,
			kinds[i].enabled() ? "true" : "false",
			(unsigned long long)atomic_load(&books[i].offered),
			(unsigned long long)atomic_load(&books[i].refused),
			(unsigned long long)atomic_load(&books[i].heard));
	fputs("\n]", stream);
}
