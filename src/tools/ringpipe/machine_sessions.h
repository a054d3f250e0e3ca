/* SPDX-License-Identifier: MIT */
/*
 * A session in each process that can be traced, also in those that start later. A process of its
 * own runs each session, so that a traced process that hangs does not delay the others.
 */
#ifndef RP_TOOL_MACHINE_SESSIONS_H
#define RP_TOOL_MACHINE_SESSIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/client/provider_search.h"
#include "tools/client/target.h"

/* In memory that the processes share. */
struct rp_shared_output {
	pthread_mutex_t lock;		/* robust; its holder may write to standard output */
	bool reader_left;		/* nothing reads standard output any more */
	bool is_cut;			/* a signal came before all was printed */
};

void rp_shared_output_init(struct rp_shared_output *output);

/* Wait until no other process prints. One that was killed meanwhile had printed a part. */
void rp_shared_output_lock(struct rp_shared_output *output);
void rp_shared_output_unlock(struct rp_shared_output *output);

struct rp_machine_sessions {
	const char *command;		/* for messages */
	int signal_fd;			/* of rp_signals_open() */
	uint64_t duration_ms;		/* 0: until a signal */
	const struct rp_shared_output *output;
	struct rp_provider_search *search;	/* which `run` uses; or NULL */
	/*
	 * Run a session until it ends, or a signal comes to `signal_fd`, in a process of its own.
	 * Return: the exit status.
	 */
	int (*run)(void *data, const struct rp_target *target);
	void *data;
};

/*
 * Run the sessions until a signal comes, the time ends, or nothing reads. Return: the exit status;
 * RP_EXIT_FAILURE if `search` reported a provider, or a signal cut the output.
 */
int rp_machine_sessions_run(const struct rp_machine_sessions *sessions);

#endif
