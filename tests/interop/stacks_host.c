/* SPDX-License-Identifier: MIT */
/*
 * stacks_host FILE: writes an event three calls deep into a session with stacks, and one straight
 * from main. Prints where its functions begin, as JSON.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(stacks, "Stacks-Host");
RP_EVENT(stacks, deep, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U32(depth));

/* Each keeps a frame: no clone, and nothing in the tail but the barrier behind the call. */
#ifdef __clang__
#define FRAME __attribute__((noinline))
#else
#define FRAME __attribute__((noinline, noclone))
#endif

int inner(uint32_t depth);
int middle(uint32_t depth);
int outer(uint32_t depth);

FRAME int inner(uint32_t depth)
{
	int ret = stacks_deep(depth);

	__asm__ volatile("" : : : "memory");
	return ret;
}

FRAME int middle(uint32_t depth)
{
	int ret = inner(depth);

	__asm__ volatile("" : : : "memory");
	return ret;
}

FRAME int outer(uint32_t depth)
{
	int ret = middle(depth);

	__asm__ volatile("" : : : "memory");
	return ret;
}

int main(int argc, char **argv)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .level = 5, .name = "Stacks-Host", .keywords = ~0ull,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .flags = RP_SESSION_STACKS, .providers = &provider,
		.provider_count = 1,
	};
	struct rp_session *session;
	int ret;

	if (argc != 2) {
		fprintf(stderr, "usage: stacks_host FILE\n");
		return 2;
	}
	options.output_path = argv[1];
	ret = rp_session_start(&options, &session);
	if (ret == 0) {
		outer(3);
		stacks_deep(0);
		ret = rp_session_stop(session, NULL);
	}
	if (ret < 0) {
		fprintf(stderr, "stacks_host: %s\n", strerror(-ret));
		return 1;
	}
	/* What the declaration of the event makes stands between it and the library. */
	printf("{\"write\":%llu,\"inner\":%llu,\"middle\":%llu,\"outer\":%llu,\"main\":%llu}\n",
	       (unsigned long long)(uintptr_t)stacks_deep_write_,
	       (unsigned long long)(uintptr_t)inner, (unsigned long long)(uintptr_t)middle,
	       (unsigned long long)(uintptr_t)outer, (unsigned long long)(uintptr_t)main);
	return 0;
}
