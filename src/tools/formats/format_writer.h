/* SPDX-License-Identifier: MIT */
/*
 * The formats of other tools that `ringpipe convert --to` writes. A format gets the events in the
 * order of the stream and writes as it gets them, in bounded memory.
 */
#ifndef RP_TOOL_FORMAT_WRITER_H
#define RP_TOOL_FORMAT_WRITER_H

#include <ringpipe/reader.h>

#include "tools/formats/format_out.h"
#include "tools/trace/event_expression.h"
#include "tools/trace/time_range.h"

struct rp_format_source {
	struct rp_reader *reader;
	struct rp_reader_info info;
	const char *file;		/* to read again; NULL: the trace is not a regular file */
	struct rp_time_range range;	/* the times of the events from `reader` */
	struct rp_expression *where;	/* which events the user wants; NULL: all */
	const char *folder;		/* that the format makes; NULL: it writes to a file */
};

struct rp_format_writer {
	const char *name;		/* as in --to */
	bool is_folder;			/* it makes a folder, and uses `out` for its errors only */
	/*
	 * Write the beginning. Both structs stay valid until close().
	 * Return: 0; -ENOMEM; -EOPNOTSUPP, which is in out->error, too: the function has reported
	 * what the build or the machine lacks. A failure to write is in out->error.
	 */
	int (*open)(const struct rp_format_source *source, struct rp_format_out *out,
		    void **ret_state);
	/*
	 * Write an event. Events that describe the trace (see rp_event_is_own()) come even if the
	 * user does not want them. Return: 0; -ENOMEM.
	 */
	int (*event)(void *state, const struct rp_reader_event *event);
	/* Write the end, after any number of events. Return: 0; -ENOMEM. */
	int (*end)(void *state);
	void (*close)(void *state);
};

/* Return: the format with this name; NULL: there is none. */
const struct rp_format_writer *rp_format_find(const char *name);

/* The names of the formats, for the completion of shells and as a sentence lists them. */
#define RP_FORMAT_WORDS "chrome|perfetto|firefox|speedscope|pprof|folded|jsonl|csv|ctf|otlp|" \
	"otlp-profiles"
#define RP_FORMAT_NAMES \
	"chrome, perfetto, firefox, speedscope, pprof, folded, jsonl, csv, ctf, otlp and " \
	"otlp-profiles"

extern const struct rp_format_writer rp_format_chrome, rp_format_csv, rp_format_ctf,
	rp_format_firefox, rp_format_folded, rp_format_json_lines, rp_format_otlp,
	rp_format_otlp_profiles, rp_format_perfetto, rp_format_pprof, rp_format_speedscope;

#endif
