/* SPDX-License-Identifier: MIT */
/* The last line of a recording: what it has, and what was lost. */
#ifndef RP_RECORD_RESULT_H
#define RP_RECORD_RESULT_H

#include <stdint.h>
#include <stdio.h>

#include "tools/ringpipe-record/recorder.h"
#include "tools/ringpipe-record/sessions.h"

/* Return: what the recorder itself lost, for all reasons. */
uint64_t rp_record_losses(const struct rp_recorder_stats *stats);

/* Print the line. `sessions`: after their end, or none. */
void rp_record_result_print(const struct rp_recorder *recorder,
			    const struct rp_record_sessions *sessions,
			    const struct rp_output *output, int64_t elapsed_ms, FILE *stream);

#endif
