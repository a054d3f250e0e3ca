/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/published_context.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "base/utf.h"
#include "tools/ringpipe-record/bounded_read.h"

#define SIGNATURE "OTEL_CTX"
#define VERSION 2u

/* See src/lib/otel/context_mapping.h. */
struct published_header {
	char signature[8];
	uint32_t version, bytes;
	uint64_t published_ns;
	uint64_t address;
};

/* Numbers of fields and kinds of their values. */
enum { CONTEXT_RESOURCE = 1, RESOURCE_ATTRIBUTES = 1, KEY = 1, VALUE = 2 };
enum { VALUE_TEXT = 1, VALUE_BOOL = 2, VALUE_INTEGER = 3, VALUE_DOUBLE = 4 };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/*
 * Return: whether the line of /proc/PID/maps names the mapping of a context. The name is all that
 * follows the five fields. The kernel states that a memfd is deleted, as it has no link.
 */
static bool is_context(const char *line)
{
	static const char *const names[] = {
		"[anon_shmem:" SIGNATURE "]\n", "[anon:" SIGNATURE "]\n",
		"/memfd:" SIGNATURE " (deleted)\n",
	};
	int name = 0;

	(void)sscanf(line, "%*x-%*x %*s %*x %*x:%*x %*u %n", &name);
	for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(line + name, names[i]))
			return true;
	}
	return false;
}

/* A process may have several mappings with the name; the first one with a header counts. */
static int find_header(pid_t process, struct published_header *ret_header, uint64_t *ret_address)
{
	char path[64], *line = NULL;
	size_t space = 0;
	int ret = -ENOENT;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", process);
	file = fopen(path, "re");
	while (file && ret == -ENOENT && getline(&line, &space, file) > 0) {
		if (!is_context(line) || sscanf(line, "%" SCNx64, ret_address) != 1 ||
		    !rp_bounded_read(process, *ret_address, ret_header, sizeof(*ret_header)) ||
		    memcmp(ret_header->signature, SIGNATURE, sizeof(ret_header->signature)) != 0)
			continue;
		ret = 0;
	}
	free(line);
	if (file)
		fclose(file);
	return ret;
}

static int read_message(pid_t process, const struct published_header *header, uint64_t address,
			struct rp_published_context *context)
{
	struct published_header after;

	context->published_ns = header->published_ns;
	context->bytes = header->bytes;
	context->message = malloc(header->bytes ? header->bytes : 1);
	if (!context->message)
		return -ENOMEM;
	if (!rp_bounded_read(process, header->address, context->message, context->bytes) ||
	    !rp_bounded_read(process, address, &after, sizeof(after)) ||
	    memcmp(&after, header, sizeof(after)) != 0) {
		free(context->message);
		return -EAGAIN;
	}
	return 0;
}

int rp_published_context_read(pid_t process, uint64_t known_ns,
			      struct rp_published_context *ret_context)
{
	struct rp_published_context context;
	struct published_header header;
	uint64_t address;
	int ret = find_header(process, &header, &address);

	if (ret)
		return ret;
	if (header.published_ns == 0)
		return -EAGAIN;
	if (header.published_ns == known_ns)
		return -EALREADY;
	if (header.version != VERSION || header.bytes > RP_PUBLISHED_BYTES_MAX)
		return -EBADMSG;
	ret = read_message(process, &header, address, &context);
	if (ret == 0)
		*ret_context = context;
	return ret;
}

static uint64_t get_varint(struct rp_cursor *cursor)
{
	uint64_t value;

	if (rp_cursor_varint(cursor, &value) == 0)
		return value;
	rp_cursor_fail(cursor);
	return 0;
}

/* A field of a message: its number, and its bytes or its number. */
struct field {
	uint64_t number;
	unsigned int wire;
	uint64_t value;
	struct rp_cursor bytes;
};

/* Return: whether there is a further field. A damaged message marks the cursor as failed. */
static bool next_field(struct rp_cursor *cursor, struct field *field)
{
	uint64_t tag;

	if (rp_cursor_failed(cursor) || rp_cursor_left(cursor) == 0)
		return false;
	tag = get_varint(cursor);
	*field = (struct field){ .number = tag >> 3, .wire = tag & 7 };
	switch (field->wire) {
	case WIRE_VARINT:
		field->value = get_varint(cursor);
		break;
	case WIRE_64:
		field->value = rp_cursor_get_u64(cursor);
		break;
	case WIRE_BYTES:
		field->value = get_varint(cursor);
		if (!rp_cursor_failed(cursor) &&
		    rp_cursor_sub(cursor, field->value, &field->bytes) < 0)
			rp_cursor_fail(cursor);
		break;
	case WIRE_32:
		field->value = rp_cursor_get_u32(cursor);
		break;
	default:
		rp_cursor_fail(cursor);
	}
	return !rp_cursor_failed(cursor);
}

struct attribute_visit {
	rp_published_visit call;
	void *user;
	char *key, *value;		/* of the attribute, each with `space` bytes */
	enum rp_attribute_type type;	/* of the value */
	size_t space;
	uint64_t hashes[RP_PUBLISHED_ATTRIBUTES_MAX];	/* of the keys so far */
	size_t count, bytes;		/* bytes: of all texts so far */
};

/* Cut the text between two characters, and replace bytes that are not UTF-8. */
static void copy_text(char *to, size_t space, const struct rp_cursor *bytes)
{
	size_t size = strnlen((const char *)bytes->at, rp_cursor_left(bytes));

	if (size >= space) {
		size = space - 1;
		while (size && (bytes->at[size] & 0xc0) == 0x80)
			size--;
	}
	memcpy(to, bytes->at, size);
	to[size] = '\0';
	if (rp_utf8_is_valid(to, size))
		return;
	for (; *to; to++)
		*to = (uint8_t)*to < 0x80 ? *to : '?';
}

/* Return: whether the value has a form that is kept. */
static bool take_value(struct attribute_visit *visit, struct rp_cursor value)
{
	bool is_known = false;
	struct field field;
	double number;

	while (next_field(&value, &field)) {
		is_known = true;
		visit->type = field.number == VALUE_BOOL ? RP_ATTRIBUTE_BOOL :
			      field.number == VALUE_INTEGER ? RP_ATTRIBUTE_INTEGER :
			      field.number == VALUE_DOUBLE ? RP_ATTRIBUTE_DOUBLE :
			      RP_ATTRIBUTE_TEXT;
		if (field.number == VALUE_TEXT && field.wire == WIRE_BYTES)
			copy_text(visit->value, visit->space, &field.bytes);
		else if (field.number == VALUE_BOOL && field.wire == WIRE_VARINT)
			strcpy(visit->value, field.value ? "true" : "false");
		else if (field.number == VALUE_INTEGER && field.wire == WIRE_VARINT)
			snprintf(visit->value, visit->space, "%" PRIi64, (int64_t)field.value);
		else if (field.number == VALUE_DOUBLE && field.wire == WIRE_64)
			snprintf(visit->value, visit->space, "%.17g",
				 (memcpy(&number, &field.value, sizeof(number)), number));
		else
			is_known = false;
	}
	return is_known && !rp_cursor_failed(&value);
}

/* Return: whether no earlier attribute has the key, as far as its hash shows. */
static bool note_key(struct attribute_visit *visit)
{
	const uint64_t hash = rp_hash_text(RP_HASH_BEGIN, visit->key);

	for (size_t i = 0; i < visit->count; i++) {
		if (visit->hashes[i] == hash)
			return false;
	}
	visit->hashes[visit->count++] = hash;
	return true;
}

static int take_attribute(struct attribute_visit *visit, struct rp_cursor attribute)
{
	bool has_value = false;
	struct field field;

	*visit->key = *visit->value = '\0';
	while (next_field(&attribute, &field)) {
		if (field.number == KEY && field.wire == WIRE_BYTES)
			copy_text(visit->key, visit->space, &field.bytes);
		else if (field.number == VALUE && field.wire == WIRE_BYTES)
			has_value = take_value(visit, field.bytes);
	}
	if (rp_cursor_failed(&attribute))
		return -EBADMSG;
	if (!has_value || !*visit->key || visit->count == RP_PUBLISHED_ATTRIBUTES_MAX ||
	    !note_key(visit))
		return 0;
	visit->bytes += strlen(visit->key) + strlen(visit->value);
	if (visit->bytes > RP_PUBLISHED_TEXTS_MAX)
		return 0;
	return visit->call(visit->user, &(struct rp_attribute){ visit->key, visit->value,
								 visit->type });
}

static int take_resource(struct attribute_visit *visit, struct rp_cursor resource)
{
	struct field field;
	int ret = 0;

	while (ret == 0 && next_field(&resource, &field)) {
		if (field.number == RESOURCE_ATTRIBUTES && field.wire == WIRE_BYTES)
			ret = take_attribute(visit, field.bytes);
	}
	return ret == 0 && rp_cursor_failed(&resource) ? -EBADMSG : ret;
}

int rp_published_context_visit(const struct rp_published_context *context, size_t text_bytes,
			       rp_published_visit call, void *user)
{
	struct rp_cursor message = rp_cursor_over(context->message, context->bytes);
	struct attribute_visit visit = { .call = call, .user = user, .space = text_bytes + 1 };
	struct field field;
	int ret = 0;

	visit.key = malloc(2 * visit.space);
	if (!visit.key)
		return -ENOMEM;
	visit.value = visit.key + visit.space;
	while (ret == 0 && next_field(&message, &field)) {
		if (field.number == CONTEXT_RESOURCE && field.wire == WIRE_BYTES)
			ret = take_resource(&visit, field.bytes);
	}
	free(visit.key);
	return ret == 0 && rp_cursor_failed(&message) ? -EBADMSG : ret;
}
