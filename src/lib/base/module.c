/* SPDX-License-Identifier: MIT */
#include "base/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char own_folder[PATH_MAX];
static bool is_known;

/* The loader has an empty name for the program, for which dladdr(3) returns argv[0] instead. */
void rp_module_init(void)
{
	struct link_map *object;
	Dl_info info;

	if (dladdr1((void *)(uintptr_t)rp_module_init, &info, (void **)&object,
		    RTLD_DL_LINKMAP) && *object->l_name)
		snprintf(own_folder, sizeof(own_folder), "%s", object->l_name);
	else if (readlink("/proc/self/exe", own_folder, sizeof(own_folder) - 1) < 0)
		return;
	is_known = *own_folder == '/';
	if (is_known)
		*strrchr(own_folder, '/') = '\0';
}

const char *rp_module_folder(void)
{
	return is_known ? own_folder : NULL;
}

static void *open_beside(const char *file)
{
	char path[PATH_MAX];

	if (!is_known ||
	    (size_t)snprintf(path, sizeof(path), "%s/%s", own_folder, file) >= sizeof(path))
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
