/* SPDX-License-Identifier: MIT */
#include "host_test/suite.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

struct rp_walk_counts rp_walk_counts;
__thread int rp_suite_walks __attribute__((tls_model("initial-exec")));

enum rp_check_result rp_suite_fail(struct rp_suite *suite, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(suite->reason, sizeof(suite->reason), format, arguments);
	va_end(arguments);
	return RP_CHECK_FAILED;
}

enum rp_check_result rp_suite_skip(struct rp_suite *suite, const char *reason)
{
	snprintf(suite->reason, sizeof(suite->reason), "%s", reason);
	return RP_CHECK_SKIPPED;
}

uint64_t rp_suite_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

unsigned int rp_suite_walk(const struct rp_host *host, uint64_t *ret_frames, unsigned int max)
{
	const struct rp_host_walk walk = {
		.size = sizeof(walk), .context = RP_HOST_WALK_EVENT,
	};
	int count = host->walk(&walk, ret_frames, max, host->data);
	unsigned int kept = 0;

	for (int i = 0; i < count && i < (int)max; i++) {
		if (ret_frames[i] != RP_HOST_FRAME_NATIVE)
			ret_frames[kept++] = ret_frames[i];
	}
	return kept;
}

int rp_suite_resolve(const struct rp_host *host, uint64_t frame,
		     struct rp_host_method *ret_method)
{
	memset(ret_method, 0, sizeof(*ret_method));
	ret_method->size = sizeof(*ret_method);
	return host->resolve ? host->resolve(frame, ret_method, host->data) : -ENOENT;
}

void rp_suite_print(const struct rp_host_method *method, char *ret_text, size_t space)
{
	char line[16] = "";

	if (method->line && *method->file)
		snprintf(line, sizeof(line), ":%u", method->line);
	snprintf(ret_text, space, "%.*s%s%.*s%s", (int)sizeof(method->name) - 1, method->name,
		 *method->name && *method->file ? " " : "", (int)sizeof(method->file) - 1,
		 method->file, line);
}
