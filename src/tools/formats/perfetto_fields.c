/* SPDX-License-Identifier: MIT */
#include "tools/formats/perfetto_fields.h"

#include <stdbool.h>

#include "base/utf.h"
#include "nettrace/self_describing.h"
#include "tools/cli/display_text.h"
#include "tools/formats/proto_out.h"
#include "tools/formats/shown_event.h"

/* Deeper members, which only a hostile trace has, are left out. */
#define DEPTH_MAX 32u

static bool put_members(struct rp_format_out *out, uint32_t field, struct rp_fields *fields,
			bool are_named, unsigned int depth);

static void put_hex(struct rp_format_out *out, const void *bytes, size_t size)
{
	const size_t place = rp_proto_begin(out, RP_PERFETTO_TEXT);

	rp_out_hex(out, bytes, size);
	rp_proto_end(out, place);
}

static void put_guid(struct rp_format_out *out, const struct rp_guid *guid)
{
	const size_t place = rp_proto_begin(out, RP_PERFETTO_TEXT);

	rp_out_guid(out, guid->bytes);
	rp_proto_end(out, place);
}

static void put_character(struct rp_format_out *out, const struct rp_value *value)
{
	char utf8[4];

	if (value->size_bytes == 1)
		rp_proto_utf8(out, RP_PERFETTO_TEXT, (const uint8_t *)utf8,
			      rp_utf8_put((uint32_t)value->u64, utf8));
	else
		rp_proto_utf16(out, RP_PERFETTO_TEXT, value->bytes, 1);
}

static void put_truncated(struct rp_format_out *out, uint32_t field)
{
	const size_t place = rp_proto_begin(out, field);

	rp_proto_text(out, RP_PERFETTO_NAME, "…truncated");
	rp_proto_varint(out, RP_PERFETTO_BOOL, true);
	rp_proto_end(out, place);
}

static bool put_value(struct rp_format_out *out, struct rp_value *value, unsigned int depth);

/* Put bytes: as a dictionary if they describe themselves. */
static void put_bytes(struct rp_format_out *out, const struct rp_value *bytes)
{
	struct rp_self_describing payload;
	struct rp_value value;
	struct rp_field field;

	if (!rp_self_describing_begin(&payload, bytes->bytes, bytes->size_bytes)) {
		put_hex(out, bytes->bytes, bytes->size_bytes);
		return;
	}
	while (rp_self_describing_next(&payload, &field, &value)) {
		const size_t place = rp_proto_begin(out, RP_PERFETTO_DICT);

		rp_proto_text(out, RP_PERFETTO_NAME, value.name);
		/* Payloads in payloads stay bytes, so that the depth of the output is bounded. */
		if (value.type == RP_TYPE_ARRAY)
			put_hex(out, value.bytes, value.size_bytes);
		else
			(void)put_value(out, &value, 0);
		rp_proto_end(out, place);
	}
	if (payload.is_cut)
		put_truncated(out, RP_PERFETTO_DICT);
}

/* Return: false: the payload ended in the value. */
static bool put_value(struct rp_format_out *out, struct rp_value *value, unsigned int depth)
{
	char text[RP_TEXT_MAX];

	switch (value->type) {
	case RP_TYPE_BOOL:
		rp_proto_varint(out, RP_PERFETTO_BOOL, value->u64 != 0);
		break;
	case RP_TYPE_CHAR:
		put_character(out, value);
		break;
	case RP_TYPE_F32:
	case RP_TYPE_F64:
		rp_proto_double(out, RP_PERFETTO_DOUBLE, value->f64);
		break;
	case RP_TYPE_GUID:
		put_guid(out, &value->guid);
		break;
	case RP_TYPE_TIME:
		rp_proto_text(out, RP_PERFETTO_TEXT, rp_text_utc_ns(value->i64, text));
		break;
	case RP_TYPE_NONE:
		put_hex(out, value->bytes, value->size_bytes);
		break;
	case RP_TYPE_U8:
	case RP_TYPE_U16:
	case RP_TYPE_U32:
	case RP_TYPE_U64:
		rp_proto_varint(out, RP_PERFETTO_UINT, value->u64);
		break;
	case RP_TYPE_POINTER:
		rp_proto_varint(out, RP_PERFETTO_POINTER, value->u64);
		break;
	case RP_TYPE_STRING:
		rp_proto_utf8(out, RP_PERFETTO_TEXT, value->bytes, value->size_bytes);
		break;
	case RP_TYPE_STRING16:
		rp_proto_utf16(out, RP_PERFETTO_TEXT, value->bytes, value->size_bytes / 2);
		break;
	case RP_TYPE_STRUCT:
		return put_members(out, RP_PERFETTO_DICT, &value->inner, true, depth + 1);
	case RP_TYPE_ARRAY:
		if (value->element != RP_TYPE_U8)
			return put_members(out, RP_PERFETTO_ARRAY, &value->inner, false,
					   depth + 1);
		put_bytes(out, value);
		break;
	default:
		rp_proto_varint(out, RP_PERFETTO_INT, (uint64_t)value->i64);
	}
	return true;
}

/* Return: false: the payload ended before the last of them. */
static bool put_members(struct rp_format_out *out, uint32_t field, struct rp_fields *fields,
			bool are_named, unsigned int depth)
{
	struct rp_value value = RP_VALUE_INIT;
	bool is_whole = true;
	int ret = 0;

	while (depth < DEPTH_MAX && (ret = rp_fields_next(fields, &value)) == 1) {
		const size_t place = rp_proto_begin(out, field);

		if (are_named)
			rp_proto_text(out, RP_PERFETTO_NAME, value.name);
		is_whole = put_value(out, &value, depth) && is_whole;
		rp_proto_end(out, place);
	}
	return ret == 0 && is_whole;
}

void rp_perfetto_put_fields(struct rp_format_out *out, uint32_t field,
			    const struct rp_reader_event *event)
{
	struct rp_fields fields;

	if (rp_shown_as_payload(event)) {
		const size_t place = rp_proto_begin(out, field);

		rp_proto_text(out, RP_PERFETTO_NAME, "…payload");
		put_hex(out, event->payload, event->payload_bytes);
		rp_proto_end(out, place);
	}
	rp_reader_get_fields(event, &fields);
	if (!put_members(out, field, &fields, true, 0))
		put_truncated(out, field);
}
