/* SPDX-License-Identifier: MIT */
/*
 * The shop's own counts of its events, made without ringpipe, so that a trace can be compared with
 * them.
 */
#ifndef SHOP_ACCOUNTS_H
#define SHOP_ACCOUNTS_H

#include <stdint.h>
#include <stdio.h>

/* Every event of events.h: index, provider, name, id. */
#define SHOP_EVENTS(X) \
	X(REQUEST_START, shop_http, request_start, "Shop-Http", 1) \
	X(REQUEST_STOP, shop_http, request_stop, "Shop-Http", 2) \
	X(ORDER_PLACED, shop_orders, order_placed, "Shop-Orders", 1) \
	X(ORDER_REJECTED, shop_orders, order_rejected, "Shop-Orders", 2) \
	X(QUERY, shop_storage, query, "Shop-Storage", 1) \
	X(COMMIT, shop_storage, commit, "Shop-Storage", 2) \
	X(FAILED, shop_storage, failed, "Shop-Storage", 3)

enum shop_event {
#define X(index, provider, event, name, id) SHOP_##index,
	SHOP_EVENTS(X)
#undef X
	SHOP_EVENT_COUNT,
};

/* Draws the event's next serial number: the number of such events before this one. */
uint64_t shop_serial(enum shop_event event);

/* Records the result of writing the event. */
void shop_book(enum shop_event event, int written);

/* Counts an event that the in-process listener received. */
void shop_book_heard(const char *provider, uint32_t id);

/* Counts the sessions that enable each provider. */
void shop_watch_sessions(void);

/* Prints the counts as members of a JSON object. */
void shop_print_books(FILE *stream);

#endif
