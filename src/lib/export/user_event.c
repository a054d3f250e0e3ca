/* SPDX-License-Identifier: MIT */
#include "export/user_event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/heap.h"
#include "core/activity_slots.h"
#include "nettrace/metadata.h"

enum extension_label {
	LABEL_METADATA = 1,
	LABEL_ACTIVITY = 2,
	LABEL_RELATED = 3,
};

#define VERSION 1u
#define LABELLED_ID_BYTES (1u + sizeof(struct rp_guid))

struct head {
	uint32_t write_index;	/* read by the kernel; not part of the record */
	uint8_t version;
	uint16_t id;
	uint32_t extension;
	uint32_t payload;
} __attribute__((packed));

static int make_metadata(const struct rp_event_def *def, struct rp_user_event *event)
{
	const struct rp_definition definition = rp_event_def_plain(def);
	struct rp_outbuf out = { 0 };
	uint32_t bytes;

	/* The label and the length replace the blob's own id. */
	rp_outbuf_put_u8(&out, LABEL_METADATA);
	rp_metadata_write(&out, 0, &definition);
	if (out.failed) {
		rp_outbuf_fini(&out);
		return -ENOMEM;
	}
	event->metadata = out.bytes;
	event->metadata_bytes = out.size;
	bytes = (uint32_t)out.size - 1 - sizeof(bytes);
	memcpy(event->metadata + 1, &bytes, sizeof(bytes));
	return 0;
}

int rp_user_event_make(const struct rp_event_def *def, bool typed, struct rp_user_event **ret_event)
{
	struct rp_user_event *event = calloc(1, sizeof(*event));
	int r;

	if (!event)
		return -ENOMEM;
	event->id = (uint16_t)def->id;
	event->typed = typed;
	if (typed) {
		r = rp_user_fields_make(&event->fields, def);
	} else {
		r = rp_plan_make(&event->plan, def->fields, def->field_count);
		if (r == 0)
			r = make_metadata(def, event);
	}
	if (r < 0) {
		rp_user_event_free(event);
		return r;
	}
	*ret_event = event;
	return 0;
}

void rp_user_event_free(struct rp_user_event *event)
{
	if (!event)
		return;
	rp_user_fields_fini(&event->fields);
	rp_plan_fini(&event->plan);
	rp_heap_free(event->metadata);
	free(event);
}

/* Return: the number of bytes written; 0 for an id of zeros. */
static size_t put_id(enum extension_label label, const struct rp_guid *id, uint8_t *out)
{
	static const struct rp_guid none;

	if (memcmp(id, &none, sizeof(none)) == 0)
		return 0;
	out[0] = (uint8_t)label;
	rp_guid_swap(id->bytes, out + 1);
	return LABELLED_ID_BYTES;
}

static size_t put_ids(uint8_t *out)
{
	struct rp_activity activity;
	size_t bytes;

	rp_activity_get(&activity);
	bytes = put_id(LABEL_ACTIVITY, &activity.id, out);
	return bytes + put_id(LABEL_RELATED, &activity.related, out + bytes);
}

static void gather(const struct rp_part *parts, unsigned int part_count, uint8_t *out)
{
	for (unsigned int i = 0; i < part_count; i++) {
		if (parts[i].size_bytes)
			memcpy(out, parts[i].base, parts[i].size_bytes);
		out += parts[i].size_bytes;
	}
}

/* Not by libc's writev(2), which is a cancellation point: the caller would keep its scratch. */
static int write_pieces(int fd, const struct iovec *pieces, size_t count)
{
	return syscall(SYS_writev, fd, pieces, count) < 0 ? -errno : 0;
}

static int write_typed(const struct rp_user_event *event, int fd, uint64_t payload_bytes,
		       uint8_t *scratch)
{
	uint8_t *out = scratch + RP_PAYLOAD_MAX;
	int64_t bytes = rp_user_fields_put(&event->fields, scratch, payload_bytes, out,
					   RP_USER_EVENT_BYTES_MAX);
	const struct iovec pieces[] = {
		{ (void *)&event->write_index, sizeof(event->write_index) },
		{ out, bytes > 0 ? (size_t)bytes : 0 },
	};

	if (bytes < 0)
		return (int)bytes;
	return write_pieces(fd, pieces, sizeof(pieces) / sizeof(*pieces));
}

static int write_untyped(const struct rp_user_event *event, int fd, uint64_t payload_bytes,
			 uint8_t *scratch)
{
	uint8_t ids[2 * LABELLED_ID_BYTES], *payload = scratch + RP_PAYLOAD_MAX;
	struct head head = {
		.write_index = event->write_index, .version = VERSION, .id = event->id,
	};
	struct iovec pieces[] = {
		{ &head, sizeof(head) },
		{ event->metadata, event->metadata_bytes },
		{ ids, put_ids(ids) },
		{ payload, 0 },
	};
	size_t extension_bytes = event->metadata_bytes + pieces[2].iov_len, bytes;
	bool cut;

	bytes = rp_plan_run(&event->plan, scratch, payload_bytes, payload, &cut);
	if (cut || sizeof(head) - sizeof(head.write_index) + extension_bytes + bytes >
		   RP_USER_EVENT_BYTES_MAX)
		return -EMSGSIZE;
	head.extension = (uint32_t)(extension_bytes << 16 | sizeof(head.payload));
	head.payload = (uint32_t)(bytes << 16 | extension_bytes);
	pieces[3].iov_len = bytes;
	return write_pieces(fd, pieces, sizeof(pieces) / sizeof(*pieces));
}

int rp_user_event_write(const struct rp_user_event *event, int fd, const struct rp_part *parts,
			unsigned int part_count, uint64_t payload_bytes, uint8_t *scratch)
{
	if (payload_bytes > RP_PAYLOAD_MAX)
		return -EMSGSIZE;
	gather(parts, part_count, scratch);
	return event->typed ? write_typed(event, fd, payload_bytes, scratch) :
	       write_untyped(event, fd, payload_bytes, scratch);
}
