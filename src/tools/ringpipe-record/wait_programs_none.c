/* SPDX-License-Identifier: MIT */
/* In place of wait_programs.c, where libbpf is missing. */
#include <errno.h>

#include "tools/ringpipe-record/wait_programs.h"

int rp_waits_start(const struct rp_waits_options *options, rp_waits_callback callback, void *user,
		   struct rp_waits **ret_waits)
{
	(void)options;
	(void)callback;
	(void)user;
	(void)ret_waits;
	return -EOPNOTSUPP;
}

void rp_waits_destroy(struct rp_waits *waits)
{
	(void)waits;
}

int rp_waits_fd(const struct rp_waits *waits)
{
	(void)waits;
	return -1;
}

int rp_waits_drain(struct rp_waits *waits)
{
	(void)waits;
	return 0;
}

void rp_waits_reject(struct rp_waits *waits, const struct rp_wait_record *record)
{
	(void)waits;
	(void)record;
}

int rp_waits_sample_program(const struct rp_waits *waits)
{
	(void)waits;
	return -1;
}

int rp_waits_set_output(void *user, uint32_t processor, int fd)
{
	(void)user;
	(void)processor;
	(void)fd;
	return -EOPNOTSUPP;
}

void rp_waits_set_context_place(struct rp_waits *waits, pid_t process,
				const struct rp_context_place *place)
{
	(void)waits;
	(void)process;
	(void)place;
}

void rp_waits_stop(struct rp_waits *waits)
{
	(void)waits;
}

uint64_t rp_waits_lost(const struct rp_waits *waits, enum rp_wait_loss reason)
{
	(void)waits;
	(void)reason;
	return 0;
}
