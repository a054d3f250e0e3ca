/* SPDX-License-Identifier: MIT */
/* Sites with static keys: their state, and when the library changes them. */
#undef RP_STATIC_KEYS
#define RP_STATIC_KEYS 1

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core_support.h"

#include "base/atomic.h"
#include "base/code.h"
#include "core/core.h"
#include "core/keys.h"

#define THREADS 4u
#define ROUNDS 20u
#define ONE (1ull << 48)
#define BREAKPOINT 0xccu

RP_PROVIDER(keyed, "Test-Keys");
RP_EVENT(keyed, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));
RP_PROVIDER(other, "Test-Keys-Other");
RP_EVENT(other, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

/* One site each. */
static __attribute__((noinline)) int mark(uint64_t serial)
{
	return keyed_mark(serial);
}

static __attribute__((noinline)) int mark_other(uint64_t serial)
{
	return other_mark(serial);
}

static __attribute__((noinline)) int asks(void)
{
	return keyed_mark_enabled();
}

static const uint64_t *word_of(const struct rp_key *key)
{
	return (const uint64_t *)((uintptr_t)&key->event + (uintptr_t)(intptr_t)key->event);
}

static unsigned char *site_of(const struct rp_key *key)
{
	return (unsigned char *)((uintptr_t)&key->site + (uintptr_t)(intptr_t)key->site);
}

/* Return: how many sites of an event begin with this byte. */
static unsigned int count(const struct rp_event *event, unsigned char byte)
{
	unsigned int found = 0;

	for (const struct rp_key *key = __start_rp_keys; key < __stop_rp_keys; key++)
		found += word_of(key) == &event->enable && rp_code_read(site_of(key)) == byte;
	return found;
}

static unsigned char *first_site(const struct rp_event *event)
{
	for (const struct rp_key *key = __start_rp_keys; key < __stop_rp_keys; key++) {
		if (word_of(key) == &event->enable)
			return site_of(key);
	}
	return NULL;
}

/* Some systems forbid to change code. */
static bool code_is_fixed(void)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = (uintptr_t)mark & ~(size - 1);
	bool fixed;

	pthread_mutex_lock(&rp_core.lock);
	fixed = mprotect((void *)page, size, PROT_READ | PROT_WRITE | PROT_EXEC) != 0;
	cr_assert_eq(mprotect((void *)page, size, PROT_READ | PROT_EXEC), 0);
	pthread_mutex_unlock(&rp_core.lock);
	return fixed;
}

static void settle(void)
{
	pthread_mutex_lock(&rp_core.lock);
	rp_keys_settle();
	pthread_mutex_unlock(&rp_core.lock);
}

#define skip_where_code_is_fixed() \
	do { \
		if (code_is_fixed()) \
			cr_skip_test("code cannot be changed here"); \
	} while (0)

/* mark() and asks(); mark_other() is one more. */
#define SITES 2u
#define all_are(byte) (count(&keyed_mark_event_, byte) == SITES)

Test(core_keys, events_arrive_whether_or_not_code_can_change)
{
	struct rp_listener *listener;
	uint64_t serial = 7;

	cr_assert_eq(mark(1), 0);
	cr_assert_eq(asks(), 0);
	listener = listen_to("Test-Keys");
	cr_assert_eq(mark(serial), 0);
	cr_assert_eq(asks(), 1);
	expect_payload(listener, &serial, sizeof(serial));
	expect_end(listener);
	cr_assert_eq(mark(1), 0);
	cr_assert_eq(asks(), 0);
}

Test(core_keys, site_is_a_jump_while_its_event_is_wanted)
{
	struct rp_listener *listener;

	skip_where_code_is_fixed();
	wait_until(all_are(RP_CODE_PASS));
	cr_assert_eq(count(&other_mark_event_, RP_CODE_PASS), 1);
	listener = listen_to("Test-Keys");
	cr_assert(all_are(RP_CODE_JUMP));
	cr_assert_eq(count(&other_mark_event_, RP_CODE_PASS), 1, "nobody wants the other one");
	cr_assert_eq(mark(1), 0);
	cr_assert_eq(mark_other(1), 0);
	stop_listening(listener);
	wait_until(all_are(RP_CODE_PASS));
}

static bool is_code_writable(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	bool found = false;
	char line[512];

	cr_assert(maps);
	while (fgets(line, sizeof(line), maps))
		found |= strstr(line, " rwxp ") && strchr(line, '/');	/* not valgrind's own */
	fclose(maps);
	return found;
}

Test(core_keys, code_is_read_only_before_and_after)
{
	struct rp_listener *listener;

	skip_where_code_is_fixed();
	wait_until(all_are(RP_CODE_PASS));
	cr_assert_not(is_code_writable());
	listener = listen_to("Test-Keys");
	cr_assert_not(is_code_writable());
	stop_listening(listener);
}

Test(core_keys, tracer_that_the_kernel_counts_is_noticed)
{
	skip_where_code_is_fixed();
	wait_until(all_are(RP_CODE_PASS));
	rp_add_seq_cst(&keyed_mark_event_.enable, ONE);
	wait_until(all_are(RP_CODE_JUMP));
	cr_assert_eq(mark(1), 0);
	rp_add_seq_cst(&keyed_mark_event_.enable, -ONE);
	wait_until(all_are(RP_CODE_PASS));
}

/* Writes the byte as a debugger does, which later restores the original. */
static void poke(unsigned char *at, unsigned char byte)
{
	struct rp_code_change change = { .memory = -1 };
	struct rp_code code;

	cr_assert_eq(rp_code_find(at, &code), 0);
	pthread_mutex_lock(&rp_core.lock);
	cr_assert_eq(rp_code_write(&change, &code, at, byte), 0);
	cr_assert(rp_code_close(&code));
	rp_code_end(&change);
	pthread_mutex_unlock(&rp_core.lock);
}

Test(core_keys, breakpoint_at_a_site_stays)
{
	struct rp_listener *listener;
	unsigned char *site;

	skip_where_code_is_fixed();
	wait_until(all_are(RP_CODE_PASS));
	site = first_site(&keyed_mark_event_);
	poke(site, BREAKPOINT);
	listener = listen_to("Test-Keys");
	cr_assert_eq(rp_code_read(site), BREAKPOINT);
	cr_assert_eq(count(&keyed_mark_event_, RP_CODE_JUMP), SITES - 1);
	poke(site, RP_CODE_PASS);
	wait_until(all_are(RP_CODE_JUMP));
	poke(site, BREAKPOINT);
	stop_listening(listener);
	wait_until(count(&keyed_mark_event_, RP_CODE_PASS) == SITES - 1);
	cr_assert_eq(rp_code_read(site), BREAKPOINT);
	poke(site, RP_CODE_JUMP);
	wait_until(all_are(RP_CODE_PASS));
}

/* When the kernel removes its probe from a site, it restores the byte of the file: a jump. */
Test(core_keys, site_that_became_what_it_should_be_is_left_alone)
{
	struct rp_listener *listener;

	skip_where_code_is_fixed();
	wait_until(all_are(RP_CODE_PASS));
	poke(first_site(&keyed_mark_event_), RP_CODE_JUMP);
	listener = listen_to("Test-Keys");
	cr_assert(all_are(RP_CODE_JUMP));
	stop_listening(listener);
	wait_until(all_are(RP_CODE_PASS));
}

static int child_of_a_traced_process(void)
{
	struct rp_listener_event event;
	struct rp_listener *listener;

	wait_until(all_are(RP_CODE_PASS));
	listener = listen_to("Test-Keys");
	cr_assert(all_are(RP_CODE_JUMP));
	cr_assert_eq(mark(3), 0);
	expect_event(listener, &event);
	stop_listening(listener);
	return 0;
}

Test(core_keys, forked_child_has_sites_of_its_own)
{
	static struct rp_listener *listener;	/* the child does not leak it */
	struct rp_listener_event event;
	int status;
	pid_t child;

	skip_where_code_is_fixed();
	wait_until(all_are(RP_CODE_PASS));
	listener = listen_to("Test-Keys");
	/*
	 * AddressSanitizer's allocator may be locked if a thread starts during a fork: here all
	 * have started.
	 */
	cr_assert_eq(mark(3), 0);
	expect_event(listener, &event);
	child = fork();
	if (child == 0)
		_exit(child_of_a_traced_process());
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert(all_are(RP_CODE_JUMP), "the parent's session runs");
	stop_listening(listener);
}

/* A thread that executes both sites in a loop and reports each round. */
struct runner {
	pthread_t thread;
	uint64_t round;		/* the last round written; main sets `asked` */
};

static uint64_t asked;
static struct runner runners[THREADS];

static void *run(void *data)
{
	struct runner *runner = data;
	uint64_t done = 0, round;

	while ((round = rp_load_acquire(&asked)) != UINT64_MAX) {
		mark_other(round);
		if (round == done)
			continue;
		mark(round);
		done = round;
		rp_store_release(&runner->round, done);
	}
	return NULL;
}

static bool all_have_written(uint64_t round)
{
	for (unsigned int i = 0; i < THREADS; i++) {
		if (rp_load_acquire(&runners[i].round) != round)
			return false;
	}
	return true;
}

static void expect_round(uint64_t round)
{
	struct rp_listener *listener = listen_to("Test-Keys"), *other = NULL;

	/* The thread executes the site at this moment. */
	if (round % 2)
		other = listen_to("Test-Keys-Other");
	rp_store_release(&asked, round);
	wait_until(all_have_written(round));
	for (unsigned int i = 0; i < THREADS; i++)
		expect_payload(listener, &round, sizeof(round));
	expect_end(listener);
	if (other)
		rp_listener_stop(other, NULL);
}

/* All events that the threads write after the session's start are in it, round by round. */
Test(core_keys, threads_see_the_jump_when_the_session_has_started)
{
	skip_where_code_is_fixed();
	wait_until(all_are(RP_CODE_PASS));
	for (unsigned int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&runners[i].thread, NULL, run, &runners[i]), 0);
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		settle();
		cr_assert(all_are(RP_CODE_PASS));
		expect_round(round);
	}
	rp_store_release(&asked, UINT64_MAX);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(runners[i].thread, NULL);
}

Test(core_keys, running_code_is_changed_unasked_only_where_the_maker_promises_it)
{
	cr_assert(rp_code_is_promised_by("AuthenticAMD"));
	cr_assert(rp_code_is_promised_by("HygonGenuine"));
	cr_assert_not(rp_code_is_promised_by("GenuineIntel"));
	cr_assert_not(rp_code_is_promised_by("  Shanghai  "));
}
