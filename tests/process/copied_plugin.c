/* SPDX-License-Identifier: MIT */
/* A plugin with a copy of the library: static with hidden symbols, or the shared library. */
#include <ringpipe/host.h>
#include <ringpipe/ringpipe.h>

RP_PROVIDER(copied, "Test-Copied");
RP_EVENT(copied, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

int copied_trace(const char *path, uint64_t from, uint64_t count);
int copied_list(rp_host_copy_callback callback, void *data);

/* Write to a separate session, with activity ids. Return: 0; -errno. */
__attribute__((visibility("default"))) int copied_trace(const char *path, uint64_t from,
							 uint64_t count)
{
	const struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Copied", .keywords = UINT64_MAX, .level = 5,
	};
	const struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.output_path = path, .buffer_bytes = RP_SESSION_BUFFER_MIN,
	};
	struct rp_session *session;
	struct rp_activity outer;
	int ret = rp_session_start(&options, &session);

	if (ret != 0)
		return ret;
	rp_activity_begin(&outer);
	for (uint64_t i = 0; ret == 0 && i < count; i++)
		ret = copied_mark(from + i);
	rp_activity_end(&outer);
	return ret != 0 ? ret : rp_session_stop(session, NULL);
}

/* List the copies through this copy of the library. */
__attribute__((visibility("default"))) int copied_list(rp_host_copy_callback callback, void *data)
{
	return rp_host_list_copies(callback, data);
}
