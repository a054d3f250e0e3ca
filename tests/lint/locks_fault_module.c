/* SPDX-License-Identifier: MIT */
/* An exporter module with the fault that locks.py reports, in one of its operations. */
#include <dlfcn.h>
#include <stddef.h>

#define VISIBLE __attribute__((visibility("default"), noinline))

struct operations {
	void (*write)(const char *name);
	void (*add)(const char *name);
};

const struct operations *locks_fault_module_open(void);
void watch(void);

static void *found;

static __attribute__((noinline)) void find(const char *name)
{
	found = dlsym(RTLD_DEFAULT, name);
}

/* No fault: the write function runs without the exporters' lock. */
static void rp_lttng_write(const char *name)
{
	found = dlopen(name, RTLD_NOW);
}

/* The fault: waits for the loader's lock under the exporters' lock. */
static void on_add(const char *name)
{
	if (name)
		find(name);
}

static const struct operations ops = { .write = rp_lttng_write, .add = on_add };

VISIBLE void watch(void)
{
	found = NULL;
}

VISIBLE const struct operations *locks_fault_module_open(void)
{
	return &ops;
}
