/* SPDX-License-Identifier: MIT */
/*
 * One request and its reply, without blocking. One poll loop can run many exchanges, so a process
 * that hangs does not delay the others.
 */
#ifndef RP_TOOL_EXCHANGE_H
#define RP_TOOL_EXCHANGE_H

#include <poll.h>

#include "tools/client/target.h"
#include "ipc/message.h"

struct rp_exchange {
	const struct rp_target *target;
	const struct rp_message_buffer *request;	/* owned by the caller until the end */
	int fd;				/* open after success, for a stream that follows; or -1 */
	bool connected;
	unsigned int refusals;		/* of connect(2), so far */
	size_t sent;
	size_t received;
	uint8_t header[RP_MESSAGE_HEADER_BYTES];
	uint8_t *payload;		/* what follows the header, or NULL */
	size_t payload_bytes;
	bool until_end;			/* size field too small: read until the peer closes */
	uint32_t hresult;		/* after -EREMOTEIO: the error code that the process sent */
};

/* Prepare the exchange; nothing is sent yet. Return: 0; -ENAMETOOLONG; -errno of socket(2). */
int rp_exchange_begin(struct rp_exchange *exchange, const struct rp_target *target,
		      const struct rp_message_buffer *request);
/*
 * Close the connection and free the reply. The function may be called twice, and also after
 * rp_exchange_begin() failed.
 */
void rp_exchange_end(struct rp_exchange *exchange);

/*
 * Does as much as is possible without blocking.
 *
 * Return: 1: wait by rp_exchange_poll(), then step again; 0: an OK reply is in the payload, and no
 * byte after it was read; -EREMOTEIO: the process refused, see hresult; -EPROTO: not a reply of
 * the protocol; -ECONNRESET: closed before the reply; -EACCES: the process does not own the
 * socket, or no permission; -errno of connect(2), send(2) and recv(2).
 */
int rp_exchange_step(struct rp_exchange *exchange);

/*
 * Return: the descriptor to poll; negative if there is none now, because the queue of the peer's
 * socket is full, or the peer does not listen yet, or has not reconnected to the port. Then call
 * rp_exchange_step() again after RP_EXCHANGE_RETRY_MS.
 */
#define RP_EXCHANGE_RETRY_MS 10
struct pollfd rp_exchange_poll(const struct rp_exchange *exchange);

/* Runs one exchange to its end. Return: as rp_exchange_step(), but never 1; -ETIMEDOUT. */
int rp_exchange_run(struct rp_exchange *exchange, int timeout_ms);

/* Prints on stderr that `what` failed, the cause, and a remedy. */
void rp_exchange_explain(const struct rp_exchange *exchange, const char *what, int error);

/* Return: a cursor over the reply without its header. */
struct rp_cursor rp_exchange_payload(const struct rp_exchange *exchange);

/* Whether the process does not know the command (HRESULT 80131385). */
bool rp_exchange_unknown_command(const struct rp_exchange *exchange, int error);

#endif
