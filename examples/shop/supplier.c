/* SPDX-License-Identifier: MIT */
#include "supplier.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

RP_PROVIDER(shop_supplier, "Shop-Supplier");
RP_SPAN(shop_supplier, stock, RP_U64(delay_ns));

struct question {
	uint64_t delay_ns;
	char traceparent[RP_TRACEPARENT_SIZE];
};

static struct sockaddr_in address = { .sin_family = AF_INET };
static pid_t supplier;

static void answer_in_trace(int connection, uint64_t delay_ns, const struct rp_activity *activity)
{
	static const struct rp_activity none;
	struct rp_span span;

	rp_activity_set(activity);
	shop_supplier_stock_begin(&span, delay_ns);
	shop_sleep_ns(delay_ns);
	shop_supplier_stock_end(&span);
	rp_activity_set(&none);
	send(connection, "", 1, MSG_NOSIGNAL);
}

static void answer(int connection)
{
	const char is_traced = shop_supplier_stock_start_enabled() ? 1 : 0;
	struct rp_activity activity;
	struct question question;
	uint8_t flags;

	if (recv(connection, &question, sizeof(question), MSG_WAITALL) != sizeof(question))
		return;
	if (!*question.traceparent)
		send(connection, &is_traced, 1, MSG_NOSIGNAL);
	else if (rp_traceparent_parse(question.traceparent, sizeof(question.traceparent) - 1,
				      &activity, &flags) == 0)
		answer_in_trace(connection, question.delay_ns, &activity);
}

static void serve(int listener)
{
	for (;;) {
		const int connection = accept(listener, NULL, NULL);

		if (connection < 0)
			_exit(1);
		answer(connection);
		close(connection);
	}
}

int shop_supplier_start(void)
{
	socklen_t size = sizeof(address);
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int ret = 0;

	if (listener < 0)
		return -errno;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 64) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &size) < 0)
		ret = -errno;
	if (ret == 0) {
		supplier = fork();
		if (supplier < 0)
			ret = -errno;
	}
	if (ret == 0 && supplier == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(listener);
	}
	close(listener);
	return ret;
}

void shop_supplier_stop(void)
{
	if (supplier <= 0)
		return;
	kill(supplier, SIGKILL);
	waitpid(supplier, NULL, 0);
	supplier = 0;
}

static int ask(const struct question *question, char *ret_reply)
{
	const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int ret = 0;

	if (connection < 0)
		return -errno;
	if (connect(connection, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    send(connection, question, sizeof(*question), MSG_NOSIGNAL) < 0)
		ret = -errno;
	else if (recv(connection, ret_reply, 1, 0) != 1)
		ret = -EIO;
	close(connection);
	return ret;
}

int shop_supplier_ask(uint64_t ns, const struct rp_activity *activity)
{
	struct question question = { .delay_ns = ns };
	char reply;

	rp_traceparent_print(activity, 0, question.traceparent);
	return ask(&question, &reply);
}

bool shop_supplier_is_traced(void)
{
	const struct question question = { 0 };
	char reply;

	return supplier > 0 && ask(&question, &reply) == 0 && reply;
}
