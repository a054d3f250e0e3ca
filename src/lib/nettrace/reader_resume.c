/* SPDX-License-Identifier: MIT */
/*
 * Finds the place from which a damaged stream is readable again.
 *
 * The format has no checksums. A block is accepted only if its size leads to the header of the next
 * block, its content has no contradiction, and its events have the times that the block states. A
 * search accepts a place only if a chain of such blocks leads from there to events or to the end of
 * the stream: random bytes, or a part of a payload, may look like one block, but hardly like
 * several.
 */
#include "nettrace/reader_parts.h"

#include <string.h>

#include "base/sized.h"
#include "base/text.h"

/* Blocks of V4 that are larger are refused; see reader_v4.c. */
#define BLOCK_MAX (64u << 20)
/* A search for the next block reads at most this much after a place. */
#define CHAIN_BYTES_MAX (32u << 20)
/* A search gives up after it checked this much, plus SKIPPED_FACTOR times what it skipped. */
#define CHECKED_MAX (256u << 20)
#define SKIPPED_FACTOR 64u
/* The source can free bytes that are skipped. A search skips this many in one step. */
#define SKIP_BYTES (256u << 10)

/* A possible block at a place of the stream. */
struct found_block {
	enum rp_block_kind kind;
	struct rp_cursor content;	/* valid until more bytes are read */
	size_t header;			/* bytes before the content */
	size_t bytes;			/* of the block, with its header */
	unsigned int shift;
	const char *reason;		/* NULL: the block is right */
	bool is_cut;			/* the stream ends before the block */
	bool is_framed;			/* the block ends where another one may begin */
	bool is_later;			/* of a later version of the format */
	enum rp_block_proof proof;
};

void rp_reader_resume_fini(struct rp_reader_resume *resume)
{
	rp_outbuf_fini(&resume->ranges);
}

static const uint8_t *bytes_at(const struct rp_reader *reader, size_t at)
{
	return reader->source.bytes + reader->source.start + at;
}

/* Return: 0: the bytes [at, at + size) are present; -ENODATA: the stream ends earlier; -errno. */
static int peek(struct rp_reader *reader, size_t at, size_t size)
{
	return rp_byte_source_peek(&reader->source, at + size);
}

/*
 * Whether the bytes [at, at + size) can be checked. In a stream that is being written, the next
 * block may take long to arrive, and the current one must not wait for it.
 */
static bool is_present(const struct rp_reader *reader, size_t at, size_t size)
{
	return reader->source.end - reader->source.start >= at + size ||
	       rp_byte_source_is_ready(&reader->source);
}

/* Whether the stream ends at a place. */
static bool is_end(struct rp_reader *reader, size_t at)
{
	return peek(reader, at, 1) == -ENODATA;
}

static uint32_t u32_at(const struct rp_reader *reader, size_t at)
{
	uint32_t value;

	memcpy(&value, bytes_at(reader, at), sizeof(value));
	return value;
}

static bool is_kind_v6(const struct rp_reader *reader, uint32_t word)
{
	const uint32_t kind = word >> 24;

	if (kind == RP_BLOCK_END)
		return !(word & RP_BLOCK_SIZE_MAX);
	return kind >= RP_BLOCK_EVENT &&
	       (kind <= RP_BLOCK_LABEL_LIST || reader->resume.check.has_extensions);
}

/* Whether another trace begins at a place, as in a file of two traces. */
static bool is_trace(struct rp_reader *reader, size_t at)
{
	const size_t size = strlen(RP_NETTRACE_MAGIC);

	return peek(reader, at, size) == 0 &&
	       !memcmp(bytes_at(reader, at), RP_NETTRACE_MAGIC, size);
}

/* Whether a block may begin at a place, or the stream ends there. */
static bool is_next_v6(struct rp_reader *reader, size_t at)
{
	uint32_t word;

	/* The stream may be cut in the next header. */
	if (!is_present(reader, at, 4) || peek(reader, at, 4) < 0)
		return true;
	word = u32_at(reader, at);
	/* Zeros may also be damage. */
	return word ? is_kind_v6(reader, word) :
	       !is_present(reader, at + 4, 1) || is_end(reader, at + 4) || is_trace(reader, at + 4);
}

static void check(struct rp_reader *reader, struct found_block *found)
{
	if (!found->reason)
		found->reason = rp_block_check(&reader->resume.check, found->kind, found->content,
					       &found->proof);
}

static int find_v6(struct rp_reader *reader, size_t at, struct found_block *found)
{
	uint32_t word;
	int ret = peek(reader, at, 4);

	if (ret < 0)
		return ret;
	word = u32_at(reader, at);
	if (!is_kind_v6(reader, word)) {
		found->reason = word >> 24 == RP_BLOCK_TRACE ? "a second Trace block" : "no block";
		return 0;
	}
	found->kind = (enum rp_block_kind)(word >> 24);
	found->header = 4;
	found->bytes = 4 + (word & RP_BLOCK_SIZE_MAX);
	ret = peek(reader, at, found->bytes);
	if (ret < 0)
		return ret;
	found->is_framed = found->kind == RP_BLOCK_END || is_next_v6(reader, at + found->bytes);
	if (found->kind == RP_BLOCK_EVENT && !found->is_framed)
		found->reason = "a block without a block after it";
	found->content = rp_cursor_over(bytes_at(reader, at + 4), found->bytes - 4);
	check(reader, found);
	return 0;
}

/* Return: the offset of an object's size, after its name, relative to `at`; 0: no block. */
static size_t find_name_v4(const uint8_t *object, size_t left, struct found_block *found)
{
	static const uint8_t tags[] = { RP_TAG_BEGIN, RP_TAG_BEGIN, RP_TAG_NULL };
	struct rp_cursor c = rp_cursor_over(object, left);
	const uint8_t *begin = object, *name, *end;
	uint32_t version, least, size;

	if (rp_cursor_take(&c, sizeof(tags), &begin) < 0 || memcmp(begin, tags, sizeof(tags)) ||
	    rp_cursor_u32(&c, &version) < 0 || rp_cursor_u32(&c, &least) < 0 ||
	    rp_cursor_u32(&c, &size) < 0 || rp_cursor_take(&c, size, &name) < 0 ||
	    rp_cursor_take(&c, 1, &end) < 0 || *end != RP_TAG_END)
		return 0;
	found->kind = rp_block_kind_of(name, size);
	found->is_later = version > RP_BLOCK_VERSION || least > RP_BLOCK_VERSION;
	return found->kind == RP_BLOCK_END ? 0 : (size_t)(c.at - object);
}

/* The bytes of tags, versions and the longest name, and those up to the content. */
#define OBJECT_BYTES 40u

/* Whether an object may begin at a place, or the stream ends there. */
static bool is_next_v4(struct rp_reader *reader, size_t at)
{
	uint8_t tag;

	if (!is_present(reader, at, 1) || peek(reader, at, 1) < 0)
		return true;
	tag = *bytes_at(reader, at);
	return tag == RP_TAG_BEGIN || tag == RP_TAG_NULL;
}

/* Find a block whose padding depends on the offset plus `shift`. */
static int find_padded_v4(struct rp_reader *reader, size_t at, size_t header, unsigned int shift,
			  struct found_block *found)
{
	const uint64_t offset = reader->source.offset + at + header + 4 + shift;
	const size_t padding = -offset & 3, size = u32_at(reader, at + header);
	const size_t begin = header + 4 + padding;
	static const uint8_t zeros[4];
	int ret;

	found->shift = shift;
	found->reason = NULL;
	found->is_framed = false;
	found->header = begin;
	found->bytes = begin + size + 1;
	ret = peek(reader, at, found->bytes);
	if (ret < 0)
		return ret;
	found->is_framed = is_next_v4(reader, at + found->bytes);
	if (*bytes_at(reader, at + found->bytes - 1) != RP_TAG_END)
		found->reason = "a block without an end";
	else if (memcmp(bytes_at(reader, at + header + 4), zeros, padding))
		found->reason = "padding that is not zero";
	else if (found->is_later)
		found->reason = "a block of a later version";
	found->content = rp_cursor_over(bytes_at(reader, at + begin), size);
	return 0;
}

static int find_v4(struct rp_reader *reader, size_t at, struct found_block *found)
{
	size_t header;
	int ret = peek(reader, at, 1);

	if (ret < 0)
		return ret;
	if (*bytes_at(reader, at) == RP_TAG_NULL) {
		found->kind = RP_BLOCK_END;
		found->bytes = 1;
		found->is_framed = true;
		found->content = rp_cursor_over(bytes_at(reader, at), 0);
		return 0;
	}
	ret = peek(reader, at, OBJECT_BYTES);
	if (ret < 0 && ret != -ENODATA)
		return ret;
	header = find_name_v4(bytes_at(reader, at),
			      reader->source.end - reader->source.start - at, found);
	ret = header ? peek(reader, at + header, 4) : ret;
	if (ret < 0)
		return ret;
	if (!header || u32_at(reader, at + header) > BLOCK_MAX) {
		found->reason = "no block";
		return 0;
	}
	/* Try the shift of the previous block first: only missing bytes change the shift. */
	for (unsigned int i = 0; i < 4; i++) {
		ret = find_padded_v4(reader, at, header, (reader->resume.shift + i) & 3, found);
		if (ret < 0)
			break;
		check(reader, found);
		if (!found->reason)
			return 0;
	}
	ret = find_padded_v4(reader, at, header, reader->resume.shift, found);
	if (ret == 0)
		check(reader, found);
	return ret;
}

/* Return: 0 with what is at a place, and the result of its check; -errno. */
static int find_at(struct rp_reader *reader, size_t at, struct found_block *found)
{
	int ret;

	*found = (struct found_block){ .shift = reader->resume.shift };
	ret = reader->layout.has_labels ? find_v6(reader, at, found) : find_v4(reader, at, found);
	if (ret == -ENODATA) {
		found->is_cut = true;
		found->reason = "a block without an end";
		return 0;
	}
	return ret;
}

/*
 * Whether blocks of the stream begin at a place: a chain of them leads to proven events, to several
 * blocks of likely ones, or to the end of the stream. Return: 1; 0; -errno.
 */
static int is_readable_at(struct rp_reader *reader, size_t at)
{
	const size_t limit = at + CHAIN_BYTES_MAX;
	unsigned int proof = 0;
	struct found_block found;
	int ret;

	while (proof < RP_BLOCK_PROVEN && at < limit) {
		ret = find_at(reader, at, &found);
		if (ret < 0)
			return ret;
		if (found.reason || !found.is_framed)
			return 0;
		at += found.bytes;
		if (found.kind == RP_BLOCK_END)
			return is_end(reader, at);
		proof += found.proof;
	}
	return proof >= RP_BLOCK_PROVEN;
}

/* Whether a search has to check a place, whose first 4 bytes are present. */
static bool is_candidate(const struct rp_reader *reader, size_t at)
{
	const uint8_t *bytes = bytes_at(reader, at);

	if (!reader->layout.has_labels)
		return bytes[0] == RP_TAG_BEGIN && bytes[1] == RP_TAG_BEGIN &&
		       bytes[2] == RP_TAG_NULL;
	return is_kind_v6(reader, u32_at(reader, at));
}

/* Skip bytes that are present. */
static void skip(struct rp_reader *reader, size_t size)
{
	const uint8_t *unused;

	(void)rp_byte_source_take(&reader->source, size, &unused);
	rp_byte_source_mark(&reader->source);
}

/*
 * Search for the next place from which the stream is readable, after the current one.
 * @keeps: stay at the current place. All bytes up to the end of the stream are present.
 * @ret_skipped: the bytes up to that place, or to the end of the stream.
 *
 * Return: 1; 0: the stream ends first, or the search gave up; -errno.
 */
static int search(struct rp_reader *reader, bool keeps, uint64_t *ret_skipped)
{
	const uint64_t begin = reader->resume.check.checked_bytes;
	bool gives_up = false;
	uint64_t skipped = 0;
	size_t at = 1;
	int ret;

	for (;; at++) {
		if (!keeps && at > SKIP_BYTES) {
			skip(reader, at);
			skipped += at;
			at = 0;
		}
		ret = peek(reader, at, 4);
		if (ret < 0)
			break;
		if (gives_up || !is_candidate(reader, at))
			continue;
		ret = is_readable_at(reader, at);
		if (ret)
			break;
		gives_up = reader->resume.check.checked_bytes - begin >
			   CHECKED_MAX + SKIPPED_FACTOR * (skipped + at);
	}
	if (ret == -ENODATA) {
		at = reader->source.end - reader->source.start;
		ret = 0;
	}
	*ret_skipped = skipped + at;
	if (!keeps && ret >= 0)
		skip(reader, at);
	return ret;
}

/* Skip a block whose content is damaged, while its header and its size are right. */
static void skip_block(struct rp_reader *reader, size_t bytes, enum rp_damage_scope scope,
		       const char *reason)
{
	rp_reader_add_damage(reader, reader->source.offset, bytes, reason);
	skip(reader, bytes);
	rp_reader_note_missed(reader, scope, bytes);
}

/* Skip a damaged part of unknown content. Return: 1; 0: the stream ends with it; -errno. */
static int skip_part(struct rp_reader *reader, const char *reason)
{
	const uint64_t begin = reader->source.offset;
	uint64_t skipped;
	int ret = search(reader, false, &skipped);

	if (ret < 0)
		return ret;
	rp_reader_add_damage(reader, begin, skipped, reason);
	rp_reader_note_missed(reader, RP_DAMAGE_BLOCKS, skipped);
	return ret;
}

/* Whether the bytes of a block of events may be right although the stream ends in the block. */
static bool is_cut_right(struct rp_reader *reader, const struct found_block *found)
{
	const size_t left = reader->source.end - reader->source.start;
	struct rp_block_check *check = &reader->resume.check;
	const uint8_t *end = bytes_at(reader, left);
	bool is_right;

	if (found->kind != RP_BLOCK_EVENT || found->bytes <= left || found->header >= left)
		return true;
	/* If a whole stream of V4 ends like this, bytes inside the block are missing. */
	if (!reader->layout.has_labels && end[-1] == RP_TAG_NULL && end[-2] == RP_TAG_END)
		return false;
	check->find_unknown = rp_reader_find_unknown;
	is_right = rp_block_check_cut(check, rp_cursor_over(bytes_at(reader, found->header),
							    left - found->header));
	check->find_unknown = NULL;
	return is_right;
}

/*
 * The stream ends before the block does. Either the stream was cut, or the size is damaged and a
 * readable place follows.
 *
 * Return: 1: continue after the damage; 0: cut, so take what exists of the block; -errno.
 */
static int handle_cut(struct rp_reader *reader, const struct found_block *found)
{
	uint64_t skipped;
	int ret;

	if (reader->source.end == reader->source.start)
		return 0;
	ret = search(reader, true, &skipped);
	if (ret < 0 || (ret == 0 && is_cut_right(reader, found)))
		return ret;
	rp_reader_add_damage(reader, reader->source.offset, skipped, found->reason);
	skip(reader, skipped);
	rp_reader_note_missed(reader, RP_DAMAGE_BLOCKS, skipped);
	return 1;
}

/* Whether the stream ends here although bytes follow: those of another trace, or no blocks. */
static int handle_end(struct rp_reader *reader, const struct found_block *found)
{
	const uint64_t begin = reader->source.offset;
	uint64_t skipped;
	int ret;

	if (!is_present(reader, found->bytes, 1) || is_end(reader, found->bytes) ||
	    is_trace(reader, found->bytes))
		return 0;
	ret = search(reader, false, &skipped);
	if (ret == 0) {
		reader->ended = true;
		return -ENODATA;
	}
	if (ret < 0)
		return ret;
	rp_reader_add_damage(reader, begin, skipped, "an end of the stream before its last block");
	rp_reader_note_missed(reader, RP_DAMAGE_BLOCKS, skipped);
	return 1;
}

/*
 * Whether the stream has blocks of a later version. If the version of one block is damaged, the
 * next block has another version.
 */
static bool is_later(struct rp_reader *reader, const struct found_block *found)
{
	struct found_block next;

	return found->is_later && found->is_framed && find_at(reader, found->bytes, &next) == 0 &&
	       (next.is_later || next.kind == RP_BLOCK_END);
}

/* Return: 1: look again, at the place after the damage; 0: take what is here; -errno. */
static int handle_damage(struct rp_reader *reader, const struct found_block *found)
{
	/* This comes first: the content is invalid after more of the stream was read. */
	const enum rp_damage_scope scope = found->kind == RP_BLOCK_EVENT && found->is_framed &&
		rp_block_has_times(found->content) ? RP_DAMAGE_EVENTS : RP_DAMAGE_BLOCK;
	int ret;

	if (is_later(reader, found))
		return 0;
	if (found->is_cut)
		return handle_cut(reader, found);
	ret = found->is_framed ? is_readable_at(reader, found->bytes) : 0;
	if (ret < 0)
		return ret;
	if (ret) {
		skip_block(reader, found->bytes, scope, found->reason);
		return 1;
	}
	ret = skip_part(reader, found->reason);
	/* If no readable place follows, the stream has no end. */
	return ret < 0 ? ret : 1;
}

/*
 * The times of a block are not exact, and no exact times were seen so far. Find out from the next
 * block of events whether the writer states no exact times. Return: 1: no exact times; 0: exact
 * times; -EAGAIN: that block has yet to arrive; other -errno.
 */
static int has_loose_times(struct rp_reader *reader, size_t at)
{
	struct rp_block_check *check = &reader->resume.check;
	const size_t limit = at + CHAIN_BYTES_MAX;
	struct found_block found;
	int ret;

	do {
		if (!is_present(reader, at, 1))
			return -EAGAIN;
		ret = find_at(reader, at, &found);
		if (ret < 0)
			return ret;
		at += found.bytes;
	} while (!found.reason && found.is_framed && at < limit && found.kind != RP_BLOCK_EVENT &&
		 found.kind != RP_BLOCK_END);
	check->has_loose_times = !check->has_exact_times;
	return check->has_loose_times;
}

/* Whether the meaning of a block's times depends on the next block, which is present. */
static bool has_inexact_times(const struct rp_reader *reader, const struct found_block *found)
{
	const struct rp_block_check *check = &reader->resume.check;

	return is_present(reader, found->bytes, 1) && found->kind == RP_BLOCK_EVENT &&
	       found->proof == RP_BLOCK_LIKELY && rp_block_has_times(found->content) &&
	       !check->has_exact_times && !check->has_loose_times;
}

/* Return: 1: look again; 0: take what is here; -ENODATA: at the end; other -errno. */
static int find_block(struct rp_reader *reader)
{
	struct rp_block_check *check = &reader->resume.check;
	struct found_block found;
	const char *reason;
	int ret;

	/* After damage, unknown ids are expected: only the events that have them are dropped. */
	check->find_unknown = reader->resume.missed_declarations ? NULL : rp_reader_find_unknown;
	ret = find_at(reader, 0, &found);
	check->find_unknown = NULL;
	if (ret < 0)
		return ret;
	if (found.reason)
		return handle_damage(reader, &found);
	if (found.kind == RP_BLOCK_END)
		return handle_end(reader, &found);
	if (has_inexact_times(reader, &found)) {
		ret = has_loose_times(reader, found.bytes);
		if (ret != -EAGAIN)
			return ret < 0 ? ret : 1;
	}
	reason = rp_reader_check_declared(reader, found.kind, found.content);
	if (reason) {
		skip_block(reader, found.bytes, RP_DAMAGE_BLOCK, reason);
		return 1;
	}
	reader->resume.shift = found.shift;
	return 0;
}

bool rp_reader_find_block(struct rp_reader *reader)
{
	int ret;

	do {
		ret = find_block(reader);
	} while (ret > 0);
	if (ret < 0 && !reader->ended)
		rp_reader_fail(reader, ret, reader->source.offset, "%s", rp_text_error(-ret));
	return ret == 0;
}

int rp_reader_resume_after_damage(struct rp_reader *reader)
{
	if (!reader || reader->stats.events || reader->is_growing)
		return -EINVAL;
	reader->resume.is_enabled = true;
	reader->resume.check = (struct rp_block_check){
		.is_v6 = reader->layout.has_labels,
		.pointer_bytes = reader->info.pointer_bytes,
		.has_extensions = reader->minor_version > 0,
		.data = reader,
	};
	return 0;
}

int rp_reader_get_damage(const struct rp_reader *reader, uint64_t index,
			 struct rp_reader_damage *ret_damage)
{
	const struct rp_reader_damage *ranges = (const void *)reader->resume.ranges.bytes;

	if (!ret_damage || !rp_sized_fits(ret_damage, RP_READER_DAMAGE_SIZE_V1))
		return -EINVAL;
	if (index >= reader->resume.ranges.size / sizeof(*ranges))
		return -ENOENT;
	rp_sized_write(ret_damage, &ranges[index], sizeof(*ranges));
	return 0;
}
