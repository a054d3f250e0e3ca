/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/result.h"

#include <sys/stat.h>

#include "tools/cli/display_text.h"

uint64_t rp_record_losses(const struct rp_recorder_stats *stats)
{
	uint64_t sum = 0;

	for (int i = 0; i < RP_RECORDER_LOSS_COUNT; i++)
		sum += stats->lost[i];
	return sum;
}

static uint64_t session_losses(const struct rp_record_sessions *sessions)
{
	return sessions->report ? sessions->report->lost : 0;
}

/*
 * Prints " (5 ring of BPF programs full, 2 full in ring 3 of shop (77))", or nothing if nothing was
 * lost, and the newline.
 */
static void print_reasons(const struct rp_record_sessions *sessions,
			  const struct rp_recorder_stats *stats, FILE *stream)
{
	const char *before = " (";
	char count[RP_TEXT_MAX];

	for (int i = 0; i < RP_RECORDER_LOSS_COUNT; i++) {
		if (!stats->lost[i])
			continue;
		fprintf(stream, "%s%s %s", before, rp_text_count(stats->lost[i], count),
			rp_recorder_loss_text((enum rp_recorder_loss)i));
		before = ", ";
	}
	if (session_losses(sessions)) {
		rp_loss_worst_print(&sessions->report->losses, session_losses(sessions), before,
				    stream);
		before = ", ";
	}
	fputs(*before == ',' ? ")\n" : "\n", stream);
}

/* Prints ", 5 system calls", unless there are none. */
static void print_kind(uint64_t count, const char *noun, FILE *stream)
{
	char text[RP_TEXT_MAX];

	if (count)
		fprintf(stream, ", %s", rp_text_counted(count, noun, text));
}

void rp_record_result_print(const struct rp_recorder *recorder,
			    const struct rp_record_sessions *sessions,
			    const struct rp_output *output, int64_t elapsed_ms, FILE *stream)
{
	char samples[RP_TEXT_MAX], waits[RP_TEXT_MAX], processes[RP_TEXT_MAX];
	char lost[RP_TEXT_MAX], bytes[RP_TEXT_MAX], time[RP_TEXT_MAX];
	struct rp_recorder_stats stats;
	struct stat file;

	rp_recorder_stats(recorder, &stats);
	if (output->regular && fstat(output->fd, &file) == 0)
		stats.bytes = (uint64_t)file.st_size;
	fprintf(stream, "%s: %s and %s of %s", output->path,
		rp_text_counted(stats.samples, "sample", samples),
		rp_text_counted(stats.waits, "wait", waits),
		rp_text_counted(stats.processes, "process", processes));
	print_kind(stats.calls, "system call", stream);
	print_kind(stats.futex_waits, "futex wait", stream);
	print_kind(stats.faults, "page fault", stream);
	print_kind(stats.requests, "block request", stream);
	print_kind(stats.interrupts, "interrupt", stream);
	print_kind(sessions->report ? sessions->report->events : 0, "event", stream);
	fprintf(stream, " in %s", rp_text_duration((uint64_t)elapsed_ms * 1000000, time));
	if (stats.suspended_ns)
		fprintf(stream, " and a suspension of %s",
			rp_text_duration(stats.suspended_ns, time));
	fprintf(stream, ", %s, %s lost", rp_text_bytes(stats.bytes, bytes),
		rp_text_count(rp_record_losses(&stats) + session_losses(sessions), lost));
	print_reasons(sessions, &stats, stream);
}
