/* SPDX-License-Identifier: MIT */
/* Registers the host, whose table all folders use, and runs its diagnostics commands. */
#include <errno.h>
#include <string.h>

#include <ringpipe/host.h>

#include "base/host_table.h"
#include "base/sized.h"
#include "base/thread.h"
#include "base/utf.h"
#include "diag/host_port.h"
#include "diag/server.h"
#include "sample/sample.h"

#define REPLY_BYTES_MAX 65000u
#define VERSION_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"

static bool ranges_are_valid(const struct rp_host *host)
{
	if (host->interpreter_count > RP_HOST_INTERPRETERS_MAX ||
	    (host->interpreter_count > 0 && !host->interpreters))
		return false;
	for (size_t i = 0; i < host->interpreter_count; i++) {
		if (host->interpreters[i].start >= host->interpreters[i].end)
			return false;
	}
	return true;
}

static bool mode_is_valid(const struct rp_host *host)
{
	switch (host->sample_mode) {
	case RP_HOST_SAMPLE_SIGNAL:
		return true;
	case RP_HOST_SAMPLE_SAFE_POINT:
		return host->request_sample;
	case RP_HOST_SAMPLE_STOPPED:
		return host->stop_world && host->start_world && host->walk;
	default:
		return false;
	}
}

static bool command_is_valid(const struct rp_host *host)
{
	if (host->command_set == 0)
		return !host->command;
	return host->command && host->command_set >= RP_HOST_COMMAND_SET_MIN &&
	       host->command_set <= RP_HOST_COMMAND_SET_MAX;
}

static bool strings_are_valid(const struct rp_host *host)
{
	const char *name = host->process_name, *version = host->runtime_version;

	if (name && (!*name || strlen(name) > RP_NAME_MAX || !rp_utf8_is_valid(name, strlen(name))))
		return false;
	return !version || (*version && strlen(version) <= RP_NAME_MAX &&
			    strspn(version, VERSION_CHARACTERS) == strlen(version));
}

/* The table whose `start_up` was called last. */
static const struct rp_host *started;

void rp_host_start_up(void)
{
	const struct rp_host *host = rp_host_get();

	if (!host || rp_ports_suspended(&rp_server.ports))
		return;
	if (rp_exchange_seq_cst(&started, host) != host && host->start_up)
		host->start_up(host->data);
}

RP_PUBLIC int rp_host_register(const struct rp_host *host)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct rp_host copy;
	int ret;

	if (rp_sized_read(&copy, sizeof(copy), RP_HOST_SIZE_V1, host) != 0 ||
	    !ranges_are_valid(&copy) || !mode_is_valid(&copy) || !command_is_valid(&copy) ||
	    !strings_are_valid(&copy) || !copy.allocate != !copy.release || copy.reserved)
		return -EINVAL;
	ret = rp_host_publish(&copy);
	if (ret == 0) {
		rp_sample_host_changed();
		rp_host_start_up();
	}
	return ret;
}

RP_PUBLIC void rp_host_unregister(void)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();

	rp_host_retract();
	rp_sample_host_changed();
}

struct rp_host_reply {
	struct rp_message_buffer *message;
	size_t begin;		/* size of the message before the host's bytes */
};

RP_PUBLIC int rp_host_reply_put(struct rp_host_reply *reply, const void *bytes, size_t size)
{
	if (size > REPLY_BYTES_MAX - (reply->message->size - reply->begin))
		return -EMSGSIZE;
	rp_message_put_bytes(reply->message, bytes, size);
	return reply->message->error;
}

static enum rp_hresult hresult_of(int error)
{
	switch (error) {
	case 0:
		return RP_HRESULT_OK;
	case -ENOSYS:
		return RP_HRESULT_UNKNOWN_COMMAND;
	case -EINVAL:
		return RP_HRESULT_BAD_ENCODING;
	default:
		return RP_HRESULT_FAIL;
	}
}

bool rp_host_has_command_set(uint8_t set)
{
	const struct rp_host *host = rp_host_running();

	return host && host->command_set && host->command_set == set;
}

enum rp_hresult rp_host_run_command(uint8_t id, const struct rp_cursor *payload,
				    struct rp_message_buffer *message)
{
	const struct rp_host *host = rp_host_running();
	const struct rp_host_command command = {
		.size = sizeof(command),
		.id = id,
		.payload = payload->at,
		.payload_bytes = (size_t)(payload->end - payload->at),
	};
	struct rp_host_reply reply = { message, message->size };

	if (!host || !host->command)
		return RP_HRESULT_UNKNOWN_COMMAND;
	return hresult_of(host->command(&command, &reply, host->data));
}
