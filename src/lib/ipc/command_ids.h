/* SPDX-License-Identifier: MIT */
/*
 * Ids of the diagnostics protocol's commands, in their sets (enum rp_message_set), and the commands
 * of ringpipe's own set. Each reply begins with the header of an OK:
 *
 *	0x52 0x00 list enabled	nothing -> u32 rows, each: string provider, string session name,
 *				u64 session id, u64 keywords, u32 level, u32 event count,
 *				string filter data; then u32 rows, each: string provider,
 *				string event, u32 tracers; then u32 rows, each: string provider,
 *				string exporter, u64 lost
 *	0x52 0x01 session stats	u64 session id -> u64 delivered, u64 lost, u64 bytes,
 *				u32 reasons, u64 lost for each, i32 error
 *	0x52 0x04 dump		see diag/dump_command.h
 *	0x52 0x05 batches	as CollectTracing4 -> u64 session id, u64 address of the probe
 *				`ringpipe:batch`; then the frames of sink/batch.c
 *	0x52 0x06 flight	u32 1: its rings are files, for recovery, 2: its times are coarse,
 *				0: neither; then as CollectTracing4 -> u64 id of a session that
 *				overwrites and does not end with this connection
 *	0x52 0x07 stop flight	nothing -> u64 its id, when it has ended; also for 0x0a
 *	0x52 0x08 snapshot	u64 id of a session that overwrites, 0: the only one -> u64 its id;
 *				then nettrace to the end of the connection
 *	0x52 0x0a roll		string absolute path, u64 quota in bytes, then as CollectTracing4
 *				-> u64 id of a session with rolling files, which does not end
 *				with this connection
 *	0x52 0x0b collect	u32 milliseconds for which writers wait for space, or 0; u32 1: its
 *				times are coarse, 0: not; then as CollectTracing4, reply included.
 *				A session that begins before ResumeRuntime reports providers that do
 *				not register within a second of it, by events ProviderMissing
 *	0x52 0x0c list events	nothing -> u32 rows, see diag/list_command.h
 *	0x52 0x0d batches	as 0x05, but as CollectTracing5, whose providers have event filters
 */
#ifndef RP_IPC_COMMAND_IDS_H
#define RP_IPC_COMMAND_IDS_H

enum rp_dump_id {
	RP_DUMP_1 = 0x01,
	RP_DUMP_2 = 0x02,
	RP_DUMP_3 = 0x03,
};

enum rp_eventpipe_id {
	RP_STOP_TRACING = 0x01,
	RP_COLLECT_1 = 0x02,
	RP_COLLECT_2 = 0x03,
	RP_COLLECT_3 = 0x04,
	RP_COLLECT_4 = 0x05,
	RP_COLLECT_5 = 0x06,
	RP_COLLECT_6 = 0x07,
};

/* The format of a session's stream, in the CollectTracing commands. */
enum rp_stream_format {
	RP_FORMAT_NETPERF = 0,
	RP_FORMAT_NETTRACE_V4 = 1,
	RP_FORMAT_NETTRACE_V6 = 6,	/* ringpipe's alone */
};

enum rp_profiler_id {
	RP_ATTACH_PROFILER = 0x01,
	RP_STARTUP_PROFILER = 0x02,
};

enum rp_process_id {
	RP_GET_PROCESS_INFO = 0x00,
	RP_RESUME_RUNTIME = 0x01,
	RP_GET_ENVIRONMENT = 0x02,
	RP_SET_VARIABLE = 0x03,
	RP_GET_PROCESS_INFO_2 = 0x04,
	RP_ENABLE_PERF_MAP = 0x05,
	RP_DISABLE_PERF_MAP = 0x06,
	RP_APPLY_STARTUP_HOOK = 0x07,
	RP_GET_PROCESS_INFO_3 = 0x08,
};

enum rp_own_id {
	RP_OWN_LIST_ENABLED = 0x00,
	RP_OWN_STATS = 0x01,
	RP_OWN_DUMP = 0x04,
	RP_OWN_BATCHES = 0x05,
	RP_OWN_FLIGHT = 0x06,
	RP_OWN_STOP_FLIGHT = 0x07,
	RP_OWN_SNAPSHOT = 0x08,
	RP_OWN_ROLL = 0x0a,
	RP_OWN_COLLECT = 0x0b,
	RP_OWN_LIST_EVENTS = 0x0c,
	RP_OWN_FILTERED_BATCHES = 0x0d,
};

#endif
