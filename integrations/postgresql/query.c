/* SPDX-License-Identifier: MIT */
/*
 * Statements and their plans as spans. An error leaves PostgreSQL's functions by longjmp(3), so an
 * error has to end the spans, too. PostgreSQL then frees the memory of an execution, and this ends
 * the span of a statement in the executor. The arguments of an event are computed before the call
 * that writes the event, so no error can leave that call.
 */
#include "hooks.h"

#include <access/parallel.h>
#include <access/xact.h>
#include <commands/dbcommands.h>
#include <executor/executor.h>
#include <executor/instrument.h>
#include <miscadmin.h>
#include <optimizer/planner.h>
#include <parser/analyze.h>
#include <tcop/cmdtag.h>
#include <tcop/utility.h>
#include <utils/queryjumble.h>

#include "events.h"

struct usage {
	BufferUsage buffers;
	WalUsage wal;
};

/* A statement in execution. */
struct statement {
	struct rp_span span;
	struct rp_activity outer;	/* when PostgreSQL was called for the statement */
	uint64 query_id, plan_id;
	uint64 rows;
	struct usage used;
	/* The rest is used by the executor's hooks. */
	const QueryDesc *query;
	struct statement *next;
	MemoryContextCallback on_free;
};

static struct statement *statements;	/* of the executor, the newest first */
static unsigned int depth;		/* calls of traced statements in progress */

static char database_name[NAMEDATALEN], user_name[NAMEDATALEN];
static Oid user_id;

/*
 * The hooks of other extensions, or PostgreSQL's own functions. The own hooks only call these while
 * nothing is traced, and need no registers or stack for that.
 */
static post_parse_analyze_hook_type previous_analyze;
static planner_hook_type previous_planner;
static ExecutorStart_hook_type previous_start;
static ExecutorRun_hook_type previous_run;
static ExecutorFinish_hook_type previous_finish;
static ExecutorEnd_hook_type previous_end;
static ProcessUtility_hook_type previous_utility;

static inline bool is_traced(void)
{
	return postgresql_query_start_enabled() | postgresql_query_stop_enabled() |
	       postgresql_nodes_node_enabled();
}

/*
 * Finds the trace of a statement that a client sent: in a comment, or else in the setting. `at` and
 * `bytes` are the statement's place in the text; -1: it is unknown; 0 bytes: the rest of the text.
 */
static bool find_trace(const char *text, int at, int bytes, struct rp_activity *ret_activity)
{
	static const char key[] = "traceparent='";
	const size_t all = text ? strlen(text) : 0;
	const size_t start = at > 0 && (size_t)at < all ? (size_t)at : 0;
	const size_t size = at >= 0 && bytes > 0 ? Min((size_t)bytes, all - start) : all - start;
	/* Most statements have no comment, and memmem(3) is slow. */
	const char *from = size > 0 ? memchr(text + start, '/', size) : NULL;
	uint8_t flags;

	if (from)
		from = memmem(from, (size_t)(text + start + size - from), key, sizeof(key) - 1);
	if (from) {
		from += sizeof(key) - 1;
		if (rp_traceparent_parse(from, strcspn(from, "'"), ret_activity, &flags) == 0)
			return true;
	}
	if (ringpipe_trace)
		*ret_activity = *ringpipe_trace;
	return ringpipe_trace;
}

/* Begins a span and makes its activity current. */
static void begin_span(struct rp_span *span, const char *text, int at, int bytes,
		       struct rp_activity *ret_outer)
{
	rp_span_begin(span, ret_outer);
	if (depth == 0 && find_trace(text, at, bytes, &span->activity))
		rp_activity_set(&span->activity);
}

/* Looks up the names of the database and of the user, which needs a transaction. */
static void find_names(void)
{
	const Oid id = GetSessionUserId();
	const char *database, *user;

	if (id == user_id || !IsTransactionState())
		return;
	database = get_database_name(MyDatabaseId);
	user = GetUserNameFromId(id, true);
	strlcpy(database_name, database ? database : "", sizeof(database_name));
	strlcpy(user_name, user ? user : "", sizeof(user_name));
	user_id = id;
}

/* Begins the span of a statement. PostgreSQL has to be called for it next. */
static void begin(struct statement *statement, const PlannedStmt *planned, CommandTag command,
		  const char *text)
{
	find_names();
	begin_span(&statement->span, text, planned->stmt_location, planned->stmt_len,
		   &statement->outer);
	postgresql_query_start(statement->query_id, depth, GetCommandTagName(command),
			       database_name, user_name, IsParallelWorker(),
			       ringpipe_sql_text ? ringpipe_text_cut(text) : "***");
	depth++;
}

static void end(struct statement *statement, bool error)
{
	const BufferUsage *buffers = &statement->used.buffers;
	const WalUsage *wal = &statement->used.wal;
	struct rp_activity outer;
	uint64_t duration_ns;

	if (statement->span.begun_ns == 0)
		return;
	duration_ns = rp_span_end(&statement->span, &outer);
	postgresql_query_stop(statement->query_id, statement->plan_id, statement->rows, error,
			      buffers->shared_blks_hit, buffers->shared_blks_read,
			      buffers->shared_blks_dirtied, buffers->shared_blks_written,
			      buffers->local_blks_read, buffers->local_blks_written,
			      buffers->temp_blks_read, buffers->temp_blks_written,
			      wal->wal_records, wal->wal_fpi, wal->wal_bytes, duration_ns);
	rp_activity_end(&outer);
}

static void enter(struct statement *statement)
{
	rp_activity_get(&statement->outer);
	rp_activity_set(&statement->span.activity);
	depth++;
}

static void leave(struct statement *statement, bool error)
{
	depth--;
	rp_activity_set(&statement->outer);
	if (error)
		end(statement, true);
}

static void add_usage(struct statement *statement, const struct usage *before)
{
	/* BufferUsageAccumDiff() would also add the times, which come after these counters. */
	const int64 *now = (const int64 *)&pgBufferUsage, *then = (const int64 *)&before->buffers;
	int64 *sums = (int64 *)&statement->used.buffers;

	for (size_t i = 0; i < offsetof(BufferUsage, blk_read_time) / sizeof(*sums); i++)
		sums[i] += now[i] - then[i];
	WalUsageAccumDiff(&statement->used.wal, &pgWalUsage, &before->wal);
}

/*
 * Runs a call of PostgreSQL for a statement, after begin() or enter(), and then `after`. An error
 * that leaves the call ends the statement.
 */
#define GUARDED(statement, what, after) \
	do { \
		volatile bool error_ = true; \
		PG_TRY(); \
		{ \
			what; \
			error_ = false; \
		} \
		PG_FINALLY(); \
		{ \
			after; \
			leave(statement, error_); \
		} \
		PG_END_TRY(); \
	} while (0)

#define MEASURED(statement, what) \
	do { \
		const struct usage before_ = { pgBufferUsage, pgWalUsage }; \
		GUARDED(statement, what, add_usage(statement, &before_)); \
	} while (0)

static struct statement *find(const QueryDesc *query)
{
	struct statement *statement = statements;

	while (statement && statement->query != query)
		statement = statement->next;
	return statement;
}

/* Runs when the memory of an execution is freed. Without an error, the span has ended before. */
static void on_free(void *data)
{
	struct statement *statement = data, **link = &statements;

	end(statement, true);
	while (*link != statement)
		link = &(*link)->next;
	*link = statement->next;
}

static void on_run(QueryDesc *query, ScanDirection direction, uint64 count, bool once)
{
	struct statement *statement = find(query);

	if (!statement) {
		previous_run(query, direction, count, once);
		return;
	}
	enter(statement);
	MEASURED(statement, previous_run(query, direction, count, once));
	statement->rows += query->estate->es_processed;
}

static void on_finish(QueryDesc *query)
{
	struct statement *statement = find(query);

	/* A statement that only reads has no triggers, and nothing to do here. */
	if (!statement ||
	    (query->operation == CMD_SELECT && !query->plannedstmt->hasModifyingCTE)) {
		previous_finish(query);
		return;
	}
	enter(statement);
	MEASURED(statement, previous_finish(query));
}

static void on_end(QueryDesc *query)
{
	struct statement *statement = find(query);

	if (statement && postgresql_nodes_node_enabled() && query->planstate->instrument) {
		enter(statement);
		GUARDED(statement, ringpipe_nodes_write(query, statement->plan_id), );
	}
	if (statement)
		end(statement, false);
	previous_end(query);
}

#define TAKE(hook, previous, standard, own) \
	((previous) = (hook) ? (hook) : (standard), (hook) = (own))

/* A process takes these hooks for its first traced statement. Without them, others cost less. */
static void take_hooks_of_execution(void)
{
	if (previous_run)
		return;
	TAKE(ExecutorRun_hook, previous_run, standard_ExecutorRun, on_run);
	TAKE(ExecutorFinish_hook, previous_finish, standard_ExecutorFinish, on_finish);
	TAKE(ExecutorEnd_hook, previous_end, standard_ExecutorEnd, on_end);
}

static pg_noinline void start_slow(QueryDesc *query, int flags)
{
	struct statement first = { .query = query, .query_id = query->plannedstmt->queryId };
	struct statement *statement;

	ringpipe_sessions_poll();
	if ((flags & EXEC_FLAG_EXPLAIN_ONLY) || !is_traced()) {
		previous_start(query, flags);
		return;
	}
	take_hooks_of_execution();
	if (postgresql_nodes_node_enabled())
		query->instrument_options |= INSTRUMENT_ALL;
	begin(&first, query->plannedstmt, CreateCommandTag((Node *)query->plannedstmt),
	      query->sourceText);
	/* As in EXPLAIN, the buffers and the WAL of the start do not count. */
	GUARDED(&first, previous_start(query, flags);
		statement = MemoryContextAlloc(query->estate->es_query_cxt, sizeof(*statement)), );
	first.plan_id = ringpipe_plan_id(query->planstate);
	first.next = statements;
	first.on_free = (MemoryContextCallback){ .func = on_free, .arg = statement };
	*statement = first;
	statements = statement;
	MemoryContextRegisterResetCallback(query->estate->es_query_cxt, &statement->on_free);
}

static void on_start(QueryDesc *query, int flags)
{
	if (!(flags & EXEC_FLAG_EXPLAIN_ONLY))
		ringpipe_count(RINGPIPE_STATEMENTS);
	if (unlikely(ringpipe_sessions_changed() || is_traced()))
		start_slow(query, flags);
	else
		previous_start(query, flags);
}

static void on_utility(PlannedStmt *planned, const char *text, bool read_only,
		       ProcessUtilityContext context, ParamListInfo parameters,
		       QueryEnvironment *environment, DestReceiver *receiver,
		       QueryCompletion *completion)
{
	struct statement statement;

	ringpipe_sessions_poll();
	ringpipe_count(RINGPIPE_STATEMENTS);
	if (!is_traced()) {
		previous_utility(planned, text, read_only, context, parameters, environment,
				 receiver, completion);
		return;
	}
	statement = (struct statement){ .query_id = planned->queryId };
	begin(&statement, planned, CreateCommandTag(planned->utilityStmt), text);
	MEASURED(&statement, previous_utility(planned, text, read_only, context, parameters,
					      environment, receiver, completion));
	statement.rows = completion ? completion->nprocessed : 0;
	end(&statement, false);
}

static pg_noinline PlannedStmt *plan_traced(Query *parse, const char *text, int options,
					    ParamListInfo parameters)
{
	/* The planner changes the query. */
	const uint64 query_id = parse->queryId;
	PlannedStmt *volatile planned = NULL;
	struct rp_activity outer, inner;
	struct rp_span span;
	uint64_t duration_ns;

	begin_span(&span, text, parse->stmt_location, parse->stmt_len, &outer);
	postgresql_plan_start(query_id);
	PG_TRY();
	{
		planned = previous_planner(parse, text, options, parameters);
	}
	PG_FINALLY();
	{
		duration_ns = rp_span_end(&span, &inner);
		postgresql_plan_stop(query_id, planned ? planned->planTree->total_cost : 0,
				     planned ? planned->planTree->plan_rows : 0, !planned,
				     duration_ns);
		rp_activity_end(&outer);
	}
	PG_END_TRY();
	return planned;
}

static PlannedStmt *on_plan(Query *parse, const char *text, int options, ParamListInfo parameters)
{
	ringpipe_sessions_poll();
	ringpipe_count(RINGPIPE_PLANS);
	if (unlikely(postgresql_plan_start_enabled() | postgresql_plan_stop_enabled()))
		return plan_traced(parse, text, options, parameters);
	return previous_planner(parse, text, options, parameters);
}

/* Computes the id of a query while a session wants it: always to do so would cost 3 %. */
static void on_analyze(ParseState *state, Query *query, JumbleState *jumble)
{
	ringpipe_sessions_poll();
	if (unlikely(is_traced()) && query->queryId == 0 && state->p_sourcetext &&
	    compute_query_id != COMPUTE_QUERY_ID_OFF)
		(void)JumbleQuery(query, state->p_sourcetext);
	if (previous_analyze)
		previous_analyze(state, query, jumble);
}

void ringpipe_query_init(void)
{
	TAKE(post_parse_analyze_hook, previous_analyze, NULL, on_analyze);
	TAKE(planner_hook, previous_planner, standard_planner, on_plan);
	TAKE(ExecutorStart_hook, previous_start, standard_ExecutorStart, on_start);
	TAKE(ProcessUtility_hook, previous_utility, standard_ProcessUtility, on_utility);
}
