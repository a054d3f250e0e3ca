/* SPDX-License-Identifier: MIT */
/*
 * Lines of the server's log as events, and checkpoints. The checkpointer has no hook except those
 * of its two log lines, which it writes when log_checkpoints is on.
 */
#include "hooks.h"

#include <access/xlog.h>
#include <miscadmin.h>
#include <utils/backend_status.h>
#include <utils/elog.h>

#include "events.h"

static emit_log_hook_type previous_log;
static struct rp_span checkpoint;

/*
 * Whether a line may contain text of statements or data of users. The processes below write only
 * names of relations, files and settings.
 */
static bool is_secret(const ErrorData *line)
{
	switch (MyBackendType) {
	case B_INVALID:		/* the postmaster */
	case B_ARCHIVER:
	case B_BG_WRITER:
	case B_CHECKPOINTER:
	case B_LOGGER:
	case B_STARTUP:
	case B_WAL_WRITER:
		return false;
	case B_AUTOVAC_LAUNCHER:
	case B_AUTOVAC_WORKER:
		return line->elevel >= WARNING;
	default:
		return true;
	}
}

static const char *text_of(const ErrorData *line)
{
	const char *text = line->message;

	if (!ringpipe_sql_text && is_secret(line))
		text = line->message_id;
	return text ? text : "";
}

static void write_line(const ErrorData *line)
{
	const uint64 query_id = pgstat_get_my_query_id();
	const char *state = unpack_sql_state(line->sqlerrcode), *text = text_of(line);

	if (line->elevel >= FATAL)
		postgresql_log_critical(query_id, state, text);
	else if (line->elevel >= ERROR)
		postgresql_log_error(query_id, state, text);
	else if (line->elevel >= WARNING)
		postgresql_log_warning(query_id, state, text);
	else if (line->elevel >= LOG)
		postgresql_log_notice(query_id, state, text);
	else
		postgresql_log_debug(query_id, state, text);
}

static void begin_checkpoint(const ErrorData *line, bool is_restartpoint)
{
	struct rp_activity outer;

	checkpoint.begun_ns = 0;
	if (!postgresql_checkpoint_start_enabled() && !postgresql_checkpoint_stop_enabled())
		return;
	rp_span_begin(&checkpoint, &outer);
	postgresql_checkpoint_start(is_restartpoint, line->message);
	rp_activity_end(&outer);
}

static void end_checkpoint(void)
{
	struct rp_activity outer;
	uint64_t duration_ns;

	if (checkpoint.begun_ns == 0)
		return;
	duration_ns = rp_span_end(&checkpoint, &outer);
	postgresql_checkpoint_stop((uint32_t)CheckpointStats.ckpt_bufs_written,
				   (uint32_t)CheckpointStats.ckpt_segs_added,
				   (uint32_t)CheckpointStats.ckpt_segs_removed,
				   (uint32_t)CheckpointStats.ckpt_segs_recycled,
				   (uint32_t)CheckpointStats.ckpt_sync_rels,
				   CheckpointStats.ckpt_longest_sync, duration_ns);
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
			begin_checkpoint(line, line->message_id[0] == 'r');
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
