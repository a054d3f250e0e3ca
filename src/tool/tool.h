/* SPDX-License-Identifier: MIT */
/*
 * The `ringpipe` command, from inside: what its files share.
 *
 * Handlers return the exit status. Whoever finds an error prints it, once, and returns; nobody but
 * main() ends the process.
 */
#ifndef RP_TOOL_TOOL_H
#define RP_TOOL_TOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum rp_tool_exit {
	RP_EXIT_OK = 0,
	RP_EXIT_FAILURE = 1,
	RP_EXIT_USAGE = 2,
	RP_EXIT_GAVE_UP = 130,		/* 128 + SIGINT, as shells count */
};

/* Which options a command takes; the rows are in options.c. */
enum rp_tool_option_flag {
	RP_OPTION_HELP = 1 << 0,
	RP_OPTION_JSON = 1 << 1,
	RP_OPTION_PID = 1 << 2,
	RP_OPTION_NAME = 1 << 3,
	RP_OPTION_OUTPUT = 1 << 4,
	RP_OPTION_FORCE = 1 << 5,
	RP_OPTION_PROVIDERS = 1 << 6,
	RP_OPTION_DURATION = 1 << 7,
	RP_OPTION_BUFFER = 1 << 8,
	RP_OPTION_STACKS = 1 << 9,
	RP_OPTION_QUIET = 1 << 10,
	RP_OPTION_EVENTS = 1 << 11,
	RP_OPTION_TOP = 1 << 12,
	RP_OPTION_TYPE = 1 << 13,
	RP_OPTION_COUNTERS = 1 << 14,
	RP_OPTION_REFRESH = 1 << 15,
	RP_OPTION_PORT = 1 << 16,
	RP_OPTION_EVENT = 1 << 17,
	RP_OPTION_FIELD = 1 << 18,
	RP_OPTION_STEP = 1 << 19,
	RP_OPTION_KERNEL = 1 << 20,
	RP_OPTION_BLOCK = 1 << 21,
	RP_OPTION_LIST = 1 << 22,
	RP_OPTION_PRUNE = 1 << 23,
	RP_OPTION_STOP = 1 << 24,
	RP_OPTION_TREE = 1 << 25,
	RP_OPTION_RECOVER = 1 << 26,
	RP_OPTION_ROLL = 1 << 27,
	RP_OPTION_COARSE = 1 << 28,
};

struct rp_tool_options {
	uint32_t given;			/* enum rp_tool_option_flag of those seen */
	bool child;			/* a "--" was seen: the operands are a command line */
	pid_t pid;
	const char *name;
	const char *output;
	const char *providers;
	uint64_t duration_ms;
	uint32_t buffer_mb;
	uint32_t block_ms;
	uint32_t roll_mb;
	uint64_t top;
	uint32_t dump_type;		/* as the protocol numbers them */
	const char *counters;
	uint64_t refresh_ms;
	uint16_t port;
	const char *event;
	const char *field;
	uint64_t step;
	unsigned int kernel;		/* groups of the kernel's events, bits */
	char **operands;		/* ended by NULL, as argv is */
	int operand_count;
};

struct rp_tool_command {
	const char *name;
	const char *arguments;		/* as the usage line shows them */
	const char *help;
	const char *notes;		/* paragraphs under the options, or NULL */
	uint32_t options;		/* enum rp_tool_option_flag */
	int operands_min;
	int operands_max;		/* -1: any number */
	bool takes_child;		/* operands come after "--" only */
	bool takes_pid;			/* the operand is a process, as -p names it */
	bool is_binary;			/* what goes to -o is nothing for a terminal */
	const char *needs_file;		/* why -o cannot be "-", standard output; or NULL */
	int (*run)(const struct rp_tool_options *options);
};

/* Prints `ringpipe: …` and a newline on stderr, control characters made harmless. */
void rp_tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints the line and a newline, control characters made harmless. */
void rp_tool_say(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Reads a command's arguments (argv[0] is the first after the command's name).
 * Return: 0, or -EINVAL after having said what is wrong.
 */
int rp_options_parse(const struct rp_tool_command *command, int argc, char **argv,
		     struct rp_tool_options *ret_options);

/* Says what is wrong with the --providers of a command, which rp_providers_parse() refused. */
void rp_options_explain_providers(const char *command, const char *text, size_t at);

/* Prints the rows of the options in `mask` on stdout. */
void rp_options_print(uint32_t mask);

/* A decimal number without sign or blanks. Return: 0; -EINVAL for all else; -ERANGE above max. */
int rp_number_parse(const char *text, uint64_t max, uint64_t *ret_number);

int rp_command_ps(const struct rp_tool_options *options);
int rp_command_list(const struct rp_tool_options *options);
int rp_command_collect(const struct rp_tool_options *options);
int rp_command_dump(const struct rp_tool_options *options);
int rp_command_counters(const struct rp_tool_options *options);
int rp_command_report(const struct rp_tool_options *options);
int rp_command_bpf(const struct rp_tool_options *options);
int rp_command_recover(const struct rp_tool_options *options);
int rp_command_record(const struct rp_tool_options *options);
int rp_command_snapshot(const struct rp_tool_options *options);
int rp_command_stacks(const struct rp_tool_options *options);

#endif
