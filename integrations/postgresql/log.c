/* SPDX-License-Identifier: MIT */
/*
 * Lines of the server's log as events, and checkpoints. The checkpointer has no hook except those
 * of its two log lines, which it writes when log_checkpoints is on.
 */
#include "hooks.h"

#include <access/xlog.h>
#include <mb/pg_wchar.h>
#include <miscadmin.h>
#include <utils/backend_status.h>

#include "events.h"

static emit_log_hook_type previous_log;
static struct rp_span checkpoint;

/* Whether a source file of vacuums wrote a line, and not a function of a user in an index. */
static bool is_of_vacuum(const ErrorData *line)
{
	return line->filename &&
	       (strstr(line->filename, "vacuum") || strcmp(line->filename, "analyze.c") == 0);
}

/*
 * Whether a line may contain text of statements or data of users. Lines about a setting contain its
 * value, and debug lines whole commands. The other lines of the processes below contain only names
 * of relations and files.
 */
static bool is_secret(const ErrorData *line)
{
	const char *format = line->message_id ? line->message_id : "";
	/* B_INVALID is the postmaster, or a backend before the packet that starts it. */
	const uint32 plain = 1u << B_INVALID | 1u << B_ARCHIVER | 1u << B_BG_WRITER |
			     1u << B_CHECKPOINTER | 1u << B_LOGGER | 1u << B_STARTUP |
			     1u << B_WAL_WRITER;

	if (line->elevel < LOG || strstr(format, "parameter") || strstr(format, "near token") ||
	    (MyBackendType == B_INVALID && IsUnderPostmaster))
		return true;
	if (MyBackendType == B_AUTOVAC_LAUNCHER || MyBackendType == B_AUTOVAC_WORKER)
		return line->elevel >= WARNING || !is_of_vacuum(line);
	return !(plain >> MyBackendType & 1);
}

#define WRITE(level) \
	postgresql_log_##level(pgstat_get_my_query_id(), unpack_sql_state(line->sqlerrcode), \
			       ringpipe_text_cut(text))

const char *ringpipe_text_cut(const char *text)
{
	static char cut[(16 << 10) + 1];
	const int most = sizeof(cut) - 1, bytes = (int)strnlen(text ? text : "", sizeof(cut));

	if (bytes <= most)
		return text ? text : "";
	strlcpy(cut, text, (size_t)pg_mbcliplen(text, bytes, most) + 1);
	return cut;
}

static void write_line(const ErrorData *line)
{
	const char *text = ringpipe_sql_text || !is_secret(line) ? line->message : line->message_id;

	if (line->elevel >= FATAL)
		WRITE(critical);
	else if (line->elevel >= ERROR)
		WRITE(error);
	else if (line->elevel >= WARNING)
		WRITE(warning);
	else if (line->elevel >= LOG)
		WRITE(notice);
	else
		WRITE(debug);
}

static void begin_checkpoint(const ErrorData *line)
{
	struct rp_activity outer;

	rp_span_begin(&checkpoint, &outer);
	postgresql_checkpoint_start(line->message_id[0] == 'r', line->message);
	rp_activity_end(&outer);
}

static void end_checkpoint(void)
{
	const CheckpointStatsData *stats = &CheckpointStats;
	struct rp_activity outer;
	uint64_t duration_ns;

	if (checkpoint.begun_ns == 0)
		return;
	duration_ns = rp_span_end(&checkpoint, &outer);
	postgresql_checkpoint_stop(stats->ckpt_bufs_written, stats->ckpt_segs_added,
				   stats->ckpt_segs_removed, stats->ckpt_segs_recycled,
				   stats->ckpt_sync_rels, stats->ckpt_longest_sync, duration_ns);
	rp_activity_end(&outer);
}

/* May run in a signal handler, at the end of a backend. */
static void on_log(ErrorData *line)
{
	if (previous_log)
		previous_log(line);
	if (line->elevel >= ERROR)
		ringpipe_count(RINGPIPE_LOGGED_ERRORS);
	/* The formats begin with "checkpoint" or "restartpoint". */
	if (MyBackendType == B_CHECKPOINTER && line->message_id) {
		if (strstr(line->message_id, "point starting:"))
			begin_checkpoint(line);
		else if (strstr(line->message_id, "point complete:"))
			end_checkpoint();
	}
	write_line(line);
}

void ringpipe_log_init(void)
{
	previous_log = emit_log_hook;
	emit_log_hook = on_log;
}
