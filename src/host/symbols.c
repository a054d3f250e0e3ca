/* SPDX-License-Identifier: MIT */
/*
 * Finds the module: beside the library, else where the loader looks. It stays loaded: nobody can
 * tell when the last thread has left its code.
 */
#include "host/symbols.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static void *open_beside(void)
{
	char path[PATH_MAX];
	const char *slash;
	Dl_info self;

	if (!dladdr((void *)rp_symbols_load, &self) || !self.dli_fname)
		return NULL;
	slash = strrchr(self.dli_fname, '/');
	if (!slash || (size_t)snprintf(path, sizeof(path), "%.*s/" RP_SYMBOLS_MODULE,
				       (int)(slash - self.dli_fname), self.dli_fname) >=
		      sizeof(path))
		return NULL;
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

rp_symbols_find_callback rp_symbols_load(char *ret_reason, size_t room)
{
	rp_symbols_find_callback find = NULL;
	const char *reason;
	void *module = open_beside();

	if (!module)
		module = dlopen(RP_SYMBOLS_MODULE, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (module)
		*(void **)&find = dlsym(module, RP_SYMBOLS_FUNCTION);
	if (!find) {
		reason = dlerror();
		snprintf(ret_reason, room, "%s", reason ? reason : RP_SYMBOLS_MODULE);
	}
	return find;
}
