/* SPDX-License-Identifier: MIT */
/* One connection: the client sends a request, and the server sends a reply. No function blocks. */
#ifndef RP_DIAG_CLIENT_H
#define RP_DIAG_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ipc/message.h"
#include "diag/ports.h"

/* A request up to this size needs no allocation, so a silent client costs none. */
#define RP_CLIENT_FIRST_BYTES 64u

enum rp_client_state {
	RP_CLIENT_ASKS,		/* its request is not complete yet */
	RP_CLIENT_PASSES,	/* its request is complete, and a descriptor must follow */
	RP_CLIENT_WAITS,	/* its reply is held until session `waits_for` has ended */
	RP_CLIENT_TAKES,	/* it has not received its whole reply yet */
	RP_CLIENT_LEAVES,	/* it has its reply and may still be sending */
};

/* A slot is free if fd is -1. */
struct rp_client {
	int fd;
	struct rp_file_id file;	/* identity of the file behind fd */
	enum rp_client_state state;
	pid_t peer;
	struct rp_port *port;	/* the port that created the connection */
	uint64_t since_ns;	/* CLOCK_MONOTONIC at the start of the connection */
	uint64_t deadline_ns;	/* time at which the server drops it; UINT64_MAX: never */
	uint64_t waits_for;
	bool sends_more;	/* bytes follow the request, whatever the reply is */
	uint8_t first[RP_CLIENT_FIRST_BYTES];
	uint8_t *request;	/* NULL as long as the request fits into `first` */
	size_t request_bytes;
	size_t request_capacity;
	struct rp_message_buffer reply;
	size_t sent_bytes;
};

/*
 * Receive the bytes of the request, and none after it.
 *
 * Return: 1: the request is complete or invalid: see ret_hresult; 0: bytes are missing; -EPIPE: the
 * client disconnected in the middle; -ENOMEM; -errno of recv(2).
 */
int rp_client_receive(struct rp_client *client, enum rp_hresult *ret_hresult);

/*
 * Receive the byte after the request and the descriptor that was sent with it. The caller owns the
 * descriptor.
 *
 * Return: 1: received; 0: not yet; -EBADMSG: the byte came without a descriptor; -EPIPE: the client
 * has disconnected; -errno of recvmsg(2).
 */
int rp_client_take_descriptor(struct rp_client *client, int *ret_fd);

/* Send the rest of the reply. Return: 1: all sent; 0: the socket buffer is full; -errno. */
int rp_client_send(struct rp_client *client);

/*
 * Receive and discard remaining bytes. Return: 1: the client has disconnected; 0: more may follow;
 * -errno.
 */
int rp_client_drain(struct rp_client *client);

/* Return: whether its port opened this connection and no request has arrived yet. */
bool rp_client_is_ports_own(const struct rp_client *client);

/* The received bytes of the request. */
uint8_t *rp_client_request(struct rp_client *client);

/* Free the slot, buffers included. The connection stays open and has another owner. */
void rp_client_release(struct rp_client *client);

/* Close the connection and free the slot. The caller has removed fd from its epoll set. */
void rp_client_close(struct rp_client *client);

#endif
