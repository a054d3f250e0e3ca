/* SPDX-License-Identifier: MIT */
/*
 * The archive of a recording, a zip file: the trace, system.json, checks.json, log.txt,
 * missing.txt if code came from files that could not be identified, and on request the programs and
 * libraries, by build id as debuggers look them up.
 */
#ifndef RP_RECORD_ARCHIVE_H
#define RP_RECORD_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/ringpipe-record/image.h"

struct rp_archive_plan {
	const char *path;		/* of the archive; must not exist, unless is_forced */
	bool is_forced;
	const char *trace_path;
	const char *trace_name;		/* in the archive */
	int log_fd;			/* of a file with the messages */
	int64_t start_utc_ns;
	int64_t duration_ms;
	const struct rp_images *images;	/* the files of the trace's stacks */
	bool has_binaries;		/* the archive gets them */
};

/* Whether this build can write archives. */
bool rp_archive_is_supported(void);

/*
 * Write the archive. On a failure, no new file remains. Return: 0; -EEXIST; other -errno; -EIO:
 * libarchive failed.
 */
int rp_archive_write(const struct rp_archive_plan *plan);

#endif
