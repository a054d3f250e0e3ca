/* SPDX-License-Identifier: MIT */
#include "diag/sending.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/snapshot.h"
#include "diag/wake.h"
#include "sink/sinks.h"

static int send_snapshot(const struct rp_sending *sending, struct rp_snapshot *snapshot)
{
	struct rp_snapshot_about about;
	struct rp_message_buffer preamble = { 0 };
	int ret;

	rp_snapshot_get_about(snapshot, &about);
	rp_message_begin(&preamble, RP_MESSAGE_SERVER, RP_MESSAGE_OK);
	rp_message_put_u64(&preamble, about.session_id);
	ret = rp_message_end(&preamble);
	if (ret == 0)
		ret = rp_sink_send_snapshot(snapshot, sending->thread_fd, preamble.bytes,
					    preamble.size);
	rp_message_fini(&preamble);
	return ret;
}

/* The connection is new and its buffer empty, so these few bytes fit. */
static void refuse(const struct rp_sending *sending, int error)
{
	const char *reason = error == -ENOTUNIQ ? "several recorders run: give a session id" :
			     error == -EPIPE ? "the flight recorder is being stopped" :
			     error != -EINVAL ? rp_text_error(-error) :
			     sending->session_id ? "no flight recorder has this session id" :
			     "no flight recorder runs";
	struct rp_message_buffer reply = { 0 };

	rp_message_refuse_because(&reply, error == -ENOMEM ? RP_HRESULT_FAIL :
				RP_HRESULT_INVALID_OPERATION, reason);
	if (reply.error == 0 && rp_file_is(sending->thread_fd, &sending->file))
		(void)send(sending->thread_fd, reply.bytes, reply.size,
			   MSG_NOSIGNAL | MSG_DONTWAIT);
	rp_message_fini(&reply);
}

static void *run(void *data)
{
	struct rp_sending *sending = data;
	struct rp_snapshot *snapshot;
	int ret = rp_snapshot_take_by_id(sending->session_id, &snapshot);

	if (ret == 0) {
		(void)send_snapshot(sending, snapshot);
		rp_snapshot_free(snapshot);
	} else {
		refuse(sending, ret);
	}
	rp_store_release(&sending->ended, true);
	(void)rp_wake();
	return NULL;
}

enum rp_hresult rp_sending_open(struct rp_sending sendings[RP_SENDINGS_MAX], uint64_t session_id,
				int fd)
{
	struct rp_sending *sending = NULL;

	for (size_t i = 0; i < RP_SENDINGS_MAX && !sending; i++) {
		if (!sendings[i].taken)
			sending = &sendings[i];
	}
	if (!sending)
		return RP_HRESULT_FAIL;
	*sending = (struct rp_sending){
		.taken = true, .fd = fd, .thread_fd = fd, .session_id = session_id,
	};
	(void)rp_file_identify(fd, &sending->file);
	if (rp_thread_start(&sending->thread, "ringpipe-snap", run, sending) != 0) {
		*sending = (struct rp_sending){ .fd = -1 };
		return RP_HRESULT_FAIL;
	}
	return RP_HRESULT_OK;
}

void rp_sending_join(struct rp_sending *sending)
{
	/* Shut down, but do not close: the number must not be reused while the thread writes. */
	if (sending->fd >= 0)
		shutdown(sending->fd, SHUT_RDWR);
	pthread_join(sending->thread, NULL);
}

void rp_sending_close(struct rp_sending *sending)
{
	if (sending->fd >= 0)
		close(sending->fd);
	*sending = (struct rp_sending){ .fd = -1 };
}

struct rp_sending *rp_sending_next_ended(struct rp_sending sendings[RP_SENDINGS_MAX])
{
	for (size_t i = 0; i < RP_SENDINGS_MAX; i++) {
		if (sendings[i].taken && rp_load_acquire(&sendings[i].ended))
			return &sendings[i];
	}
	return NULL;
}
