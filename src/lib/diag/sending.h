/* SPDX-License-Identifier: MIT */
/*
 * Sends snapshots to the clients that requested them, each on its own thread, so that a slow client
 * delays no other. All calls come from the server.
 */
#ifndef RP_DIAG_SENDING_H
#define RP_DIAG_SENDING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"
#include "ipc/message.h"

/* Each takes as much memory as the rings of its session have in use. */
#define RP_SENDINGS_MAX 4u

struct rp_sending {
	bool taken;
	bool ended;		/* by the thread, atomic */
	int fd;			/* the server's connection; -1: the host closed it */
	struct rp_file_id file;	/* what fd stands for */
	int thread_fd;		/* as it was; the sink asks what it is before it writes */
	uint64_t session_id;	/* 0: the only overwriting session */
	pthread_t thread;
};

/*
 * Begins to send a snapshot over the connection: OK with the session's id, then the stream; or why
 * there is none. After success the connection is the sending's.
 * Return: RP_HRESULT_OK; FAIL: too many are under way, or there can be no thread.
 */
enum rp_hresult rp_sending_open(struct rp_sending sendings[RP_SENDINGS_MAX], uint64_t session_id,
				int fd);

/* Ends the connection and waits for the thread, which hears of that; then the slot is free. */
void rp_sending_join(struct rp_sending *sending);
void rp_sending_close(struct rp_sending *sending);

/* Ended and not yet closed; or NULL. */
struct rp_sending *rp_sending_next_ended(struct rp_sending sendings[RP_SENDINGS_MAX]);

#endif
