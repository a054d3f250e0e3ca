/* SPDX-License-Identifier: MIT */
#include "base/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static void *open_beside(const char *file)
{
	char path[PATH_MAX];
	const char *slash;
	Dl_info self;

	if (!dladdr((void *)rp_module_load, &self) || !self.dli_fname)
		return NULL;
	slash = strrchr(self.dli_fname, '/');
	if (!slash || (size_t)snprintf(path, sizeof(path), "%.*s/%s",
				       (int)(slash - self.dli_fname), self.dli_fname, file) >=
		      sizeof(path))
		return NULL;
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

void *rp_module_load(const char *file, const char *function, char *ret_reason, size_t room)
{
	void *handle = open_beside(file), *found = NULL;
	const char *reason;

	if (!handle)
		handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (handle)
		found = dlsym(handle, function);
	if (!found) {
		reason = dlerror();
		snprintf(ret_reason, room, "%s", reason ? reason : file);
	}
	return found;
}
