/* SPDX-License-Identifier: MIT */
/*
 * types_host FILE: writes every type of field, with values at the limits, into a trace.
 * types_test.py knows the values. Prints the session's stats as JSON.
 */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <ringpipe/ringpipe.h>

#include "../nettrace_version.h"

#define TIME_NS 1700000000123456700ll		/* 2023-11-14T22:13:20.1234567Z */
#define LONG_BYTES 16000

RP_STRUCT(point, RP_I32(x), RP_I32(y));
RP_STRUCT(box, RP_STRUCT_FIELD(point, corner), RP_U16(width), RP_BOOL(filled), RP_GUID(owner));

RP_PROVIDER(types, "Types-Host");
RP_EVENT(types, integers, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_I8(i8), RP_U8(u8), RP_I16(i16),
	 RP_U16(u16), RP_I32(i32), RP_U32(u32), RP_I64(i64), RP_U64(u64));
RP_EVENT(types, numbers, 2, RP_LEVEL_INFORMATIONAL, 0x1, RP_BOOL(truth), RP_CHAR(letter),
	 RP_F32(f32), RP_F64(f64), RP_U8(mark));
RP_EVENT(types, marks, 3, RP_LEVEL_INFORMATIONAL, 0x1, RP_POINTER(pointer), RP_GUID(guid),
	 RP_TIME(time), RP_U8(mark));
RP_EVENT(types, strings, 4, RP_LEVEL_INFORMATIONAL, 0x1, RP_STRING(utf8), RP_STRING16(utf16),
	 RP_U32(mark));
RP_EVENT(types, arrays, 5, RP_LEVEL_INFORMATIONAL, 0x1, RP_BLOB(blob), RP_ARRAY(U32, numbers),
	 RP_ARRAY(F64, reals), RP_U8(mark));
RP_EVENT(types, structs, 6, RP_LEVEL_INFORMATIONAL, 0x1, RP_STRUCT_FIELD(box, box), RP_U8(mark));
RP_EVENT(types, struct_array, 7, RP_LEVEL_INFORMATIONAL, 0x1, RP_STRUCT_ARRAY(point, points),
	 RP_U8(mark));
RP_EVENT(types, traveller, 8, RP_LEVEL_INFORMATIONAL, 0x1, RP_U8(mark));
RP_EVENT_EX(types, decorated, (RP_ID(9), RP_VERSION(7), RP_LEVEL(RP_LEVEL_CRITICAL),
	    RP_KEYWORDS(0x8000000000000001ull), RP_OPCODE(42), RP_MESSAGE("number {0}")),
	    RP_I32(number));
RP_EVENT(types, bare, 10, RP_LEVEL_VERBOSE, 0);
RP_EVENT(types, large, 11, RP_LEVEL_INFORMATIONAL, 0x1, RP_BLOB(blob));
RP_EVENT_EX(types, trip_start, (RP_ID(12), RP_KEYWORDS(0x1), RP_OPCODE(RP_OPCODE_START)),
	    RP_U8(mark));
RP_EVENT_EX(types, trip_stop, (RP_ID(13), RP_KEYWORDS(0x1), RP_OPCODE(RP_OPCODE_STOP)),
	    RP_U8(mark));
RP_EVENT(types, carried, 14, RP_LEVEL_INFORMATIONAL, 0x1, RP_U8(mark));
RP_EVENT(types, walk_start, 15, RP_LEVEL_INFORMATIONAL, 0x1, RP_U8(mark));

static const struct rp_guid guid = {
	{ 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
	  0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff },
};

static void write_scalars(void)
{
	types_integers(INT8_MIN, 0, INT16_MIN, 0, INT32_MIN, 0, INT64_MIN, 0);
	types_integers(INT8_MAX, UINT8_MAX, INT16_MAX, UINT16_MAX, INT32_MAX, UINT32_MAX, INT64_MAX,
		       UINT64_MAX);
	types_integers(-1, 1, -2, 2, -3, 3, -4, 4);
	types_numbers(true, 'A', 1.5f, -2.25, 200);
	types_numbers(false, (char)0xe9, FLT_MAX, DBL_MIN, 201);
	types_numbers(true, '\0', -FLT_TRUE_MIN, DBL_MAX, 202);
	types_numbers(true, 'z', NAN, -INFINITY, 203);
	types_marks((void *)0x7ffffffff123, &guid, TIME_NS, 200);
	types_marks(NULL, NULL, 0, 201);
	types_marks((void *)UINTPTR_MAX, &guid, -1000000000, 202);
}

static void write_strings(void)
{
	static char long8[LONG_BYTES + 1];
	static rp_char16 long16[LONG_BYTES + 1];

	memset(long8, 'x', LONG_BYTES);
	for (int i = 0; i < LONG_BYTES; i++)
		long16[i] = 0x4e00;
	types_strings("plain", u"plain", 1);
	types_strings("", u"", 2);
	types_strings(NULL, NULL, 3);
	types_strings("Grüße 🛒𝄞", u"Grüße 🛒𝄞", 4);
	types_strings(long8, long16, 5);
	types_strings("a\xff" "b\xc3", u"b", 6);
}

static void write_arrays(void)
{
	static const uint8_t blob[] = { 0, 1, 0x7f, 0x80, 0xff };
	static const uint32_t numbers[] = { 0, 1, UINT32_MAX };
	static const double reals[] = { 0.5, -1e300 };
	static const struct point points[] = { { 1, -1 }, { INT32_MAX, INT32_MIN } };
	const struct box box = { { -5, 6 }, 65535, true, guid };

	types_arrays(blob, sizeof(blob), numbers, 3, reals, 2, 200);
	types_arrays(NULL, 0, NULL, 0, NULL, 0, 201);
	types_structs(&box, 200);
	types_structs(NULL, 201);
	types_struct_array(points, 2, 200);
	types_struct_array(NULL, 0, 201);
}

static void write_activities(void)
{
	struct rp_activity before, outer;
	struct rp_activity known = { guid, { { 1, 2, 3, 4, 5, 6, 7, 8 } } };

	rp_activity_get(&before);
	types_traveller(1);
	rp_activity_set(&known);
	types_traveller(2);
	rp_activity_begin(&outer);
	types_trip_start(3);
	types_trip_stop(4);
	types_walk_start(5);
	rp_activity_end(&outer);
	types_traveller(5);
	rp_activity_set(&before);
	types_traveller(6);
}

/*
 * Another thread's part of a request: uses the ids that it is given, and its own before and after.
 */
static void *work(void *data)
{
	struct rp_activity before;

	rp_activity_get(&before);
	types_carried(3);
	rp_activity_set(data);
	types_carried(4);
	rp_activity_set(&before);
	types_carried(5);
	return NULL;
}

/*
 * A request that arrives with a header, continues in another thread, and then in another service.
 */
static int write_carried(char sent[RP_TRACEPARENT_SIZE])
{
	static const char came[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
	struct rp_activity before, request, next;
	pthread_t thread;
	uint8_t flags;

	rp_activity_get(&before);
	if (rp_traceparent_parse(came, strlen(came), &request, &flags) < 0)
		return -EINVAL;
	rp_activity_set(&request);
	types_carried(1);
	rp_activity_get(&request);
	rp_traceparent_print(&request, flags, sent);
	rp_activity_set(&before);
	types_carried(2);
	if (pthread_create(&thread, NULL, work, &request) != 0)
		return -EAGAIN;
	pthread_join(thread, NULL);
	if (rp_traceparent_parse(sent, strlen(sent), &next, &flags) < 0)
		return -EINVAL;
	rp_activity_set(&next);
	types_carried(6);
	rp_activity_set(&before);
	return 0;
}

/* The largest payload, and one byte more. */
static int write_large(void)
{
	static uint8_t bytes[RP_PAYLOAD_MAX];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	if (types_large(bytes, RP_PAYLOAD_MAX - 2) != 0)
		return 1;
	return types_large(bytes, RP_PAYLOAD_MAX - 1) == -EMSGSIZE ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .level = 5, .name = "Types-Host", .keywords = ~0ull,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
	};
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session;
	char sent[RP_TRACEPARENT_SIZE] = "";
	int ret, large = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: types_host FILE\n");
		return 2;
	}
	options.output_path = argv[1];
	options.format = nettrace_version();
	ret = rp_session_start(&options, &session);
	if (ret == 0) {
		write_scalars();
		write_strings();
		write_arrays();
		write_activities();
		large = write_carried(sent) != 0;
		types_decorated(-7);
		types_bare();
		large |= write_large();
		ret = rp_session_stop(session, &stats);
	}
	if (ret < 0) {
		fprintf(stderr, "types_host: %s\n", strerror(-ret));
		return 1;
	}
	printf("{\"delivered\":%llu,\"lost\":%llu,\"too_big\":%llu,\"sent\":\"%s\"}\n",
	       (unsigned long long)stats.delivered, (unsigned long long)stats.lost,
	       (unsigned long long)stats.lost_by[RP_LOSS_TOO_BIG], sent);
	return large;
}
