/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/bounded_read.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/process_memory.h"
#include "tools/ringpipe-record/bounded_call.h"

#define LIMIT_NS 250000000u
#define PART_BYTES (32u << 10)

struct read_request {
	pid_t process;
	uint64_t address;
	size_t size;
};

struct read_reply {
	int error;			/* 0: all bytes were read */
	uint8_t bytes[PART_BYTES];
};

static int run(const void *data, void *ret_reply)
{
	const struct read_request *request = data;
	struct read_reply *reply = ret_reply;

	errno = EFAULT;
	reply->error = rp_process_memory_read(request->process, request->address, reply->bytes,
					      request->size) ? 0 : errno;
	return -1;
}

static bool read_part(const struct read_request *request, uint64_t limit_ns, uint8_t *bytes)
{
	struct read_reply reply;
	const struct rp_bounded_call call = {
		.source = (uint64_t)request->process, .limit_ns = limit_ns, .run = run,
		.request = request, .request_bytes = sizeof(*request), .reply = &reply,
		.reply_bytes = offsetof(struct read_reply, bytes) + request->size,
	};
	int fd;

	if (!rp_bounded_call(&call, &fd))
		return false;
	if (reply.error == EPERM)
		return rp_process_memory_read(request->process, request->address, bytes,
					      request->size);
	if (reply.error == 0)
		memcpy(bytes, reply.bytes, request->size);
	return reply.error == 0;
}

bool rp_bounded_read(pid_t process, uint64_t address, void *bytes, size_t size)
{
	const uint64_t end_ns = rp_clock_monotonic_ns() + LIMIT_NS;
	struct read_request request = { .process = process, .address = address };
	bool is_read = true;

	for (size_t at = 0; is_read && at < size; at += request.size) {
		const uint64_t time_ns = rp_clock_monotonic_ns();

		request.address = address + at;
		request.size = size - at < PART_BYTES ? size - at : PART_BYTES;
		is_read = time_ns < end_ns &&
			  read_part(&request, end_ns - time_ns, (uint8_t *)bytes + at);
	}
	return is_read;
}
