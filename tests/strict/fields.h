/* SPDX-License-Identifier: MIT */
/* Bounded input, definitions and payloads, for the strict reader. */
#ifndef TESTS_STRICT_FIELDS_H
#define TESTS_STRICT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A read beyond the end returns 0 and sets `failed`. */
struct strict_input {
	const uint8_t *start, *at, *end;
	bool failed;
};

/* Return: the bytes, never NULL. If fewer bytes are left: sets `failed`, returns four zeros. */
const uint8_t *strict_take(struct strict_input *input, uint64_t size);
struct strict_input strict_part(struct strict_input *input, uint64_t size);
uint64_t strict_number(struct strict_input *input, unsigned int bytes);
/* Read a varint of at most `bits` bits, which must be in its shortest form. */
uint64_t strict_varint(struct strict_input *input, unsigned int bits);
/*
 * Read UTF-16 up to its NUL and store it as ASCII. '?' replaces other characters; text that does
 * not fit is cut.
 */
void strict_text(struct strict_input *input, char *ret_text, size_t space);
/* Read a varint of bytes and UTF-8, and store what fits of it. */
void strict_text8(struct strict_input *input, char *ret_text, size_t space);

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

/* Return: NULL; or a text that names the fault in the blob. */
const char *strict_define(struct strict_input blob, struct strict_definition **ret_definition);
/* The same for a row of version 6. */
const char *strict_define_row(struct strict_input row, struct strict_definition **ret_definition);
void strict_definition_free(struct strict_definition *definition);

/* Return: NULL; or a text that names the fault. Without fields, any payload is valid. */
const char *strict_payload(const struct strict_definition *definition,
			   struct strict_input payload);

/* Get the value of an integer field at the top level. Return: whether the field exists. */
bool strict_integer(const struct strict_definition *definition, struct strict_input payload,
		    const char *name, uint64_t *ret_value);

#endif
