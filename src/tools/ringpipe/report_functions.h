/* SPDX-License-Identifier: MIT */
/* Shared by the reports of profiles: functions as text and JSON, and what a trace lacks. */
#ifndef RP_TOOL_REPORT_FUNCTIONS_H
#define RP_TOOL_REPORT_FUNCTIONS_H

#include <json.h>

#include "tools/analysis/profile.h"
#include "tools/cli/rows.h"
#include "tools/ringpipe/report.h"

#define RP_REPORT_TOP 20u		/* rows without --top */
#define RP_FUNCTION_TEXT_MAX 112	/* bytes of a function's name as text */

/*
 * Format a function for a line of text: its name; "[libx.so]" if only the file is known; otherwise
 * "[unknown]". Return: `buffer`, of RP_FUNCTION_TEXT_MAX bytes.
 */
const char *rp_function_text(const struct rp_call_function *function, char *buffer);

/* Add the columns of the function and its file. */
void rp_function_add(struct rp_rows *rows, const struct rp_call_function *function);
/* Make an object with the function and its file. Return: NULL without memory. */
struct json_object *rp_function_to_json(const struct rp_call_function *function);

/*
 * Add the column of a stack, innermost function first: all functions as a list, and some as text.
 * @node: the innermost one, or RP_CALL_NONE.
 */
void rp_stack_add(struct rp_rows *rows, const struct rp_call_tree *tree, uint32_t node);

/* Add the columns of a process: its id and its name. */
void rp_process_add(struct rp_rows *rows, const struct rp_profile *profile, uint64_t process);
/* The same for one of several processes that had the id, see rp_symbols_life(). */
void rp_process_add_life(struct rp_rows *rows, const struct rp_profile *profile, uint64_t process,
			 uint32_t life);

/* Add `part` of `whole` as a column: a number up to 1, and as text a percentage. */
void rp_share_add(struct rp_rows *rows, uint64_t part, uint64_t whole);
double rp_share(uint64_t part, uint64_t whole);

/* Add a column with a time; text has it with a unit. */
void rp_time_add(struct rp_rows *rows, uint64_t ns);

/*
 * Prepare the profile of the report's file. Return: the exit status; RP_EXIT_FAILURE after an error
 * line.
 */
int rp_report_profile_init(const struct rp_report *report, enum rp_profile_by by,
			   struct rp_profile *ret_profile);

/* Add the columns of one row of a report. */
typedef void (*rp_report_row)(struct rp_rows *rows, size_t number, const void *data);

/* Print the first of `row_count` rows, as many as --top says. Return: the exit status. */
int rp_report_print(const struct rp_report *report, const struct rp_column *columns,
		    size_t column_count, size_t row_count, rp_report_row add_row,
		    const void *data);

/* Return: how many rows to print. */
uint64_t rp_report_top(const struct rp_report *report);

/*
 * Return: whether there is a table to print. Otherwise the function prints why there is none.
 * @error: of the reading; 0: none.
 * @lack: what a trace without rows lacks, and how to record it. A trace that could not be read to
 *	its end has a table in any case.
 */
bool rp_report_has_table(const struct rp_report *report, int error, bool has_rows,
			 const char *lack);

/* Report on standard error what the bounds of memory changed in the profile. */
void rp_report_bounds(const struct rp_report *report, const struct rp_profile *profile);

#endif
