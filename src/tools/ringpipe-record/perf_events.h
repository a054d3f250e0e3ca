/* SPDX-License-Identifier: MIT */
/*
 * The kernel's perf_events of all processors: samples of what runs, and the records of processes,
 * threads, names and mappings. One thread at a time.
 */
#ifndef RP_RECORD_PERF_EVENTS_H
#define RP_RECORD_PERF_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../bpf/waits.h"
#include "unwind/unwind.h"

enum rp_perf_kind {
	RP_PERF_MAPPING,
	RP_PERF_NAME,		/* a thread has a new name, or a process executes a new program */
	RP_PERF_START,		/* of a thread */
	RP_PERF_END,		/* of a thread */
	RP_PERF_SAMPLE,
	RP_PERF_SWITCH,		/* to the thread or away from it */
};

/* Pointers are valid during the callback. */
struct rp_perf_record {
	enum rp_perf_kind kind;
	uint32_t processor;
	uint64_t time_ns;		/* CLOCK_MONOTONIC */
	pid_t process, thread;
	bool is_switch_out, is_preempted;	/* of a switch */
	union {
		struct {
			uint64_t start, end, file_offset;
			uint64_t device, inode;		/* 0, 0: unknown */
			const uint8_t *build_id;
			uint32_t build_id_bytes;	/* 0: unknown */
			const char *path;
		} mapping;
		struct {
			const char *text;
			bool is_exec;
		} name;
		struct {
			pid_t process;		/* that started it */
		} start;
		struct {
			uint64_t period_ns;
			const uint64_t *kernel_frames;	/* innermost first */
			uint32_t kernel_frame_count;
			const struct rp_registers *registers;	/* in user mode; NULL: none */
			const void *stack;		/* from the stack pointer up */
			size_t stack_bytes;
			const struct rp_trace_context *context;	/* NULL: the thread has none */
			/* If rp_perf_options has points: */
			uint32_t point;			/* its index there */
			uint64_t address;		/* of a counter of page faults */
			const uint8_t *fields;		/* of a tracepoint, in its own layout */
			size_t field_bytes;
		} sample;
	};
};

/* A tracepoint or a counter of the kernel, which gets a sample each time that it is reached. */
struct rp_perf_point {
	uint32_t type;			/* PERF_TYPE_ */
	uint64_t config;		/* the id of the tracepoint; or the counter */
	char filter[64];		/* of a tracepoint, as the kernel parses it; "": none */
	bool has_registers;		/* samples have the registers of user mode */
	uint32_t stack_bytes;		/* and these bytes of the stack; a multiple of 8 */
	bool is_of_all;			/* of all threads, also if only some are chosen */
};

struct rp_perf_options {
	uint32_t frequency_hz;
	uint32_t stack_bytes;		/* to copy for each sample; a multiple of 8 below 64 KB */
	size_t ring_bytes;		/* for each processor; less if the kernel permits less */
	const pid_t *threads;		/* these, and what they start; NULL: all threads */
	size_t thread_count;
	bool without_kernel;		/* its samples and frames, which need a right */
	bool is_switches;		/* records of switches between threads, and nothing else */
	const struct rp_perf_point *points;	/* these, and nothing else; NULL: none */
	size_t point_count;
};

enum rp_perf_loss {
	RP_PERF_LOSS_FULL,		/* the kernel found no space in a ring */
	RP_PERF_LOSS_DAMAGED,		/* records that this program does not understand */
	RP_PERF_LOSS_COUNT,
};

struct rp_perf_stats {
	uint64_t lost[RP_PERF_LOSS_COUNT];
	uint64_t late;			/* records that came after a later one was delivered */
	size_t memory_bytes;
	size_t refused_threads;		/* chosen ones that the caller may not observe */
	uint32_t processors;
	bool is_hardware;		/* samples by the processor's cycles, not by its clock */
};

struct rp_perf;

typedef int (*rp_perf_callback)(void *user, const struct rp_perf_record *record);

/*
 * Open the events of all processors, disabled. Threads that end meanwhile are left out, and so are
 * chosen ones that the caller may not observe, which the statistics count. The array of points is
 * to exist as long as the events.
 *
 * Return: 0; -errno of perf_event_open(2) or mmap(2), with the name of the call in `ret_call`;
 * -ESRCH: none of the threads exists; -EACCES: the caller may observe none of them.
 */
int rp_perf_open(const struct rp_perf_options *options, struct rp_perf **ret_perf,
		 const char **ret_call);
void rp_perf_close(struct rp_perf *perf);

/* Called with a descriptor for the output of BPF programs on that processor. 0; -errno. */
typedef int (*rp_perf_output)(void *user, uint32_t processor, int fd);

/*
 * Run a BPF program for each sample. It may output a struct rp_trace_context, which then is a part
 * of the sample.
 * @program_fd: the descriptor of the program.
 * Return: 0; -errno; what the function returned.
 */
int rp_perf_attach(struct rp_perf *perf, int program_fd, rp_perf_output output, void *user);

/* 0; -errno of ioctl(2). */
int rp_perf_enable(struct rp_perf *perf);
void rp_perf_disable(struct rp_perf *perf);

/* A descriptor that becomes readable when a ring is half full. */
int rp_perf_fd(const struct rp_perf *perf);

/*
 * Return a time such that the rings contain all records before it. It is the time of the previous
 * call, because a record gets its time some microseconds before the kernel stores it.
 */
uint64_t rp_perf_limit(struct rp_perf *perf);

/*
 * Deliver the records before `limit_ns` in order of time.
 *
 * Return: 0; the first other result of the callback, and the next call continues after that record.
 */
int rp_perf_drain(struct rp_perf *perf, uint64_t limit_ns, rp_perf_callback callback, void *user);

void rp_perf_stats(const struct rp_perf *perf, struct rp_perf_stats *ret_stats);

#endif
