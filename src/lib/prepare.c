/* SPDX-License-Identifier: MIT */
/* rp_prepare(): starts threads and loads modules before a program restricts itself. */
#include <ringpipe/prepare.h>

#include "base/failure.h"
#include "base/sized.h"
#include "base/thread.h"
#include "core/core.h"
#include "core/drain.h"
#include "core/keys.h"
#include "counter/counters.h"
#include "diag/diag.h"
#include "host/symbols.h"
#include "sample/sample.h"

#define EVERYTHING (RP_PREPARE_SESSIONS | RP_PREPARE_STACKS | RP_PREPARE_SAMPLES | \
		    RP_PREPARE_COUNTERS | RP_PREPARE_STATIC_KEYS)

static int prepare_sessions(void)
{
	int ret = rp_core_init();

	return ret != 0 ? ret : rp_drain_start();
}

static int prepare_stacks(void)
{
	char reason[256];

	return rp_symbols_load(reason, sizeof(reason)) ? 0 : -ENOENT;
}

static int read_options(const struct rp_prepare_options *given, uint32_t *ret_what)
{
	struct rp_prepare_options options = RP_PREPARE_OPTIONS_INIT;

	if (given && rp_sized_read(&options, sizeof(options), RP_PREPARE_OPTIONS_SIZE_V1, given))
		return -EINVAL;
	if (options.what & ~(uint32_t)EVERYTHING)
		return -EINVAL;
	*ret_what = options.what ? options.what : EVERYTHING;
	return 0;
}

RP_PUBLIC int rp_prepare(const struct rp_prepare_options *options)
{
	static const struct {
		uint32_t what;
		int (*prepare)(void);
	} parts[] = {
		{ RP_PREPARE_SESSIONS, prepare_sessions },
		{ RP_PREPARE_STACKS, prepare_stacks },
		{ RP_PREPARE_SAMPLES, rp_sample_prepare },
		{ RP_PREPARE_COUNTERS, rp_counters_prepare },
		{ RP_PREPARE_STATIC_KEYS, rp_keys_prepare },
	};
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	uint32_t what;
	int ret, failed;

	rp_failed_call = NULL;
	ret = read_options(options, &what);
	if (ret != 0)
		return ret;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		failed = what & parts[i].what ? parts[i].prepare() : 0;
		if (ret == 0)
			ret = failed;
	}
	failed = rp_diag_prepare();
	if (ret == 0)
		ret = failed;
	rp_thread_wait_begun();
	rp_diag_wait_open();
	return ret;
}

RP_PUBLIC const char *rp_error_call(void)
{
	return rp_failed_call;
}
