/* SPDX-License-Identifier: MIT */
/*
 * Traces of several machines use the same ids of processes and threads, and each recording numbers
 * its mappings and functions from 1 on. In a merged trace, these ids must be unique.
 */
#include "tools/trace/trace_merge_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/field.h>

#include "nettrace/event_header.h"
#include "tools/trace/machine_clock.h"
#include "tools/trace/system_event.h"

/* Copy a number that names a mapping or function of the source. */
static int put_id(struct rp_trace_merge *merge, struct rp_merge_strand *strand,
		  struct rp_cursor *from)
{
	struct rp_thread_slot *slot;
	uint64_t id;

	if (rp_cursor_varint(from, &id) != 0)
		return -EBADMSG;
	if (id == 0) {
		rp_outbuf_put_varint(&merge->renamed, 0);
		return 0;
	}
	if (rp_thread_table_add(&strand->ids, id, &slot) < 0)
		return -ENOMEM;
	if (!slot->sequence)
		slot->sequence = ++merge->next_id;
	rp_outbuf_put_varint(&merge->renamed, slot->sequence);
	return 0;
}

static int copy_number(struct rp_outbuf *out, struct rp_cursor *from)
{
	uint64_t number;

	if (rp_cursor_varint(from, &number) != 0)
		return -EBADMSG;
	rp_outbuf_put_varint(out, number);
	return 0;
}

/* "name" becomes "name@host". */
static int put_host(struct rp_outbuf *out, struct rp_cursor *from, const char *host)
{
	const size_t host_bytes = strlen(host);
	const uint8_t *text;
	uint16_t bytes;

	if (copy_number(out, from) != 0 || rp_cursor_u16(from, &bytes) != 0 ||
	    rp_cursor_take(from, bytes, &text) != 0)
		return -EBADMSG;
	/* A trace that was merged before has hosts. */
	if (bytes + host_bytes + 1 > UINT16_MAX || memchr(text, '@', bytes))
		return -EBADMSG;
	rp_outbuf_put_u8(out, (uint8_t)((bytes + host_bytes + 1) & 0xff));
	rp_outbuf_put_u8(out, (uint8_t)((bytes + host_bytes + 1) >> 8));
	rp_outbuf_put(out, text, bytes);
	rp_outbuf_put_u8(out, '@');
	rp_outbuf_put(out, host, host_bytes);
	return 0;
}

/* Return: -EBADMSG: the payload has another layout than expected, so it stays unchanged. */
static int rename_system(struct rp_trace_merge *merge, struct rp_merge_strand *strand,
			 struct rp_cursor *from)
{
	const uint32_t id = strand->event.type->id;
	struct rp_outbuf *out = &merge->renamed;
	const uint8_t *text;
	uint16_t bytes;
	int ret = -EBADMSG;

	if (id == RP_SYSTEM_EXISTING_PROCESS || id == RP_SYSTEM_PROCESS_CREATE)
		return strand->source->host ? put_host(out, from, strand->source->host) : -EBADMSG;
	if (id < RP_SYSTEM_MAPPING || id > RP_SYSTEM_METADATA)
		return ret;
	ret = put_id(merge, strand, from);
	if (ret == 0 && id == RP_SYSTEM_FUNCTION)
		ret = put_id(merge, strand, from);
	if (ret || id != RP_SYSTEM_MAPPING)
		return ret;
	for (int i = 0; ret == 0 && i < 3; i++)		/* start, end, offset in the file */
		ret = copy_number(out, from);
	if (ret || rp_cursor_u16(from, &bytes) != 0 || rp_cursor_take(from, bytes, &text) != 0)
		return -EBADMSG;
	rp_outbuf_put_u8(out, (uint8_t)(bytes & 0xff));
	rp_outbuf_put_u8(out, (uint8_t)(bytes >> 8));
	rp_outbuf_put(out, text, bytes);
	return put_id(merge, strand, from);
}

/* Return: whether a field of these events is the id of a process or thread. */
static bool is_id(const char *name)
{
	static const char *const names[] = {
		"process_id", "parent_id", "thread", "waker_process", "waker_thread",
		"woken_process", "woken_thread", "previous_process", "previous_thread",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Return: the value that a field has in the merged trace. */
static uint64_t rename_value(const struct rp_trace_merge_source *source,
			     const struct rp_value *value)
{
	if (!strcmp(value->name, "monotonic_ns"))
		return rp_merge_time(source, value->u64);
	return is_id(value->name) && value->u64 ? value->u64 + source->id_step : value->u64;
}

/* Copy the payload with the values that these fields have in the merged trace. */
static int rename_fields(struct rp_trace_merge *merge, const struct rp_merge_strand *strand)
{
	const struct rp_reader_event *event = &strand->event;
	const uint8_t *end = (const uint8_t *)event->payload + event->payload_bytes;
	const uint8_t *at = event->payload;
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;

	rp_reader_get_fields(event, &fields);
	for (uint32_t i = 0; rp_fields_next(&fields, &value) == 1; i++) {
		const uint8_t *bytes = value.bytes;
		uint64_t renamed;

		if (value.type != RP_TYPE_U32 && value.type != RP_TYPE_U64)
			continue;
		renamed = rename_value(strand->source, &value);
		rp_outbuf_put(&merge->renamed, at, (size_t)(bytes - at));
		if (event->type->fields[i].wire_bytes)
			rp_outbuf_put(&merge->renamed, &renamed, value.size_bytes);
		else
			rp_outbuf_put_varint(&merge->renamed, renamed);
		at = bytes + value.size_bytes;
	}
	rp_outbuf_put(&merge->renamed, at, (size_t)(end - at));
	return 0;
}

int rp_merge_rename(struct rp_trace_merge *merge, struct rp_merge_strand *strand,
		    struct rp_encoder_event *event)
{
	const char *provider = strand->event.type->provider;
	struct rp_cursor from = rp_cursor_over(event->payload, event->payload_bytes);
	int ret = -EBADMSG;

	merge->renamed.size = 0;
	if (!strcmp(provider, RP_SYSTEM_PROVIDER))
		ret = rename_system(merge, strand, &from);
	else if (strand->source->trace_clock && (!strcmp(provider, RP_MACHINE_PROVIDER) ||
						!strcmp(provider, RP_TRACE_MERGE_PROVIDER)))
		ret = rename_fields(merge, strand);
	if (ret == -ENOMEM || merge->renamed.failed)
		return -ENOMEM;
	if (ret)
		return 0;
	if (!strcmp(provider, RP_SYSTEM_PROVIDER))
		rp_outbuf_put(&merge->renamed, from.at, (size_t)(from.end - from.at));
	event->payload = merge->renamed.bytes;
	event->payload_bytes = merge->renamed.size;
	return merge->renamed.failed ? -ENOMEM : 0;
}
