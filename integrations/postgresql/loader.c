/* SPDX-License-Identifier: MIT */
/*
 * The library that shared_preload_libraries names. It loads the hooks, which need libringpipe. If
 * they cannot be loaded, the server reports this and starts without them.
 */
#include <postgres.h>

#include <fmgr.h>

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

void _PG_init(void)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData *error;

	PG_TRY();
	{
		load_file("$libdir/ringpipe_hooks", false);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		ereport(WARNING, (errmsg("ringpipe is not loaded: %s", error->message),
				  errhint("Install the version of libringpipe with which the "
					  "extension was built, and restart the server.")));
		FreeErrorData(error);
	}
	PG_END_TRY();
}
