/* SPDX-License-Identifier: MIT */
/* The `ringpipe` command: the table of commands, and help. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <ringpipe/types.h>

#include "tools/ringpipe/bpf_options.h"
#include "tools/ringpipe/complete.h"
#include "tools/ringpipe/tool.h"

/* The headings of the help, in the order of the commands. */
static const char look[] = "Look into a process", record[] = "Record a trace and read it",
	flight[] = "Keep the newest events in the process, and write them when something happens",
	kernel[] = "Count and print events in the kernel", crash[] = "After a crash",
	help[] = "Help";

static const char by_itself[] = "the process writes it itself";

static int command_help(const struct rp_tool_options *options);

static const struct rp_tool_command commands[] = {
	{
		.name = "ps",
		.task = look,
		.arguments = "",
		.help = "list the processes that can be traced",
		.notes = "A process is found by its diagnostics socket, wherever its TMPDIR was\n"
			 "when it started. The runtime is \"?\" where the process did not\n"
			 "answer.\n",
		.options = RP_OPTION_FORMAT | RP_OPTION_HELP,
		.run = rp_command_ps,
	},
	{
		.name = "list",
		.task = look,
		.arguments = "(PID | -p PID | -n NAME)",
		.help = "show a process's providers and who enabled them",
		.notes = "With --events, the events that it has, enabled or not.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_EVENTS | RP_OPTION_FIELDS |
			   RP_OPTION_ALL | RP_OPTION_FORMAT | RP_OPTION_HELP,
		.operands_max = 1,
		.takes_pid = true,
		.run = rp_command_list,
	},
	{
		.name = "counters",
		.task = look,
		.arguments = "(monitor | collect | serve) (-p PID | -n NAME)",
		.help = "show a process's counters",
		.notes = "monitor draws a table. collect writes a row for each value to the file\n"
			 "of -o or to standard output, in CSV and JSON as dotnet-counters does.\n"
			 "serve shows the last values at http://127.0.0.1:PORT/metrics to\n"
			 "Prometheus. All end by Ctrl-C, SIGTERM, the end of the duration or of\n"
			 "the process.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_COUNTERS |
			   RP_OPTION_MISSING |
			   RP_OPTION_REFRESH | RP_OPTION_DURATION | RP_OPTION_OUTPUT |
			   RP_OPTION_FORCE | RP_OPTION_FORMAT | RP_OPTION_PORT |
			   RP_OPTION_LISTEN | RP_OPTION_HELP,
		.operands_min = 1,
		.operands_max = 1,
		.run = rp_command_counters,
	},
	{
		.name = "stacks",
		.task = look,
		.arguments = "(PID | -p PID | -n NAME)",
		.help = "show where each thread of a process is",
		.notes = "Sleeping threads are not woken. One that runs is seen when it has used\n"
			 "up a tick of the processor, or when it sleeps; the session lasts half a\n"
			 "second unless --duration says otherwise.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_DURATION | RP_OPTION_FORMAT |
			   RP_OPTION_HELP,
		.operands_max = 1,
		.takes_pid = true,
		.run = rp_command_stacks,
	},
	{
		.name = "dump",
		.task = look,
		.arguments = "(PID | -p PID | -n NAME)",
		.help = "write a core of a process, for a debugger",
		.notes = "The process writes the file itself, with its own rights, and stands\n"
			 "still meanwhile; for how long is told. Ctrl-C gives up and leaves no\n"
			 "file. Without -o it is NAME_PID_YYYYMMDD_HHMMSS.core; -o - is refused.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_OUTPUT | RP_OPTION_FORCE |
			   RP_OPTION_TYPE | RP_OPTION_QUIET | RP_OPTION_FORMAT | RP_OPTION_HELP,
		.operands_max = 1,
		.takes_pid = true,
		.needs_file = by_itself,
		.run = rp_command_dump,
	},
	{
		.name = "collect",
		.task = record,
		.arguments = "(-p PID | -n NAME | -- COMMAND ARGUMENTS…)",
		.help = "record a trace into a file",
		.notes = "Ctrl-C, SIGTERM or the end of the duration stop the session; the file\n"
			 "is then complete. A second Ctrl-C gives up at once (status 130); the\n"
			 "file can be read up to there. A command after -- is traced from its\n"
			 "start to its end, or for the duration, and gets the signals; ringpipe's\n"
			 "status is the command's. Without -o the file is\n"
			 "NAME_PID_YYYYMMDD_HHMMSS.nettrace; -o - is standard output. The version\n"
			 "of nettrace is 4, or 6 by --format 6.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_TREE | RP_OPTION_OUTPUT |
			   RP_OPTION_FORCE | RP_OPTION_PROVIDERS | RP_OPTION_MISSING |
			   RP_OPTION_DURATION |
			   RP_OPTION_BUFFER | RP_OPTION_BLOCK | RP_OPTION_COARSE |
			   RP_OPTION_STACKS | RP_OPTION_KERNEL | RP_OPTION_QUIET |
			   RP_OPTION_FORMAT | RP_OPTION_NETTRACE | RP_OPTION_HELP,
		.operands_max = -1,
		.takes_child = true,
		.is_binary = true,
		.run = rp_command_collect,
	},
	{
		.name = "report",
		.task = record,
		.arguments = "FILE",
		.help = "summarise a trace, or print its events",
		.notes = "FILE may be -, for standard input. A trace that is damaged or stops\n"
			 "before its end is summarised as far as it goes; the status is then 1.\n",
		.options = RP_OPTION_EVENTS | RP_OPTION_ALL | RP_OPTION_TOP |
			   RP_OPTION_FORMAT | RP_OPTION_HELP,
		.operands_min = 1,
		.operands_max = 1,
		.run = rp_command_report,
	},
	{
		.name = "flight start",
		.task = flight,
		.arguments = "(-p PID | -n NAME)",
		.help = "start a flight recorder in a process",
		.notes = "The process keeps the newest events in --buffer of its memory, which\n"
			 "overwrite the oldest, until ringpipe flight stop or its end. ringpipe\n"
			 "flight snapshot writes them to a file. With --roll the process writes\n"
			 "them to files itself, with its own rights. There is one such recorder\n"
			 "in a process. --format 4 or 6 is the version of nettrace.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_OUTPUT |
			   RP_OPTION_PROVIDERS | RP_OPTION_MISSING | RP_OPTION_BUFFER |
			   RP_OPTION_LAST | RP_OPTION_COARSE | RP_OPTION_STACKS |
			   RP_OPTION_RECOVER | RP_OPTION_ROLL | RP_OPTION_FORMAT |
			   RP_OPTION_NETTRACE | RP_OPTION_HELP,
		.needs_file = by_itself,
		.run = rp_command_flight_start,
	},
	{
		.name = "flight snapshot",
		.task = flight,
		.arguments = "(-p PID | -n NAME) [SESSION]",
		.help = "write what a flight recorder holds into a file",
		.notes = "The recorder goes on. SESSION is its id, as ringpipe list shows it; it\n"
			 "may be left out where there is just one. Ctrl-C gives up and leaves no\n"
			 "file. Without -o it is NAME_PID_YYYYMMDD_HHMMSS.nettrace; -o - is\n"
			 "standard output.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_OUTPUT | RP_OPTION_FORCE |
			   RP_OPTION_QUIET | RP_OPTION_FORMAT | RP_OPTION_HELP,
		.operands_max = 1,
		.is_binary = true,
		.run = rp_command_flight_snapshot,
	},
	{
		.name = "flight stop",
		.task = flight,
		.arguments = "(-p PID | -n NAME)",
		.help = "stop the flight recorder that flight start started",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_HELP,
		.run = rp_command_flight_stop,
	},
	{
		.name = "bpf",
		.task = kernel,
		.arguments = RP_BPF_ARGUMENTS,
		.help = "count, sort and print events in the kernel, by BPF",
		.notes = "The process fires a probe for each batch of its events, at which a BPF\n"
			 "program looks through them. Needs root, or CAP_SYS_ADMIN.\n"
			 "count counts by event, or by the values of a field. histogram sorts\n"
			 "the values of a field, floats without their fraction. print prints a\n"
			 "line for each event. All end by Ctrl-C, SIGTERM, the end of the\n"
			 "duration or of the process.\n",
		.options = RP_BPF_OPTIONS,
		.operands_min = 1,
		.operands_max = 1,
		.run = rp_command_bpf,
	},
	{
		.name = "recover",
		.task = crash,
		.arguments = "(DIRECTORY | --list [PARENT] | --prune [PARENT])",
		.help = "make a trace of what a killed process left",
		.notes = "A process started with RINGPIPE_RECOVER=1 leaves a directory when it is\n"
			 "killed. The trace has what the session had written, and what was still\n"
			 "in its rings. Without -o it is NAME_PID_YYYYMMDD_HHMMSS.nettrace.\n"
			 "PARENT is /dev/shm/ringpipe-UID unless it is given.\n",
		.options = RP_OPTION_OUTPUT | RP_OPTION_FORCE | RP_OPTION_LIST |
			   RP_OPTION_PRUNE | RP_OPTION_FORMAT | RP_OPTION_HELP,
		.operands_max = 1,
		.needs_file = "the trace is read again while it is made",
		.run = rp_command_recover,
	},
	{
		.name = "help",
		.task = help,
		.arguments = "[COMMAND]",
		.help = "print the commands, or the help of one",
		.options = RP_OPTION_HELP,
		.operands_max = 2,
		.run = command_help,
	},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_help(void)
{
	puts("Usage: ringpipe COMMAND [OPTIONS]\n"
	     "Traces native servers that use libringpipe, and .NET ones.");
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (i == 0 || commands[i].task != commands[i - 1].task)
			printf("\n%s:\n", commands[i].task);
		printf("  %-17s%s\n", commands[i].name, commands[i].help);
	}
	puts("\nExamples:\n"
	     "  ringpipe collect -n shop -d 10 -o shop.nettrace\n"
	     "  ringpipe report shop.nettrace\n"
	     "  ringpipe counters monitor -n shop\n"
	     "  ringpipe flight start -n shop --providers Shop-Orders\n"
	     "  ringpipe flight snapshot -n shop -o before.nettrace\n\n"
	     "Options:\n"
	     "  -h, --help     print this help; after a command, the command's\n"
	     "  -V, --version  print the version\n\n"
	     "Exit status: 0 success, 1 failure, 2 wrong usage.");
}

static void print_command_help(const struct rp_tool_command *command)
{
	printf("Usage: ringpipe %s [OPTIONS]%s%s\nTo %s.\n\nOptions:\n", command->name,
	       *command->arguments ? " " : "", command->arguments, command->help);
	rp_options_print(command->options);
	if (command->notes)
		printf("\n%s", command->notes);
}

static int run_command(const struct rp_tool_command *command, int argc, char **argv)
{
	struct rp_tool_options options;

	if (rp_options_parse(command, argc, argv, &options))
		return RP_EXIT_USAGE;
	if (options.given & RP_OPTION_HELP) {
		print_command_help(command);
		return RP_EXIT_OK;
	}
	return command->run(&options);
}

/* Whether `word` is the first word of several commands. */
static bool is_group(const char *word)
{
	bool found = false;

	for (size_t i = 0; i < COMMAND_COUNT; i++)
		found |= rp_command_in_group(commands[i].name, word) != NULL;
	return found;
}

static void print_group_help(const char *word)
{
	printf("Usage: ringpipe %s COMMAND [OPTIONS]\n\nCommands:\n", word);
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (rp_command_in_group(commands[i].name, word))
			printf("  %-17s%s\n", commands[i].name, commands[i].help);
	}
	printf("\nringpipe %s COMMAND --help prints the options of one.\n", word);
}

static void report_unknown(int argc, char *const *argv)
{
	if (!is_group(argv[0]))
		rp_tool_error("unknown command '%s'; see ringpipe --help", argv[0]);
	else if (argc < 2)
		rp_tool_error("%s: no command given; see ringpipe %s --help", argv[0], argv[0]);
	else
		rp_tool_error("unknown command '%s %s'; see ringpipe %s --help", argv[0], argv[1],
			      argv[0]);
}

/* Reports an unknown command and returns NULL. */
static const struct rp_tool_command *find_command(int argc, char *const *argv, int *ret_words)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		*ret_words = rp_command_match(commands[i].name, argc, argv);
		if (*ret_words > 0)
			return &commands[i];
	}
	report_unknown(argc, argv);
	return NULL;
}

static int command_help(const struct rp_tool_options *options)
{
	const struct rp_tool_command *command;
	int words;

	if (options->operand_count == 0) {
		print_help();
		return RP_EXIT_OK;
	}
	if (options->operand_count == 1 && is_group(options->operands[0])) {
		print_group_help(options->operands[0]);
		return RP_EXIT_OK;
	}
	command = find_command(options->operand_count, options->operands, &words);
	if (!command)
		return RP_EXIT_USAGE;
	if (words < options->operand_count) {
		rp_tool_error("help: unexpected '%s'; see ringpipe help --help",
			      options->operands[words]);
		return RP_EXIT_USAGE;
	}
	print_command_help(command);
	return RP_EXIT_OK;
}

static bool is_help(const char *argument)
{
	return !strcmp(argument, "--help") || !strcmp(argument, "-h");
}

static int run(int argc, char **argv)
{
	const struct rp_tool_command *command;
	int words;

	if (argc < 2) {
		rp_tool_error("no command given; see ringpipe --help");
		return RP_EXIT_USAGE;
	}
	if (is_help(argv[1])) {
		print_help();
		return RP_EXIT_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("ringpipe " RP_VERSION_STRING);
		return RP_EXIT_OK;
	}
	if (!strcmp(argv[1], "complete")) {
		rp_complete(commands, COMMAND_COUNT, argc - 2, argv + 2);
		return RP_EXIT_OK;
	}
	if (argc > 2 && is_group(argv[1]) && is_help(argv[2])) {
		print_group_help(argv[1]);
		return RP_EXIT_OK;
	}
	command = find_command(argc - 1, argv + 1, &words);
	return command ? run_command(command, argc - 1 - words, argv + 1 + words) : RP_EXIT_USAGE;
}

int main(int argc, char **argv)
{
	int status = run(argc, argv);

	errno = 0;
	if ((fflush(stdout) || ferror(stdout)) && status == RP_EXIT_OK) {
		rp_tool_error("cannot write the output: %s", strerror(errno ? errno : EIO));
		status = RP_EXIT_FAILURE;
	}
	return status;
}
