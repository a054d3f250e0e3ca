/* SPDX-License-Identifier: MIT */
/*
 * usage: loader_late LIBRARY…. A program without ringpipe, whose threads load and unload libraries
 * that bring it: the library's constructor starts the environment's sessions while its thread holds
 * the loader's lock and other threads wait for it. Reports progress as loader.c reads it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOADERS 8u
#define ROUNDS 20u

static char **paths;
static unsigned int count;

static void *load_and_unload(void *data)
{
	unsigned int first = (unsigned int)(uintptr_t)data;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		void *library = dlopen(paths[(first + i) % count], RTLD_NOW | RTLD_LOCAL);
		uint64_t (*call)(void);

		if (!library) {
			fprintf(stderr, "# %s\n", dlerror());
			_exit(1);
		}
		*(void **)&call = dlsym(library, "library_call");
		call();
		dlclose(library);
		(void)!write(STDOUT_FILENO, ".", 1);
	}
	(void)!write(STDOUT_FILENO, "+", 1);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[LOADERS];

	if (argc < 2)
		return 2;
	paths = argv + 1;
	count = (unsigned int)argc - 1;
	for (uintptr_t i = 0; i < LOADERS; i++) {
		if (pthread_create(&threads[i], NULL, load_and_unload, (void *)i) != 0)
			return 1;
	}
	for (unsigned int i = 0; i < LOADERS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
