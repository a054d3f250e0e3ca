/* SPDX-License-Identifier: MIT */
/* The events of PostgreSQL. */
#ifndef PG_RINGPIPE_EVENTS_H
#define PG_RINGPIPE_EVENTS_H

#include <ringpipe/ringpipe.h>

#define KW_QUERIES 0x1u
#define KW_PLANS 0x2u
#define KW_CHECKPOINTS 0x4u

RP_PROVIDER(postgresql, "postgresql");

RP_EVENT_EX(postgresql, query_start, (RP_ID(1), RP_KEYWORDS(KW_QUERIES),
	    RP_OPCODE(RP_OPCODE_START), RP_MESSAGE("{2} {0} in {3}")), RP_U64(query_id),
	    RP_U32(depth), RP_STRING(command), RP_STRING(database),
	    RP_STRING(user), RP_BOOL(is_parallel_worker), RP_STRING(text));
RP_EVENT_EX(postgresql, query_stop, (RP_ID(2), RP_KEYWORDS(KW_QUERIES),
	    RP_OPCODE(RP_OPCODE_STOP), RP_MESSAGE("{2} rows in {15} ns")), RP_U64(query_id),
	    RP_U64(plan_id), RP_U64(rows), RP_BOOL(error), RP_U64(shared_blocks_hit),
	    RP_U64(shared_blocks_read), RP_U64(shared_blocks_dirtied),
	    RP_U64(shared_blocks_written), RP_U64(local_blocks_read), RP_U64(local_blocks_written),
	    RP_U64(temporary_blocks_read), RP_U64(temporary_blocks_written), RP_U64(wal_records),
	    RP_U64(wal_page_images), RP_U64(wal_bytes), RP_U64(duration_ns));

RP_EVENT_EX(postgresql, plan_start, (RP_ID(3), RP_KEYWORDS(KW_PLANS),
	    RP_OPCODE(RP_OPCODE_START)), RP_U64(query_id));
RP_EVENT_EX(postgresql, plan_stop, (RP_ID(4), RP_KEYWORDS(KW_PLANS),
	    RP_OPCODE(RP_OPCODE_STOP)), RP_U64(query_id), RP_F64(total_cost), RP_F64(rows),
	    RP_BOOL(error), RP_U64(duration_ns));

RP_EVENT_EX(postgresql, checkpoint_start, (RP_ID(5), RP_KEYWORDS(KW_CHECKPOINTS),
	    RP_OPCODE(RP_OPCODE_START), RP_MESSAGE("{1}")), RP_BOOL(is_restartpoint),
	    RP_STRING(text));
RP_EVENT_EX(postgresql, checkpoint_stop, (RP_ID(6), RP_KEYWORDS(KW_CHECKPOINTS),
	    RP_OPCODE(RP_OPCODE_STOP)), RP_U32(buffers_written), RP_U32(segments_added),
	    RP_U32(segments_removed), RP_U32(segments_recycled), RP_U32(files_synced),
	    RP_U64(longest_sync_us), RP_U64(duration_ns));

/* One event for each node of an executed plan, which makes the executor measure each node. */
RP_PROVIDER(postgresql_nodes, "postgresql-nodes");
RP_EVENT_EX(postgresql_nodes, node, (RP_ID(1), RP_MESSAGE("{4} {5}: {6} rows in {9} ns")),
	    RP_U64(query_id), RP_U64(plan_id), RP_I32(node), RP_I32(parent), RP_STRING(kind),
	    RP_STRING(relation), RP_F64(rows), RP_F64(loops), RP_U64(first_row_ns),
	    RP_U64(total_ns), RP_F64(filtered_rows), RP_F64(estimated_rows),
	    RP_U64(shared_blocks_hit), RP_U64(shared_blocks_read), RP_U64(shared_blocks_dirtied),
	    RP_U64(temporary_blocks_read), RP_U64(temporary_blocks_written), RP_U64(wal_records),
	    RP_U64(wal_bytes));

/* Lines of the server's log. */
RP_PROVIDER(postgresql_log, "postgresql-log");
#define LINE(id, name, level) \
	RP_EVENT_EX(postgresql_log, name, (RP_ID(id), RP_LEVEL(level), RP_MESSAGE("{2}")), \
		    RP_U64(query_id), RP_STRING(sqlstate), RP_STRING(text))
LINE(1, critical, RP_LEVEL_CRITICAL);
LINE(2, error, RP_LEVEL_ERROR);
LINE(3, warning, RP_LEVEL_WARNING);
LINE(4, notice, RP_LEVEL_INFORMATIONAL);
LINE(5, debug, RP_LEVEL_VERBOSE);
#undef LINE

/* Samples of the server's state, which the background worker "ringpipe sampler" takes. */
RP_PROVIDER(postgresql_samples, "postgresql-samples");
RP_EVENT_EX(postgresql_samples, wait, (RP_ID(1), RP_MESSAGE("{0} waits for {2}/{3}")),
	    RP_I32(pid), RP_U64(query_id), RP_STRING(wait_type), RP_STRING(wait_event));
RP_EVENT_EX(postgresql_samples, lock_wait, (RP_ID(2),
	    RP_MESSAGE("{0} waits for {1}, which holds {3}; it wants {4}")), RP_I32(pid),
	    RP_I32(owner_pid), RP_STRING(lock_type), RP_STRING(owner_mode), RP_STRING(mode),
	    RP_U32(database), RP_U32(relation), RP_U64(waited_us));
RP_EVENT_EX(postgresql_samples, vacuum, (RP_ID(3), RP_MESSAGE("{0} vacuums {2}: phase {3}")),
	    RP_I32(pid), RP_U32(database), RP_U32(relation), RP_U32(phase), RP_I64(blocks_total),
	    RP_I64(blocks_scanned), RP_I64(blocks_vacuumed), RP_I64(dead_rows));
RP_EVENT_EX(postgresql_samples, writes, (RP_ID(4)), RP_I64(wal_records), RP_I64(wal_page_images),
	    RP_U64(wal_bytes), RP_I64(wal_buffers_full), RP_I64(wal_writes), RP_I64(wal_syncs),
	    RP_I64(checkpoints_timed), RP_I64(checkpoints_requested),
	    RP_I64(blocks_of_checkpoints), RP_I64(blocks_of_backends), RP_I64(blocks_of_writer));

#endif
