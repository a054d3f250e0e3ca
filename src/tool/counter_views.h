/* SPDX-License-Identifier: MIT */
/* Ways to show counters: a table that is drawn again, lines of CSV, JSON, and a web page. */
#ifndef RP_TOOL_COUNTER_VIEWS_H
#define RP_TOOL_COUNTER_VIEWS_H

#include <stdio.h>

#include "tool/counter_board.h"
#include "tool/target.h"

/*
 * The table, on standard output: over itself on a terminal, one below the other elsewhere. It is
 * drawn by a thread of its own, shortly after counters were told, so that one drawing has them all.
 */
struct rp_counter_table;
int rp_counter_table_start(struct rp_counter_board *board, const struct rp_target *target,
			   struct rp_counter_table **ret_table);
void rp_counter_table_touch(struct rp_counter_table *table);
void rp_counter_table_stop(struct rp_counter_table *table);	/* draws the last one */

/* A row for each sample, as `dotnet-counters collect` writes them. */
struct rp_counter_writer {
	FILE *stream;
	bool is_json;
	int64_t start_utc_ns;
	uint64_t rows;
	int error;			/* 0, or -errno: what comes now is not written */
};
void rp_counter_writer_begin(struct rp_counter_writer *writer, const struct rp_target *target);
void rp_counter_writer_row(struct rp_counter_writer *writer,
			   const struct rp_counter_sample *sample);
void rp_counter_writer_end(struct rp_counter_writer *writer);

/*
 * The board at http://127.0.0.1:PORT/metrics, in the text format of Prometheus. `ret_port` is the
 * one it got, when `port` was 0.
 * Return: 0; -errno of the socket; -ENOSYS: built without libmicrohttpd.
 */
struct rp_counter_server;
int rp_counter_server_start(struct rp_counter_board *board, uint16_t port,
			    struct rp_counter_server **ret_server, uint16_t *ret_port);
void rp_counter_server_stop(struct rp_counter_server *server);

/* The board as that page. Return: the text, for free(), or NULL without memory. */
char *rp_counter_page(struct rp_counter_board *board, size_t *ret_size);

/* "name (unit / 1 sec)", tags in brackets behind it; 0 for `quantile` or one of them. */
void rp_counter_label(const struct rp_counter_sample *sample,
		      const struct rp_counter_quantile *quantile, char *text, size_t room);
/* What is shown of a RATE is by the second. */
double rp_counter_shown(const struct rp_counter_sample *sample);

#endif
