/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/address_space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Return: the index of the first mapping that ends above `address`. */
static size_t first_above(const struct rp_address_space *space, uint64_t address)
{
	return RP_PARTITION_POINT(i, space->count, space->mapped[i].end <= address);
}

static int insert(struct rp_address_space *space, size_t at, const struct rp_mapped *mapped)
{
	struct rp_mapped *grown;

	grown = rp_array_reserve(space->mapped, space->count, &space->capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	space->mapped = grown;
	memmove(grown + at + 1, grown + at, (space->count - at) * sizeof(*grown));
	grown[at] = *mapped;
	space->count++;
	return 0;
}

static void remove_at(struct rp_address_space *space, size_t at, size_t count)
{
	if (count == 0)
		return;
	memmove(space->mapped + at, space->mapped + at + count,
		(space->count - at - count) * sizeof(*space->mapped));
	space->count -= count;
}

/*
 * Forget mappings that no stack has used, but keep the first of those of one file that follow each
 * other, because most programs map the code of a file once.
 */
static void forget_unused(struct rp_address_space *space)
{
	const struct rp_image *last = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < space->count; i++) {
		const struct rp_mapped mapped = space->mapped[i];

		if (mapped.id || (mapped.image && mapped.image != last))
			space->mapped[kept++] = mapped;
		last = mapped.image;
	}
	space->count = kept;
}

/* Forget what is of no file, because generated code comes and goes. */
static void forget_generated(struct rp_address_space *space)
{
	size_t kept = 0;

	for (size_t i = 0; i < space->count; i++) {
		if (space->mapped[i].image)
			space->mapped[kept++] = space->mapped[i];
	}
	space->count = kept;
}

/* Makes room for `mapped` by shortening, splitting and removing what overlaps it. */
static int cut_overlap(struct rp_address_space *space, const struct rp_mapped *mapped)
{
	size_t at = first_above(space, mapped->start), last;
	struct rp_mapped *old;

	if (at == space->count)
		return 0;
	old = &space->mapped[at];
	if (old->start < mapped->start) {
		struct rp_mapped rest = *old;

		old->end = mapped->start;
		at++;
		if (rest.end > mapped->end) {
			rest.file_offset += mapped->end - rest.start;
			rest.start = mapped->end;
			rest.id = 0;
			return insert(space, at, &rest);
		}
	}
	for (last = at; last < space->count && space->mapped[last].end <= mapped->end; last++)
		;
	remove_at(space, at, last - at);
	old = &space->mapped[at];
	if (at < space->count && old->start < mapped->end) {
		old->file_offset += mapped->end - old->start;
		old->start = mapped->end;
		old->id = 0;
	}
	return 0;
}

int rp_address_space_add(struct rp_address_space *space, const struct rp_mapped *mapped)
{
	size_t at = first_above(space, mapped->start);
	int ret;

	if (mapped->start >= mapped->end)
		return 0;
	/* The scan of /proc and the kernel's record often report the same mapping. */
	if (at < space->count && space->mapped[at].start == mapped->start &&
	    space->mapped[at].end == mapped->end && space->mapped[at].image == mapped->image &&
	    space->mapped[at].file_offset == mapped->file_offset)
		return 0;
	if (space->count >= RP_ADDRESS_SPACE_MAX) {
		forget_unused(space);
		/* The next call would forget few again. */
		if (space->count > RP_ADDRESS_SPACE_MAX / 2)
			forget_generated(space);
		if (space->count > RP_ADDRESS_SPACE_MAX / 2)
			space->count = 0;
	}
	ret = cut_overlap(space, mapped);
	return ret ? ret : insert(space, first_above(space, mapped->start), mapped);
}

struct rp_mapped *rp_address_space_find(const struct rp_address_space *space, uint64_t address)
{
	size_t at = first_above(space, address);

	return at < space->count && space->mapped[at].start <= address ? &space->mapped[at] : NULL;
}

int rp_address_space_copy(struct rp_address_space *space, const struct rp_address_space *from)
{
	struct rp_address_space copy = { .count = from->count, .capacity = from->count };
	struct rp_mapped *shrunk;

	if (from->count) {
		copy.mapped = malloc(from->count * sizeof(*copy.mapped));
		if (!copy.mapped)
			return -ENOMEM;
		memcpy(copy.mapped, from->mapped, from->count * sizeof(*copy.mapped));
	}
	if (copy.count > RP_ADDRESS_SPACE_COPY_MAX)
		forget_unused(&copy);
	shrunk = copy.count && copy.count < copy.capacity ?
		 realloc(copy.mapped, copy.count * sizeof(*shrunk)) : NULL;
	if (shrunk) {
		copy.mapped = shrunk;
		copy.capacity = copy.count;
	}
	for (size_t i = 0; i < copy.count; i++)
		copy.mapped[i].id = 0;
	rp_address_space_fini(space);
	*space = copy;
	return 0;
}

void rp_address_space_clear(struct rp_address_space *space)
{
	space->count = 0;
}

void rp_address_space_fini(struct rp_address_space *space)
{
	free(space->mapped);
	*space = (struct rp_address_space){ 0 };
}
