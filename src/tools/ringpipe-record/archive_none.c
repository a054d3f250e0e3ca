/* SPDX-License-Identifier: MIT */
/* Without libarchive. */
#include "tools/ringpipe-record/archive.h"

#include <errno.h>

bool rp_archive_is_supported(void)
{
	return false;
}

int rp_archive_write(const struct rp_archive_plan *plan)
{
	(void)plan;
	return -EOPNOTSUPP;
}
