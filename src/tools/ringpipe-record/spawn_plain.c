/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/spawn_plain.h"

#include <signal.h>
#include <spawn.h>
#include <unistd.h>

int rp_spawn_plain(const char *program, char *const *arguments, pid_t *ret_child)
{
	posix_spawnattr_t attributes;
	sigset_t none, ignored;
	int ret;

	sigemptyset(&none);
	sigemptyset(&ignored);
	sigaddset(&ignored, SIGXFSZ);
	sigaddset(&ignored, SIGPIPE);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &ignored);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	ret = posix_spawnp(ret_child, program, NULL, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	return -ret;
}
