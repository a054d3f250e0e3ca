/* SPDX-License-Identifier: MIT */
/* Prints counts and events on standard output: tables and bars, JSON or CSV. */
#ifndef RP_BPF_SHOW_H
#define RP_BPF_SHOW_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/ringpipe-bpf/program.h"
#include "tools/ringpipe-bpf/batch_session.h"
#include "tools/cli/rows.h"
#include "tools/trace/json_event.h"

/* The counts of a session and of the program at its probe. */
struct rp_bpf_view {
	const struct rp_bpf_session *session;
	const struct rp_bpf_program *program;
	const uint8_t *wanted;		/* by definition's number: whether to show it */
	enum rp_bpf_mode mode;
	uint64_t linear_step;
	uint64_t top;			/* maximum number of rows */
};

/* Return: the exit status. */
int rp_bpf_show(const struct rp_bpf_view *view, enum rp_format format);

/* Print on standard error how many events there were, how many were not seen, and why. */
void rp_bpf_show_stats(const struct rp_bpf_view *view);

/* Prints forwarded events. */
struct rp_bpf_printer {
	struct rp_rows rows;
	struct rp_json_decoder json;
};

/* Prepare to print events, as rows of `format`. Prints the heading of CSV. */
void rp_bpf_printer_init(struct rp_bpf_printer *printer, enum rp_format format);
/* Print one forwarded event as a line. Return: 0; -EIO. */
int rp_bpf_printer_print(struct rp_bpf_printer *printer, const struct rp_bpf_session *session,
			 const void *bytes, size_t size);
/* A zeroed printer is allowed. */
void rp_bpf_printer_fini(struct rp_bpf_printer *printer);

#endif
