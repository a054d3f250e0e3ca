/* SPDX-License-Identifier: MIT */
#include "tools/trace/loss_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "tools/cli/display_text.h"
#include "tools/trace/loss_event.h"

/* Return: the slot of the loss's sum, or a free one. Half of the slots are always free. */
static uint16_t *find_slot(struct rp_loss_table *table, const struct rp_loss_sum *loss)
{
	uint64_t hash = rp_hash_bytes(RP_HASH_BEGIN, &loss->process, sizeof(loss->process));
	uint16_t *slot;

	hash = rp_hash_bytes(hash, &loss->ring, sizeof(loss->ring));
	hash = rp_hash_text(hash, loss->reason);
	for (hash ^= hash >> 32;; hash++) {
		const struct rp_loss_sum *sum;

		slot = &table->slots[hash % (2 * RP_LOSS_SUMS_MAX)];
		if (!*slot)
			return slot;
		sum = &table->sums[*slot - 1];
		if (sum->process == loss->process && sum->ring == loss->ring &&
		    !strcmp(sum->reason, loss->reason))
			return slot;
	}
}

int rp_loss_table_add(struct rp_loss_table *table, const struct rp_loss_sum *loss)
{
	uint16_t *slot = find_slot(table, loss);
	struct rp_loss_sum *sums;

	if (*slot) {
		table->sums[*slot - 1].lost += loss->lost;
		return 0;
	}
	if (table->count == RP_LOSS_SUMS_MAX) {
		table->other_lost += loss->lost;
		return 0;
	}
	sums = rp_array_reserve(table->sums, table->count, &table->capacity, 1, sizeof(*sums));
	if (!sums)
		return -ENOMEM;
	table->sums = sums;
	sums[table->count++] = *loss;
	*slot = (uint16_t)table->count;
	return 0;
}

void rp_loss_table_fini(struct rp_loss_table *table)
{
	free(table->sums);
}

static bool is_worse(const struct rp_loss_sum *one, const struct rp_loss_sum *two)
{
	if (one->lost != two->lost)
		return one->lost > two->lost;
	if (one->process != two->process)
		return one->process < two->process;
	return one->ring < two->ring;
}

void rp_loss_table_find_worst(const struct rp_loss_table *table, struct rp_loss_worst *ret_worst)
{
	struct rp_loss_sum *sums = ret_worst->sums;

	*ret_worst = (struct rp_loss_worst){ .other_lost = table->other_lost };
	for (size_t i = 0; i < table->count; i++) {
		const struct rp_loss_sum *sum = &table->sums[i];
		size_t at = ret_worst->count;

		ret_worst->more_lost += sum->lost;
		while (at > 0 && is_worse(sum, &sums[at - 1]))
			at--;
		if (at == RP_LOSS_WORST)
			continue;
		ret_worst->count += ret_worst->count < RP_LOSS_WORST;
		memmove(&sums[at + 1], &sums[at], (ret_worst->count - 1 - at) * sizeof(*sums));
		sums[at] = *sum;
	}
	ret_worst->more = table->count - ret_worst->count;
	for (size_t i = 0; i < ret_worst->count; i++)
		ret_worst->more_lost -= sums[i].lost;
}

/* Names and reasons are those that processes state. */
static void print_sum(const struct rp_loss_sum *sum, FILE *stream)
{
	char text[RP_TEXT_MAX], *reason = rp_text_clean(sum->reason, true);
	char *name = rp_text_clean(sum->name, true);

	fprintf(stream, "%s %s", rp_text_count(sum->lost, text), reason ? reason : "?");
	if (sum->ring != RP_LOSS_NO_RING)
		fprintf(stream, " in ring %u", sum->ring);
	fprintf(stream, " of %s (%d)", name ? name : "?", sum->process);
	free(reason);
	free(name);
}

void rp_loss_worst_print(const struct rp_loss_worst *worst, uint64_t lost, const char *before,
			 FILE *stream)
{
	uint64_t explained = worst->more_lost + worst->other_lost;
	char text[RP_TEXT_MAX];

	for (size_t i = 0; i < worst->count; i++) {
		fputs(before, stream);
		print_sum(&worst->sums[i], stream);
		explained += worst->sums[i].lost;
		before = ", ";
	}
	if (worst->more) {
		fprintf(stream, "%s%s in ", before, rp_text_count(worst->more_lost, text));
		fputs(rp_text_counted(worst->more, "more ring", text), stream);
		before = ", ";
	}
	if (worst->other_lost) {
		fprintf(stream, "%s%s in other rings", before,
			rp_text_count(worst->other_lost, text));
		before = ", ";
	}
	if (lost > explained)
		fprintf(stream, "%s%s without a reason", before,
			rp_text_count(lost - explained, text));
}
