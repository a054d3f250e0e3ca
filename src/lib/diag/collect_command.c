/* SPDX-License-Identifier: MIT */
/*
 * The payloads, in the order of their bytes:
 *
 *	CollectTracing	 u32 MB, u32 format, providers
 *	CollectTracing2	 u32 MB, u32 format, bool rundown, providers
 *	CollectTracing3	 u32 MB, u32 format, bool rundown, bool stacks, providers
 *	CollectTracing4	 u32 MB, u32 format, u64 rundown keywords, bool stacks, providers
 *	CollectTracing5	 u32 type 0, then as 4, each provider followed by its event filter; or
 *			 u32 type 1, u64 rundown keywords, providers, each followed by its event
 *			 filter and its tracepoints
 *	CollectTracing6	 as 5, then u32 buffering mode
 *	provider	 u64 keywords, u32 level, string name, string arguments
 *	event filter	 bool enable, u32 count, u32 ids
 *	tracepoints	 string name of the default one, u32 sets, each: string name, u32 count,
 *			 u32 ids
 *
 * Source: Microsoft.Diagnostics.NETCore.Client, EventPipeSessionConfiguration; for type 1 the
 * client in helpers/dotnet/os/linux.rs of microsoft/one-collect.
 *
 * The library captures stacks if the client requests them (3 and later). The commands 1 and 2
 * cannot express that; the .NET runtime then captures stacks, since it can name its managed frames.
 * This library does not: its stacks are bare addresses, which those clients cannot name, and a
 * stack costs several times as much as its event. `dotnet-trace collect` uses 2 and shows the
 * events without stacks.
 */
#include "diag/collect_command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/session_setup.h"

#define TYPE_STREAM 0u
#define TYPE_USER_EVENTS 1u
#define MODE_DROP 0u
#define MODE_BLOCK 1u
#define PROVIDERS_MAX 1000u
#define LEVEL_MAX 5u
/* keywords, level, two empty strings */
#define PROVIDER_BYTES_MIN 20u
/* an empty name and an empty list of ids */
#define SET_BYTES_MIN 8u
/* A larger number of megabytes is treated as a mistake and reduced to this. */
#define BUFFER_MB_MAX 4096u
/* The .NET runtime's keywords for "rundown: yes" in commands without rundown keywords. */
#define RUNDOWN_KEYWORDS 0x80020139u

/* The optional parts of the payload, by command. */
struct collect_shape {
	bool type;
	bool rundown_flag;
	bool rundown_keywords;
	bool stacks;
	bool filters;
	bool mode;
};

static const struct collect_shape shapes[] = {
	[RP_COLLECT_1] = { 0 },
	[RP_COLLECT_2] = { .rundown_flag = true },
	[RP_COLLECT_3] = { .rundown_flag = true, .stacks = true },
	[RP_COLLECT_4] = { .rundown_keywords = true, .stacks = true },
	[RP_COLLECT_5] = { .type = true, .rundown_keywords = true, .stacks = true,
			   .filters = true },
	[RP_COLLECT_6] = { .type = true, .rundown_keywords = true, .stacks = true,
			   .filters = true, .mode = true },
};

/* The next free places in the single allocation. */
struct spaces {
	struct rp_event_filter *filter;
	struct rp_tracepoints *tracepoints;	/* NULL: the command has no tracepoints */
	struct rp_tracepoint_set *set;
	uint32_t *id;
	char *text;
};

bool rp_collect_has_descriptor(uint8_t id, const struct rp_cursor *payload)
{
	struct rp_cursor at = *payload;
	uint32_t type;

	return shapes[id].type && rp_cursor_u32(&at, &type) == 0 && type == TYPE_USER_EVENTS;
}

static enum rp_hresult parse_type(struct rp_cursor *payload, uint32_t *ret_type)
{
	if (rp_cursor_u32(payload, ret_type) < 0)
		return RP_HRESULT_BAD_ENCODING;
	return *ret_type <= TYPE_USER_EVENTS ? RP_HRESULT_OK : RP_HRESULT_INVALID_ARGUMENT;
}

static enum rp_hresult parse_size_and_format(struct rp_cursor *payload, struct rp_collect *collect)
{
	uint32_t mb, format;

	if (rp_cursor_u32(payload, &mb) < 0 || rp_cursor_u32(payload, &format) < 0)
		return RP_HRESULT_BAD_ENCODING;
	if (format == RP_FORMAT_NETPERF)
		return RP_HRESULT_NOT_SUPPORTED;
	if ((format != RP_FORMAT_NETTRACE_V4 && format != RP_FORMAT_NETTRACE_V6) || mb == 0)
		return RP_HRESULT_INVALID_ARGUMENT;
	collect->format = format == RP_FORMAT_NETTRACE_V6 ? 6 : 4;
	collect->buffer_bytes = (size_t)(mb < BUFFER_MB_MAX ? mb : BUFFER_MB_MAX) << 20;
	return RP_HRESULT_OK;
}

static enum rp_hresult parse_options(const struct collect_shape *shape, struct rp_cursor *payload,
				     struct rp_collect *collect, bool *ret_user_events)
{
	enum rp_hresult hr = RP_HRESULT_OK;
	uint32_t type = TYPE_STREAM;
	uint8_t rundown = 0, stacks = 0;

	if (shape->type)
		hr = parse_type(payload, &type);
	*ret_user_events = type == TYPE_USER_EVENTS;
	if (hr == RP_HRESULT_OK && type == TYPE_STREAM)
		hr = parse_size_and_format(payload, collect);
	if (hr != RP_HRESULT_OK)
		return hr;
	if ((shape->rundown_flag && rp_cursor_u8(payload, &rundown) < 0) ||
	    (shape->rundown_keywords && rp_cursor_u64(payload, &collect->rundown_keywords) < 0) ||
	    (shape->stacks && type == TYPE_STREAM && rp_cursor_u8(payload, &stacks) < 0))
		return RP_HRESULT_BAD_ENCODING;
	if (rundown)
		collect->rundown_keywords = RUNDOWN_KEYWORDS;
	collect->session_flags = stacks ? RP_SESSION_STACKS : 0;
	return RP_HRESULT_OK;
}

/* Return: the number of ids read, or -EBADMSG. */
static int64_t parse_ids(struct rp_cursor *payload, struct spaces *spaces)
{
	uint32_t count;

	if (rp_cursor_u32(payload, &count) < 0)
		return -EBADMSG;
	for (uint32_t i = 0; i < count; i++) {
		if (rp_cursor_u32(payload, spaces->id) < 0)
			return -EBADMSG;
		spaces->id++;
	}
	return count;
}

static enum rp_hresult parse_filter(struct rp_cursor *payload, struct spaces *spaces,
				    struct rp_session_provider *provider)
{
	struct rp_event_filter *filter = spaces->filter++;
	uint8_t enable;
	int64_t count;

	filter->size = sizeof(*filter);
	filter->ids = spaces->id;
	if (rp_cursor_u8(payload, &enable) < 0 || (count = parse_ids(payload, spaces)) < 0)
		return RP_HRESULT_BAD_ENCODING;
	filter->enable = enable != 0;
	filter->id_count = (size_t)count;
	provider->filter = filter;
	return RP_HRESULT_OK;
}

/* Parse a name; NULL if it is empty. Return: 0 or -EBADMSG. */
static int parse_name(struct rp_cursor *payload, struct spaces *spaces, const char **ret_name)
{
	int bytes = rp_message_get_string(payload, spaces->text);

	if (bytes < 0)
		return -EBADMSG;
	*ret_name = bytes > 1 ? spaces->text : NULL;
	spaces->text += bytes;
	return 0;
}

static enum rp_hresult parse_tracepoints(struct rp_cursor *payload, struct spaces *spaces)
{
	struct rp_tracepoints *tracepoints = spaces->tracepoints++;
	uint32_t count;

	tracepoints->sets = spaces->set;
	if (parse_name(payload, spaces, &tracepoints->name) < 0 ||
	    rp_cursor_u32(payload, &count) < 0)
		return RP_HRESULT_BAD_ENCODING;
	for (uint32_t i = 0; i < count; i++) {
		struct rp_tracepoint_set *set = spaces->set;
		int64_t ids;

		if ((size_t)(payload->end - payload->at) < SET_BYTES_MIN ||
		    parse_name(payload, spaces, &set->name) < 0)
			return RP_HRESULT_BAD_ENCODING;
		set->ids = spaces->id;
		ids = parse_ids(payload, spaces);
		if (ids < 0)
			return RP_HRESULT_BAD_ENCODING;
		if (ids == 0 || !set->name)
			return RP_HRESULT_INVALID_ARGUMENT;
		set->id_count = (size_t)ids;
		spaces->set++;
	}
	tracepoints->set_count = count;
	return tracepoints->name || count ? RP_HRESULT_OK : RP_HRESULT_INVALID_ARGUMENT;
}

static enum rp_hresult parse_provider(const struct collect_shape *shape, struct rp_cursor *payload,
				      struct spaces *spaces, struct rp_session_provider *provider)
{
	enum rp_hresult hr = RP_HRESULT_OK;
	uint32_t level;
	int name_bytes, filter_bytes;

	provider->size = sizeof(*provider);
	provider->flags = RP_SESSION_PROVIDER_EXACT;
	provider->name = spaces->text;
	if (rp_cursor_u64(payload, &provider->keywords) < 0 ||
	    rp_cursor_u32(payload, &level) < 0 ||
	    (name_bytes = rp_message_get_string(payload, spaces->text)) < 0)
		return RP_HRESULT_BAD_ENCODING;
	spaces->text += name_bytes;
	filter_bytes = rp_message_get_string(payload, spaces->text);
	if (filter_bytes < 0)
		return RP_HRESULT_BAD_ENCODING;
	if (filter_bytes > 1)
		provider->filter_data = spaces->text;
	spaces->text += filter_bytes;
	if (level > LEVEL_MAX || name_bytes == 1)
		return RP_HRESULT_INVALID_ARGUMENT;
	provider->level = (uint8_t)level;
	if (shape->filters)
		hr = parse_filter(payload, spaces, provider);
	if (hr == RP_HRESULT_OK && spaces->tracepoints)
		hr = parse_tracepoints(payload, spaces);
	return hr;
}

/*
 * Allocate enough memory for everything that a payload of this size can contain. An id needs the
 * same number of bytes in both. A string needs at most twice as many: two bytes become at most
 * three, and the four bytes of its count include space for the NUL.
 */
static struct rp_collect *allocate(uint32_t provider_count, size_t payload_bytes, bool user_events,
				   struct spaces *ret_spaces)
{
	size_t sets = user_events ? payload_bytes / SET_BYTES_MIN : 0;
	size_t each = sizeof(struct rp_session_provider) + sizeof(struct rp_event_filter) +
		      (user_events ? sizeof(struct rp_tracepoints) : 0);
	struct rp_collect *collect;

	collect = calloc(1, sizeof(*collect) + provider_count * each +
			 sets * sizeof(struct rp_tracepoint_set) + 3 * payload_bytes + 4);
	if (!collect)
		return NULL;
	collect->provider_count = provider_count;
	collect->providers = (struct rp_session_provider *)(collect + 1);
	ret_spaces->filter = (struct rp_event_filter *)(collect->providers + provider_count);
	ret_spaces->tracepoints = NULL;
	ret_spaces->set = (struct rp_tracepoint_set *)(ret_spaces->filter + provider_count);
	if (user_events) {
		collect->tracepoints = (struct rp_tracepoints *)ret_spaces->set;
		ret_spaces->tracepoints = collect->tracepoints;
		ret_spaces->set = (struct rp_tracepoint_set *)(collect->tracepoints +
							       provider_count);
	}
	ret_spaces->id = (uint32_t *)(ret_spaces->set + sets);
	ret_spaces->text = (char *)(ret_spaces->id + payload_bytes / 4 + 1);
	return collect;
}

/* Parse the part after the providers. The protocol has no time limit for blocked writers. */
static enum rp_hresult parse_rest(const struct collect_shape *shape, struct rp_cursor *payload,
				  struct rp_collect *collect)
{
	uint32_t mode = MODE_DROP;

	if ((shape->mode && rp_cursor_u32(payload, &mode) < 0) || rp_cursor_end(payload) < 0)
		return RP_HRESULT_BAD_ENCODING;
	if (mode != MODE_DROP && mode != MODE_BLOCK)
		return RP_HRESULT_INVALID_ARGUMENT;
	if (mode == MODE_BLOCK && collect->tracepoints)
		return RP_HRESULT_NOT_SUPPORTED;
	collect->block_ms = mode == MODE_BLOCK ? RP_BLOCK_MS : 0;
	return RP_HRESULT_OK;
}

static enum rp_hresult parse_providers(const struct collect_shape *shape, struct rp_cursor *payload,
				       bool user_events, struct rp_collect **ret_collect)
{
	struct rp_collect *collect;
	enum rp_hresult hr = RP_HRESULT_OK;
	struct spaces spaces;
	uint32_t count;
	size_t left;

	if (rp_cursor_u32(payload, &count) < 0)
		return RP_HRESULT_BAD_ENCODING;
	if (count < 1 || count > PROVIDERS_MAX)
		return RP_HRESULT_INVALID_ARGUMENT;
	left = (size_t)(payload->end - payload->at);
	if (count > left / PROVIDER_BYTES_MIN)
		return RP_HRESULT_BAD_ENCODING;
	collect = allocate(count, left, user_events, &spaces);
	if (!collect)
		return RP_HRESULT_FAIL;
	for (uint32_t i = 0; i < count && hr == RP_HRESULT_OK; i++)
		hr = parse_provider(shape, payload, &spaces, &collect->providers[i]);
	if (hr == RP_HRESULT_OK)
		hr = parse_rest(shape, payload, collect);
	if (hr == RP_HRESULT_OK)
		*ret_collect = collect;
	else
		free(collect);
	return hr;
}

enum rp_hresult rp_collect_parse(uint8_t id, struct rp_cursor *payload,
				 struct rp_collect **ret_collect)
{
	const struct collect_shape *shape = &shapes[id];
	struct rp_collect options = { 0 }, *collect = NULL;
	enum rp_hresult hr;
	bool user_events;

	hr = parse_options(shape, payload, &options, &user_events);
	if (hr == RP_HRESULT_OK)
		hr = parse_providers(shape, payload, user_events, &collect);
	if (hr != RP_HRESULT_OK)
		return hr;
	collect->buffer_bytes = options.buffer_bytes;
	collect->format = options.format;
	collect->rundown_keywords = options.rundown_keywords;
	collect->session_flags = options.session_flags;
	*ret_collect = collect;
	return RP_HRESULT_OK;
}
