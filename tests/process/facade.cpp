/* SPDX-License-Identifier: MIT */
/* Events with C++ types: each payload equals that of the same event written as in C. */
#include <ringpipe/ringpipe.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define check(condition) \
	do { \
		if (!(condition)) { \
			std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, \
				     #condition); \
			std::exit(1); \
		} \
	} while (0)

namespace shop_events {
enum class shade { dark = -1, light = 7 };
RP_PROVIDER(shop, "Test-Facade");
RP_ENUM(shade, shade::dark, shade::light);
RP_STRUCT(item, RP_U32(article), RP_U16(quantity));
RP_EVENT(shop, text, 1, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(a), RP_STRING_N(b), RP_STRING16(c));
RP_EVENT(shop, list, 2, RP_LEVEL_INFORMATIONAL, 0, RP_ARRAY(U32, a), RP_BLOB(b),
	 RP_STRUCT_ARRAY(item, c));
RP_EVENT(shop, one, 3, RP_LEVEL_INFORMATIONAL, 0, RP_STRUCT_FIELD(item, a), RP_GUID(b),
	 RP_ENUM_FIELD(shade, c), RP_TIME(d));
RP_EVENT(shop, number, 4, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_F32(b), RP_BOOL(c));
RP_EVENT(shop, hidden, 5, RP_LEVEL_INFORMATIONAL, 0, RP_SECRET(RP_STRING_N(a)), RP_U8(b));
RP_EVENT(shop, bare, 6, RP_LEVEL_INFORMATIONAL, 0);
RP_SPAN(shop, checkout, RP_U64(order), RP_STRING_N(customer));
RP_SPAN(shop, pause);
RP_JSON_EVENTS(shop);
RP_COUNTER(shop, orders, nullptr, nullptr);
RP_HISTOGRAM(shop, order_time, "ms", nullptr);
}

using namespace shop_events;

static rp_listener *listener;

struct seen {
	std::string name;
	std::vector<unsigned char> payload;
	rp_guid activity;
};

static seen next()
{
	rp_listener_event event = RP_LISTENER_EVENT_INIT;
	const unsigned char *bytes;

	check(rp_listener_next(listener, &event, 60000) == 1);
	bytes = static_cast<const unsigned char *>(event.payload);
	return { event.name, { bytes, bytes + event.payload_bytes }, event.activity };
}

/* Check that the next two events have the same payload. */
static void expect_pair(const char *name)
{
	const seen first = next(), second = next();

	check(first.name == name && second.name == name);
	check(first.payload == second.payload);
	check(!first.payload.empty());
}

static void write_texts()
{
	const std::string utf8 = "some text", part = "the customer";
	const std::u16string wide = u"wide";

	check(shop_text("some text", "customer", 8, u"wide") == 0);
	check(shop_text(utf8, std::string_view(part).substr(4), wide) == 0);
	expect_pair("text");
	check(shop_text(nullptr, "", 0, nullptr) == 0);
	check(shop_text(nullptr, std::string_view(), nullptr) == 0);
	expect_pair("text");
	check(shop_hidden("key", 3, 1) == 0);
	check(shop_hidden(std::string("another"), 1) == 0);
	expect_pair("hidden");
}

static void write_json()
{
	const std::string source = "the source", json = "x[1,2]";

	RP_JSON_N(shop, RP_LEVEL_WARNING, "the source", "[1,2]", 5);
	RP_JSON(shop, RP_LEVEL_WARNING, source, std::string_view(json).substr(1));
	expect_pair("json_warning");
	RP_JSON(shop, RP_LEVEL_ERROR, "s", "[1,2]");
	RP_JSON(shop, RP_LEVEL_ERROR, std::string("s"), "[1," + std::to_string(2) + "]");
	expect_pair("json_error");
	RP_JSON(shop, RP_LEVEL_ERROR, nullptr, nullptr);
	RP_JSON(shop, RP_LEVEL_ERROR, "", "");
	expect_pair("json_error");
}

static void write_lists()
{
	const std::vector<std::uint32_t> vector = { 1, 2, 3 };
	const std::array<item, 2> items = { { { 7, 1 }, { 8, 2 } } };
	const std::uint32_t plain[] = { 1, 2, 3 };
	const std::uint16_t words[] = { 0x1234, 0x5678 };

	check(shop_list(plain, 3, words, sizeof(words), items.data(), 2) == 0);
	check(shop_list(vector, words, items) == 0);
	expect_pair("list");
	check(shop_list(plain, 3, "abc", 3, nullptr, 0) == 0);
	check(shop_list(plain, std::string("abc"), std::vector<item>()) == 0);
	expect_pair("list");
}

static void write_single_ones()
{
	const item article = { 7, 1 };
	const rp_guid id = { { 1, 2, 3 } };
	const std::chrono::system_clock::time_point time{std::chrono::seconds(5)};

	check(shop_one(&article, &id, 7, 5000000000) == 0);
	check(shop_one(article, id, shade::light, time) == 0);
	expect_pair("one");
	check(shop_one(nullptr, nullptr, -1, 0) == 0);
	check(shop_one(nullptr, nullptr, shade::dark,
		       std::chrono::time_point<std::chrono::system_clock, std::chrono::hours>())
	      == 0);
	expect_pair("one");
	check(shop_number(1u, 0.5f, true) == 0);
	check(shop_number(std::uint64_t(1), 0.5f, true) == 0);
	expect_pair("number");
	check(shop_bare() == 0);
	check(next().name == "bare");
}

/* A scope ends its span even if an exception leaves the scope. */
static void throw_in_a_span()
{
	shop_checkout_scope checkout{7, std::string("customer")};
	shop_pause_scope pause;

	shop_bare();
	throw 1;
}

static void write_spans()
{
	const rp_guid none = {};
	rp_activity after;
	seen start, inner, event;

	try {
		throw_in_a_span();
	} catch (int) {
	}
	start = next();
	check(start.name == "checkout_start" && start.payload.size() == 8 + 9);
	check(std::memcmp(start.payload.data() + 8, "customer", 9) == 0);
	inner = next();
	check(inner.name == "pause_start");
	event = next();
	check(event.name == "bare" &&
	      std::memcmp(&event.activity, &inner.activity, sizeof(rp_guid)) == 0);
	check(next().name == "pause_stop");
	event = next();
	check(event.name == "checkout_stop" &&
	      std::memcmp(&event.activity, &start.activity, sizeof(rp_guid)) == 0);
	rp_activity_get(&after);
	check(std::memcmp(&after.id, &none, sizeof(none)) == 0);
}

static void count()
{
	rp_counter_reading reading = RP_COUNTER_READING_INIT;

	check(ringpipe::add(shop_orders_counter(), 2, { { "payment", "card" } }) == 0);
	check(ringpipe::add(shop_orders_counter(), 3, { { "payment", "cash" } }) == 0);
	check(rp_counter_read(shop_orders_counter(), &reading) == 0 && reading.value == 5);
	{
		ringpipe::timer<std::milli> timer{shop_order_time_counter()};
	}
	check(ringpipe::record(shop_order_time_counter(), 1.5, { { "payment", "card" } }) == 0);
	check(rp_counter_read(shop_order_time_counter(), &reading) == 0 && reading.count == 2);
}

int main()
{
	rp_session_provider provider = RP_SESSION_PROVIDER_INIT;
	rp_session_options options = RP_SESSION_OPTIONS_INIT;

	provider.name = "Test-Facade";
	options.providers = &provider;
	options.provider_count = 1;
	{
		shop_checkout_scope unseen{1, "nobody"};

		check(shop_text(std::string(), "", u"") == 0);
		check(rp_listener_start(&options, nullptr, nullptr, &listener) == 0);
	}
	write_texts();
	write_json();
	write_lists();
	write_single_ones();
	write_spans();
	count();
	check(rp_listener_stop(listener, nullptr) == 0);
	return 0;
}
