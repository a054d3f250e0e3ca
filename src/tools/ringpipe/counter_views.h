/* SPDX-License-Identifier: MIT */
/* Ways to show counters: a redrawn table, rows, and a web page. */
#ifndef RP_TOOL_COUNTER_VIEWS_H
#define RP_TOOL_COUNTER_VIEWS_H

#include <stdio.h>

#include "tools/ringpipe/counter_board.h"
#include "tools/cli/rows.h"
#include "tools/client/target.h"

/*
 * The table on standard output, to which `out` writes. On a terminal it is redrawn in place;
 * elsewhere it is printed again. A separate thread draws it shortly after samples arrive, so that
 * one drawing contains all samples of an interval.
 */
struct rp_counter_table;
int rp_counter_table_start(struct rp_counter_board *board, const struct rp_target *target,
			   FILE *out, struct rp_counter_table **ret_table);
/* Let the thread draw. Return: 0; -errno of a drawing that failed: the caller ends. */
int rp_counter_table_touch(struct rp_counter_table *table);
/* Draw the table a last time. Return: 0, also for NULL; -errno of a drawing that failed. */
int rp_counter_table_stop(struct rp_counter_table *table);

/* Writes a row for each sample, in JSON and CSV as `dotnet-counters collect` writes them. */
struct rp_counter_writer {
	FILE *stream;
	enum rp_format format;
	int64_t start_utc_ns;
	struct rp_rows rows;
	uint64_t row_count;
	int error;			/* 0, or -errno, after which no sample is written */
};
void rp_counter_writer_begin(struct rp_counter_writer *writer, const struct rp_target *target);
void rp_counter_writer_row(struct rp_counter_writer *writer,
			   const struct rp_counter_sample *sample);
void rp_counter_writer_end(struct rp_counter_writer *writer);

/*
 * Serve the board at http://HOST:PORT/metrics, in the text format of Prometheus. `host` is a
 * numeric IPv4 or IPv6 address. If `port` is 0, `ret_port` is the port that the kernel chose.
 * Return: 0; -errno of the socket; -EINVAL: no numeric address; -ENOSYS: built without
 * libmicrohttpd.
 */
struct rp_counter_server;
int rp_counter_server_start(struct rp_counter_board *board, const char *host, uint16_t port,
			    struct rp_counter_server **ret_server, uint16_t *ret_port);
void rp_counter_server_stop(struct rp_counter_server *server);

/* Formats "name (unit / 1 sec)" with tags in brackets; `quantile` is 0 or one of the quantiles. */
void rp_counter_label(const struct rp_counter_sample *sample,
		      const struct rp_counter_quantile *quantile, char *text, size_t space);
/* Format a number for people. Return: `text`, of RP_TEXT_MAX + 1 bytes. */
const char *rp_counter_format(double number, char *text);

#endif
