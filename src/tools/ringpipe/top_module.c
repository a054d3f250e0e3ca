/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe/top_module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *open_from_own(const char *folder)
{
	char own[PATH_MAX], path[2 * PATH_MAX];
	ssize_t size = readlink("/proc/self/exe", own, sizeof(own) - 1);

	if (size <= 0 || *own != '/')
		return NULL;
	own[size] = '\0';
	*strrchr(own, '/') = '\0';
	snprintf(path, sizeof(path), "%s/%s/" RP_SYMBOLS_MODULE, own, folder);
	return access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

rp_symbols_find_callback rp_top_module_load(void)
{
	/* The folder of the module in a build, and in an installation. */
	static const char *const folders[] = { "../..", RP_LIBDIR_FROM_COMMAND };
	rp_symbols_find_callback find = NULL;
	void *module = NULL;

	for (size_t i = 0; i < 2 && !module; i++)
		module = open_from_own(folders[i]);
	if (!module)
		module = dlopen(RP_SYMBOLS_MODULE, RTLD_NOW | RTLD_LOCAL);
	if (module)
		*(void **)&find = dlsym(module, RP_SYMBOLS_FUNCTION);
	return find;
}
