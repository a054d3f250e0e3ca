/* SPDX-License-Identifier: MIT */
/* The `ringpipe` command: it finds the command to run, and prints help. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <ringpipe/types.h>

#include "tools/cli/tool.h"
#include "tools/ringpipe/command_table.h"
#include "tools/ringpipe/complete.h"

static void print_help(void)
{
	puts("Usage: ringpipe COMMAND [OPTIONS]\n"
	     "Traces native servers that use libringpipe, and .NET ones.");
	for (size_t i = 0; i < rp_command_count; i++) {
		if (i == 0 || rp_commands[i].task != rp_commands[i - 1].task)
			printf("\n%s:\n", rp_commands[i].task);
		printf("  %-17s%s\n", rp_commands[i].name, rp_commands[i].help);
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
	printf("Usage: ringpipe %s [OPTIONS]%s%s\n%c%s.\n\nOptions:\n", command->name,
	       *command->arguments ? " " : "", command->arguments, toupper(command->help[0]),
	       command->help + 1);
	rp_options_print(command->options);
	if (command->notes)
		printf("\n%s", command->notes);
	puts("\nExamples:");
	for (const char *line = command->examples; *line; line = strchr(line, '\n') + 1)
		printf("  ringpipe %.*s\n", (int)strcspn(line, "\n"), line);
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

	for (size_t i = 0; i < rp_command_count; i++)
		found |= rp_command_in_group(rp_commands[i].name, word) != NULL;
	return found;
}

static void print_group_help(const char *word)
{
	printf("Usage: ringpipe %s COMMAND [OPTIONS]\n\nCommands:\n", word);
	for (size_t i = 0; i < rp_command_count; i++) {
		if (rp_command_in_group(rp_commands[i].name, word))
			printf("  %-17s%s\n", rp_commands[i].name, rp_commands[i].help);
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
	for (size_t i = 0; i < rp_command_count; i++) {
		*ret_words = rp_command_match(rp_commands[i].name, argc, argv);
		if (*ret_words > 0)
			return &rp_commands[i];
	}
	report_unknown(argc, argv);
	return NULL;
}

int rp_command_help(const struct rp_tool_options *options)
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
		rp_complete(rp_commands, rp_command_count, argc - 2, argv + 2);
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
