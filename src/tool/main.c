/* SPDX-License-Identifier: MIT */
/* The `ringpipe` command: which commands there are, and help. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <ringpipe/types.h>

#include "tool/bpf_options.h"
#include "tool/tool.h"

static const char by_itself[] = "the process writes it itself";

static const struct rp_tool_command commands[] = {
	{
		.name = "ps",
		.arguments = "",
		.help = "list the processes that can be traced",
		.notes = "A process is listed when its diagnostics socket lies in $TMPDIR, or in\n"
			 "/tmp when that is not set. The runtime is \"?\" where the process did\n"
			 "not answer.\n",
		.options = RP_OPTION_JSON | RP_OPTION_HELP,
		.run = rp_command_ps,
	},
	{
		.name = "collect",
		.arguments = "(-p PID | -n NAME | -- COMMAND ARGUMENTS…)",
		.help = "record a trace into a file",
		.notes = "Ctrl-C, SIGTERM or the end of the duration stop the session; the file\n"
			 "is then complete. A second Ctrl-C gives up at once (status 130); the\n"
			 "file can be read up to there. A command after -- is traced from its\n"
			 "start to its end, or for the duration, and gets the signals; ringpipe's\n"
			 "status is the command's. Without -o the file is\n"
			 "NAME_PID_YYYYMMDD_HHMMSS.nettrace; -o - is standard output.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_TREE | RP_OPTION_OUTPUT |
			   RP_OPTION_FORCE | RP_OPTION_PROVIDERS | RP_OPTION_DURATION |
			   RP_OPTION_BUFFER | RP_OPTION_BLOCK | RP_OPTION_COARSE |
			   RP_OPTION_STACKS | RP_OPTION_KERNEL | RP_OPTION_QUIET |
			   RP_OPTION_JSON | RP_OPTION_HELP,
		.operands_max = -1,
		.takes_child = true,
		.is_binary = true,
		.run = rp_command_collect,
	},
	{
		.name = "record",
		.arguments = "(-p PID | -n NAME)",
		.help = "switch a flight recorder on in a process, or off",
		.notes = "The process keeps the newest events in --buffer of its memory, which\n"
			 "overwrite the oldest, until --stop or its end. ringpipe snapshot shows\n"
			 "them. With --roll it writes them to files itself, with its own rights.\n"
			 "There is one such recorder in a process.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_OUTPUT |
			   RP_OPTION_PROVIDERS | RP_OPTION_BUFFER | RP_OPTION_COARSE |
			   RP_OPTION_STACKS | RP_OPTION_RECOVER | RP_OPTION_ROLL |
			   RP_OPTION_STOP | RP_OPTION_HELP,
		.needs_file = by_itself,
		.run = rp_command_record,
	},
	{
		.name = "snapshot",
		.arguments = "(-p PID | -n NAME) [SESSION]",
		.help = "write what a flight recorder holds into a file",
		.notes = "The recorder goes on. SESSION is its id, as ringpipe list shows it; it\n"
			 "may be left out where there is just one. Ctrl-C gives up and leaves no\n"
			 "file. Without -o it is NAME_PID_YYYYMMDD_HHMMSS.nettrace; -o - is\n"
			 "standard output.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_OUTPUT | RP_OPTION_FORCE |
			   RP_OPTION_QUIET | RP_OPTION_JSON | RP_OPTION_HELP,
		.operands_max = 1,
		.is_binary = true,
		.run = rp_command_snapshot,
	},
	{
		.name = "report",
		.arguments = "FILE",
		.help = "summarise a trace, or print its events",
		.notes = "FILE may be -, for standard input. A trace that is damaged or stops\n"
			 "before its end is summarised as far as it goes; the status is then 1.\n",
		.options = RP_OPTION_EVENTS | RP_OPTION_TOP | RP_OPTION_JSON | RP_OPTION_HELP,
		.operands_min = 1,
		.operands_max = 1,
		.run = rp_command_report,
	},
	{
		.name = "dump",
		.arguments = "(PID | -p PID | -n NAME)",
		.help = "write a core of a process, for a debugger",
		.notes = "The process writes the file itself, with its own rights, and stands\n"
			 "still meanwhile; for how long is told. Ctrl-C gives up and leaves no\n"
			 "file. Without -o it is NAME_PID_YYYYMMDD_HHMMSS.core; -o - is refused.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_OUTPUT | RP_OPTION_FORCE |
			   RP_OPTION_TYPE | RP_OPTION_QUIET | RP_OPTION_JSON | RP_OPTION_HELP,
		.operands_max = 1,
		.takes_pid = true,
		.needs_file = by_itself,
		.run = rp_command_dump,
	},
	{
		.name = "counters",
		.arguments = "(monitor | collect | serve) (-p PID | -n NAME)",
		.help = "show a process's counters",
		.notes = "monitor draws a table. collect writes CSV, or JSON, to the file of -o\n"
			 "or to standard output, as dotnet-counters does. serve shows the last\n"
			 "values at http://127.0.0.1:PORT/metrics to Prometheus. All end by\n"
			 "Ctrl-C, SIGTERM, the end of the duration or of the process.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_COUNTERS |
			   RP_OPTION_REFRESH | RP_OPTION_DURATION | RP_OPTION_OUTPUT |
			   RP_OPTION_FORCE | RP_OPTION_JSON | RP_OPTION_PORT | RP_OPTION_HELP,
		.operands_min = 1,
		.operands_max = 1,
		.run = rp_command_counters,
	},
	{
		.name = "stacks",
		.arguments = "(PID | -p PID | -n NAME)",
		.help = "show where each thread of a process is",
		.notes = "Sleeping threads are not woken. One that runs is seen when it has used\n"
			 "up a tick of the processor, or when it sleeps; the session lasts half a\n"
			 "second unless --duration says otherwise.\n",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_DURATION | RP_OPTION_JSON |
			   RP_OPTION_HELP,
		.operands_max = 1,
		.takes_pid = true,
		.run = rp_command_stacks,
	},
	{
		.name = "bpf",
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
		.arguments = "(DIRECTORY | --list [PARENT] | --prune [PARENT])",
		.help = "make a trace of what a killed process left",
		.notes = "A process started with RINGPIPE_RECOVER=1 leaves a directory when it is\n"
			 "killed. The trace has what the session had written, and what was still\n"
			 "in its rings. Without -o it is NAME_PID_YYYYMMDD_HHMMSS.nettrace.\n"
			 "PARENT is /dev/shm/ringpipe-UID unless it is given.\n",
		.options = RP_OPTION_OUTPUT | RP_OPTION_FORCE | RP_OPTION_LIST |
			   RP_OPTION_PRUNE | RP_OPTION_HELP,
		.operands_max = 1,
		.needs_file = "the trace is read again while it is made",
		.run = rp_command_recover,
	},
	{
		.name = "list",
		.arguments = "(PID | -p PID | -n NAME)",
		.help = "show a process's providers and who enabled them",
		.options = RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_JSON | RP_OPTION_HELP,
		.operands_max = 1,
		.takes_pid = true,
		.run = rp_command_list,
	},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_help(void)
{
	puts("Usage: ringpipe COMMAND [OPTIONS]\n"
	     "Traces native servers that use libringpipe, and .NET ones.\n\n"
	     "Commands:");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		printf("  %-10s%s\n", commands[i].name, commands[i].help);
	puts("\nOptions:\n"
	     "  --help     print this help; after a command, the command's\n"
	     "  --version  print the version\n\n"
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

static int run(int argc, char **argv)
{
	if (argc < 2) {
		rp_tool_error("no command given; see ringpipe --help");
		return RP_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_help();
		return RP_EXIT_OK;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("ringpipe " RP_VERSION);
		return RP_EXIT_OK;
	}
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (!strcmp(argv[1], commands[i].name))
			return run_command(&commands[i], argc - 2, argv + 2);
	}
	rp_tool_error("unknown command '%s'; see ringpipe --help", argv[1]);
	return RP_EXIT_USAGE;
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
