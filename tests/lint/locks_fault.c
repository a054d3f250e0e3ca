/* SPDX-License-Identifier: MIT */
/* A library with the fault that locks.py reports, several calls deep and after a branch. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#define VISIBLE __attribute__((visibility("default"), noinline))

void *locks_fault_find(int how);
void locks_fault_free(int how);
void rp_object_register(void *object);
void rp_object_unregister(void *object);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *objects;

/* The object's constructor calls this function, so the mutex is one that a constructor takes. */
VISIBLE void rp_object_register(void *object)
{
	pthread_mutex_lock(&lock);
	objects = object;
	pthread_mutex_unlock(&lock);
}

VISIBLE void rp_object_unregister(void *object)
{
	rp_object_register(object);
}

static __attribute__((noinline)) void *find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

/* The fault: waits for the loader's lock while it holds the constructors' mutex. */
VISIBLE void *locks_fault_find(int how)
{
	void *found = NULL;

	pthread_mutex_lock(&lock);
	if (how != 0)
		found = find("environ");
	pthread_mutex_unlock(&lock);
	return found;
}

/* No fault: calls the loader after it has unlocked the mutex. */
VISIBLE void locks_fault_free(int how)
{
	pthread_mutex_lock(&lock);
	objects = NULL;
	pthread_mutex_unlock(&lock);
	if (how != 0)
		objects = dlopen("libc.so.6", RTLD_NOW);
}
