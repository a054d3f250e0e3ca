/* SPDX-License-Identifier: MIT */
/* Files with the names of the host's generated code, for perf(1). */
#ifndef RP_DIAG_PERFMAP_H
#define RP_DIAG_PERFMAP_H

#include "ipc/message.h"

/* The files that EnablePerfMap requests. */
enum rp_perfmap_type {
	RP_PERFMAP_NONE = 0,
	RP_PERFMAP_ALL = 1,
	RP_PERFMAP_JITDUMP = 2,
	RP_PERFMAP_MAP = 3,
};

/*
 * Create the files again, with all code known now: /tmp/perf-PID.map and /tmp/jit-PID.dump, where
 * perf expects them. PID is the process's pid in its own namespace. Existing files of these names
 * are deleted if this user owns them; their content is never written to. NONE is as
 * rp_perfmap_disable().
 *
 * Return: 0; -EINVAL: unknown type; -EEXIST: another user's file has the name; -errno of open(2),
 * write(2) or mmap(2) (-EPERM: /tmp is mounted noexec). After an error, nothing more is written.
 */
int rp_perfmap_enable(uint32_t type);

/* End the files, and leave them for perf. */
void rp_perfmap_disable(void);

/* Parse the payload of EnablePerfMap, u32 type, and execute it. */
enum rp_hresult rp_perfmap_command(struct rp_cursor *payload);

#endif
