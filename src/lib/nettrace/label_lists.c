/* SPDX-License-Identifier: MIT */
#include "nettrace/label_lists.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf.h"
#include "nettrace/convert.h"
#include "nettrace/format.h"

/* Lists of more bytes are large. */
#define LARGE_BYTES 1024u
/* The memory of decoded large lists. If it is exceeded, all are decoded again when needed. */
#define LARGE_MEMORY_MAX (64u << 20)
/* How often a stream may have its large lists decoded, on average, and some bytes besides. */
#define DECODED_FACTOR 4u
#define DECODED_BYTES (16u << 20)

struct large_list {
	struct rp_chain_node node;	/* its hash is the id */
	struct rp_labels labels;
	struct rp_outbuf others, texts;
};

struct text {
	const uint8_t *at;
	uint32_t bytes;
};

/* A label. Members that its kind does not use keep their previous values. */
struct label {
	uint8_t kind;
	bool is_last;
	struct text key, value;
	const uint8_t *bytes;	/* 16, of an id */
	uint64_t number;
};

static int take_text(struct rp_cursor *c, struct text *text)
{
	if (rp_cursor_varint32(c, &text->bytes) < 0)
		return -EBADMSG;
	return rp_cursor_take(c, text->bytes, &text->at);
}

static int take_small(struct rp_cursor *c, uint64_t *ret_number)
{
	uint8_t small;

	if (rp_cursor_u8(c, &small) < 0)
		return -EBADMSG;
	*ret_number = small;
	return 0;
}

static int take_label(struct rp_cursor *c, struct label *label)
{
	uint8_t kind;

	if (rp_cursor_u8(c, &kind) < 0)
		return -EBADMSG;
	label->kind = kind & (uint8_t)~RP_LABEL_LAST;
	label->is_last = kind & RP_LABEL_LAST;
	switch (label->kind) {
	case RP_LABEL_ACTIVITY:
	case RP_LABEL_RELATED:
	case RP_LABEL_TRACE_ID:
		return rp_cursor_take(c, 16, &label->bytes);
	case RP_LABEL_SPAN_ID:
	case RP_LABEL_KEYWORDS:
		return rp_cursor_u64(c, &label->number);
	case RP_LABEL_TEXT:
		return take_text(c, &label->key) < 0 ? -EBADMSG : take_text(c, &label->value);
	case RP_LABEL_NUMBER:
		return take_text(c, &label->key) < 0 ? -EBADMSG :
		       rp_cursor_varint(c, &label->number);
	case RP_LABEL_OPCODE:
	case RP_LABEL_LEVEL:
	case RP_LABEL_VERSION:
		return take_small(c, &label->number);
	}
	/* The size of an unknown kind is unknown. */
	return -EBADMSG;
}

static int take_range(struct rp_cursor *block, uint32_t *ret_first, uint32_t *ret_count)
{
	return rp_cursor_u32(block, ret_first) < 0 || rp_cursor_u32(block, ret_count) < 0 ||
	       !*ret_first || *ret_count > rp_cursor_left(block) ||
	       (uint64_t)*ret_first + *ret_count > UINT32_MAX ? -EBADMSG : 0;
}

static int take_list(struct rp_cursor *block)
{
	struct label label;

	do {
		if (take_label(block, &label) < 0)
			return -EBADMSG;
	} while (!label.is_last);
	return 0;
}

int rp_label_lists_check(struct rp_cursor *block)
{
	uint32_t first, count;

	if (take_range(block, &first, &count) < 0)
		return -EBADMSG;
	while (count--) {
		if (take_list(block) < 0)
			return -EBADMSG;
	}
	return rp_cursor_end(block);
}

int rp_label_lists_add(struct rp_label_lists *lists, struct rp_cursor block)
{
	uint32_t first, count;
	int ret;

	if (take_range(&block, &first, &count) < 0)
		return -EBADMSG;
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *start = block.at;

		if (take_list(&block) < 0)
			return -EBADMSG;
		ret = rp_point_index_put(&lists->index, first + i, start,
					 (uint32_t)(block.at - start));
		if (ret < 0)
			return ret;
		if (block.at - start > LARGE_BYTES)
			lists->large_added += (uint64_t)(block.at - start);
	}
	return 0;
}

/* Append a text and a NUL. Return: its offset plus 1, because the buffer may still move. */
static const char *put_text(struct rp_outbuf *texts, const struct text *text)
{
	const uint8_t *at = text->at, *end = at + text->bytes;
	uintptr_t offset = texts->size + 1;
	char utf8[4];

	while (at < end) {
		uint32_t character = rp_utf8_next(&at, end);

		rp_outbuf_put(texts, utf8, rp_utf8_put(character ? character : 0xfffd, utf8));
	}
	rp_outbuf_put_u8(texts, 0);
	return (const char *)offset;
}

static void put_other(struct rp_label_lists *lists, const struct label *label)
{
	struct rp_reader_label other = {
		.key = put_text(&lists->texts, &label->key),
		.number = (int64_t)(label->number >> 1 ^ -(label->number & 1)),
	};

	if (label->kind == RP_LABEL_TEXT) {
		other.text = put_text(&lists->texts, &label->value);
		other.number = 0;
	}
	rp_outbuf_put(&lists->others, &other, sizeof(other));
	lists->labels.count++;
}

static void apply(struct rp_label_lists *lists, const struct label *label)
{
	struct rp_labels *labels = &lists->labels;

	labels->replaces |= (uint16_t)(1u << label->kind);
	switch (label->kind) {
	case RP_LABEL_ACTIVITY:
		rp_guid_swap(label->bytes, labels->activity.bytes);
		break;
	case RP_LABEL_RELATED:
		rp_guid_swap(label->bytes, labels->related.bytes);
		break;
	case RP_LABEL_TRACE_ID:
		memcpy(labels->trace_id, label->bytes, sizeof(labels->trace_id));
		break;
	case RP_LABEL_SPAN_ID:
		labels->span_id = label->number;
		break;
	case RP_LABEL_OPCODE:
		labels->opcode = (uint8_t)label->number;
		break;
	case RP_LABEL_KEYWORDS:
		labels->keywords = label->number;
		break;
	case RP_LABEL_LEVEL:
		labels->level = (uint8_t)label->number;
		break;
	case RP_LABEL_VERSION:
		labels->version = (uint8_t)label->number;
		break;
	default:
		put_other(lists, label);
	}
}

static void resolve_texts(struct rp_label_lists *lists)
{
	struct rp_reader_label *others = (struct rp_reader_label *)lists->others.bytes;
	const char *texts = (const char *)lists->texts.bytes;

	for (uint32_t i = 0; i < lists->labels.count; i++) {
		others[i].key = texts + (uintptr_t)others[i].key - 1;
		if (others[i].text)
			others[i].text = texts + (uintptr_t)others[i].text - 1;
	}
}

static void forget(struct rp_label_lists *lists)
{
	memset(&lists->labels, 0, sizeof(lists->labels));
	lists->others.size = 0;
	lists->texts.size = 0;
	lists->id = 0;
}

/*
 * Set the trace id that a list of ringpipe omits because it is the activity id. Such a list has the
 * span id of the related id (label_set.c).
 */
static void find_trace_id(struct rp_labels *labels)
{
	const uint64_t span = __builtin_bswap64(labels->span_id);

	if (!(labels->replaces & 1 << RP_LABEL_TRACE_ID) && span &&
	    !memcmp(labels->related.bytes + 8, &span, sizeof(span)))
		memcpy(labels->trace_id, labels->activity.bytes, sizeof(labels->trace_id));
}

/* Decode the bytes of a list, which rp_label_lists_add() has checked. */
static int decode(struct rp_label_lists *lists, uint32_t id, const void *bytes, size_t size)
{
	struct rp_cursor c = rp_cursor_over(bytes, size);

	forget(lists);
	while (c.at < c.end) {
		struct label label = { .kind = 0 };

		if (take_label(&c, &label) < 0)
			return -EBADMSG;
		apply(lists, &label);
	}
	if (lists->others.failed || lists->texts.failed) {
		lists->others.failed = lists->texts.failed = false;
		return -ENOMEM;
	}
	resolve_texts(lists);
	find_trace_id(&lists->labels);
	lists->id = id;
	return 0;
}

static void free_large(struct rp_label_lists *lists)
{
	struct cds_hlist_head *chains = lists->large.grown ? lists->large.grown :
					lists->large.first;
	const size_t count = lists->large.grown ? lists->large.capacity : RP_CHAINS_AT_FIRST;

	if (!lists->large.count)
		return;
	for (size_t i = 0; i < count; i++) {
		struct large_list *list, *next;

		cds_hlist_for_each_entry_safe_2(list, next, &chains[i], node.node) {
			rp_outbuf_fini(&list->others);
			rp_outbuf_fini(&list->texts);
			free(list);
		}
	}
	free(lists->large.grown);
	memset(&lists->large, 0, sizeof(lists->large));
	lists->large_memory = 0;
}

static struct large_list *find_large(struct rp_label_lists *lists, uint32_t id)
{
	struct large_list *list;

	cds_hlist_for_each_entry_2(list, rp_chains_at(&lists->large, id), node.node) {
		if (list->node.hash == id)
			return list;
	}
	return NULL;
}

/* Decode a large list, which then remains. Return: as rp_label_lists_find(). */
static int add_large(struct rp_label_lists *lists, uint32_t id, const void *bytes, size_t size,
		     struct large_list **ret_list)
{
	struct large_list *list;
	int ret;

	if (lists->large_decoded > DECODED_BYTES + DECODED_FACTOR * lists->large_added)
		return -E2BIG;
	lists->large_decoded += size;
	if (lists->large_memory > LARGE_MEMORY_MAX)
		free_large(lists);
	list = malloc(sizeof(*list));
	if (!list)
		return -ENOMEM;
	ret = decode(lists, id, bytes, size);
	if (ret < 0) {
		free(list);
		return ret;
	}
	*list = (struct large_list){
		.labels = lists->labels, .others = lists->others, .texts = lists->texts,
	};
	lists->others = lists->texts = (struct rp_outbuf){ 0 };
	forget(lists);
	lists->large_memory += sizeof(*list) + list->others.capacity + list->texts.capacity;
	rp_chains_add(&lists->large, &list->node, id);
	*ret_list = list;
	return 0;
}

int rp_label_lists_find(struct rp_label_lists *lists, uint32_t id,
			const struct rp_labels **ret_labels,
			const struct rp_reader_label **ret_others)
{
	const struct rp_labels *labels = &lists->labels;
	const struct rp_outbuf *others = &lists->others;
	struct large_list *large = NULL;
	const void *bytes;
	size_t size;
	int ret = 0;

	if (!id && lists->id) {
		forget(lists);
	} else if (id != lists->id) {
		bytes = rp_point_index_find(&lists->index, id, &size);
		if (!bytes)
			return -EBADMSG;
		if (size > LARGE_BYTES)
			large = find_large(lists, id);
		if (size > LARGE_BYTES && !large)
			ret = add_large(lists, id, bytes, size, &large);
		else if (!large)
			ret = decode(lists, id, bytes, size);
	}
	if (ret < 0)
		return ret;
	if (large) {
		labels = &large->labels;
		others = &large->others;
	}
	*ret_labels = labels;
	*ret_others = (const struct rp_reader_label *)others->bytes;
	return 0;
}

void rp_label_lists_clear(struct rp_label_lists *lists)
{
	forget(lists);
	free_large(lists);
	rp_point_index_clear(&lists->index);
}

void rp_label_lists_fini(struct rp_label_lists *lists)
{
	free_large(lists);
	rp_point_index_fini(&lists->index);
	rp_outbuf_fini(&lists->others);
	rp_outbuf_fini(&lists->texts);
}
