/* SPDX-License-Identifier: MIT */
/*
 * Writes the recording as nettrace V6: samples and waits with their stacks, and the processes,
 * mappings and functions that the stacks need, as events of Universal.System and Universal.Events.
 */
#ifndef RP_RECORD_MACHINE_TRACE_H
#define RP_RECORD_MACHINE_TRACE_H

#include "tools/ringpipe-record/process_table.h"
#include "tools/trace/attribute_table.h"
#include "tools/trace/machine_clock.h"
#include "tools/trace/output.h"

struct rp_record_trace;

#define RP_RECORD_ATTRIBUTE_BYTES 4096u

struct rp_record_trace_stats {
	uint64_t samples, waits, wakings, functions, mappings, processes;
	uint64_t calls, futex_waits, faults, requests, interrupts;
	uint64_t suspended_ns;
	uint64_t bytes;			/* written */
};

/* The place and time of an event. */
struct rp_record_trace_place {
	uint64_t time_ns;		/* CLOCK_MONOTONIC; an earlier time than the last event's
					 * becomes that time */
	uint32_t processor;
	const struct rp_machine_thread *thread;
	const struct rp_trace_context *context;	/* ids of the event; NULL: none */
};

/* `output` is open, and the caller's. 0; -ENOMEM; -errno of write(2). */
int rp_record_trace_create(struct rp_output *output, uint32_t frequency_hz,
			   struct rp_record_trace **ret_trace);
void rp_record_trace_destroy(struct rp_record_trace *trace);

/*
 * Put an event. Frames are innermost first; those of the kernel come first. Puts the process, and
 * the mappings of the frames, before their first use. 0; -ENOMEM.
 */
int rp_record_sample(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
		     uint64_t period_ns, const uint64_t *frames, uint32_t frame_count);

/* A thread that runs again; `place` is its own. */
struct rp_record_wait {
	uint64_t duration_ns;		/* off its processor */
	uint64_t runnable_ns;		/* of that, after it was woken */
	uint32_t state;			/* enum rp_wait_state */
	uint32_t waker_process;		/* 0: an interrupt while the processor was idle */
	uint64_t waker_thread;		/* as in the trace */
	/* The thread that used the processor before; 0: none, or unknown. */
	uint32_t previous_process;
	uint64_t previous_thread;
	uint64_t previous_ns;		/* for which it ran, at most `runnable_ns` */
	const char *previous_name;
};
int rp_record_wait(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
		   const struct rp_record_wait *wait, const uint64_t *frames,
		   uint32_t frame_count);

/* A thread that woke another; `place` is the waker's. */
struct rp_record_waking {
	uint32_t woken_process;
	uint64_t woken_thread;		/* as in the trace */
	uint64_t waited_ns;		/* so far */
};
int rp_record_waking(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
		     const struct rp_record_waking *waking, const uint64_t *frames,
		     uint32_t frame_count);

/* A system call that returned. */
struct rp_record_syscall {
	uint32_t number;
	const char *name;
	uint64_t arguments[6];
	int64_t result;			/* -errno below 0 */
	uint64_t duration_ns;
	const char *file;		/* the last part of its name; "": unknown or none */
};
int rp_record_syscall(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
		      const struct rp_record_syscall *call, const uint64_t *frames,
		      uint32_t frame_count);

/* A thread that waited in futex(2). */
struct rp_record_futex_wait {
	uint64_t address;
	int64_t result;
	uint64_t duration_ns;
	uint32_t waker_process;		/* 0: unknown */
	uint64_t waker_thread;
};
int rp_record_futex_wait(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
			 const struct rp_record_futex_wait *wait, const uint64_t *frames,
			 uint32_t frame_count);

/* A page fault of user mode; `place` is its end, or its beginning if the duration is 0. */
struct rp_record_page_fault {
	uint64_t address;
	bool is_write;
	bool is_major;			/* the page had to be read */
	uint64_t duration_ns;		/* 0: unknown */
};
int rp_record_page_fault(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
			 const struct rp_record_page_fault *fault, const uint64_t *frames,
			 uint32_t frame_count);

/* A request to a block device; `place` is the end, on the thread that issued it. */
struct rp_record_block_request {
	uint32_t major, minor;
	const char *operation;
	uint64_t sector;
	uint32_t bytes;
	int32_t status;			/* BLK_STS_ of the kernel; 0: no error */
	uint64_t duration_ns;
	const char *device;		/* its name; "": unknown */
};
int rp_record_block_request(struct rp_record_trace *trace,
			    const struct rp_record_trace_place *place,
			    const struct rp_record_block_request *request);

/* An interrupt that was handled; `place` is the end, on the thread that it interrupted. */
struct rp_record_interrupt {
	const char *kind;		/* "hard" or "soft" */
	uint32_t number;
	const char *name;		/* of the handler, or of the softirq */
	bool is_handled;		/* false: the device of this handler caused none */
	uint64_t duration_ns;
};
int rp_record_interrupt(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
			const struct rp_record_interrupt *interrupt);

/* Put how many more records were lost for a reason than the trace states. 0; -ENOMEM. */
int rp_record_loss(struct rp_record_trace *trace, const char *reason, uint64_t lost);

/* State the host and the boot, at the beginning. 0; -ENOMEM. */
int rp_record_machine(struct rp_record_trace *trace);
/* State which groups of --kernel are recorded, and above which duration. 0; -ENOMEM. */
int rp_record_groups(struct rp_record_trace *trace, const char *groups, uint64_t threshold_ns);
int rp_record_clock(struct rp_record_trace *trace, const struct rp_clock_reading *reading);
/* Write how long the machine was suspended. 0; -ENOMEM. */
int rp_record_suspend(struct rp_record_trace *trace, uint64_t duration_ns);

/*
 * Put an attribute of a process that the trace has. Key and value are UTF-8 of at most
 * RP_RECORD_ATTRIBUTE_BYTES each.
 * @published_ns: when the process published it; a later time replaces all earlier attributes.
 * Return: 0; -ENOMEM.
 */
int rp_record_attribute(struct rp_record_trace *trace, const struct rp_machine_process *process,
			uint64_t published_ns, const struct rp_attribute *attribute);

/* Put the end of a process that the trace has. 0; -ENOMEM. */
int rp_record_process_end(struct rp_record_trace *trace, struct rp_machine_process *process,
			  uint64_t time_ns);

/*
 * Put the name of a function of a mapping; `start` and `end` (exclusive) are addresses of the
 * process. A function that the trace already has is left out. 0; -ENOMEM.
 */
int rp_record_function(struct rp_record_trace *trace, struct rp_machine_process *process,
		       uint32_t mapping, uint64_t start, uint64_t end, const char *name);

/* An address in a stack, and the code that was there at that time. */
struct rp_record_hit {
	struct rp_machine_process *process;
	uint64_t address;
	uint32_t mapping;		/* its id in the trace; 0: none */
	const struct rp_image *image;	/* NULL: the code is not that of a file */
	uint64_t file_offset;		/* of the address, if it has an image */
	bool is_named;			/* before the others, as its process executes a program */
};

/*
 * The addresses since the last call of rp_record_hits_clear(). The caller names them by
 * rp_record_function(), and reports each as named by rp_record_hit_named().
 */
struct rp_record_hit *rp_record_hits(const struct rp_record_trace *trace, size_t *ret_count);
void rp_record_hits_clear(struct rp_record_trace *trace);

static inline void rp_record_hit_named(const struct rp_record_hit *hit)
{
	hit->process->unnamed--;
}

/* Write everything so far, up to a sequence point with the total of lost events. */
int rp_record_flush(struct rp_record_trace *trace, uint64_t time_ns, uint64_t lost);

/* Flush, and write the end. Nothing may follow. */
int rp_record_end(struct rp_record_trace *trace, uint64_t time_ns, uint64_t lost);

void rp_record_trace_stats(const struct rp_record_trace *trace,
			   struct rp_record_trace_stats *ret_stats);

#endif
