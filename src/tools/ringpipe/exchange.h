/* SPDX-License-Identifier: MIT */
/*
 * One request and its reply, without blocking. Many can be under way in one poll loop, so that a
 * process that hangs delays no other.
 */
#ifndef RP_TOOL_EXCHANGE_H
#define RP_TOOL_EXCHANGE_H

#include <poll.h>

#include "tools/ringpipe/target.h"
#include "ipc/message.h"

struct rp_exchange {
	const struct rp_target *target;
	const struct rp_message_buffer *request;	/* the caller's, until the end */
	int fd;				/* open after success, for a stream that follows; or -1 */
	bool connected;
	unsigned int refusals;		/* of connect(2), so far */
	size_t sent;
	size_t received;
	uint8_t header[RP_MESSAGE_HEADER_BYTES];
	uint8_t *payload;		/* what follows the header, or NULL */
	size_t payload_bytes;
	bool until_end;			/* longer than its size says: read to the end */
	uint32_t hresult;		/* what the process said, after -EREMOTEIO */
};

/* Return: 0; -ENAMETOOLONG; what socket(2) said. Nothing is sent yet. */
int rp_exchange_begin(struct rp_exchange *exchange, const struct rp_target *target,
		      const struct rp_message_buffer *request);
/* Closes and frees; fine twice, and after begin failed. */
void rp_exchange_end(struct rp_exchange *exchange);

/*
 * Goes as far as it goes now.
 *
 * Return: 1: wait by rp_exchange_poll(), then step again; 0: an OK reply is in the payload, and no
 * byte behind it was read; -EREMOTEIO: the process refused, see hresult; -EPROTO: not a reply of
 * the protocol; -ECONNRESET: closed before the reply; -EACCES: not served by the process, or not
 * allowed; what connect(2), send(2) and recv(2) say.
 */
int rp_exchange_step(struct rp_exchange *exchange);

/*
 * The descriptor to poll; negative if there is nothing to poll, because the queue of the peer's
 * socket is full, the peer does not listen yet, or it has not come to our port again: step again
 * after RP_EXCHANGE_RETRY_MS.
 */
#define RP_EXCHANGE_RETRY_MS 10
struct pollfd rp_exchange_poll(const struct rp_exchange *exchange);

/* Runs one exchange to its end. Return: as step, never 1; -ETIMEDOUT. */
int rp_exchange_run(struct rp_exchange *exchange, int timeout_ms);

/* Says on stderr that `what` failed, why, and what to do. */
void rp_exchange_explain(const struct rp_exchange *exchange, const char *what, int error);

/* Return: a cursor over the reply without its header. */
struct rp_cursor rp_exchange_payload(const struct rp_exchange *exchange);

/* HRESULT 80131385: the process does not know the command. */
bool rp_exchange_unknown_command(const struct rp_exchange *exchange, int error);

#endif
