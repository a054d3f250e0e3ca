/* SPDX-License-Identifier: MIT */
#include "host/generated_code.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"

/* Limits the memory for removed code while a session with stacks runs. */
#define REMOVED_MAX 65536u

static struct {
	pthread_mutex_t lock;
	void *codes;				/* a tree of tsearch(3), by address */
	unsigned int holders;
	struct rp_generated_code **removed;
	size_t removed_count, removed_capacity;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void lock_table(void)
{
	pthread_mutex_lock(&table.lock);
}

void rp_generated_code_unlock(void)
{
	pthread_mutex_unlock(&table.lock);
}

static void free_code(struct rp_generated_code *code)
{
	free(code->name);
	free(code);
}

static void free_removed(void)
{
	for (size_t i = 0; i < table.removed_count; i++)
		free_code(table.removed[i]);
	free(table.removed);
	table.removed = NULL;
	table.removed_count = table.removed_capacity = 0;
}

/* The streams that held removed code belong to the parent. */
static void forget_holders(void)
{
	table.holders = 0;
	free_removed();
	rp_generated_code_unlock();
}

static void watch_forks(void)
{
	pthread_atfork(lock_table, rp_generated_code_unlock, forget_holders);
}

void rp_generated_code_lock(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	lock_table();
}

static int compare(const void *left, const void *right)
{
	const struct rp_generated_code *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

static struct rp_generated_code *find(uint64_t address)
{
	const struct rp_generated_code key = { .address = address };
	struct rp_generated_code **found = tfind(&key, &table.codes, compare);

	return found ? *found : NULL;
}

static void retire(struct rp_generated_code *code)
{
	struct rp_generated_code **grown = NULL;

	if (table.holders && table.removed_count < REMOVED_MAX)
		grown = rp_array_reserve(table.removed, table.removed_count,
					 &table.removed_capacity, 1, sizeof(*grown));
	if (!grown) {
		free_code(code);
		return;
	}
	code->removed_ns = rp_clock_monotonic_ns();
	table.removed = grown;
	table.removed[table.removed_count++] = code;
}

bool rp_generated_code_remove(uint64_t address)
{
	struct rp_generated_code *code = find(address);

	if (!code)
		return false;
	tdelete(code, &table.codes, compare);
	retire(code);
	return true;
}

static struct rp_generated_code *make_code(uint64_t address, uint64_t bytes, const char *name)
{
	struct rp_generated_code *code = malloc(sizeof(*code));

	if (!code)
		return NULL;
	*code = (struct rp_generated_code){
		address, bytes, rp_clock_monotonic_ns(), UINT64_MAX, strdup(name),
	};
	if (!code->name) {
		free(code);
		return NULL;
	}
	for (char *at = code->name; *at; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	}
	return code;
}

const struct rp_generated_code *rp_generated_code_put(uint64_t address, uint64_t bytes,
						      const char *name)
{
	struct rp_generated_code *code = make_code(address, bytes, name);

	rp_generated_code_remove(address);
	if (code && !tsearch(code, &table.codes, compare)) {
		free_code(code);
		code = NULL;
	}
	return code;
}

bool rp_generated_code_has(uint64_t address)
{
	return find(address) != NULL;
}

struct visit {
	int (*visit)(const struct rp_generated_code *code);
	int ret;
};

static void visit_node(const void *node, VISIT order, void *data)
{
	struct visit *visit = data;

	if ((order == postorder || order == leaf) && visit->ret == 0)
		visit->ret = visit->visit(*(const struct rp_generated_code *const *)node);
}

int rp_generated_code_visit(int (*visit)(const struct rp_generated_code *code))
{
	struct visit state = { visit, 0 };

	twalk_r(table.codes, visit_node, &state);
	return state.ret;
}

void rp_generated_code_hold(void)
{
	rp_generated_code_lock();
	table.holders++;
	rp_generated_code_unlock();
}

void rp_generated_code_release(void)
{
	rp_generated_code_lock();
	if (--table.holders == 0)
		free_removed();
	rp_generated_code_unlock();
}

static void add_copy(struct rp_code_list *list, const struct rp_generated_code *code)
{
	struct rp_generated_code *grown = rp_array_reserve(list->items, list->count,
							   &list->capacity, 1, sizeof(*grown));
	char *name = grown ? strdup(code->name) : NULL;

	if (grown)
		list->items = grown;
	if (!name)
		return;
	list->items[list->count] = *code;
	list->items[list->count++].name = name;
	if (code->bytes > list->longest)
		list->longest = code->bytes;
}

static void copy_node(const void *node, VISIT order, void *data)
{
	if (order == postorder || order == leaf)
		add_copy(data, *(const struct rp_generated_code *const *)node);
}

void rp_generated_code_list(struct rp_code_list *ret_list)
{
	*ret_list = (struct rp_code_list){ NULL, 0, 0, 0 };
	rp_generated_code_lock();
	twalk_r(table.codes, copy_node, ret_list);
	for (size_t i = 0; i < table.removed_count; i++)
		add_copy(ret_list, table.removed[i]);
	rp_generated_code_unlock();
	if (ret_list->count)
		qsort(ret_list->items, ret_list->count, sizeof(*ret_list->items), compare);
}

void rp_code_list_fini(struct rp_code_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].name);
	free(list->items);
}

const struct rp_generated_code *rp_code_list_find(const struct rp_code_list *list,
						  uint64_t address, uint64_t time_ns)
{
	size_t at = RP_PARTITION_POINT(index, list->count, list->items[index].address <= address);
	const struct rp_generated_code *other = NULL;

	while (at-- > 0 && address - list->items[at].address < list->longest) {
		const struct rp_generated_code *code = &list->items[at];

		if (address - code->address >= code->bytes)
			continue;
		if (time_ns >= code->added_ns && time_ns <= code->removed_ns)
			return code;
		other = code;
	}
	return other;
}
