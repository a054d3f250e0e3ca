/* SPDX-License-Identifier: MIT */
/*
 * Libraries that the program loads and unloads. If the name has no slash, dlopen(3) searches the
 * library on the paths of the object that calls it, and of those that loaded this object. The
 * wrapper then reports the request and jumps to dlopen(3), which sees the right caller; the event
 * has no result. Likewise for $ORIGIN in a name.
 */
#include <dlfcn.h>
#include <string.h>

#include <ringpipe/event.h>

#include "modules/inbox/inbox.h"

RP_PROVIDER(inbox_loader, "ringpipe-loader");
RP_EVENT(inbox_loader, loaded, 1, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(file), RP_POINTER(handle),
	 RP_U64(duration_ns));
RP_EVENT(inbox_loader, requested, 2, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(file));
RP_EVENT(inbox_loader, unloaded, 3, RP_LEVEL_INFORMATIONAL, 0, RP_POINTER(handle));

static void *(*next_dlopen)(const char *file, int flags);
static int (*next_dlclose)(void *handle);

void rp_inbox_loader_init(void)
{
	next_dlclose = rp_inbox_next("dlclose");
	next_dlopen = rp_inbox_next("dlopen");
}

/* Events for what the program loads; ringpipe loads its modules too. */
static bool is_wanted(const char *file, const void *caller)
{
	return file && !rp_inbox_thread.is_of_engine && !rp_inbox_is_engine(caller) &&
	       !rp_inbox_is_vfork_child();
}

static void *load_with_event(const char *file, int flags)
{
	const uint64_t start = rp_inbox_now_ns();
	void *handle = next_dlopen(file, flags);

	/* Writing the event calls no function of the loader, so dlerror(3) still has the error. */
	inbox_loader_loaded(file, handle, rp_inbox_now_ns() - start);
	return handle;
}

INBOX_EXPORT void *dlopen(const char *file, int flags)
{
	const void *caller = __builtin_return_address(0);

	if (INBOX_UNLIKELY(!next_dlopen))
		rp_inbox_loader_init();
	if ((inbox_loader_loaded_enabled() || inbox_loader_requested_enabled()) &&
	    is_wanted(file, caller)) {
		if (strchr(file, '/') && !strchr(file, '$'))
			return load_with_event(file, flags);
		inbox_loader_requested(file);
	}
	/* A jump: dlopen(3) reads its return address. */
	return next_dlopen(file, flags);
}

INBOX_EXPORT int dlclose(void *handle)
{
	if (INBOX_UNLIKELY(!next_dlclose))
		rp_inbox_loader_init();
	if (inbox_loader_unloaded_enabled() && is_wanted("", __builtin_return_address(0)))
		inbox_loader_unloaded(handle);
	return next_dlclose(handle);
}
