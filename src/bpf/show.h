/* SPDX-License-Identifier: MIT */
/* What was counted, on standard output: tables and bars for people, or JSON. */
#ifndef RP_BPF_SHOW_H
#define RP_BPF_SHOW_H

#include <stdbool.h>
#include <stddef.h>

#include "bpf/program.h"
#include "bpf/session.h"

/* Figures of a session and the program at its probe. */
struct rp_bpf_view {
	const struct rp_bpf_session *session;
	const struct rp_bpf_program *program;
	const uint8_t *wanted;		/* by definition's number: whether it is shown */
	enum rp_bpf_mode mode;
	uint64_t linear_step;
	uint64_t top;			/* rows at most */
};

/* Return: the exit status. */
int rp_bpf_show_text(const struct rp_bpf_view *view);
int rp_bpf_show_json(const struct rp_bpf_view *view);

/* On standard error: how many events there were, and what of them was not seen, and why. */
void rp_bpf_show_account(const struct rp_bpf_view *view);

/* One forwarded event as a line. Return: 0; -EIO; -ENOMEM. */
int rp_bpf_show_event(const struct rp_bpf_session *session, const void *bytes, size_t size,
		      bool json);

#endif
