/* SPDX-License-Identifier: MIT */
/*
 * Declarations that all files of the `ringpipe` command share.
 *
 * Handlers return the exit status. The function that finds an error prints it, once, and returns.
 * Only main() ends the process.
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
	RP_EXIT_GAVE_UP = 130,		/* 128 + SIGINT, as in shells */
	RP_EXIT_NO_READER = 141,	/* 128 + SIGPIPE: the reader of a pipe left */
};

/*
 * The options that a command accepts; their rows are in option_table.c. An enumerator has 64 bits,
 * which are too few.
 */
__extension__ typedef unsigned __int128 rp_option_set;
#define RP_OPTION_FLAG(bit)	((rp_option_set)1 << (bit))
#define RP_OPTION_HELP		RP_OPTION_FLAG(0)
#define RP_OPTION_SESSION	RP_OPTION_FLAG(1)
#define RP_OPTION_PID		RP_OPTION_FLAG(2)
#define RP_OPTION_NAME		RP_OPTION_FLAG(3)
#define RP_OPTION_OUTPUT	RP_OPTION_FLAG(4)
#define RP_OPTION_FORCE		RP_OPTION_FLAG(5)
#define RP_OPTION_PROVIDERS	RP_OPTION_FLAG(6)
#define RP_OPTION_DURATION	RP_OPTION_FLAG(7)
#define RP_OPTION_BUFFER	RP_OPTION_FLAG(8)
#define RP_OPTION_STACKS	RP_OPTION_FLAG(9)
#define RP_OPTION_QUIET		RP_OPTION_FLAG(10)
#define RP_OPTION_FROM_BINARY	RP_OPTION_FLAG(11)
#define RP_OPTION_TOP		RP_OPTION_FLAG(12)
#define RP_OPTION_TYPE		RP_OPTION_FLAG(13)
#define RP_OPTION_COUNTERS	RP_OPTION_FLAG(14)
#define RP_OPTION_REFRESH	RP_OPTION_FLAG(15)
#define RP_OPTION_PORT		RP_OPTION_FLAG(16)
#define RP_OPTION_EVENT		RP_OPTION_FLAG(17)
#define RP_OPTION_FIELD		RP_OPTION_FLAG(18)
#define RP_OPTION_STEP		RP_OPTION_FLAG(19)
#define RP_OPTION_KERNEL	RP_OPTION_FLAG(20)
#define RP_OPTION_BLOCK		RP_OPTION_FLAG(21)
#define RP_OPTION_LIST		RP_OPTION_FLAG(22)
#define RP_OPTION_PRUNE		RP_OPTION_FLAG(23)
#define RP_OPTION_OWN_EVENTS	RP_OPTION_FLAG(24)	/* of a process */
#define RP_OPTION_TREE		RP_OPTION_FLAG(25)
#define RP_OPTION_RECOVER	RP_OPTION_FLAG(26)
#define RP_OPTION_ROLL		RP_OPTION_FLAG(27)
#define RP_OPTION_COARSE	RP_OPTION_FLAG(28)
#define RP_OPTION_FORMAT	RP_OPTION_FLAG(29)
#define RP_OPTION_ALL		RP_OPTION_FLAG(30)
#define RP_OPTION_FIELDS	RP_OPTION_FLAG(31)
#define RP_OPTION_MISSING	RP_OPTION_FLAG(32)
#define RP_OPTION_LISTEN	RP_OPTION_FLAG(33)
#define RP_OPTION_LAST		RP_OPTION_FLAG(34)
#define RP_OPTION_INLINES	RP_OPTION_FLAG(35)
#define RP_OPTION_OFF_CPU	RP_OPTION_FLAG(36)
#define RP_OPTION_VERSION	RP_OPTION_FLAG(37)	/* of nettrace */
#define RP_OPTION_MACHINE	RP_OPTION_FLAG(38)	/* --kernel of a recording of the machine */
#define RP_OPTION_PROFILE	RP_OPTION_FLAG(39)
#define RP_OPTION_RINGS		RP_OPTION_FLAG(40)	/* --buffer of a recording of the machine */
#define RP_OPTION_ARCHIVE	RP_OPTION_FLAG(41)
#define RP_OPTION_BINARIES	RP_OPTION_FLAG(42)
#define RP_OPTION_USER		RP_OPTION_FLAG(43)
#define RP_OPTION_CGROUP	RP_OPTION_FLAG(44)
#define RP_OPTION_COMPACT	RP_OPTION_FLAG(45)
#define RP_OPTION_SYMBOLS	RP_OPTION_FLAG(46)
#define RP_OPTION_UNTIL		RP_OPTION_FLAG(47)
#define RP_OPTION_SPAN		RP_OPTION_FLAG(48)
#define RP_OPTION_SLOWEST	RP_OPTION_FLAG(49)
#define RP_OPTION_ID		RP_OPTION_FLAG(50)
#define RP_OPTION_CULTURE	RP_OPTION_FLAG(51)
#define RP_OPTION_BY		RP_OPTION_FLAG(52)
#define RP_OPTION_FUNCTION	RP_OPTION_FLAG(53)
#define RP_OPTION_OPEN		RP_OPTION_FLAG(54)
#define RP_OPTION_VIEW_PORT	RP_OPTION_FLAG(55)
#define RP_OPTION_FROM		RP_OPTION_FLAG(56)
#define RP_OPTION_RANGE_END	RP_OPTION_FLAG(57)	/* --to of a range of time */
#define RP_OPTION_WHERE		RP_OPTION_FLAG(58)
#define RP_OPTION_TO		RP_OPTION_FLAG(59)
#define RP_OPTION_HTML		RP_OPTION_FLAG(60)
#define RP_OPTION_DIRECTORY	RP_OPTION_FLAG(61)	/* --output of generated files */
#define RP_OPTION_DIFF		RP_OPTION_FLAG(62)
#define RP_OPTION_GENERATE	RP_OPTION_FLAG(63)	/* --to of generated files */

/* In the order of ringpipe-kernel's bits. */
enum rp_tool_kernel_group {
	RP_KERNEL_SCHED = 1 << 0,
	RP_KERNEL_FAULTS = 1 << 1,
	RP_KERNEL_BLOCK = 1 << 2,
	RP_KERNEL_SYSCALLS = 1 << 3,
	RP_KERNEL_FUTEX = 1 << 4,	/* of the machine only */
	RP_KERNEL_IRQ = 1 << 5,		/* likewise */
};

/* How a command prints its rows. */
enum rp_format {
	RP_FORMAT_TEXT,			/* for people */
	RP_FORMAT_JSON,
	RP_FORMAT_CSV,
};

/* The rows of a profile. */
enum rp_report_by {
	RP_REPORT_BY_FUNCTION,
	RP_REPORT_BY_PROCESS,
	RP_REPORT_BY_THREAD,
};

/* The value of --from and --to: a time of day, or the time since the start of a recording. */
struct rp_time_point {
	int64_t ns;
	bool is_utc;			/* since 1970 */
};

/* The capabilities with which a user records all processes, as setcap(8) takes them. */
#define RP_RECORD_CAPABILITIES "cap_perfmon,cap_bpf,cap_sys_ptrace,cap_sys_nice"

/* How many processes a command takes. */
#define RP_PIDS_MAX 64u

struct rp_tool_options {
	rp_option_set given;		/* the options seen */
	bool child;			/* a "--" was seen: the operands are a command line */
	pid_t pid;
	pid_t pids[RP_PIDS_MAX];	/* all of them; `pid` is the first */
	size_t pid_count;		/* may be above RP_PIDS_MAX while they are parsed */
	const char *name;
	uint64_t session;		/* 0: not given */
	const char *output;
	const char *binary;		/* of --from-binary */
	const char *culture;
	const char *archive;
	const char *symbols;
	bool inlines;
	uid_t user;
	const char *cgroup;
	const char *providers;
	uint64_t duration_ms;
	const char *until;		/* an expression, unless until_bytes is given */
	uint64_t until_bytes;
	const char *where;		/* an expression */
	struct rp_time_point from, range_end;	/* of the option --to */
	const char *diff;		/* the later trace of a comparison */
	const char *html;		/* the page to write; NULL: not given */
	uint64_t last_ms;
	uint64_t off_cpu_ns;		/* the shortest wait to record; 0: all */
	const char *span;
	const char *id;
	uint32_t slowest;
	uint32_t buffer_mb;
	uint32_t block_ms;
	uint32_t roll_mb;
	enum rp_format format;
	const char *to;			/* the format of another tool; NULL: not given */
	uint32_t nettrace;		/* the version in --format, or 0 */
	uint64_t top;
	enum rp_report_by by;
	const char *function;
	uint32_t dump_type;		/* with the protocol's numbers */
	const char *counters;
	uint64_t refresh_ms;
	uint16_t port;
	const char *listen;
	const char *event;
	const char *field;
	uint64_t step;
	unsigned int kernel;		/* groups of kernel events: enum rp_tool_kernel_group */
	char **operands;		/* ends with NULL, like argv */
	int operand_count;
};

struct rp_tool_command {
	const char *name;
	const char *task;		/* the heading in the list of commands */
	const char *arguments;		/* in the usage line */
	const char *help;
	const char *notes;		/* paragraphs under the options, or NULL */
	const char *examples;		/* command lines without "ringpipe ", each with a newline */
	rp_option_set options;
	int operands_min;		/* without a process, which any command with -p takes */
	int operands_max;		/* -1: any number */
	bool takes_child;		/* a command line may follow "--" */
	bool process_is_optional;	/* without one, the command is for all processes */
	bool takes_processes;		/* -p may be repeated */
	bool takes_version;		/* --format takes a version of nettrace, too */
	bool is_binary;			/* its output must not go to a terminal */
	const char *needs_file;		/* why -o cannot be "-", standard output; or NULL */
	int (*run)(const struct rp_tool_options *options);
};

/* Prints `ringpipe: …` and a newline on stderr, with control characters replaced. */
void rp_tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Also write error lines to the log from now on; NULL: to standard error only. */
void rp_tool_set_error_log(FILE *log);

/* Prints the line and a newline, with control characters replaced. */
void rp_tool_say(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Parses a command's arguments (argv[0] is the first after the command's name). Return: 0; -EINVAL,
 * after an error line.
 */
int rp_options_parse(const struct rp_tool_command *command, int argc, char **argv,
		     struct rp_tool_options *ret_options);

/* Reports the error in a command's --providers, which rp_providers_parse() rejected. */
void rp_options_explain_providers(const char *command, const char *text, size_t at);

/* Print the usage of a command in a program of its own, which --help asks for. */
void rp_options_print_usage(const struct rp_tool_command *command);

/* Parse the arguments of such a program, which main() got, and run it. Return: the exit status. */
int rp_options_run(const struct rp_tool_command *command, int argc, char **argv);

/* Prints the rows of the options in `mask` on stdout. */
void rp_options_print(rp_option_set mask);

/* Prints the long names of the options in `mask` that begin with `begin`, one per line. */
void rp_options_offer(rp_option_set mask, const char *begin);

/* Return: the long name of the first option in `mask`; NULL if it is 0. */
const char *rp_options_name(rp_option_set mask);

/* Return: the argument of the option `word` of `mask`, as the help shows it; NULL: it has none. */
const char *rp_options_argument(rp_option_set mask, const char *word);

/*
 * Parses a decimal number without sign or blanks. Return: 0; -ERANGE above `max`; -EINVAL
 * otherwise.
 */
int rp_number_parse(const char *text, uint64_t max, uint64_t *ret_number);

/* Parse a process id. Return: 0; -EINVAL. */
int rp_pid_parse(const char *text, pid_t *ret_pid);

/*
 * Parse a list of groups with commas, of a process or of the machine, or the name of a profile, and
 * add enum rp_tool_kernel_group to `ret_groups`. Return: 0; -EINVAL.
 */
int rp_kernel_groups_parse(const char *list, unsigned int *ret_groups);
int rp_machine_groups_parse(const char *list, unsigned int *ret_groups);
int rp_profile_parse(const char *name, unsigned int *ret_groups);

/*
 * Parses "90", "90s", "1m30s" or "2h": each unit at most once, from large to small; a number
 * without unit is last. 0; -EINVAL, also for a time of 0.
 */
int rp_duration_parse(const char *value, uint64_t *ret_ms);

/* Parses a number with one of the units kB, MB and GB, powers of 1000. 0; -EINVAL. */
int rp_size_parse(const char *text, uint64_t *ret_bytes);

/* Parses a number with one of the units ns, us, ms and s, or "0" alone. 0; -EINVAL. */
int rp_short_time_parse(const char *text, uint64_t *ret_ns);

/*
 * Parses a time since the start, as "1.5s", "250ms", "1m30s", "1.5" or "1.500000 s", or a time in
 * UTC, as 2026-11-21T01:02:03.5Z. 0; -EINVAL.
 */
int rp_time_point_parse(const char *text, struct rp_time_point *ret_point);

int rp_command_ps(const struct rp_tool_options *options);
int rp_command_list(const struct rp_tool_options *options);
int rp_command_collect(const struct rp_tool_options *options);
int rp_command_dump(const struct rp_tool_options *options);
int rp_command_counters_monitor(const struct rp_tool_options *options);
int rp_command_counters_collect(const struct rp_tool_options *options);
int rp_command_counters_serve(const struct rp_tool_options *options);
int rp_command_doctor(const struct rp_tool_options *options);
int rp_command_convert(const struct rp_tool_options *options);
int rp_command_inbox(const struct rp_tool_options *options);
int rp_command_gen(const struct rp_tool_options *options);
int rp_command_symbolize(const struct rp_tool_options *options);
int rp_command_merge(const struct rp_tool_options *options);
int rp_command_explain(const struct rp_tool_options *options);
int rp_command_view(const struct rp_tool_options *options);
int rp_command_tail(const struct rp_tool_options *options);
int rp_command_top(const struct rp_tool_options *options);
int rp_command_report(const struct rp_tool_options *options);
int rp_command_bpf(const struct rp_tool_options *options);
int rp_command_record(const struct rp_tool_options *options);
int rp_command_recover(const struct rp_tool_options *options);
int rp_command_flight_start(const struct rp_tool_options *options);
int rp_command_flight_stop(const struct rp_tool_options *options);
int rp_command_flight_snapshot(const struct rp_tool_options *options);
int rp_command_stacks(const struct rp_tool_options *options);

#endif
