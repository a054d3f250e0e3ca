/* SPDX-License-Identifier: MIT */
/*
 * The names are of Linux 5.10 to 6.12. The kernel's functions are no stable interface, so a rule
 * names several functions of each path, and a wait that no rule matches remains OTHER_WAIT.
 */
#include "tools/analysis/wait_cause.h"

#include <string.h>

static const struct {
	const char *key, *text;
} parts[RP_TIME_PART_COUNT] = {
	[RP_TIME_PROGRAM] = { "program", "on a processor, in the program" },
	[RP_TIME_SYSTEM_CALL] = { "system_call", "on a processor, in system calls" },
	[RP_TIME_INTERRUPT] = { "interrupt", "interrupted: its processor served a device" },
	[RP_TIME_RUNNABLE] = { "runnable", "ready to run, waiting for a processor" },
	[RP_TIME_LOCK] = { "lock", "waiting for a lock" },
	[RP_TIME_BLOCK_IO] = { "block_io", "waiting for a disk or file system" },
	[RP_TIME_PAGE_FAULT] = { "page_fault", "in a page fault, or waiting for its page" },
	[RP_TIME_NETWORK] = { "network", "waiting for the network or another process" },
	[RP_TIME_CALLEE] = { "callee", "waiting while another process worked on the request" },
	[RP_TIME_SLEEP] = { "sleep", "sleeping for a time that it asked for" },
	[RP_TIME_OTHER_WAIT] = { "other_wait", "waiting for something else" },
	[RP_TIME_UNEXPLAINED] = { "unexplained", "without a record in the trace" },
};

/* A function whose name begins with `begin` decides. Earlier rules are stronger. */
static const struct {
	const char *begin;
	enum rp_time_part part;
} rules[] = {
	{ "exc_page_fault", RP_TIME_PAGE_FAULT }, { "asm_exc_page_fault", RP_TIME_PAGE_FAULT },
	{ "futex_wait", RP_TIME_LOCK }, { "futex_lock_pi", RP_TIME_LOCK },
	{ "fuse_", RP_TIME_BLOCK_IO }, { "__fuse_", RP_TIME_BLOCK_IO },
	{ "rq_qos_wait", RP_TIME_BLOCK_IO }, { "blk_", RP_TIME_BLOCK_IO },
	{ "__blkdev_", RP_TIME_BLOCK_IO }, { "blkdev_", RP_TIME_BLOCK_IO },
	{ "submit_bio_wait", RP_TIME_BLOCK_IO }, { "folio_wait", RP_TIME_BLOCK_IO },
	{ "wait_on_page", RP_TIME_BLOCK_IO }, { "__wait_on_buffer", RP_TIME_BLOCK_IO },
	{ "balance_dirty_pages", RP_TIME_BLOCK_IO }, { "io_schedule", RP_TIME_BLOCK_IO },
	{ "iomap_dio", RP_TIME_BLOCK_IO }, { "__iomap_dio", RP_TIME_BLOCK_IO },
	{ "jbd2_", RP_TIME_BLOCK_IO }, { "nfs_", RP_TIME_BLOCK_IO },
	{ "hrtimer_nanosleep", RP_TIME_SLEEP }, { "do_nanosleep", RP_TIME_SLEEP },
	{ "sk_wait", RP_TIME_NETWORK }, { "tcp_", RP_TIME_NETWORK },
	{ "inet_", RP_TIME_NETWORK }, { "unix_", RP_TIME_NETWORK },
	{ "__skb_wait", RP_TIME_NETWORK }, { "sock_", RP_TIME_NETWORK },
	{ "ep_poll", RP_TIME_NETWORK }, { "do_epoll_wait", RP_TIME_NETWORK },
	{ "do_poll", RP_TIME_NETWORK }, { "do_sys_poll", RP_TIME_NETWORK },
	{ "do_select", RP_TIME_NETWORK }, { "core_sys_select", RP_TIME_NETWORK },
	{ "pipe_", RP_TIME_NETWORK }, { "anon_pipe_", RP_TIME_NETWORK },
};

static const struct {
	const char *calls;		/* with spaces around each */
	enum rp_time_part part;
} call_rules[] = {
	{ " futex futex_waitv ", RP_TIME_LOCK },
	{ " nanosleep clock_nanosleep ", RP_TIME_SLEEP },
	{ " recvfrom recvmsg recvmmsg sendto sendmsg sendmmsg accept accept4 connect poll ppoll "
	  "select pselect6 epoll_wait epoll_pwait epoll_pwait2 ", RP_TIME_NETWORK },
	{ " fsync fdatasync sync syncfs sync_file_range msync pread64 pwrite64 preadv pwritev "
	  "preadv2 pwritev2 open openat openat2 rename renameat renameat2 unlink unlinkat "
	  "ftruncate fallocate getdents64 ", RP_TIME_BLOCK_IO },
};

const char *rp_time_part_key(enum rp_time_part part)
{
	return parts[part].key;
}

const char *rp_time_part_text(enum rp_time_part part)
{
	return parts[part].text;
}

enum rp_time_part rp_wait_cause_of_stack(const char *const *functions, size_t count)
{
	for (size_t rule = 0; rule < sizeof(rules) / sizeof(rules[0]); rule++) {
		const size_t length = strlen(rules[rule].begin);

		for (size_t i = 0; i < count; i++) {
			if (functions[i] && !strncmp(functions[i], rules[rule].begin, length))
				return rules[rule].part;
		}
	}
	return RP_TIME_OTHER_WAIT;
}

enum rp_time_part rp_wait_cause_of_call(const char *system_call)
{
	const size_t length = strlen(system_call);

	for (size_t i = 0; length && i < sizeof(call_rules) / sizeof(call_rules[0]); i++) {
		const char *at = call_rules[i].calls;

		while ((at = strstr(at, system_call))) {
			if (at[-1] == ' ' && at[length] == ' ')
				return call_rules[i].part;
			at += length;
		}
	}
	return RP_TIME_OTHER_WAIT;
}
