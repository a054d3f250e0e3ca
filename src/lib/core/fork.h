/* SPDX-License-Identifier: MIT */
/* The engine across fork(2): the handlers that ringpipe.c registers. */
#ifndef RP_CORE_FORK_H
#define RP_CORE_FORK_H


void rp_core_fork_prepare(void);
void rp_core_fork_parent(void);
void rp_core_fork_child(void);

#endif
