/* SPDX-License-Identifier: MIT */
/*
 * The shop's events: three providers, declared once and written from several files.
 *
 * The first field of every event is its serial number: 0, 1, 2, … among the events of that kind,
 * drawn with or without a session. Gaps in a trace therefore show lost events. Counters also count
 * all the time, at a low cost.
 *
 * Fields that OpenTelemetry's semantic conventions define have their names, with '_' for each dot,
 * which C does not allow: http_request_method is the attribute http.request.method of the span that
 * `ringpipe convert --to otlp` writes.
 */
#ifndef SHOP_EVENTS_H
#define SHOP_EVENTS_H

#include <ringpipe/ringpipe.h>

#define SHOP_KW_REQUESTS 0x1u
#define SHOP_KW_ORDERS 0x1u
#define SHOP_KW_REJECTIONS 0x2u
#define SHOP_KW_QUERIES 0x1u
#define SHOP_KW_COMMITS 0x2u
#define SHOP_KW_FAILURES 0x4u

RP_PROVIDER(shop_http, "Shop-Http");
RP_EVENT_EX(shop_http, request_start, (RP_ID(1), RP_KEYWORDS(SHOP_KW_REQUESTS),
	    RP_OPCODE(RP_OPCODE_START), RP_MESSAGE("{1} {2}")), RP_U64(serial),
	    RP_STRING(http_request_method), RP_STRING(url_path));
RP_EVENT_EX(shop_http, request_stop, (RP_ID(2), RP_KEYWORDS(SHOP_KW_REQUESTS),
	    RP_OPCODE(RP_OPCODE_STOP), RP_MESSAGE("{1} {2}: {3}, {4} bytes in {5} ns")),
	    RP_U64(serial), RP_STRING(http_request_method), RP_STRING(url_path),
	    RP_U16(http_response_status_code), RP_U64(http_response_body_size),
	    RP_U64(duration_ns));
RP_COUNTER(shop_http, requests, "requests", "Requests served");
RP_HISTOGRAM(shop_http, request_time, "ms", "Time to serve a request");

RP_PROVIDER(shop_orders, "Shop-Orders");
RP_EVENT_EX(shop_orders, order_placed, (RP_ID(1), RP_KEYWORDS(SHOP_KW_ORDERS),
	    RP_MESSAGE("order {1} of {2}: {3}")), RP_U64(serial), RP_U64(order_id),
	    RP_STRING(customer), RP_F64(total));
RP_EVENT_EX(shop_orders, order_rejected, (RP_ID(2), RP_LEVEL(RP_LEVEL_WARNING),
	    RP_KEYWORDS(SHOP_KW_REJECTIONS), RP_MESSAGE("no order of {1}: {2}")), RP_U64(serial),
	    RP_STRING(customer), RP_STRING(reason));
RP_COUNTER(shop_orders, orders, "orders", "Orders by what became of them");

RP_PROVIDER(shop_storage, "Shop-Storage");
RP_EVENT(shop_storage, query, 1, RP_LEVEL_VERBOSE, SHOP_KW_QUERIES, RP_U64(serial),
	 RP_STRING(db_query_text), RP_U32(db_response_returned_rows), RP_U64(duration_ns));
RP_EVENT(shop_storage, commit, 2, RP_LEVEL_INFORMATIONAL, SHOP_KW_COMMITS, RP_U64(serial),
	 RP_U64(duration_ns));
RP_EVENT(shop_storage, failed, 3, RP_LEVEL_ERROR, SHOP_KW_FAILURES, RP_U64(serial),
	 RP_STRING(db_query_text), RP_I32(code), RP_STRING(message));

#endif
