/* SPDX-License-Identifier: MIT */
/*
 * A small shop: an HTTP server with a database behind it, instrumented with ringpipe.
 *
 *	GET /			the newest order's number
 *	GET /order/N		an order
 *	POST /order		places one; a form with customer and total
 *	GET /buy		the same by GET, for load generators
 *	GET /stats		the shop's own counts of its events
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accounts.h"
#include "http.h"
#include "listener.h"
#include "orders.h"
#include "slow.h"
#include "storage.h"

struct options {
	const char *db;
	const char *slow;
	uint16_t port;
	unsigned int threads;
	bool listen;
};

static void print_help(FILE *stream)
{
	fputs("usage: shop [options]\n"
	      "  --port N      the port on 127.0.0.1; 0, the default, takes a free one\n"
	      "  --threads N   threads that serve requests, 1 to 64 (default 4)\n"
	      "  --db FILE     the database (default :memory:)\n"
	      "  --slow FILE   let requests ask to be slowed, and log them: see slow.h (root)\n"
	      "  --listen      count the events in this process, too\n"
	      "  --help        this text\n", stream);
}

static int parse_number(const char *name, const char *text, unsigned long min, unsigned long max,
			unsigned long *ret_value)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || value < min || value > max) {
		fprintf(stderr, "shop: --%s: '%s' is not a number from %lu to %lu\n", name, text,
			min, max);
		return -EINVAL;
	}
	*ret_value = value;
	return 0;
}

/* Return: 1 to continue; 0 if the program is done; -EINVAL. */
static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "threads", required_argument, NULL, 't' },
		{ "db", required_argument, NULL, 'd' },
		{ "slow", required_argument, NULL, 's' },
		{ "listen", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	unsigned long number = 0;
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (option == 'h') {
			print_help(stdout);
			return 0;
		} else if (option == 'p') {
			if (parse_number("port", optarg, 0, UINT16_MAX, &number) < 0)
				return -EINVAL;
			options->port = (uint16_t)number;
		} else if (option == 't') {
			if (parse_number("threads", optarg, 1, 64, &number) < 0)
				return -EINVAL;
			options->threads = (unsigned int)number;
		} else if (option == 'd') {
			options->db = optarg;
		} else if (option == 's') {
			options->slow = optarg;
		} else if (option == 'l') {
			options->listen = true;
		} else {
			print_help(stderr);
			return -EINVAL;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "shop: unexpected argument '%s'\n", argv[optind]);
		return -EINVAL;
	}
	return 1;
}

/* Serves until SIGINT or SIGTERM. Threads created from here on block both signals. */
static int serve(const struct options *options)
{
	uint16_t port;
	sigset_t stop;
	int ret, number;

	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &stop, NULL);
	signal(SIGPIPE, SIG_IGN);
	ret = shop_http_start(options->port, options->threads, &port);
	if (ret < 0) {
		fprintf(stderr, "shop: port %u: %s\n", options->port, strerror(-ret));
		return ret;
	}
	printf("shop: process %d listens on http://127.0.0.1:%u\n", getpid(), port);
	fflush(stdout);
	sigwait(&stop, &number);
	shop_http_stop();
	return 0;
}

int main(int argc, char **argv)
{
	struct options options = { .db = ":memory:", .threads = 4 };
	char error[256];
	int ret;

	ret = parse_options(argc, argv, &options);
	if (ret <= 0)
		return ret < 0 ? 2 : 0;
	if (shop_storage_open(options.db, error, sizeof(error)) < 0) {
		fprintf(stderr, "shop: %s\n", error);
		return 1;
	}
	ret = options.slow ? shop_slow_start(options.slow, error, sizeof(error)) : 0;
	if (ret < 0)
		fprintf(stderr, "shop: %s\n", error);
	shop_watch_sessions();
	if (ret >= 0) {
		ret = shop_orders_start();
		if (ret < 0)
			fprintf(stderr, "shop: no counters: %s\n", strerror(-ret));
	}
	if (ret >= 0 && options.listen) {
		ret = shop_listener_start();
		if (ret < 0)
			fprintf(stderr, "shop: no listener: %s\n", strerror(-ret));
	}
	if (ret >= 0)
		ret = serve(&options);
	shop_listener_stop();
	if (options.slow)
		shop_slow_stop();
	shop_storage_close();
	return ret < 0 ? 1 : 0;
}
