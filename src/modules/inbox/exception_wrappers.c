/* SPDX-License-Identifier: MIT */
/* Exceptions of C++: the type of each that is thrown. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>

#include <ringpipe/event.h>

#include "modules/inbox/inbox.h"

/* `type` is the mangled name, as in std::type_info::name(). */
RP_PROVIDER(inbox_exceptions, "ringpipe-exceptions");
RP_EVENT(inbox_exceptions, thrown, 1, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(type),
	 RP_POINTER(object));

typedef void throw_function(void *object, void *type, void (*destroy)(void *));

/* The beginning of std::type_info, which the C++ ABI defines. */
struct inbox_type_info {
	const void *functions;
	const char *name;
};

void __cxa_throw(void *object, void *type, void (*destroy)(void *)) __attribute__((noreturn));

static throw_function *next_throw;

/*
 * The C++ library may be in the scope of the caller only: that of a plugin which a C program loaded
 * with RTLD_LOCAL. A link map is the handle of its object.
 */
static throw_function *find_in_scope_of(const void *caller)
{
	struct link_map *map = NULL;
	throw_function *found = NULL;
	Dl_info info;

	if (dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) && map)
		*(void **)&found = dlsym(map, "__cxa_throw");
	return found;
}

INBOX_EXPORT void __cxa_throw(void *object, void *type, void (*destroy)(void *))
{
	const struct inbox_type_info *info = type;
	const int saved_errno = errno;
	throw_function *next = next_throw;

	if (!next) {
		*(void **)&next = rp_inbox_find_next("__cxa_throw");
		next_throw = next;
	}
	if (!next)
		next = find_in_scope_of(__builtin_return_address(0));
	if (inbox_exceptions_thrown_enabled() && !rp_inbox_is_vfork_child())
		inbox_exceptions_thrown(*info->name == '*' ? info->name + 1 : info->name,
					object);
	errno = saved_errno;
	if (next)
		next(object, type, destroy);
	/* Without a way to throw, no statement after the throw may run. */
	abort();
}
