/* SPDX-License-Identifier: MIT */
/*
 * Stands in for the library: the table has to name all sites there are. Their first bytes are
 * changed by hand, and then no event gets through.
 */
#include "keys.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define JUMP 0xe9
#define PASS 0xa9
#define PAGE 4096u

static const struct rp_object *registered;
static unsigned int written;

void rp_object_register(struct rp_object *object)
{
	registered = object;
}

void rp_object_unregister(struct rp_object *object)
{
	(void)object;
}

int rp_event_write(struct rp_event *event, const struct rp_part *parts, unsigned int part_count)
{
	(void)event;
	(void)parts;
	(void)part_count;
	written++;
	return 1;
}

int rp_event_write_regs(uint64_t a, uint64_t b, uint64_t c, uint64_t d, struct rp_event *event,
			size_t bytes)
{
	(void)a, (void)b, (void)c, (void)d, (void)bytes;
	return rp_event_write(event, NULL, 0);
}

int fire_here(uint64_t number)
{
	return fire_both(number) + fire_template_3(number);
}

static unsigned char *site_of(const struct rp_key *key)
{
	return (unsigned char *)((uintptr_t)&key->site + (uintptr_t)(intptr_t)key->site);
}

/* Return: how many sites there are, or 0. */
static int check_table(void)
{
	int sites = 0;

	for (const struct rp_key *key = registered->keys; key < registered->keys_end; key++) {
		uintptr_t event = (uintptr_t)&key->event + (uintptr_t)(intptr_t)key->event;

		if (event != (uintptr_t)&keys_one_event_.enable &&
		    event != (uintptr_t)&keys_two_event_.enable)
			return 0;
		if (*site_of(key) != JUMP)
			return 0;
		sites++;
	}
	return sites;
}

static int change(unsigned char byte)
{
	for (const struct rp_key *key = registered->keys; key < registered->keys_end; key++) {
		unsigned char *site = site_of(key);
		void *page = (void *)((uintptr_t)site / PAGE * PAGE);

		if (mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
			return -1;
		*(volatile unsigned char *)site = byte;
		if (mprotect(page, PAGE, PROT_READ | PROT_EXEC) != 0)
			return -1;
	}
	return 0;
}

/* Fires all events, and checks the sum of the results and the number of writes. */
static int check(const char *when, int expected, unsigned int expected_written)
{
	int result;

	written = 0;
	result = fire_here(1) + fire_there(2) + 100 * keys_plain(3);
	if (result == expected && written == expected_written)
		return 0;
	printf("%s: %d instead of %d, %u written instead of %u\n", when, result, expected, written,
	       expected_written);
	return 1;
}

int main(void)
{
	if (!registered || check_table() < 6) {
		printf("%d sites\n", registered ? check_table() : -1);
		return 1;
	}
	if (check("jumps, off", 0, 0))
		return 1;
	keys_one_event_.enable = keys_two_event_.enable = keys_plain_event_.enable = 1;
	if (check("jumps, on", 4 * 12 + 100, 9))
		return 1;
	if (change(PASS) != 0)
		return 77;
	if (check("passed, on", 100, 1) || change(JUMP) != 0)
		return 1;
	return check("jumps again, on", 4 * 12 + 100, 9);
}
