/* SPDX-License-Identifier: MIT */
/* usage: late MODULE. Loads a module, which has a provider, when a line of standard input comes. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

int main(int argc, char **argv)
{
	/* Keeps libringpipe with a linker that drops unused libraries. */
	rp_diagnostics_wait();
	printf("%d\n", (int)getpid());
	fflush(stdout);
	if (argc != 2 || getchar() != '\n')
		return 2;
	if (!dlopen(argv[1], RTLD_NOW)) {
		fprintf(stderr, "%s\n", dlerror());
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
