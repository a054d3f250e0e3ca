/* SPDX-License-Identifier: MIT */
/* One connection: a request comes in, a reply goes out, neither ever waited for. */
#ifndef RP_DIAG_CLIENT_H
#define RP_DIAG_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ipc/message.h"
#include "diag/ports.h"

/* So much of a request needs no allocation: a silent client costs none. */
#define RP_CLIENT_FIRST_BYTES 64u

enum rp_client_state {
	RP_CLIENT_ASKS,		/* its request is not whole yet */
	RP_CLIENT_PASSES,	/* its request is, and a descriptor has to follow */
	RP_CLIENT_WAITS,	/* its reply is kept until session waits_for has ended */
	RP_CLIENT_TAKES,	/* it has not taken its whole reply yet */
	RP_CLIENT_LEAVES,	/* it has its reply and may still be sending */
};

/* Free when fd is -1. */
struct rp_client {
	int fd;
	struct rp_file_id file;	/* what fd stands for */
	enum rp_client_state state;
	pid_t peer;
	struct rp_port *port;	/* that it came by */
	uint64_t since_ns;	/* CLOCK_MONOTONIC when it came */
	uint64_t deadline_ns;	/* when it is given up; UINT64_MAX: never */
	uint64_t waits_for;
	bool sends_more;	/* behind its request, whatever the reply */
	uint8_t first[RP_CLIENT_FIRST_BYTES];
	uint8_t *request;	/* NULL while it fits into `first` */
	size_t request_bytes;
	size_t request_capacity;
	struct rp_message_buffer reply;
	size_t sent_bytes;
};

/*
 * Takes what has come of the request and not a byte behind it.
 *
 * Return: 1: it is whole, or wrong: see ret_hresult; 0: more must come; -EPIPE: the client ended it
 * half way; -ENOMEM; what recv(2) says.
 */
int rp_client_receive(struct rp_client *client, enum rp_hresult *ret_hresult);

/*
 * Takes the byte behind the request and the descriptor that came with it, which is the caller's.
 *
 * Return: 1: it is there; 0: it must still come; -EBADMSG: a byte without one; -EPIPE: the client
 * ended it; what recvmsg(2) says.
 */
int rp_client_take_descriptor(struct rp_client *client, int *ret_fd);

/* Sends what is left of the reply. Return: 1: all sent; 0: the client must take some; -errno. */
int rp_client_send(struct rp_client *client);

/* Takes and forgets what still comes. Return: 1: the client ended it; 0: more may come; -errno. */
int rp_client_drain(struct rp_client *client);

/* Whether this is its port's own connection, which has had no request yet. */
bool rp_client_is_ports_own(const struct rp_client *client);

/* The received part of the request. */
uint8_t *rp_client_request(struct rp_client *client);

/* Makes the slot free, buffers included. The connection goes on, in other hands. */
void rp_client_release(struct rp_client *client);

/* Ends the connection and makes the slot free. The caller has taken fd out of its epoll set. */
void rp_client_close(struct rp_client *client);

#endif
