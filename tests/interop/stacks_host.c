/* SPDX-License-Identifier: MIT */
/*
 * stacks_host FILE KNOWN PLAIN: writes events into a session with stacks: three calls deep,
 * directly from its first function, through a library that it is linked with, and through two
 * libraries that it loads and unloads, of which KNOWN has events. Prints the start addresses of its
 * functions as JSON.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <ringpipe/ringpipe.h>

#include "../nettrace_version.h"

RP_PROVIDER(stacks, "Stacks-Host");
RP_EVENT(stacks, deep, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U32(depth));

/*
 * Each function keeps a frame: no clones, and no tail call because of the barrier after the call.
 */
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

int linked_entry(int (*callback)(uint32_t depth), uint32_t depth);

static int report(uint32_t depth)
{
	return stacks_deep(depth);
}

/* The first stacks of a path are cut. Each pass of the drain thread caches rules for the next. */
#define ROUNDS 5

static int through_plugin(const char *path, uint32_t depth, bool deliver)
{
	int (*entry)(int (*callback)(uint32_t depth), uint32_t depth);
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!plugin) {
		fprintf(stderr, "stacks_host: %s\n", dlerror());
		return -1;
	}
	*(void **)&entry = dlsym(plugin, "plugin_entry");
	for (int round = 0; round < ROUNDS; round++) {
		rp_sessions_flush(-1);
		entry(report, depth);
	}
	if (deliver)
		rp_sessions_flush(-1);
	dlclose(plugin);
	if (dlopen(path, RTLD_NOW | RTLD_NOLOAD)) {
		fprintf(stderr, "stacks_host: %s stays loaded\n", path);
		return -1;
	}
	return 0;
}

FRAME static int trace(char **argv)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .level = 5, .name = "Stacks-Host", .keywords = ~0ull,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .flags = RP_SESSION_STACKS, .providers = &provider,
		.provider_count = 1, .output_path = argv[1], .format = nettrace_version(),
	};
	struct rp_session *session;
	int ret = rp_session_start(&options, &session);

	if (ret == 0) {
		stacks_deep(0);
		for (int round = 0; round < ROUNDS; round++) {
			linked_entry(report, 1);
			rp_sessions_flush(-1);
		}
		if (through_plugin(argv[2], 2, false) != 0)
			return -1;
		for (int round = 0; round < ROUNDS; round++) {
			outer(3);
			rp_sessions_flush(-1);
		}
		if (through_plugin(argv[3], 4, true) != 0)
			return -1;
		ret = rp_session_stop(session, NULL);
	}
	if (ret < 0)
		fprintf(stderr, "stacks_host: %s\n", strerror(-ret));
	return ret;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: stacks_host FILE KNOWN PLAIN\n");
		return 2;
	}
	if (trace(argv) < 0)
		return 1;
	/*
	 * The function that the event's declaration generates is between the event and the library.
	 */
	printf("{\"write\":%llu,\"inner\":%llu,\"middle\":%llu,\"outer\":%llu,\"trace\":%llu,"
	       "\"main\":%llu}\n",
	       (unsigned long long)(uintptr_t)stacks_deep_write_,
	       (unsigned long long)(uintptr_t)inner, (unsigned long long)(uintptr_t)middle,
	       (unsigned long long)(uintptr_t)outer, (unsigned long long)(uintptr_t)trace,
	       (unsigned long long)(uintptr_t)main);
	return 0;
}
