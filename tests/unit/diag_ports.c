/* SPDX-License-Identifier: MIT */
/* The variable that lists ports, and the ports that start-up waits for. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag/ports.h"

static int parse(const char *text, struct rp_port *ret_port)
{
	return rp_port_parse(text, strlen(text), ret_port);
}

Test(diag_ports, options_are_read_in_any_order_and_case_and_have_defaults)
{
	static const struct {
		const char *text;
		bool listens;
		bool suspends;
	} rows[] = {
		{ "/a", false, true },
		{ "/a,connect", false, true },
		{ "/a,listen", true, true },
		{ "/a,suspend", false, true },
		{ "/a,nosuspend", false, false },
		{ "/a,nosuspend,listen", true, false },
		{ "/a,listen,nosuspend", true, false },
		{ "/a,suspend,connect", false, true },
		{ "/a,LISTEN,NoSuspend", true, false },
		{ "/a,listen,connect", false, true },
		{ "/a,nosuspend,suspend", false, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rp_port port;

		cr_assert_eq(parse(rows[i].text, &port), 0, "%s", rows[i].text);
		cr_assert_str_eq(port.path, "/a");
		cr_assert_eq(port.listens, rows[i].listens, "%s", rows[i].text);
		cr_assert_eq(port.suspends, rows[i].suspends, "%s", rows[i].text);
		cr_assert_eq(port.fd, -1);
	}
}

Test(diag_ports, malformed_ports_are_refused_and_leave_the_result_alone)
{
	static const char *const rows[] = {
		"", ",", ",suspend", ",connect,suspend", "/a,", "/a,,suspend", "/a,suspend,",
		"/a,suspended", "/a,susp", "/a, suspend", "/a,suspend ", "/a,listen,foo", "/a,\n",
		"/a,no", "/a,connect;listen",
	};
	const struct rp_port before = { .path = "untouched", .fd = 7 };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rp_port port = before;

		cr_assert_eq(parse(rows[i], &port), -EINVAL, "\"%s\"", rows[i]);
		cr_assert_eq(memcmp(&port, &before, sizeof(port)), 0, "\"%s\"", rows[i]);
	}
}

Test(diag_ports, path_may_be_as_long_as_an_address_and_no_longer)
{
	char text[RP_PORT_PATH_BYTES + 20];
	struct rp_port port;

	memset(text, 'x', sizeof(text));
	text[0] = '/';
	strcpy(text + RP_PORT_PATH_BYTES - 1, ",listen");
	cr_assert_eq(parse(text, &port), 0);
	cr_assert_eq(strlen(port.path), RP_PORT_PATH_BYTES - 1);
	text[RP_PORT_PATH_BYTES - 1] = 'x';
	strcpy(text + RP_PORT_PATH_BYTES, ",listen");
	cr_assert_eq(parse(text, &port), -ENAMETOOLONG);
}

Test(diag_ports, relative_path_is_taken_from_the_directory_of_the_moment)
{
	char long_name[RP_PORT_PATH_BYTES - 2];
	struct rp_port port;

	cr_assert_eq(chdir("/tmp"), 0);
	cr_assert_eq(parse("a/b,listen", &port), 0);
	cr_assert_str_eq(port.path, "/tmp/a/b");
	memset(long_name, 'x', sizeof(long_name));
	cr_assert_eq(rp_port_parse(long_name, sizeof(long_name), &port), -ENAMETOOLONG);
}

/* Without the listening default port, which belongs to the server. */
static struct rp_ports make_ports(const char *const *texts, size_t count)
{
	struct rp_ports ports = {
		.slots = { { .listens = true, .fd = -1 } },
		.count = 1,
	};
	struct rp_port port;

	for (size_t i = 0; i < count; i++) {
		cr_assert_eq(parse(texts[i], &port), 0);
		cr_assert_eq(rp_ports_add(&ports, &port), 0);
	}
	return ports;
}

Test(diag_ports, start_up_is_suspended_until_each_port_was_resumed)
{
	static const char *const texts[] = { "/nowhere/a", "/nowhere/b,nosuspend", "/nowhere/c" };
	struct rp_ports ports = make_ports(texts, 3);

	for (size_t i = 1; i < 4; i++)
		ports.slots[i].connected = true;
	cr_assert(rp_ports_suspended(&ports));
	cr_assert_eq(rp_ports_wait(&ports, 1), -ETIMEDOUT);
	rp_ports_resume(&ports, &ports.slots[1]);
	rp_ports_resume(&ports, &ports.slots[1]);
	rp_ports_resume(&ports, &ports.slots[2]);
	rp_ports_resume(&ports, &ports.slots[0]);
	cr_assert(rp_ports_suspended(&ports), "a port was resumed by a client of another one");
	rp_ports_resume(&ports, &ports.slots[3]);
	cr_assert_not(rp_ports_suspended(&ports));
	cr_assert_eq(rp_ports_wait(&ports, 1), 0);
}

Test(diag_ports, port_without_an_answer_is_resumed_by_any_client)
{
	static const char *const texts[] = { "/nowhere/a", "/nowhere/b" };
	struct rp_ports ports = make_ports(texts, 2);

	ports.slots[2].connected = true;
	rp_ports_resume(&ports, &ports.slots[0]);
	cr_assert_not(rp_port_suspends(&ports.slots[1]));
	cr_assert(rp_port_suspends(&ports.slots[2]));
	cr_assert(rp_ports_suspended(&ports));
}

Test(diag_ports, attempts_come_ever_later_up_to_half_a_second)
{
	static const char *const texts[] = { "/nowhere/a" };
	struct rp_ports ports = make_ports(texts, 1);
	struct rp_port *port = &ports.slots[1];
	uint64_t before = 0;

	rp_port_later(port, 0);
	cr_assert_eq(port->retry_ns, 10000000);
	for (int i = 0; i < 30; i++) {
		cr_assert_geq(port->retry_ns, before);
		cr_assert_leq(port->retry_ns, 500000000);
		before = port->retry_ns;
		rp_port_later(port, 0);
	}
	cr_assert_eq(port->retry_ns, 500000000);
	rp_port_again(port, 77);
	cr_assert_eq(port->retry_ns, 77);
	rp_port_later(port, 0);
	cr_assert_eq(port->retry_ns, 10000000);
}

Test(diag_ports, what_stands_in_the_way_of_a_port_is_reported_and_left_alone)
{
	char directory[] = "/tmp/rp-ports-XXXXXX", file[64], taken[64], text[80];
	static const char *const kinds[] = { "listen", "connect" };
	struct rp_ports first = make_ports(NULL, 0), ports = make_ports(NULL, 0);
	struct rp_port port;
	FILE *made;

	cr_assert_not_null(mkdtemp(directory));
	snprintf(file, sizeof(file), "%s/file", directory);
	snprintf(taken, sizeof(taken), "%s/taken", directory);
	made = fopen(file, "w");
	cr_assert_not_null(made);
	fclose(made);
	for (size_t i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), "%s,%s", directory, kinds[i]);
		cr_assert_eq(parse(text, &port), 0);
		cr_assert_eq(rp_ports_add(&ports, &port), -ENOTSOCK);
		snprintf(text, sizeof(text), "%s,%s", file, kinds[i]);
		cr_assert_eq(parse(text, &port), 0);
		cr_assert_eq(rp_ports_add(&ports, &port), -ENOTSOCK);
	}
	snprintf(text, sizeof(text), "%s,listen", taken);
	cr_assert_eq(parse(text, &port), 0);
	cr_assert_eq(rp_ports_add(&first, &port), 0);
	cr_assert_eq(rp_ports_add(&ports, &port), -EADDRINUSE);
	snprintf(text, sizeof(text), "%s/no/such/folder,listen", directory);
	cr_assert_eq(parse(text, &port), 0);
	cr_assert_eq(rp_ports_add(&ports, &port), -ENOENT);
	cr_assert_eq(ports.count, 1);
	cr_assert_not(rp_ports_suspended(&ports));
	cr_assert_eq(access(file, F_OK), 0);
	close(first.slots[1].fd);
	cr_assert_eq(unlink(taken), 0);
	cr_assert_eq(unlink(file), 0);
	cr_assert_eq(rmdir(directory), 0);
}

Test(diag_ports, there_is_a_most)
{
	struct rp_ports ports = make_ports(NULL, 0);
	struct rp_port port;

	cr_assert_eq(parse("/nowhere/a", &port), 0);
	for (unsigned int i = 1; i < RP_PORTS_MAX; i++)
		cr_assert_eq(rp_ports_add(&ports, &port), 0);
	cr_assert_eq(rp_ports_add(&ports, &port), -ENOSPC);
}

Test(diag_ports, forked_child_connects_on_but_neither_listens_nor_waits)
{
	static const char *const texts[] = { "/nowhere/a", "/nowhere/l,nosuspend", "/nowhere/b" };
	struct rp_ports ports = make_ports(texts, 3);

	ports.slots[2].listens = true;
	rp_ports_forget(&ports);
	cr_assert_eq(ports.count, 3);
	cr_assert_str_eq(ports.slots[1].path, "/nowhere/a");
	cr_assert_str_eq(ports.slots[2].path, "/nowhere/b");
	cr_assert_not(rp_ports_suspended(&ports));
	for (size_t i = 0; i < 3; i++)
		cr_assert_not(rp_port_suspends(&ports.slots[i]));
}
