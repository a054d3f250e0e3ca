/* SPDX-License-Identifier: MIT */
#include "diag/dump_command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/module.h"
#include "base/text.h"
#include "core/session_setup.h"
#include "diag/spawn.h"

#define HELPER "ringpipe-dump"
/* .NET's flags. Logging has no effect here; crash reports are not supported. */
#define FLAG_LOGGING 1u
#define FLAG_VERBOSE 2u

enum rp_hresult rp_dump_parse(struct rp_cursor *payload, struct rp_dump_request *request,
			      char ret_refusal[RP_DUMP_TEXT_BYTES])
{
	char *path = malloc(2 * (size_t)(payload->end - payload->at) + 1);
	enum rp_hresult hr = RP_HRESULT_OK;
	uint32_t type, flags;

	if (!path)
		return RP_HRESULT_FAIL;
	if (rp_message_get_string(payload, path) < 0 || rp_cursor_u32(payload, &type) < 0 ||
	    rp_cursor_u32(payload, &flags) < 0 || rp_cursor_end(payload) < 0) {
		hr = RP_HRESULT_BAD_ENCODING;
	} else if (path[0] != '/') {
		snprintf(ret_refusal, RP_DUMP_TEXT_BYTES, "the path must begin with /: %.400s",
			 path);
		hr = RP_HRESULT_INVALID_ARGUMENT;
	} else if (type < RP_DUMP_MINI || type > RP_DUMP_FULL) {
		snprintf(ret_refusal, RP_DUMP_TEXT_BYTES, "there is no dump of type %u", type);
		hr = RP_HRESULT_INVALID_ARGUMENT;
	} else if (flags & ~(FLAG_LOGGING | FLAG_VERBOSE)) {
		snprintf(ret_refusal, RP_DUMP_TEXT_BYTES,
			 "reports of crashes are not written (flags %#x)", flags);
		hr = RP_HRESULT_NOT_SUPPORTED;
	}
	if (hr != RP_HRESULT_OK) {
		free(path);
		return hr;
	}
	request->type = (enum rp_dump_type)type;
	request->path = path;
	return RP_HRESULT_OK;
}

/*
 * Search next to the library, then at the installed path relative to the library (so that a copied
 * tree works), then where this build would be installed.
 */
static int find_helper(char path[2 * PATH_MAX])
{
	static const char *const places[] = { "/" HELPER, "/" RP_HELPER_FROM_LIBRARY };
	const char *folder = rp_module_folder();

	for (size_t i = 0; folder && i < 2; i++) {
		snprintf(path, 2 * PATH_MAX, "%s%s", folder, places[i]);
		if (access(path, X_OK) == 0)
			return 0;
	}
	snprintf(path, 2 * PATH_MAX, "%s", RP_HELPER_INSTALLED);
	return access(path, X_OK) == 0 ? 0 : -errno;
}

/* If Yama allows only ancestors to trace, the process can allow one more tracer. */
static bool let_trace(pid_t helper)
{
	char scope = '0';

	return rp_file_read("/proc/sys/kernel/yama/ptrace_scope", &scope, 1) == 1 &&
	       scope == '1' && prctl(PR_SET_PTRACER, (unsigned long)helper, 0, 0, 0) == 0;
}

static int run_helper(struct rp_dump *dump, const char *helper,
		      const struct rp_dump_request *request, int theirs, int client_fd)
{
	const int fds[3] = { theirs, request->reply == RP_DUMP_REPLY_FRAMES ? client_fd : -1, -1 };
	char pid[16], type[16], name[] = HELPER;
	char *argv[] = { name, pid, type, request->path, NULL };
	pid_t child;
	int r;

	snprintf(pid, sizeof(pid), "%d", getpid());
	snprintf(type, sizeof(type), "%d", request->type);
	r = rp_spawn_detached(helper, argv, fds, &child);
	if (r == 0)
		dump->lets_trace = let_trace(child);
	return r;
}

/* The connection is new and its buffer empty, so these few bytes fit. */
static int send_begin(int client_fd)
{
	struct rp_message_buffer reply = { 0 };
	int r;

	rp_message_begin(&reply, RP_MESSAGE_SERVER, RP_MESSAGE_OK);
	r = rp_message_end(&reply);
	if (r == 0 && send(client_fd, reply.bytes, reply.size, MSG_NOSIGNAL) < 0)
		r = -errno;
	rp_message_fini(&reply);
	return r;
}

/* Reply only after the helper has started: until then an error reply is possible. */
static int start_helper(struct rp_dump *dump, const char *helper,
			const struct rp_dump_request *request, int theirs, int client_fd)
{
	const char go = 0;
	int r = run_helper(dump, helper, request, theirs, client_fd);

	if (r == 0 && request->reply == RP_DUMP_REPLY_FRAMES)
		r = send_begin(client_fd);
	if (r == 0 && send(dump->fd, &go, sizeof(go), MSG_NOSIGNAL) < 0)
		r = -errno;
	return r;
}

enum rp_hresult rp_dump_open(struct rp_dump *dump, const struct rp_dump_request *request,
			     int client_fd, char ret_refusal[RP_DUMP_TEXT_BYTES])
{
	char helper[2 * PATH_MAX];
	int fds[2], r = find_helper(helper);

	if (dump->id) {
		snprintf(ret_refusal, RP_DUMP_TEXT_BYTES, "another dump is being written");
		return RP_HRESULT_FAIL;
	}
	if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		r = -errno;
	if (r < 0) {
		snprintf(ret_refusal, RP_DUMP_TEXT_BYTES, "cannot run %.300s: %s", helper,
			 rp_text_error(-r));
		return RP_HRESULT_FAIL;
	}
	*dump = (struct rp_dump){ .id = rp_session_next_id(), .fd = fds[0],
				  .reply = request->reply };
	(void)rp_file_identify(dump->fd, &dump->file);
	r = start_helper(dump, helper, request, fds[1], client_fd);
	close(fds[1]);
	if (r < 0) {
		snprintf(ret_refusal, RP_DUMP_TEXT_BYTES, "cannot run %.300s: %s", helper,
			 rp_text_error(-r));
		rp_dump_close(dump);
		return RP_HRESULT_FAIL;
	}
	return RP_HRESULT_OK;
}

bool rp_dump_read(struct rp_dump *dump)
{
	struct rp_dump_report report;

	for (;;) {
		ssize_t n = recv(dump->fd, &report, sizeof(report), MSG_DONTWAIT);

		if (n == sizeof(report))
			dump->report = report;
		else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return true;
		else if (n < 0 && errno == EAGAIN)
			return false;
	}
}

static void put_frame(const struct rp_dump_report *report, enum rp_hresult hr,
		      const char *text, struct rp_message_buffer *reply)
{
	rp_message_put_u32(reply, hr == RP_HRESULT_OK ? RP_DUMP_DONE : RP_DUMP_FAILED);
	rp_message_put_u32(reply, hr);
	rp_message_put_u32(reply, report->threads);
	rp_message_put_u32(reply, report->running);
	rp_message_put_u64(reply, report->done_bytes);
	rp_message_put_u64(reply, report->total_bytes);
	rp_message_put_u64(reply, report->file_bytes);
	rp_message_put_u64(reply, report->pause_ns);
	rp_message_put_string(reply, text);
}

void rp_dump_reply(const struct rp_dump *dump, struct rp_message_buffer *reply)
{
	enum rp_hresult hr = dump->report.state == RP_DUMP_DONE ? RP_HRESULT_OK : RP_HRESULT_FAIL;
	const char *text = dump->report.text;

	if (hr != RP_HRESULT_OK && !*text)
		text = "the helper ended before it completed the dump";
	rp_message_fini(reply);
	if (dump->reply == RP_DUMP_REPLY_FRAMES) {
		put_frame(&dump->report, hr, text, reply);
		return;
	}
	if (hr != RP_HRESULT_OK && dump->reply == RP_DUMP_REPLY_TEXT) {
		rp_message_refuse_because(reply, hr, text);
	} else if (hr != RP_HRESULT_OK) {
		rp_message_refuse(reply, hr);
	} else {
		rp_message_begin(reply, RP_MESSAGE_SERVER, RP_MESSAGE_OK);
		rp_message_put_u32(reply, RP_HRESULT_OK);
		rp_message_end(reply);
	}
}

void rp_dump_close(struct rp_dump *dump)
{
	if (dump->fd >= 0) {
		/* A forked child may hold it too: shut down, so that the helper sees the end. */
		shutdown(dump->fd, SHUT_RDWR);
		close(dump->fd);
	}
	if (dump->lets_trace)
		prctl(PR_SET_PTRACER, 0, 0, 0, 0);
	*dump = (struct rp_dump){ .fd = -1 };
}
