/* SPDX-License-Identifier: MIT */
/*
 * One small trace with fixed contents, compared byte for byte: golden/nettrace_v4.hex and
 * nettrace_v6.hex have the encoder's output that a strict reader (TraceEvent) accepted. Different
 * bytes are a change of the format, so check them with such a reader before running this with
 * RINGPIPE_REGENERATE=1.
 *
 * usage: nettrace_golden VERSION FILE
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nettrace/encoder.h"

struct rows {
	const struct rp_encoder_event_type *order, *start, *batch;
};

static bool define(struct rp_encoder *encoder, struct rows *ret_rows)
{
	static const struct rp_field order[] = {
		{ .name = "order_id", .type = RP_TYPE_U64 },
		{ .name = "customer", .type = RP_TYPE_STRING },
		{ .name = "paid", .type = RP_TYPE_BOOL },
	};
	static const struct rp_field item[] = {
		{ .name = "guid", .type = RP_TYPE_GUID },
		{ .name = "when", .type = RP_TYPE_TIME },
	};
	static const struct rp_field batch[] = {
		{ .name = "items", .type = RP_TYPE_ARRAY, .element = RP_TYPE_STRUCT,
		  .members = item, .member_count = 2 },
		{ .name = "grade", .type = RP_TYPE_CHAR },
	};
	const struct rp_definition definitions[] = {
		{ .provider = "Shop-Orders", .name = "order_placed", .id = 1, .level = 4,
		  .keywords = 1, .fields = order, .field_count = 3 },
		{ .provider = "Shop-Http", .name = "RequestStart", .id = 2, .version = 1,
		  .level = 5, .opcode = RP_OPCODE_START },
		{ .provider = "Shop-Orders", .name = "batch", .id = 3, .level = 2,
		  .fields = batch, .field_count = 2 },
	};
	struct rp_encoder_event_type *types[3];

	for (int i = 0; i < 3; i++)
		if (rp_encoder_define(encoder, &definitions[i], &types[i]) < 0)
			return false;
	*ret_rows = (struct rows) { types[0], types[1], types[2] };
	return true;
}

static bool fill(struct rp_encoder *encoder, const struct rows *rows)
{
	static const char order[] = "\1\2\0\0\0\0\0\0Zo\xc3\xab\0\1";
	static const char batch[] = "\1\0ABCDEFGHIJKLMNOP\0\0\0\0\0\0\0\0\xe9";
	static const uint64_t frames[] = { 0x401000, 0x402000 };
	static const struct rp_guid activity = { "activity-of-this" };
	const struct rp_encoder_event events[] = {
		{ .type = rows->start, .time_ns = 1500, .thread = 41, .processor = 1,
		  .activity = &activity },
		{ .type = rows->order, .time_ns = 1600, .thread = 41, .processor = 1,
		  .activity = &activity, .frames = frames, .frame_count = 2,
		  .payload = order, .payload_bytes = sizeof(order) - 1 },
		{ .type = rows->order, .time_ns = 1600, .thread = 300, .processor = 0,
		  .related_activity = &activity, .frames = frames, .frame_count = 2,
		  .payload = order, .payload_bytes = sizeof(order) - 1 },
		{ .type = rows->batch, .time_ns = 70000, .thread = 300, .processor = 0,
		  .payload = batch, .payload_bytes = sizeof(batch) - 1 },
		{ .type = rows->batch, .time_ns = 70001, .thread = 41, .processor = 0 },
	};

	if (rp_encoder_sequence_point(encoder, 1000, 0) < 0)
		return false;
	for (int i = 0; i < 5; i++)
		if (rp_encoder_event(encoder, &events[i]) < 0)
			return false;
	return !rp_encoder_sequence_point(encoder, 70001, 5) && !rp_encoder_end(encoder);
}

static void print_hex(FILE *out, const unsigned char *bytes, size_t size)
{
	for (size_t at = 0; at < size; at += 16) {
		fprintf(out, "%06zx ", at);
		for (size_t i = at; i < at + 16 && i < size; i++)
			fprintf(out, " %02x", bytes[i]);
		fputc('\n', out);
	}
}

static bool same_as_file(const char *path, const char *text)
{
	char *known = calloc(1, strlen(text) + 2);
	FILE *file = fopen(path, "r");
	bool same;

	if (!file) {
		perror(path);
		free(known);
		return false;
	}
	same = fread(known, 1, strlen(text) + 1, file) == strlen(text) && !strcmp(known, text);
	for (size_t at = 0; !same && text[at]; at++) {
		if (text[at] != known[at]) {
			fprintf(stderr, "differs from offset %.6s on; now it is:\n%s",
				text + at - at % 56, text);
			break;
		}
	}
	fclose(file);
	free(known);
	return same;
}

int main(int argc, char **argv)
{
	struct rp_encoder_info info = {
		.start_ns = 1000, .start_utc_ns = 1709210096007000000, .process_id = 1234,
		.processors = 2, .page_bytes = 4096, .own_ids = 1,
	};
	struct rp_encoder *encoder = NULL;
	struct rows rows;
	char *text = NULL;
	size_t size;
	FILE *out;
	bool good;

	if (argc != 3)
		return EXIT_FAILURE;
	info.version = (uint32_t)atoi(argv[1]);
	if (rp_encoder_create(&info, &encoder) < 0 || !define(encoder, &rows) ||
	    !fill(encoder, &rows))
		return EXIT_FAILURE;
	if (getenv("RINGPIPE_REGENERATE")) {
		const void *bytes = rp_encoder_output(encoder, &size);

		out = fopen(argv[2], "w");
		if (!out)
			return EXIT_FAILURE;
		print_hex(out, bytes, size);
		good = !fclose(out);
	} else {
		const void *bytes = rp_encoder_output(encoder, &size);
		size_t text_size;

		out = open_memstream(&text, &text_size);
		print_hex(out, bytes, size);
		fclose(out);
		good = same_as_file(argv[2], text);
		free(text);
	}
	rp_encoder_destroy(encoder);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
