/* SPDX-License-Identifier: MIT */
/* Sums of losses by process, ring and reason. */
#ifndef RP_TOOL_LOSS_TABLE_H
#define RP_TOOL_LOSS_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define RP_LOSS_WORST 8u
#define RP_LOSS_SUMS_MAX 4096u

struct rp_loss_sum {
	pid_t process;
	uint32_t ring;			/* RP_LOSS_NO_RING: no ring counted it */
	char name[32];			/* of the process; a longer text is cut */
	char reason[64];
	uint64_t lost;
};

/*
 * Initialise it with zeros. The number of sums is limited, because a process may state any number
 * of rings and reasons.
 */
struct rp_loss_table {
	struct rp_loss_sum *sums;
	size_t count, capacity;
	uint16_t slots[2 * RP_LOSS_SUMS_MAX];	/* by hash: place in `sums`, plus 1; 0: free */
	uint64_t other_lost;			/* of which there are no sums */
};

/* The largest sums of a table, in a fixed size. */
struct rp_loss_worst {
	struct rp_loss_sum sums[RP_LOSS_WORST];	/* the largest first */
	size_t count;
	size_t more;			/* further sums, */
	uint64_t more_lost;		/* and what these add up to */
	uint64_t other_lost;		/* as in the table */
};

/*
 * Add a loss to its sum, or to `other_lost` if the table is full. The `name` of a sum is that of
 * its first loss. 0; -ENOMEM.
 */
int rp_loss_table_add(struct rp_loss_table *table, const struct rp_loss_sum *loss);
void rp_loss_table_fini(struct rp_loss_table *table);

/* Find the largest sums. */
void rp_loss_table_find_worst(const struct rp_loss_table *table, struct rp_loss_worst *ret_worst);

/*
 * Print "5 full in ring 3 of shop (77), 2 too-big of cart (78), 9 in 4 more rings, 1 in other
 * rings" after the text `before`. `lost` is the number of all losses, and those that the table
 * lacks are "without a reason".
 */
void rp_loss_worst_print(const struct rp_loss_worst *worst, uint64_t lost, const char *before,
			 FILE *stream);

#endif
