/* SPDX-License-Identifier: MIT */
/*
 * Provisional: later versions may change this header in ways that require programs to be rebuilt.
 *
 * The conformance suite of the host port (host.h). Link it with -lringpipe-host-test -lringpipe
 * -pthread into a program that contains the host. doc/porting.md has an example.
 */
#ifndef RINGPIPE_HOST_TEST_H
#define RINGPIPE_HOST_TEST_H

#include <stdio.h>

#include <ringpipe/host.h>
#include <ringpipe/types.h>

RP_BEGIN_DECLS

/* The description of a host for the suite. */
struct rp_host_test {
	uint32_t size;
	uint32_t name_count;
	/* The table. The suite registers it, with wrappers around its callbacks. */
	const struct rp_host *host;
	/*
	 * Run functions of the host that call each other. The innermost one calls `body`, a C
	 * function. While `body` runs, the host's frames have `names`, innermost first, in the form
	 * of traces: "NAME FILE:LINE".
	 */
	void (*call)(void (*body)(void *body_data), void *body_data, void *data);
	const char *const *names;
	/*
	 * Run a function of the host that computes until `is_over`, a C function, returns a value
	 * other than 0. It calls `is_over` at least once in a millisecond of CPU time.
	 */
	void (*compute)(int (*is_over)(void *over_data), void *over_data, void *data);
	void *data;		/* the last argument of `call` and `compute` */
};

#define RP_HOST_TEST_SIZE_V1 RP_SIZE_THROUGH_(struct rp_host_test, data)
#define RP_HOST_TEST_INIT RP_INIT_(struct rp_host_test)

/*
 * Check a host. The function prints a line for each check: "ok NAME", "not ok NAME: REASON", or
 * "skip NAME: REASON" if the table lacks a callback or the check cannot run here.
 * ringpipe-host-test(7) describes the checks.
 * @test: the host. No host is registered.
 * @check: the name of the only check to run; NULL: all.
 * @output: the stream for the lines.
 *
 * Context: the main thread, while no other thread uses the host. The host may crash in it: then the
 * last line names the check before the crash.
 * Return: the number of checks that failed; -EINVAL if the size is invalid, a member is missing, or
 * there is no such check; or the error of rp_host_register().
 */
int rp_host_test_run(const struct rp_host_test *test, const char *check, FILE *output);

RP_END_DECLS

#endif
