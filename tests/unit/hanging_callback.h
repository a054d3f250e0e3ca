/* SPDX-License-Identifier: MIT */
/* A callback of an observed counter that hangs until the test lets it continue. */
#ifndef HANGING_CALLBACK_H
#define HANGING_CALLBACK_H

#include <poll.h>

#include <ringpipe/ringpipe.h>

struct hold {
	int inside, go;
};

static inline int hang(struct rp_observation *observation, void *data)
{
	struct hold *hold = data;

	__atomic_store_n(&hold->inside, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&hold->go, __ATOMIC_SEQ_CST))
		poll(NULL, 0, 1);
	return rp_observe(observation, 1, NULL, 0);
}

#endif
