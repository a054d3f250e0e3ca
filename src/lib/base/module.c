/* SPDX-License-Identifier: MIT */
#include "base/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The loader has an empty name for the program, for which dladdr(3) returns argv[0] instead. */
int rp_module_folder(char ret_folder[PATH_MAX])
{
	char path[PATH_MAX] = "";
	struct link_map *object;
	Dl_info info;
	ssize_t n;

	if (dladdr1((void *)(uintptr_t)rp_module_folder, &info, (void **)&object,
		    RTLD_DL_LINKMAP) && *object->l_name) {
		snprintf(path, sizeof(path), "%s", object->l_name);
	} else {
		n = readlink("/proc/self/exe", path, sizeof(path) - 1);
		if (n < 0)
			return -errno;
	}
	if (*path != '/')
		return -ENOENT;
	*strrchr(path, '/') = '\0';
	memcpy(ret_folder, path, sizeof(path));
	return 0;
}

static void *open_beside(const char *file)
{
	char folder[PATH_MAX], path[PATH_MAX];

	if (rp_module_folder(folder) != 0 ||
	    (size_t)snprintf(path, sizeof(path), "%s/%s", folder, file) >= sizeof(path))
		return NULL;
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

void *rp_module_load(const char *file, const char *function, char *ret_reason, size_t space)
{
	void *handle = open_beside(file), *found = NULL;
	const char *reason;

	if (!handle)
		handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (handle)
		found = dlsym(handle, function);
	if (!found) {
		reason = dlerror();
		snprintf(ret_reason, space, "%s", reason ? reason : file);
	}
	return found;
}
