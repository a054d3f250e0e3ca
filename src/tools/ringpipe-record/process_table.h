/* SPDX-License-Identifier: MIT */
/*
 * The processes and threads of the machine, as /proc shows them at the start and as the kernel's
 * records change them. The kernel reuses ids, so a process or thread is one life of its id.
 */
#ifndef RP_RECORD_PROCESS_TABLE_H
#define RP_RECORD_PROCESS_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "nettrace/thread_table.h"
#include "tools/ringpipe-record/address_space.h"
#include "tools/ringpipe-record/image.h"
#include "tools/ringpipe-record/perf_events.h"
#include "tools/client/container.h"
#include "tools/client/proc.h"

/* The recorder's knowledge of what a process publishes; for recorder_contexts.c only. */
struct rp_published_state {
	bool has_place;			/* of its threads' trace ids */
	uint32_t place_tries;
	size_t mappings;		/* of the process at the last try */
	uint64_t published_ns;		/* of its attributes in the trace; 0: none */
	uint64_t look_ns, look_interval_ns;	/* when to look for attributes again */
};

struct rp_machine_process {
	pid_t pid;
	pid_t inner_pid;		/* in its innermost pid namespace */
	uid_t user;
	char container[RP_CONTAINER_MAX];	/* "": none */
	char *name;
	char *command_line;		/* or NULL; of a process that ended early, it is unknown */
	struct rp_address_space space;
	struct rp_published_state published;
	uint64_t since_ns;		/* when it became known; older records are ignored */
	uint32_t threads;		/* that have not ended */
	bool existed;			/* before the recording */
	bool has_ended;
	uint64_t ended_ns;		/* 0: unknown */
	bool is_kernel;			/* a thread of the kernel */
	int matches;			/* the filter: 1; 0: not; -ESRCH: unknown yet */
	bool was_wanted;		/* of its parent, or of its program before exec(2) */
	uint64_t rejected_life;		/* that the kernel shall not record; 0: none */

	/* The state of the process in the trace. */
	bool in_trace;
	bool renamed;			/* since it was put into the trace */
	uint32_t kernel_mapping;	/* 0: none yet */
	uint32_t unnamed;		/* addresses whose functions were not looked up yet */
	struct rp_thread_table hits;	/* addresses in its stacks */
	struct rp_thread_table functions;	/* that the trace names: starts and mappings */
};

struct rp_machine_thread {
	struct rp_machine_process *process;
	pid_t tid;
	uint64_t since_ns;		/* older records of its end are those of an earlier life */
	uint64_t seen_ns;		/* older records of its start are those of this life */
	/*
	 * The id in the trace. It differs from `tid` if that id was used before, because
	 * TraceEvent identifies threads by that id alone.
	 */
	uint64_t trace_id;
	bool has_ended;
	/* They belong to the thread's last recorded wait; a later record of a futex needs them. */
	uint64_t woken_ns;		/* when it ran again; 0: no wait was recorded */
	uint32_t waker_process;
	uint64_t waker_thread;		/* as in the trace */
};

struct rp_process_table;

/* The filter is copied; its cgroup must exist as long as the table. 0; -ENOMEM. */
int rp_process_table_create(struct rp_images *images, const struct rp_proc_filter *filter,
			    struct rp_process_table **ret_table);
void rp_process_table_destroy(struct rp_process_table *table);

/* Which processes to read. */
struct rp_process_choice {
	struct rp_proc_roots roots;
	bool by_user;			/* only those of `user` */
	uid_t user;
};

/*
 * Read the processes from /proc, and add those and their threads that the table does not have.
 * Those that end meanwhile are left out. Others are not in the table until a record names them.
 * 0; -ENOMEM; -errno.
 */
int rp_process_table_scan(struct rp_process_table *table, const struct rp_process_choice *choice);

/* Return: the number of thread ids that the table has had. */
size_t rp_process_table_thread_count(const struct rp_process_table *table);

/* Get the ids of all threads in the table. Return: an array for free(); NULL: no memory. */
pid_t *rp_process_table_threads(const struct rp_process_table *table, size_t *ret_count);

/* Return: the thread, or NULL if the table does not have it. */
struct rp_machine_thread *rp_process_table_find(const struct rp_process_table *table,
						pid_t process, pid_t thread);

/*
 * Update the table from a record other than a sample. `ret_ended` is the process whose last thread
 * ended by this record, or NULL. 0; -ENOMEM.
 */
int rp_process_table_follow(struct rp_process_table *table, const struct rp_perf_record *record,
			    struct rp_machine_process **ret_ended);

/*
 * Return: the thread, which is added if the table does not have it; NULL: no memory. Valid until
 * the next call that adds a thread.
 */
struct rp_machine_thread *rp_process_table_thread(struct rp_process_table *table, pid_t process,
					  pid_t thread);

/*
 * Whether the filter lets the process into the trace. A process that ended before it could be asked
 * is like its parent.
 */
bool rp_process_table_wants(const struct rp_process_table *table,
			    struct rp_machine_process *process);

/* Return: the process, or NULL if the table does not have it. */
struct rp_machine_process *rp_process_table_process(const struct rp_process_table *table,
						    pid_t pid);

/* A process that ended may have records for this time, because it still runs in the kernel. */
#define RP_PROCESS_END_NS 100000000ull

/* Whether a record of this time and process id can be of the process that the table has. */
bool rp_process_table_has(const struct rp_process_table *table, pid_t pid, uint64_t time_ns);

/* A process that is not to be in the table got the id, so the table's process has ended. */
void rp_process_table_detach(struct rp_process_table *table, pid_t pid, uint64_t time_ns);

/* Processes from 0 up to the count, ended ones too until they are forgotten. */
size_t rp_process_table_count(const struct rp_process_table *table);
struct rp_machine_process *rp_process_table_at(const struct rp_process_table *table, size_t index);

/* Free processes that ended before the time and have no unnamed addresses. */
void rp_process_table_forget(struct rp_process_table *table, uint64_t before_ns);

#endif
