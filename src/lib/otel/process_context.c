/* SPDX-License-Identifier: MIT */
/*
 * rp_process_context_publish(): collects the attributes of the process, and encodes them as the
 * message ProcessContext of OTEP 4719, in the wire format of Protocol Buffers.
 */
#include <ringpipe/process_context.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/failure.h"
#include "base/sized.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/warn.h"
#include "core/activity_slots.h"
#include "host/identity.h"
#include "nettrace/outbuf.h"
#include "otel/context_mapping.h"
#include "otel/otel.h"

#define ATTRIBUTES_MAX 128u
#define BYTES_MAX 65536u

/* Numbers of fields. */
enum { CONTEXT_RESOURCE = 1, CONTEXT_ATTRIBUTES = 2, RESOURCE_ATTRIBUTES = 1, KEY = 1, VALUE = 2,
       TEXT_VALUE = 1, ARRAY_VALUE = 5 };

struct attributes {
	struct rp_process_attribute rows[ATTRIBUTES_MAX];
	size_t count, bytes;
};

/* Return: 0, also if the key has a value already; -EINVAL; -E2BIG. */
static int add(struct attributes *attributes, const char *key, const char *value)
{
	if (!key || !*key || !value)
		return -EINVAL;
	for (size_t i = 0; i < attributes->count; i++) {
		if (strcmp(attributes->rows[i].key, key) == 0)
			return 0;
	}
	if (attributes->count == ATTRIBUTES_MAX || strlen(key) > BYTES_MAX ||
	    strlen(value) > BYTES_MAX)
		return -E2BIG;
	attributes->bytes += strlen(key) + strlen(value);
	if (attributes->bytes > BYTES_MAX)
		return -E2BIG;
	attributes->rows[attributes->count++] = (struct rp_process_attribute){ key, value };
	return 0;
}

/* Decode %XX in place, and leave everything else as it is. */
static void decode(char *text)
{
	char *to = text;

	for (; *text; text++) {
		int high = *text == '%' ? rp_text_hex_digit(text[1]) : -1;
		int low = high >= 0 ? rp_text_hex_digit(text[2]) : -1;

		*to++ = low > 0 || high > 0 ? (char)(high << 4 | low) : *text;
		if (low >= 0 && (low > 0 || high > 0))
			text += 2;
	}
	*to = '\0';
}

/* Add "key=value,key=value", as OpenTelemetry's SDKs do; parts without '=' are left out. */
static int add_list(struct attributes *attributes, char *list)
{
	char *rest = list, *part;
	int ret = 0;

	while (ret == 0 && (part = strsep(&rest, ","))) {
		char *value = strchr(part, '=');

		part += strspn(part, " ");
		if (!value || value == part)
			continue;
		*value++ = '\0';
		part[strcspn(part, " ")] = '\0';
		decode(value);
		ret = add(attributes, part, value);
	}
	return ret;
}

static size_t varint_bytes(size_t value)
{
	size_t bytes = 1;

	while (value >>= 7)
		bytes++;
	return bytes;
}

static void put_length(struct rp_outbuf *out, unsigned int field, size_t length)
{
	rp_outbuf_put_u8(out, (uint8_t)(field << 3 | 2));
	for (; length >= 0x80; length >>= 7)
		rp_outbuf_put_u8(out, (uint8_t)(length | 0x80));
	rp_outbuf_put_u8(out, (uint8_t)length);
}

static size_t field_bytes(size_t length)
{
	return 1 + varint_bytes(length) + length;
}

static void put_text(struct rp_outbuf *out, unsigned int field, const char *text)
{
	put_length(out, field, strlen(text));
	rp_outbuf_put(out, text, strlen(text));
}

static size_t attribute_bytes(const struct rp_process_attribute *row)
{
	return field_bytes(strlen(row->key)) + field_bytes(field_bytes(strlen(row->value)));
}

static void put_attribute(struct rp_outbuf *out, unsigned int field,
			  const struct rp_process_attribute *row)
{
	put_length(out, field, attribute_bytes(row));
	put_text(out, KEY, row->key);
	put_length(out, VALUE, field_bytes(strlen(row->value)));
	put_text(out, TEXT_VALUE, row->value);
}

/* State that the contexts of threads have version 1 and no attributes of their own. */
static void put_thread_context(struct rp_outbuf *out)
{
	static const struct rp_process_attribute schema = { "threadlocal.schema_version",
							    "tls_v1" };
	static const char map[] = "threadlocal.attribute_key_map";
	const size_t no_rows = field_bytes(0);

	put_attribute(out, CONTEXT_ATTRIBUTES, &schema);
	put_length(out, CONTEXT_ATTRIBUTES, field_bytes(sizeof(map) - 1) + field_bytes(no_rows));
	put_text(out, KEY, map);
	put_length(out, VALUE, no_rows);
	put_length(out, ARRAY_VALUE, 0);
}

static int publish(const struct attributes *attributes)
{
	struct rp_outbuf out = { 0 };
	size_t bytes = 0;
	int ret;

	for (size_t i = 0; i < attributes->count; i++)
		bytes += field_bytes(attribute_bytes(&attributes->rows[i]));
	put_length(&out, CONTEXT_RESOURCE, bytes);
	for (size_t i = 0; i < attributes->count; i++)
		put_attribute(&out, RESOURCE_ATTRIBUTES, &attributes->rows[i]);
	put_thread_context(&out);
	ret = out.failed ? -ENOMEM : rp_context_mapping_publish(out.bytes, (uint32_t)out.size);
	if (ret)
		rp_outbuf_fini(&out);
	else
		rp_activity_publish();
	return ret;
}

static bool is_publishing;

static void print_id(const struct rp_guid *id, char text[37])
{
	char *to = text;

	for (int i = 0; i < 16; i++)
		to += sprintf(to, i >= 4 && i <= 10 && !(i & 1) ? "-%02x" : "%02x", id->bytes[i]);
}

static int add_defaults(struct attributes *attributes, const char *service, const char *id)
{
	int ret = add(attributes, "telemetry.sdk.name", "ringpipe");

	if (ret == 0)
		ret = add(attributes, "telemetry.sdk.language", "cpp");
	if (ret == 0)
		ret = add(attributes, "telemetry.sdk.version", RP_VERSION_STRING);
	if (ret == 0)
		ret = add(attributes, "service.instance.id", id);
	return ret ? ret : add(attributes, "service.name", service);
}

static int collect_and_publish(const struct rp_process_context *options, char *list)
{
	static const char unknown[] = "unknown_service:";
	const char *service = secure_getenv("OTEL_SERVICE_NAME");
	char name[sizeof(unknown) + RP_PROCESS_NAME_BYTES], id[37];
	struct attributes attributes = { .count = 0 };
	struct rp_guid instance;
	int ret = 0;

	memcpy(name, unknown, sizeof(unknown));
	rp_process_name(name + sizeof(unknown) - 1);
	rp_activity_generate(&instance);
	print_id(&instance, id);
	for (uint32_t i = 0; ret == 0 && i < options->attribute_count; i++)
		ret = add(&attributes, options->attributes[i].key, options->attributes[i].value);
	if (ret == 0 && service && *service)
		ret = add(&attributes, "service.name", service);
	if (ret == 0 && list)
		ret = add_list(&attributes, list);
	if (ret == 0)
		ret = add_defaults(&attributes, name, id);
	return ret ? ret : publish(&attributes);
}

RP_PUBLIC int rp_process_context_publish(const struct rp_process_context *given)
{
	struct rp_process_context options = RP_PROCESS_CONTEXT_INIT;
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	const char *environment = secure_getenv("OTEL_RESOURCE_ATTRIBUTES");
	bool before = false;
	char *list = NULL;
	int ret;

	rp_failed_call = NULL;
	if (given && rp_sized_read(&options, sizeof(options), RP_PROCESS_CONTEXT_SIZE_V1,
				   given))
		return -EINVAL;
	if (options.attribute_count && !options.attributes)
		return -EINVAL;
	if (!rp_cas_seq_cst(&is_publishing, &before, true))
		return -EBUSY;
	list = environment ? strdup(environment) : NULL;
	ret = environment && !list ? -ENOMEM : collect_and_publish(&options, list);
	free(list);
	rp_store_release(&is_publishing, false);
	return ret;
}

void rp_process_context_forget(void)
{
	is_publishing = false;
	rp_context_mapping_forget();
}

void rp_process_context_start(void)
{
	const char *wish = secure_getenv("RINGPIPE_PROCESS_CONTEXT");
	int ret = wish && strcmp(wish, "1") == 0 ? rp_process_context_publish(NULL) : 0;

	if (ret == -EEXIST)
		rp_warn("ringpipe: other code has published the context of the process\n");
	else if (ret != 0)
		rp_warn("ringpipe: cannot publish the context of the process: %s\n",
			rp_text_error(-ret));
}
