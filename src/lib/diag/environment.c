/* SPDX-License-Identifier: MIT */
#include "diag/environment.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/host.h>

#include "base/file.h"
#include "base/text.h"

#define BYTES_FIRST 16384u
/* By default the kernel allows three quarters of an 8 MB stack; no realistic limit exceeds this. */
#define BYTES_MAX (64u << 20)

/* A change by a client; there is one for each name. */
struct change {
	struct change *next;
	char *value;			/* NULL: the variable was removed */
	size_t name_length;
	char name[];
};

static struct change *changes;

static pthread_mutex_t callback_lock = PTHREAD_MUTEX_INITIALIZER;
static rp_host_environment_callback set_callback;
static void *set_callback_data;

static void hold_callback(void)
{
	pthread_mutex_lock(&callback_lock);
}

static void release_callback(void)
{
	pthread_mutex_unlock(&callback_lock);
}

static void watch_forks(void)
{
	pthread_atfork(hold_callback, release_callback, release_callback);
}

static void lock_callback(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	hold_callback();
}

RP_PUBLIC void rp_host_set_environment_callback(rp_host_environment_callback callback, void *data)
{
	lock_callback();
	set_callback = callback;
	set_callback_data = data;
	release_callback();
}

static struct change *find_change(const char *name, size_t length)
{
	for (struct change *change = changes; change; change = change->next) {
		if (change->name_length == length && memcmp(change->name, name, length) == 0)
			return change;
	}
	return NULL;
}

static int read_start(char **ret_text, size_t *ret_size)
{
	for (size_t capacity = BYTES_FIRST; capacity <= BYTES_MAX; capacity *= 2) {
		char *text = calloc(1, capacity);
		ssize_t size;

		if (!text)
			return -ENOMEM;
		size = rp_file_read("/proc/self/environ", text, capacity);
		if (size >= 0 && (size_t)size < capacity) {
			text[size] = '\0';
			*ret_text = text;
			*ret_size = (size_t)size;
			return 0;
		}
		free(text);
		if (size < 0)
			return -EIO;
	}
	return -E2BIG;
}

/*
 * A program that shows its state in ps(1) may have overwritten this text. Skip parts without '='.
 */
static uint32_t put_start(struct rp_message_buffer *reply, const char *text, size_t size)
{
	uint32_t count = 0;

	for (const char *at = text; at < text + size; at += strlen(at) + 1) {
		const char *mark = strchr(at, '=');

		if (!mark || mark == at || find_change(at, (size_t)(mark - at)))
			continue;
		rp_message_put_string(reply, at);
		count++;
	}
	return count;
}

static uint32_t put_changes(struct rp_message_buffer *reply)
{
	uint32_t count = 0;

	for (const struct change *change = changes; change; change = change->next) {
		size_t value_bytes = change->value ? strlen(change->value) + 1 : 0;
		char *text;

		if (!change->value)
			continue;
		text = malloc(change->name_length + 1 + value_bytes);
		if (!text) {
			reply->error = -ENOMEM;
			break;
		}
		memcpy(text, change->name, change->name_length);
		text[change->name_length] = '=';
		memcpy(text + change->name_length + 1, change->value, value_bytes);
		rp_message_put_string(reply, text);
		free(text);
		count++;
	}
	return count;
}

enum rp_hresult rp_environment_reply(struct rp_message_buffer *reply)
{
	size_t size_at = reply->size, count_at, size;
	uint32_t count;
	char *text;

	if (read_start(&text, &size) < 0)
		return RP_HRESULT_FAIL;
	rp_message_put_u32(reply, 0);
	rp_message_put_u8(reply, 0);
	rp_message_put_u8(reply, 0);
	rp_message_begin_stream(reply);
	count_at = reply->size;
	rp_message_put_u32(reply, 0);
	count = put_start(reply, text, size);
	count += put_changes(reply);
	free(text);
	rp_message_set_u32(reply, count_at, count);
	rp_message_set_u32(reply, size_at, (uint32_t)(reply->size - count_at));
	return RP_HRESULT_OK;
}

/* Allocate before making the change, so that each change made is also recorded. */
static int prepare_change(const char *name, const char *value, struct change **ret_change,
			  char **ret_value)
{
	struct change *change = find_change(name, strlen(name));
	char *copy = rp_text_copy(value);

	if (value && !copy)
		return -ENOMEM;
	if (!change) {
		change = calloc(1, sizeof(*change) + strlen(name) + 1);
		if (!change) {
			free(copy);
			return -ENOMEM;
		}
		change->name_length = strlen(name);
		memcpy(change->name, name, change->name_length);
	}
	*ret_change = change;
	*ret_value = copy;
	return 0;
}

static bool has_state_rings(const struct change *change)
{
	return find_change(change->name, change->name_length) == change;
}

static void keep_change(struct change *change, char *value)
{
	if (!has_state_rings(change)) {
		change->next = changes;
		changes = change;
	}
	free(change->value);
	change->value = value;
}

/* While start-up is suspended, no other thread reads the environment: the host is waiting. */
static int set_suspended(const char *name, const char *value, void *data)
{
	(void)data;
	return (value ? setenv(name, value, 1) : unsetenv(name)) < 0 ? -errno : 0;
}

static enum rp_hresult change(const char *name, const char *value, bool suspended)
{
	rp_host_environment_callback set;
	struct change *row;
	char *copy;
	void *data;

	lock_callback();
	set = set_callback;
	data = set_callback_data;
	release_callback();
	if (!set && suspended)
		set = set_suspended;
	if (!set)
		return RP_HRESULT_INVALID_OPERATION;
	if (prepare_change(name, value, &row, &copy) < 0)
		return RP_HRESULT_FAIL;
	if (set(name, value, data) < 0) {
		if (!has_state_rings(row))
			free(row);
		free(copy);
		return RP_HRESULT_FAIL;
	}
	keep_change(row, copy);
	return RP_HRESULT_OK;
}

static enum rp_hresult parse_and_change(struct rp_cursor *payload, char *text, bool suspended)
{
	static const uint8_t no_value[4];
	size_t left;
	char *value = NULL;
	int bytes = rp_message_get_string(payload, text);

	if (bytes < 0)
		return RP_HRESULT_BAD_ENCODING;
	left = (size_t)(payload->end - payload->at);
	if (left != sizeof(no_value) || memcmp(payload->at, no_value, left) != 0) {
		value = text + bytes;
		if (rp_message_get_string(payload, value) < 0 || rp_cursor_end(payload) < 0)
			return RP_HRESULT_BAD_ENCODING;
	}
	if (!*text || strchr(text, '='))
		return RP_HRESULT_INVALID_ARGUMENT;
	return change(text, value, suspended);
}

enum rp_hresult rp_environment_change(struct rp_cursor *payload, bool suspended)
{
	char *text = malloc(2 * (size_t)(payload->end - payload->at) + 1);
	enum rp_hresult hr;

	if (!text)
		return RP_HRESULT_FAIL;
	hr = parse_and_change(payload, text, suspended);
	free(text);
	return hr;
}
