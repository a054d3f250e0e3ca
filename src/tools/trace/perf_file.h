/* SPDX-License-Identifier: MIT */
/*
 * Reads perf.data, the file of `perf record`, in the form of a file or of a pipe.
 *
 * Source: tools/perf/Documentation/perf.data-file-format.txt and linux/perf_event.h. The bytes are
 * not trusted: each size is checked before it is used.
 */
#ifndef RP_TOOL_PERF_FILE_H
#define RP_TOOL_PERF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/perf_event.h>

#include "tools/trace/perf_features.h"

/* The limits of what a file may have. */
#define RP_PERF_EVENTS_MAX 1024u
#define RP_PERF_RECORDS_MAX (64u << 20)

struct rp_perf_event {
	struct perf_event_attr attr;	/* zeros beyond the size that the file states */
	const uint8_t *ids;		/* unaligned u64 */
	size_t id_count;
};

/* One record; `time` is 0 if it has none. */
struct rp_perf_entry {
	uint64_t time;
	uint64_t at;			/* its offset in the file, which orders equal times */
};

struct rp_perf_file {
	const uint8_t *bytes;
	size_t size;
	struct rp_perf_event *events;
	size_t event_count, event_capacity;
	struct rp_perf_entry *records;	/* sorted by time */
	size_t record_count, record_capacity;
	struct rp_perf_features features;
	bool is_cut;			/* the file ends within its records */
	const char *error;		/* a sentence about a failure, or NULL */
};

/* Values of the trailer or head of a record. A value that the event does not record is 0. */
struct rp_perf_place {
	uint32_t process, thread, processor;
	uint64_t time, id;
};

/* A sample; the frames include the marks of contexts. */
struct rp_perf_sample {
	const struct rp_perf_event *event;
	struct rp_perf_place place;
	uint64_t address, period;
	const uint8_t *frames;		/* unaligned u64, innermost first */
	uint64_t frame_count;
	const uint8_t *raw;		/* of a tracepoint: its fields; or NULL */
	uint32_t raw_bytes;
};

/* Return: the name of an event of the file, such as "sched:sched_switch"; "": unknown. */
const char *rp_perf_event_name(const struct rp_perf_file *file, const struct rp_perf_event *event);

/*
 * Read the headers, and sort the records. The bytes must stay until rp_perf_file_fini().
 * Return: 0; -EBADMSG: the file is no perf.data or is damaged, and file->error states why; -ENOMEM.
 */
int rp_perf_file_read(struct rp_perf_file *file, const void *bytes, size_t size);
void rp_perf_file_fini(struct rp_perf_file *file);

/* Return: the record's header; its bytes are within the file. */
struct perf_event_header rp_perf_header(const struct rp_perf_file *file,
					const struct rp_perf_entry *record);

/* Read the trailer of a record that is no sample. */
void rp_perf_read_trailer(const struct rp_perf_file *file, const struct rp_perf_entry *record,
			  struct rp_perf_place *ret_place);

/* Return: whether the sample is complete and of a known event. */
bool rp_perf_read_sample(const struct rp_perf_file *file, const struct rp_perf_entry *record,
			 struct rp_perf_sample *ret_sample);

#endif
