/* SPDX-License-Identifier: MIT */
/* Files with the names of the host's generated code, for perf(1). */
#ifndef RP_DIAG_PERFMAP_H
#define RP_DIAG_PERFMAP_H

#include "ipc/message.h"

/* The files that EnablePerfMap asks for. */
enum rp_perfmap_type {
	RP_PERFMAP_NONE = 0,
	RP_PERFMAP_ALL = 1,
	RP_PERFMAP_JITDUMP = 2,
	RP_PERFMAP_MAP = 3,
};

/*
 * Begins the files anew, with all code known by now: /tmp/perf-PID.map and /tmp/jit-PID.dump, where
 * perf looks for them, with the pid that this process has for itself. Files of the same name are
 * replaced if they are our user's, and never written through. NONE is as rp_perfmap_disable().
 *
 * Return: 0; -EINVAL: an unknown type; -EEXIST: something that is not ours has the name; what open,
 * write and mmap say (-EPERM: /tmp is mounted noexec). Then nothing more is written.
 */
int rp_perfmap_enable(uint32_t type);

/* Ends the files; they stay for perf. */
void rp_perfmap_disable(void);

/* Reads the payload of EnablePerfMap, u32 type, and does it. */
enum rp_hresult rp_perfmap_command(struct rp_cursor *payload);

#endif
