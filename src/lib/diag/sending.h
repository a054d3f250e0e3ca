/* SPDX-License-Identifier: MIT */
/*
 * Sends snapshots to the clients that requested them, each on its own thread, so that a slow client
 * delays no other. Context: the server.
 */
#ifndef RP_DIAG_SENDING_H
#define RP_DIAG_SENDING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"
#include "ipc/message.h"

/* Each sending uses as much memory as the rings of its session contain. */
#define RP_SENDINGS_MAX 4u

struct rp_sending {
	bool taken;
	bool ended;		/* set by the thread, atomic */
	int fd;			/* the server's connection; -1: the host closed it */
	struct rp_file_id file;	/* identity of the file behind fd */
	int thread_fd;		/* fd at the start; the sink checks its identity before it writes */
	uint64_t session_id;	/* 0: the only overwriting session */
	pthread_t thread;
};

/*
 * Start a thread that sends a snapshot over the connection: a reply of success with the session's
 * id and then the stream, or an error reply.
 * Return: RP_HRESULT_OK: the thread owns the connection; RP_HRESULT_FAIL: nothing was sent, because
 * too many such threads run, or none can be created.
 */
enum rp_hresult rp_sending_open(struct rp_sending sendings[RP_SENDINGS_MAX], uint64_t session_id,
				int fd);

/*
 * Shut down the connection, which ends the thread, and wait for the thread. rp_sending_close() then
 * frees the slot.
 */
void rp_sending_join(struct rp_sending *sending);
void rp_sending_close(struct rp_sending *sending);

/* Return: a sending that has ended and is not closed yet; or NULL. */
struct rp_sending *rp_sending_next_ended(struct rp_sending sendings[RP_SENDINGS_MAX]);

#endif
