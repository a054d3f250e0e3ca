/* SPDX-License-Identifier: MIT */
/*
 * One event of every kind of field, fired once, and one counter of every kind: has to compile as
 * C11 and C++17 everywhere.
 */
#include <ringpipe/ringpipe.h>

#ifdef __cplusplus
#define NONE nullptr
#else
#define NONE NULL
#endif

RP_PROVIDER(sample, "Sample-Fields");

RP_STRUCT(sample_point, RP_I32(x), RP_I32(y));
RP_STRUCT(sample_line, RP_STRUCT_FIELD(sample_point, from), RP_STRUCT_FIELD(sample_point, to),
	  RP_U8(width), RP_BOOL(dashed), RP_GUID(owner), RP_TIME(drawn), RP_POINTER(canvas));

RP_EVENT(sample, nothing, 1, RP_LEVEL_INFORMATIONAL, 0);
RP_EVENT(sample, one, 2, RP_LEVEL_VERBOSE, 0x1, RP_U64(n));
RP_EVENT(sample, numbers, 3, RP_LEVEL_INFORMATIONAL, 0x1, RP_BOOL(b), RP_CHAR(c), RP_I8(i8),
	 RP_U8(u8), RP_I16(i16), RP_U16(u16), RP_I32(i32), RP_U32(u32), RP_I64(i64), RP_U64(u64),
	 RP_F32(f32), RP_F64(f64), RP_POINTER(p), RP_TIME(t));
RP_EVENT(sample, texts, 4, RP_LEVEL_WARNING, 0x2, RP_STRING(utf8), RP_STRING16(utf16), RP_GUID(id));
RP_EVENT(sample, lengths, 11, RP_LEVEL_WARNING, 0x2, RP_STRING_N(utf8),
	 RP_SECRET(RP_STRING_N(password)));
RP_EVENT(sample, arrays, 5, RP_LEVEL_ERROR, 0x4, RP_BLOB(bytes), RP_ARRAY(U32, numbers),
	 RP_ARRAY(F64, reals), RP_ARRAY(GUID, ids), RP_ARRAY(BOOL, flags));
RP_EVENT(sample, structs, 6, RP_LEVEL_CRITICAL, 0x8, RP_STRUCT_FIELD(sample_line, edge),
	 RP_STRUCT_ARRAY(sample_point, corners));
RP_EVENT(sample, secrets, 9, RP_LEVEL_CRITICAL, 0x8, RP_SECRET(RP_STRING(password)),
	 RP_SECRET(RP_F32(f32)), RP_SECRET(RP_BOOL(b)), RP_SECRET(RP_POINTER(p)),
	 RP_SECRET(RP_GUID(id)), RP_SECRET(RP_STRING16(utf16)), RP_SECRET(RP_BLOB(bytes)),
	 RP_SECRET(RP_ARRAY(U32, numbers)), RP_SECRET(RP_STRUCT_FIELD(sample_line, edge)),
	 RP_SECRET(RP_STRUCT_ARRAY(sample_point, corners)));
RP_EVENT_EX(sample, paid, (RP_ID(7), RP_VERSION(2), RP_KEYWORDS(0x1), RP_OPCODE(RP_OPCODE_START),
	    RP_MESSAGE("{0} paid {1}")), RP_STRING(who), RP_F64(total));
RP_EVENT_EX(sample, rare, (RP_ONE_IN(100), RP_FLAGS(RP_EVENT_NO_STACK)));
RP_RAW_EVENT(sample, raw, (RP_ID(15)));
RP_RAW_EVENT(sample, begun_raw, (RP_ID(16), RP_KEYWORDS(0x2)), RP_U32(n), RP_STRING16(text),
	     RP_STRUCT_FIELD(sample_line, edge));
RP_EVENT_EX(sample, calm, (RP_PER_SECOND(10), RP_ID(13)), RP_U64(n));
RP_SPAN(sample, walk, RP_STRING(where), RP_ARRAY(U32, steps));
RP_SPAN(sample, rest);
RP_SPAN_EX(sample, swim, (RP_ID(14), RP_KEYWORDS(0x10), RP_MESSAGE("{0} m")), RP_U32(metres));
RP_LOG_EVENTS(sample);
RP_JSON_EVENTS(sample);
RP_STATE_EVENT(sample, loaded, 12, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(path));
RP_STATE_EVENT(sample, begun, 10, RP_LEVEL_INFORMATIONAL, 0);
RP_EVENT(sample, widest, 8, RP_LEVEL_INFORMATIONAL, 0x1, RP_U8(a01), RP_U8(a02), RP_U8(a03),
	 RP_U8(a04), RP_U8(a05), RP_U8(a06), RP_U8(a07), RP_U8(a08), RP_U8(a09), RP_U8(a10),
	 RP_U8(a11), RP_U8(a12), RP_U8(a13), RP_U8(a14), RP_U8(a15), RP_U8(a16), RP_U8(a17),
	 RP_U8(a18), RP_U8(a19), RP_U8(a20), RP_U8(a21), RP_U8(a22), RP_U8(a23), RP_U8(a24),
	 RP_U8(a25), RP_U8(a26), RP_U8(a27), RP_U8(a28), RP_U8(a29), RP_U8(a30), RP_U8(a31),
	 RP_U8(a32));

RP_COUNTER(sample, counted, "things", "Things counted");
RP_UPDOWN_COUNTER(sample, pending, NONE, NONE);
RP_GAUGE(sample, heat, "C", NONE);
RP_HISTOGRAM(sample, spread, NONE, "How things are spread");

int fire_everything(void);

static int observe(struct rp_observation *observation, void *data)
{
	(void)data;
	return rp_observe(observation, 0.5, NONE, 0);
}

static int span_everything(void)
{
	static const uint32_t steps[] = { 1, 2, 3 };
	const struct rp_part part = { steps, sizeof(steps) };
	struct rp_span span;

	RP_SPAN_SCOPE(sample, rest);
	RP_SPAN_SCOPE(sample, walk, "there", steps, 3);
	sample_swim_begin(&span, 50);
	RP_LOG(sample, RP_LEVEL_CRITICAL, "nothing");
	RP_LOG(sample, RP_LEVEL_ERROR, "%d", -1);
	RP_LOG(sample, RP_LEVEL_WARNING, "%s", "text");
	RP_LOG(sample, RP_LEVEL_INFORMATIONAL, "%u%%", 5u);
	RP_LOG(sample, RP_LEVEL_VERBOSE, "%g", 0.5);
	RP_JSON(sample, RP_LEVEL_CRITICAL, "source", "{}");
	RP_JSON(sample, RP_LEVEL_ERROR, NONE, NONE);
	RP_JSON_N(sample, RP_LEVEL_WARNING, "source", "[1]x", 3);
	RP_JSON(sample, RP_LEVEL_INFORMATIONAL, "", "");
	RP_JSON(sample, RP_LEVEL_VERBOSE, "source", "null");
	sample_swim_end(&span);
	return sample_rare() | sample_calm(1) | sample_raw_write(&part, 1) |
	       sample_begun_raw_write(&part, sample_begun_raw_enabled() != 0);
}

static int count_everything(void)
{
	const struct rp_counter_tag tags[] = { { "key", "value" }, { "other", "thing" } };
	struct rp_counter_reading reading;
	struct rp_counter_decl decl = { sizeof(decl), RP_COUNTER_OBSERVED_GAUGE, { 0, 0, 0 }, NONE,
					"observed", NONE, NONE, NONE, observe, NONE, 0, 0 };
	struct rp_counter *series, *observed;
	int ret = 0;

	reading.size = sizeof(reading);
	ret |= sample_counted_add(1);
	ret |= sample_pending_add(-1);
	ret |= sample_heat_set(36.6);
	ret |= sample_spread_record(0.25);
	ret |= rp_counter_series(sample_counted_counter(), tags, 2, &series);
	ret |= rp_counter_add(series, 1);
	ret |= rp_counter_add_tagged(sample_pending_counter(), -1, tags, 1);
	ret |= rp_counter_record_tagged(sample_spread_counter(), 1, tags, 2);
	ret |= rp_counter_create(sample_provider(), &decl, &observed);
	ret |= rp_counter_read(sample_heat_counter(), &reading);
	return ret | rp_counter_destroy(observed);
}

int fire_everything(void)
{
	static const rp_char16 wide[] = { 'h', 'i', 0 };
	static const uint32_t numbers[] = { 1, 2, 3 };
	static const double reals[] = { 0.5 };
	static const bool flags[] = { true, false };
	struct rp_guid id = { { 0 } };
	struct sample_point corners[2] = { { 0, 0 }, { 3, 4 } };
	struct sample_line edge = { { 0, 0 }, { 3, 4 }, 1, true, { { 0 } }, 0, NONE };
	int ret = 0;

	ret |= sample_nothing();
	if (sample_one_enabled())
		ret |= sample_one(7);
	ret |= sample_numbers(true, 'x', -1, 1, -2, 2, -3, 3, -4, 4, 0.5f, 0.25, &id, 1000000000);
	ret |= sample_texts("text", wide, &id);
	ret |= sample_texts(NONE, NONE, NONE);
	ret |= sample_lengths("text", 4, NONE, 0);
	ret |= sample_arrays("bytes", 5, numbers, 3, reals, 1, &id, 1, flags, 2);
	ret |= sample_structs(&edge, corners, 2);
	ret |= sample_secrets("text", 0.5f, true, &id, &id, wide, "bytes", 5, numbers, 3, &edge,
			      corners, 2);
	ret |= sample_paid("someone", 9.5);
	ret |= sample_loaded("/etc/shop.conf");
	ret |= sample_begun();
	ret |= sample_widest(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
			     21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32);
	return ret | (sample_provider() == NONE) | count_everything() | span_everything();
}
