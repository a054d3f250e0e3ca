/* SPDX-License-Identifier: MIT */
/* The properties of its process that the DiagnosticServer finds, and the name of its socket. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "diag/listen.h"
#include "diag/process.h"
#include "host/identity.h"

Test(diag_process, start_time_is_found_after_any_program_name)
{
	static const char rest[] = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21\n";
	static const char *const names[] = { "a", "a b", ") S 1 (", "", "((", "x) R 0 0" };
	char stat[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(stat, sizeof(stat), "42 (%s)%s", names[i], rest);
		cr_assert_eq(rp_process_parse_start_ticks(stat), 987654, "%s", names[i]);
	}
	cr_assert_eq(rp_process_parse_start_ticks(""), 0);
	cr_assert_eq(rp_process_parse_start_ticks("42 (a) S 1 2"), 0);
	cr_assert_gt(rp_process_start_ticks(), 0);
}

Test(diag_process, command_line_is_joined_by_spaces)
{
	char arguments[] = "prog\0-a\0\0b c\0";

	rp_process_join_arguments(arguments, sizeof(arguments) - 1);
	cr_assert_str_eq(arguments, "prog -a  b c");
	rp_process_join_arguments(arguments, 0);
	cr_assert_str_eq(arguments, "");
}

Test(diag_process, socket_path_is_the_one_clients_look_for)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)] = "untouched", longest[120];

	memset(longest, 'd', sizeof(longest));
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	cr_assert_eq(rp_listen_path(longest, "dotnet", 1, 2, path), -ENAMETOOLONG);
	longest[90] = '\0';
	cr_assert_eq(rp_listen_path(longest, "dotnet", 1, 2, path), -ENAMETOOLONG);
	cr_assert_str_eq(path, "untouched");
	cr_assert_eq(rp_listen_path(NULL, "dotnet", 12, 345, path), 0);
	cr_assert_str_eq(path, "/tmp/dotnet-diagnostic-12-345-socket");
	cr_assert_eq(rp_listen_path("", "dotnet", 12, 345, path), 0);
	cr_assert_str_eq(path, "/tmp/dotnet-diagnostic-12-345-socket");
	cr_assert_eq(rp_listen_path("/var/tmp//", "dotnet", 12, 0, path), 0);
	cr_assert_str_eq(path, "/var/tmp/dotnet-diagnostic-12-0-socket");
	cr_assert_eq(rp_listen_path("/", "ringpipe", 12, 0, path), 0);
	cr_assert_str_eq(path, "//ringpipe-diagnostic-12-0-socket");
}

Test(diag_process, cookies_differ)
{
	uint8_t one[16], two[16];

	rp_process_make_cookie(one);
	rp_process_make_cookie(two);
	cr_assert_neq(memcmp(one, two, 16), 0);
	cr_assert_eq(one[7] >> 4, 4);
}
