/* SPDX-License-Identifier: MIT */
/*
 * Uses any description of an event's fields, with any payload. Either the description is refused,
 * or a listener and, through the encoder, a reader get the payload and can parse it completely. The
 * library accepts exactly the events that the encoder can describe. reader_fuzz.c shows how to run
 * it; link all of src/.
 */
#include <errno.h>
#include <stdlib.h>

#include <ringpipe/reader.h>
#include <ringpipe/ringpipe.h>

#include "input.h"
#include "nettrace/encoder.h"

#define PROVIDER "Fuzzed-Fields"
#define FIELDS_MAX 200u
#define PATIENCE_MS 60000
#define REALLY_EVERY 512u

struct table {
	struct rp_field fields[FIELDS_MAX];
	char names[FIELDS_MAX][8];
	size_t used;
};

static struct rp_provider *provider;
static struct rp_listener *listener;

/* Makes `count` contiguous fields, followed by their members. NULL: the table has no space. */
static const struct rp_field *take_fields(struct fuzz_input *input, struct table *table,
					  size_t count)
{
	size_t first = table->used;

	if (count > FIELDS_MAX - first)
		return NULL;
	table->used += count;
	for (size_t i = first; i < first + count; i++) {
		struct rp_field *field = &table->fields[i];
		uint8_t shape = fuzz_take_byte(input);

		fuzz_take(input, table->names[i], shape % sizeof(table->names[i]));
		field->name = shape == 255 ? NULL : table->names[i];
		field->type = fuzz_take_byte(input) % 22;
		field->element = fuzz_take_byte(input) % 22;
		field->member_count = fuzz_take_byte(input) % 5;
		if (shape % 4 != 3)
			field->members = take_fields(input, table, field->member_count);
	}
	return &table->fields[first];
}

static void start(void)
{
	const struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = PROVIDER, .level = RP_LEVEL_VERBOSE,
	};
	const struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
	};

	if (rp_provider_create(PROVIDER, NULL, NULL, &provider) != 0 ||
	    rp_listener_start(&options, NULL, NULL, &listener) != 0)
		abort();
}

/* Only seldom, since each such write makes the drain thread run. */
static void write_and_listen(struct rp_event *event, const struct rp_event_decl *decl,
			     const void *payload, size_t size)
{
	static unsigned int serial;
	const struct rp_part parts[] = {
		{ payload, size / 2 }, { (const char *)payload + size / 2, size - size / 2 },
	};
	struct rp_listener_event reported = {
		.size = sizeof(reported),
		.fields = decl->fields, .field_count = decl->field_count,
		.payload = payload, .payload_bytes = size,
	};
	struct rp_fields fields;

	if (serial++ % REALLY_EVERY == 0 && rp_event_write(event, parts, 2) == 0 &&
	    (rp_listener_next(listener, &reported, PATIENCE_MS) != 1 ||
	     reported.payload_bytes != size))
		__builtin_trap();
	rp_listener_get_fields(&reported, &fields);
	fuzz_walk(fields);
}

static void read_all(const void *bytes, size_t size)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_fields fields;
	struct rp_reader *reader;
	size_t events = 0;

	if (rp_reader_open_memory(bytes, size, &reader) < 0)
		__builtin_trap();
	for (; rp_reader_next(reader, &event) == 1; events++) {
		rp_reader_get_fields(&event, &fields);
		fuzz_walk(fields);
	}
	if (events != 1)
		__builtin_trap();
	rp_reader_close(reader);
}

/* Return: the result of rp_encoder_define(). */
static int encode_and_read(const struct rp_event_decl *decl, const void *payload, size_t size)
{
	const struct rp_encoder_info info = { .process_id = 1, .processors = 1 };
	const struct rp_definition definition = {
		.provider = PROVIDER, .name = decl->name, .id = decl->id, .level = decl->level,
		.fields = decl->fields, .field_count = decl->field_count,
	};
	struct rp_encoder_event event = { .thread = 1, .payload = payload, .payload_bytes = size };
	struct rp_encoder_event_type *type;
	struct rp_encoder *encoder;
	const void *bytes;
	int ret;

	if (rp_encoder_create(&info, &encoder) != 0)
		return -ENOMEM;
	ret = rp_encoder_define(encoder, &definition, &type);
	if (ret == 0) {
		event.type = type;
		if (rp_encoder_event(encoder, &event) != 0 || rp_encoder_end(encoder) != 0)
			__builtin_trap();
		bytes = rp_encoder_output(encoder, &size);
		read_all(bytes, size);
	}
	rp_encoder_destroy(encoder);
	return ret;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = { bytes, size };
	struct table table = { .used = 0 };
	struct rp_event_decl decl = { .size = sizeof(decl), .id = 1, .name = "fuzzed",
				      .level = RP_LEVEL_INFORMATIONAL };
	struct rp_event *event;
	int created, encoded;

	if (!listener)
		start();
	decl.field_count = fuzz_take_byte(&input) % 40;
	decl.fields = take_fields(&input, &table, decl.field_count);
	if (!decl.fields)
		return 0;
	created = rp_event_create(provider, &decl, &event);
	if (created == 0) {
		write_and_listen(event, &decl, input.at, input.left);
		rp_event_destroy(event);
		encoded = encode_and_read(&decl, input.at, input.left);
		if (encoded != 0 && encoded != -EMSGSIZE)
			__builtin_trap();
	} else if (created != -EINVAL) {
		__builtin_trap();
	}
	return 0;
}
