/* SPDX-License-Identifier: MIT */
/*
 * The parts of the conversion of perf.data: perf_put.c writes events, perf_kernel.c names functions
 * of the kernel, perf_waits.c makes waits of switches, perf_tables.c has the processes and threads,
 * and perf_data.c reads the other records.
 */
#ifndef RP_TOOL_PERF_COPY_H
#define RP_TOOL_PERF_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "nettrace/encoder.h"
#include "nettrace/thread_table.h"
#include "tools/trace/kernel_symbols.h"
#include "tools/trace/machine_events.h"
#include "tools/trace/perf_file.h"

#define RP_PERF_PATH_MAX 4096u		/* bytes */
#define RP_PERF_FRAMES_MAX 1024u
#define RP_PERF_PROCESSES_MAX (1u << 20)

struct rp_perf_mapped {
	uint64_t start, end, offset;
	const char *path;		/* in the file */
	uint8_t build_id[20], build_id_bytes;
	bool is_put;
};

struct rp_perf_process {
	uint32_t pid;			/* the key */
	char name[64];
	bool is_put;
	struct rp_perf_mapped *mappings;
	size_t count, capacity;
	uint32_t kernel_mapping;	/* its id; 0: the trace does not have it yet */
	struct rp_thread_table kernel_functions;	/* starts of those in the trace */
};

/* A thread, and its state while it is off its processor. */
struct rp_perf_thread {
	uint32_t tid;			/* the key */
	uint32_t process;
	uint64_t out;			/* 0: it is on one */
	uint64_t woken;			/* 0: not yet, or unknown */
	uint64_t state;			/* of the kernel, when it stopped */
	uint32_t waker_process, waker_thread;
	bool has_state;
	const uint8_t *frames;		/* in the file: where it stopped; or NULL */
	uint64_t frame_count;
};

/* The kernel of the recording. */
struct rp_perf_kernel {
	uint64_t text;			/* the address of _text; 0: unknown */
	uint8_t build_id[20], build_id_bytes;
	bool is_read;
	struct rp_kernel_symbols symbols;	/* none: it is not the running kernel */
};

struct rp_perf_copy {
	struct rp_perf_file file;
	struct rp_encoder *encoder;
	struct rp_encoder_event_type *types[RP_MACHINE_EVENT_COUNT];
	FILE *out;
	void *processes, *threads;	/* trees */
	size_t process_count, thread_count, mapping_count;
	const struct rp_perf_event *sampled;	/* the event whose samples count */
	struct rp_perf_kernel kernel;
	bool has_switches;		/* records of switches; if not, samples are used */
	uint64_t start, last, lost;
	uint32_t next_id;
	uint8_t payload[3 * RP_PERF_PATH_MAX];	/* two texts at most, and numbers */
	size_t used;
};

/* Add to the payload of the next event. */
void rp_perf_put_number(struct rp_perf_copy *copy, uint64_t value);
void rp_perf_put_bytes(struct rp_perf_copy *copy, const void *bytes, size_t size);

/* Write the bytes that the encoder has. Return: 0; -EIO. */
int rp_perf_put_output(struct rp_perf_copy *copy);

/* Put an event with the payload, at the time of the last record. Return: 0; -ENOMEM; -EIO. */
int rp_perf_put(struct rp_perf_copy *copy, enum rp_machine_event kind,
		const struct rp_perf_place *place, const uint64_t *frames, uint32_t frame_count);

/* Put the process, if the trace does not have it. Return: like rp_perf_put(). */
int rp_perf_put_process(struct rp_perf_copy *copy, struct rp_perf_process *process);

/*
 * Put what describes the frames of a process: its mappings, and functions of the kernel.
 * Return: like rp_perf_put().
 */
int rp_perf_put_frames(struct rp_perf_copy *copy, struct rp_perf_process *process,
		       const uint64_t *frames, uint32_t frame_count);

/* Put what the features say about the recording. Return: like rp_perf_put(). */
int rp_perf_put_features(struct rp_perf_copy *copy);

/* Return: the process or thread, made if necessary; NULL: no memory, or too many of them. */
struct rp_perf_process *rp_perf_get_process(struct rp_perf_copy *copy, uint32_t pid);
struct rp_perf_thread *rp_perf_get_thread(struct rp_perf_copy *copy, uint32_t tid);
void rp_perf_tables_fini(struct rp_perf_copy *copy);	/* frees all of them */

/* Copy the addresses of a stack without the marks of contexts. Return: their number. */
uint32_t rp_perf_copy_frames(const uint8_t *frames, uint64_t count,
			     uint64_t ret_frames[RP_PERF_FRAMES_MAX]);

/*
 * Find the function of the kernel that contains `address`, if the file was recorded with the
 * kernel that runs now, and /proc/kallsyms shows its addresses.
 * @ret_end: exclusive.
 * Return: NULL: unknown.
 */
const struct rp_kernel_symbol *rp_perf_kernel_find(struct rp_perf_copy *copy, uint64_t address,
						   uint64_t *ret_end);

/* Take a record of a switch, or a sample of a tracepoint. Return: like rp_perf_put(). */
int rp_perf_take_switch(struct rp_perf_copy *copy, const struct rp_perf_entry *record);
int rp_perf_take_tracepoint(struct rp_perf_copy *copy, const struct rp_perf_sample *sample);

/*
 * Note that a thread was on a processor. If samples have the times of switches, some may be
 * missing, because perf may take only every n-th one. Return: 0; -ENOMEM.
 */
int rp_perf_note_running(struct rp_perf_copy *copy, const struct rp_perf_place *place);

#endif
