/* SPDX-License-Identifier: MIT */
/* Makes the parts of an event's payload from the arguments of the event's function. */
#ifndef RINGPIPE_DETAIL_PACK_H
#define RINGPIPE_DETAIL_PACK_H

#include <ringpipe/detail/kinds.h>

/* These strings are in functions, so a file that does not need them does not contain them. */
RP_INLINE_ const rp_char16 *rp_redacted16_(void)
{
	static const rp_char16 text[] = { '*', '*', '*', 0 };

	return text;
}

RP_INLINE_ const rp_char16 *rp_empty16_(void)
{
	return rp_redacted16_() + 3;
}

struct rp_pack_ {
	unsigned char *space;
	struct rp_part *parts;
	size_t at, from;
	unsigned int count;
};

static inline __attribute__((always_inline)) void rp_pack_flush_(struct rp_pack_ *pack)
{
	if (pack->at == pack->from)
		return;
	pack->parts[pack->count].base = pack->space + pack->from;
	pack->parts[pack->count++].size_bytes = pack->at - pack->from;
	pack->from = pack->at;
}

static inline __attribute__((always_inline)) void rp_pack_copy_(struct rp_pack_ *pack,
								const void *from, size_t size)
{
	if (from)
		memcpy(pack->space + pack->at, from, size);
	else
		memset(pack->space + pack->at, 0, size);
	pack->at += size;
}

static inline __attribute__((always_inline)) void rp_pack_refer_(struct rp_pack_ *pack,
								 const void *from, size_t size)
{
	rp_pack_flush_(pack);
	pack->parts[pack->count].base = from;
	pack->parts[pack->count++].size_bytes = size;
}

/*
 * A string that need not end with a NUL. An embedded NUL ends it, because a NUL ends the strings in
 * a payload.
 */
static inline __attribute__((always_inline)) void
rp_pack_text_(struct rp_pack_ *pack, const char *text, size_t bytes)
{
	const void *nul = text && bytes ? memchr(text, 0, bytes) : RP_NULL_;

	if (nul)
		bytes = RP_CAST_(size_t, RP_CAST_(const char *, nul) - text);
	if (text && bytes)
		rp_pack_refer_(pack, text, bytes);
	rp_pack_copy_(pack, "", 1);
}

static inline __attribute__((always_inline)) void
rp_pack_array_(struct rp_pack_ *pack, const void *from, size_t count, size_t element_size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, element_size, &bytes))
		bytes = SIZE_MAX;
	/*
	 * A count that does not fit into 16 bits makes a payload above the limit, which is refused
	 * as too large.
	 */
	rp_pack_copy_(pack, &count, sizeof(uint16_t));
	if (count)
		rp_pack_refer_(pack, from, bytes);
}

static inline __attribute__((always_inline)) int rp_pack_write_regs_(const struct rp_pack_ *pack,
								     struct rp_event *event)
{
	uint64_t regs[RP_REGS_BYTES_ / 8];

	memcpy(regs, pack->space, sizeof(regs));
	return rp_event_write_regs(regs[0], regs[1], regs[2], regs[3], event, pack->at);
}

static inline size_t rp_string16_bytes_(const rp_char16 *string)
{
	size_t units = 0;

	while (string[units])
		units++;
	return (units + 1) * 2;
}

/*
 * Declares the payload as parts. A payload that fits into registers is one part, padded with zeros.
 */
#define RP_PACK_(...) \
	unsigned char space_[RP_REGS_BYTES_ RP_MAP_(RP_SPACE_, RP_NOTHING_, __VA_ARGS__)]; \
	struct rp_part parts_[2 * RP_COUNT_(__VA_ARGS__) + 1]; \
	struct rp_pack_ pack_ = { space_, parts_, 0, 0, 0 }; \
	if (RP_IS_REGS_(__VA_ARGS__)) \
		memset(space_, 0, RP_REGS_BYTES_); \
	RP_MAP_(RP_PUT_, RP_NOTHING_, __VA_ARGS__) \
	rp_pack_flush_(&pack_);

#endif
