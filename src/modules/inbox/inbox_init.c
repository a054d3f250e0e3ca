/* SPDX-License-Identifier: MIT */
#include "modules/inbox/inbox.h"

__attribute__((constructor)) static void init(void)
{
	rp_inbox_init();
	rp_inbox_threads_init();
	rp_inbox_mutexes_init();
	rp_inbox_rwlocks_init();
	rp_inbox_conditions_init();
	rp_inbox_malloc_init();
	rp_inbox_heap_init();
	rp_inbox_syslog_init();
	rp_inbox_loader_init();
	rp_inbox_process_init();
	rp_inbox_signals_init();
}
