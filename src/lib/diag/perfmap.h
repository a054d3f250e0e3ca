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

/* End the files, and leave them for perf. */
void rp_perfmap_disable(void);

/* Parse the payload of EnablePerfMap, u32 type, and execute it. */
enum rp_hresult rp_perfmap_command(struct rp_cursor *payload);

#endif
