/* SPDX-License-Identifier: MIT */
/* The queries of a page, and the answers in JSON. */
#ifndef RP_TOOL_VIEW_QUERY_H
#define RP_TOOL_VIEW_QUERY_H

#include <pthread.h>

#include "tools/formats/format_out.h"
#include "tools/view/view_model.h"

#define RP_VIEW_BINS_MAX 4096u

enum rp_view_kind_of_stacks { RP_VIEW_CPU, RP_VIEW_OFFCPU };

struct rp_traces {
	struct rp_view_trace *traces;
	size_t count;
	int signal_fd;			/* reading ends when it is readable */
	pthread_rwlock_t *lock;		/* of the traces, which replace their excerpts */
	struct rp_view_load *load;	/* reads the whole traces; NULL: all are */
	uint32_t permille;		/* of the trace that it is reading */
};

/* The parameters of a query. Texts belong to the caller. */
struct rp_view_query {
	const char *what;		/* "timeline" */
	uint32_t trace, bins, limit, points;
	bool has_from, has_to, has_pid, has_tid, is_offcpu;
	int64_t from, to;
	uint64_t pid, tid, min_ns, max_ns, after;
	const char *provider, *span, *name, *where, *q, *key;
};

/* HTTP's numbers. */
enum rp_view_status {
	RP_VIEW_OK = 200,
	RP_VIEW_BAD = 400,
	RP_VIEW_NOT_FOUND = 404,
	RP_VIEW_FAILED = 500,
};

/* Prepare a query for the answer to `what` without parameters. */
void rp_view_query_init(struct rp_view_query *query, const char *what);

/* Set a parameter. Return: 0; -EINVAL: there is no such parameter, or its value is wrong. */
int rp_view_query_set(struct rp_view_query *query, const char *name, const char *value);

/*
 * Write the answer, or an object with an error. The output must be one in memory, and empty.
 * Context: any thread. The function holds `lock` for reading.
 */
enum rp_view_status rp_view_answer(const struct rp_traces *view, const struct rp_view_query *query,
				   struct rp_format_out *out);

#endif
