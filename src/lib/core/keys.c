/* SPDX-License-Identifier: MIT */
#include "core/keys.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/atomic.h"
#include "base/code.h"
#include "base/sized.h"
#include "base/thread.h"
#include "core/core.h"

#define LOOK_NS 100000000

/* The sites of one object. All under rp_core.lock. */
struct table {
	struct cds_list_head node;
	const struct rp_object *object;
	const struct rp_key *keys;
	size_t count;
	struct rp_code code;
	bool *passed;		/* by key: the site is not a jump */
};

static struct {
	struct cds_list_head tables;
	bool begun;		/* the thread exists, or some thread creates it */
	bool usable;		/* the thread found that code can be changed */
	bool refused;		/* the thread found that it cannot, and ended */
	rp_keys_warn_function *warn_about;
} keys = { .tables = CDS_LIST_HEAD_INIT(keys.tables) };

static unsigned char *site_of(const struct rp_key *key)
{
	return (unsigned char *)((uintptr_t)&key->site + (uintptr_t)(intptr_t)key->site);
}

static bool is_wanted(const struct rp_key *key)
{
	uintptr_t event = (uintptr_t)&key->event + (uintptr_t)(intptr_t)key->event;

	return rp_load_relaxed((const uint64_t *)event) != 0;
}

/*
 * Switch a site. If its byte has neither value, for example because of a breakpoint, leave it for
 * the next check.
 */
static void switch_site(struct table *table, size_t i, struct rp_code_change *change)
{
	unsigned char *site = site_of(&table->keys[i]), byte = rp_code_read(site);
	bool pass = !table->passed[i];
	unsigned char now = pass ? RP_CODE_PASS : RP_CODE_JUMP;

	if ((uintptr_t)site < table->code.begin || (uintptr_t)site >= table->code.end)
		return;		/* a second code segment, which linkers do not create */
	if (byte != now && byte != (pass ? RP_CODE_JUMP : RP_CODE_PASS))
		return;
	if (byte != now && rp_code_write(change, &table->code, site, now) != 0) {
		/* Make all sites jumps again. Those that cannot be changed are tried again. */
		keys.usable = false;
		return;
	}
	table->passed[i] = pass;
}

void rp_keys_settle(void)
{
	struct rp_code_change change = { .memory = -1 };
	struct table *table;

	cds_list_for_each_entry(table, &keys.tables, node) {
		for (size_t i = 0; i < table->count; i++) {
			bool wanted = !keys.usable || is_wanted(&table->keys[i]);

			if (wanted == table->passed[i])
				switch_site(table, i, &change);
		}
		(void)rp_code_close(&table->code);
	}
	rp_code_end(&change);
}

static void *watch(void *data)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	int ret = rp_code_prepare();
	bool usable;

	(void)data;
	pthread_mutex_lock(&rp_core.lock);
	usable = keys.usable;
	pthread_mutex_unlock(&rp_core.lock);
	/*
	 * This call may wait for the loader, in a forked child for ever, so only this thread makes
	 * it.
	 */
	if (!usable && ret == 0)
		ret = rp_code_try();
	pthread_mutex_lock(&rp_core.lock);
	keys.usable = keys.usable || ret == 0;
	keys.refused = !keys.usable;
	pthread_cond_broadcast(&rp_core.changed);
	for (;;) {
		rp_keys_settle();
		if (keys.refused)
			break;
		pthread_mutex_unlock(&rp_core.lock);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		pthread_mutex_lock(&rp_core.lock);
	}
	pthread_mutex_unlock(&rp_core.lock);
	if (keys.warn_about)
		keys.warn_about("cannot change code, with RINGPIPE_STATIC_KEYS", "1", -ret);
	return NULL;
}

/*
 * Create the thread, unless it exists or another thread creates it. A constructor calls this
 * function while it holds the loader's lock, for which pthread_create(3) may wait. So no lock is
 * held meanwhile, unlike in rp_thread_create_once().
 */
static int start_thread(void)
{
	pthread_t thread;
	bool begun;
	int ret;

	pthread_mutex_lock(&rp_core.lock);
	begun = keys.begun;
	keys.begun = true;
	pthread_mutex_unlock(&rp_core.lock);
	if (begun)
		return 0;
	ret = rp_thread_create(&thread, "ringpipe-keys", watch, NULL);
	if (ret == 0) {
		pthread_detach(thread);
		return 0;
	}
	pthread_mutex_lock(&rp_core.lock);
	keys.begun = false;
	pthread_cond_broadcast(&rp_core.changed);
	pthread_mutex_unlock(&rp_core.lock);
	return ret;
}

void rp_keys_register(const struct rp_object *object, rp_keys_warn_function *warn_by)
{
	struct table *table;

	if (!rp_sized_fits(object, RP_OBJECT_SIZE_V1) || object->keys >= object->keys_end ||
	    (!warn_by && !rp_code_is_promised()))
		return;
	table = calloc(1, sizeof(*table));
	if (!table)
		return;
	table->object = object;
	table->keys = object->keys;
	table->count = (size_t)(object->keys_end - object->keys);
	table->passed = calloc(table->count, sizeof(*table->passed));
	if (!table->passed || rp_code_find(site_of(table->keys), &table->code) != 0) {
		free(table->passed);
		free(table);
		return;
	}
	pthread_mutex_lock(&rp_core.lock);
	cds_list_add_tail(&table->node, &keys.tables);
	keys.warn_about = warn_by;
	pthread_mutex_unlock(&rp_core.lock);
	(void)start_thread();
}

int rp_keys_prepare(void)
{
	bool none;
	int ret;

	pthread_mutex_lock(&rp_core.lock);
	none = cds_list_empty(&keys.tables) || keys.refused;
	pthread_mutex_unlock(&rp_core.lock);
	ret = none ? 0 : start_thread();
	if (none || ret != 0)
		return ret;
	pthread_mutex_lock(&rp_core.lock);
	while (keys.begun && !keys.usable && !keys.refused)
		pthread_cond_wait(&rp_core.changed, &rp_core.lock);
	ret = keys.begun ? 0 : -EAGAIN;		/* another thread's attempt failed */
	pthread_mutex_unlock(&rp_core.lock);
	return ret;
}

void rp_keys_unregister(const struct rp_object *object)
{
	struct table *table, *next;

	pthread_mutex_lock(&rp_core.lock);
	cds_list_for_each_entry_safe(table, next, &keys.tables, node) {
		if (table->object != object)
			continue;
		cds_list_del(&table->node);
		free(table->passed);
		free(table);
	}
	pthread_mutex_unlock(&rp_core.lock);
}

void rp_keys_fork_child(void)
{
	bool ran;

	pthread_mutex_lock(&rp_core.lock);
	ran = keys.begun && !keys.refused;
	keys.begun = keys.begun && !ran;
	pthread_mutex_unlock(&rp_core.lock);
	if (!ran || start_thread() == 0)
		return;
	pthread_mutex_lock(&rp_core.lock);
	keys.usable = false;
	keys.refused = true;
	rp_keys_settle();
	pthread_mutex_unlock(&rp_core.lock);
}
