/* SPDX-License-Identifier: MIT */
/* Bytes with their bounds, definitions and payloads: what the strict reader is made of. */
#ifndef TESTS_STRICT_FIELDS_H
#define TESTS_STRICT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Past the end every read is 0 and sets `failed`. */
struct strict_input {
	const uint8_t *start, *at, *end;
	bool failed;
};

/* Return: where the bytes are; never NULL. When there are fewer: `failed`, and four zeros. */
const uint8_t *strict_take(struct strict_input *input, uint64_t size);
struct strict_input strict_part(struct strict_input *input, uint64_t size);
uint64_t strict_number(struct strict_input *input, unsigned int bytes);
/* A varint in its shortest form, of at most so many bits. */
uint64_t strict_varint(struct strict_input *input, unsigned int bits);
/* UTF-16 with its end, as ASCII: other characters become '?', what does not fit is left out. */
void strict_text(struct strict_input *input, char *ret_text, size_t space);

#define STRICT_NAME_BYTES 128u

struct strict_field {
	char name[STRICT_NAME_BYTES];
	uint32_t code, element;
	struct strict_field *members;
	uint32_t member_count;
};

struct strict_definition {
	uint32_t metadata_id;
	uint32_t id;
	char provider[STRICT_NAME_BYTES], name[STRICT_NAME_BYTES];
	struct strict_field *fields;
	uint32_t field_count;
};

/* Return: NULL, or what is wrong with the blob. */
const char *strict_define(struct strict_input blob, struct strict_definition **ret_definition);
void strict_definition_free(struct strict_definition *definition);

/* Return: NULL, or what is wrong with the payload. Without fields, any payload is right. */
const char *strict_payload(const struct strict_definition *definition,
			   struct strict_input payload);

/* The value of an integer field at the top. Return: whether there is one. */
bool strict_integer(const struct strict_definition *definition, struct strict_input payload,
		    const char *name, uint64_t *ret_value);

#endif
