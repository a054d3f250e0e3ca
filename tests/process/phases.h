/* SPDX-License-Identifier: MIT */
/* Constants shared by a program and the process that records its system calls. */
#ifndef PROCESS_PHASES_H
#define PROCESS_PHASES_H

#define PHASE_MAGIC 0x52500000u
#define PHASES 64u
#define PHASE_HELPER (PHASES - 1)
#define SKIPPED_STATUS 77

#endif
