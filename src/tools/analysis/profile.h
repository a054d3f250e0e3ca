/* SPDX-License-Identifier: MIT */
/*
 * The call tree of a trace's samples or waits, with the names of functions. The trace is read
 * twice, because a function's name may follow the stacks that need it.
 *
 * Samples are the events `cpu` of Universal.Events. A trace without them may have events
 * `ThreadSample` of the sampler in the process, of which those of running threads count. In a trace
 * with both, the latter complete the stacks of the former; see host_stacks.h. Waits are the events
 * `cswitch` of Universal.Events; ringpipe's `Wait` follows each and has the details.
 */
#ifndef RP_TOOL_PROFILE_H
#define RP_TOOL_PROFILE_H

#include <stdbool.h>

#include <ringpipe/reader.h>

#include "tools/analysis/call_tree.h"
#include "tools/analysis/host_stacks.h"
#include "tools/trace/time_range.h"
#include "tools/trace/event_expression.h"
#include "tools/trace/trace_symbols.h"

/* The groups of a profile's call tree. A group without a thread or process has 0 for it. */
enum rp_profile_by {
	RP_PROFILE_BY_FUNCTION,		/* one group */
	RP_PROFILE_BY_PROCESS,
	RP_PROFILE_BY_THREAD,
};

/* The events that a profile uses. */
enum rp_profile_event {
	RP_PROFILE_OTHER,
	RP_PROFILE_SAMPLE,		/* of the machine */
	RP_PROFILE_THREAD_SAMPLE,	/* of the sampler in the process */
	RP_PROFILE_SWITCH,		/* `cswitch` */
	RP_PROFILE_WAIT,		/* `Wait`, the details of a `cswitch` */
	RP_PROFILE_FUTEX_WAIT,
	RP_PROFILE_EVENT_COUNT,
};

#define RP_PROFILE_CACHE 4096u		/* a power of two */

/* A function of the tree, by the texts of `symbols`. */
struct rp_profile_slot {
	const char *name, *file;
	uint32_t function;
	bool is_used;
};

#define RP_PROFILE_ADDRESSES 8192u	/* a power of two */

/* The function at an address, which is the same at any time. */
struct rp_profile_address {
	uint64_t process, address;
	uint32_t function;
	bool is_used;
};

/* Initialise it by rp_profile_init(). */
struct rp_profile {
	enum rp_profile_by by;
	bool has_kernel;		/* stacks have their functions of the kernel */
	bool skips_inbox;		/* stacks begin outside libringpipe-inbox */
	struct rp_symbols symbols;
	struct rp_call_tree tree;
	uint64_t seen[RP_PROFILE_EVENT_COUNT];	/* events of the trace */
	struct rp_host_stacks host_stacks;	/* of the second reading */
	uint32_t pointer_bytes;
	uint32_t *functions;		/* of the current stack */
	size_t function_capacity;
	struct rp_profile_slot cache[RP_PROFILE_CACHE];
	struct rp_profile_address addresses[RP_PROFILE_ADDRESSES];
	bool shares_symbols;		/* they belong to another profile */
	struct rp_time_range range;
	/* The caller's: only samples and waits whose event fulfils it count; NULL: all. */
	struct rp_expression *where;
	int64_t first_ns, last_ns;	/* its earliest and latest event in the first reading */
};

/*
 * Prepare, and read the names in the file at `path`; without a path, functions have no names.
 * @range: the times of the samples or waits that count.
 * Return: as rp_symbols_read().
 */
int rp_profile_init(struct rp_profile *profile, enum rp_profile_by by, const char *path,
		    const struct rp_time_range *range);
/*
 * Prepare a profile that uses the names of another one, which must outlive it. Return: 0; -ENOMEM.
 */
int rp_profile_init_shared(struct rp_profile *profile, enum rp_profile_by by,
			   const struct rp_profile *other);
void rp_profile_fini(struct rp_profile *profile);

/* Take the header of the second reading. */
void rp_profile_set_reader(struct rp_profile *profile, const struct rp_reader *reader);

enum rp_profile_event rp_profile_classify(const struct rp_reader_event *event);

/* Return: 0, and the process id of the event's thread; -ENOMEM. Call it with each event. */
int rp_profile_process(struct rp_profile *profile, const struct rp_reader_event *event,
		       uint64_t *ret_process);

/*
 * Add the event's stack to the tree, in the group of its process and thread.
 * @ret_group, @ret_node: as rp_call_tree_add() has them.
 * Return: 0; -ENOMEM.
 */
int rp_profile_add(struct rp_profile *profile, const struct rp_reader_event *event,
		   uint64_t process, const struct rp_call_weight *weight, uint32_t *ret_group,
		   uint32_t *ret_node);

/* Return: whether a RP_PROFILE_THREAD_SAMPLE is of a thread that was running. */
bool rp_profile_is_running(const struct rp_reader_event *event);

/*
 * Return: whether the event is a sample of a running thread that counts. Samples of the process's
 * own sampler do not count in a trace with samples of the machine; they give those their stacks.
 */
bool rp_profile_is_sample(const struct rp_profile *profile, const struct rp_reader_event *event);

/* Takes an event of `process`. Return: 0, or -errno, which ends the reading. */
typedef int (*rp_profile_take)(struct rp_profile *profile, const struct rp_reader_event *event,
			       uint64_t process, void *data);

/*
 * Call `take` with each event, and then finish the call tree. Return: what ended the reading, as
 * rp_reader_next(); -errno of `take`.
 */
int rp_profile_read(struct rp_profile *profile, struct rp_reader *reader, rp_profile_take take,
		    void *data);

/* Read all samples. Return: what ended the reading, as rp_reader_next(); -ENOMEM. */
int rp_profile_read_samples(struct rp_profile *profile, struct rp_reader *reader);
/* Read all waits, likewise. */
int rp_profile_read_waits(struct rp_profile *profile, struct rp_reader *reader);

/* Return: the number in an integer field of the event; 0: the event has no such field. */
uint64_t rp_profile_number(const struct rp_reader_event *event, const char *field);

/* Return: whether the function is one of the kernel. */
bool rp_profile_is_kernel(const struct rp_call_function *function);

#endif
