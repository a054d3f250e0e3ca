/* SPDX-License-Identifier: MIT */
/*
 * Parses the options of all commands. getopt_long() is not used because it accepts abbreviations,
 * which break scripts when a second option with the same beginning is added.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/session.h>

#include "tools/cli/option_table.h"
#include "tools/cli/tool.h"

void rp_options_offer(rp_option_set mask, const char *begin)
{
	char text[64];

	for (size_t i = 0; i < rp_option_count; i++) {
		snprintf(text, sizeof(text), "--%s", rp_option_table[i].name);
		if ((rp_option_table[i].flag & mask) && !strncmp(text, begin, strlen(begin)))
			puts(text);
	}
}

const char *rp_options_name(rp_option_set mask)
{
	for (size_t i = 0; i < rp_option_count; i++) {
		if (rp_option_table[i].flag & mask)
			return rp_option_table[i].name;
	}
	return NULL;
}

const char *rp_options_argument(rp_option_set mask, const char *word)
{
	for (size_t i = 0; i < rp_option_count; i++) {
		const struct rp_option *row = &rp_option_table[i];

		if ((row->flag & mask) && word[0] == '-' &&
		    (word[1] == '-' ? !strcmp(word + 2, row->name) :
				      row->letter && word[1] == row->letter && !word[2]))
			return row->argument;
	}
	return NULL;
}

#define LEFT_COLUMNS 30		/* of options in the help */

void rp_options_print(rp_option_set mask)
{
	for (size_t i = 0; i < rp_option_count; i++) {
		const struct rp_option *row = &rp_option_table[i];
		char left[64], letter[8] = "    ";
		const char *line = row->help;

		if (!(row->flag & mask))
			continue;
		if (row->letter)
			snprintf(letter, sizeof(letter), "-%c, ", row->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, row->name,
			 row->argument ? " " : "", row->argument ? row->argument : "");
		/* A wide option has a line of its own. */
		if (strlen(left) >= LEFT_COLUMNS) {
			printf("  %s\n", left);
			left[0] = '\0';
		}
		while (line) {
			const char *end = strchr(line, '\n');

			printf("  %-*s%.*s\n", LEFT_COLUMNS, left,
			       end ? (int)(end - line) : (int)strlen(line), line);
			left[0] = '\0';
			line = end ? end + 1 : NULL;
		}
	}
}

/*
 * Finds the row of `mask` that `argument` names. `ret_value` is the value in the same word
 * (--name=value, -nvalue), or NULL.
 */
static const struct rp_option *find_option(rp_option_set mask, const char *argument,
					   const char **ret_value)
{
	bool is_long = argument[1] == '-';
	const char *name = argument + (is_long ? 2 : 1);
	size_t length = is_long ? strcspn(name, "=") : 1;

	for (size_t i = 0; i < rp_option_count; i++) {
		const struct rp_option *row = &rp_option_table[i];

		if (!(row->flag & mask) ||
		    (is_long ? strncmp(row->name, name, length) || row->name[length] :
			       row->letter != *name))
			continue;
		*ret_value = name[length] ? name + length + is_long : NULL;
		return row;
	}
	return NULL;
}

/* A second value would replace the first one, and the command would leave out what that selects. */
#define SELECTING_OPTIONS (RP_OPTION_NAME | RP_OPTION_USER | RP_OPTION_CGROUP)

/* Parses one option; `next` is the following word or NULL. Return: words used, or -EINVAL. */
static int parse_option(const struct rp_tool_command *command, const char *argument,
			const char *next, struct rp_tool_options *options)
{
	const char *value = NULL;
	const struct rp_option *row = find_option(command->options, argument, &value);
	int used = 1;

	if (!row) {
		rp_tool_error("%s: unknown option %s; see ringpipe %s --help", command->name,
			      argument, command->name);
		return -EINVAL;
	}
	if (!row->argument && value) {
		rp_tool_error("%s: --%s takes no value", command->name, row->name);
		return -EINVAL;
	}
	if (row->argument && !value) {
		value = next;
		used = 2;
	}
	if (row->argument && !value) {
		rp_tool_error("%s: --%s requires %s", command->name, row->name,
			      row->argument);
		return -EINVAL;
	}
	if (options->given & row->flag & SELECTING_OPTIONS) {
		rp_tool_error("%s: --%s is given twice", command->name, row->name);
		return -EINVAL;
	}
	if (row->take && row->take(options, value)) {
		rp_tool_error("%s: --%s requires %s, not '%s'", command->name, row->name,
			      row->argument, value);
		return -EINVAL;
	}
	options->given |= row->flag;
	return used;
}

static int check_operands(const struct rp_tool_command *command,
			  const struct rp_tool_options *options)
{
	const bool takes_pid = (command->options & RP_OPTION_PID) && !options->child;
	const int count = options->operand_count, max = command->operands_max + takes_pid;

	if (options->child && count == 0) {
		rp_tool_error("%s: no command after --", command->name);
		return -EINVAL;
	}
	if (count < command->operands_min) {
		rp_tool_error("%s: requires %s; see ringpipe %s --help", command->name,
			      command->arguments, command->name);
		return -EINVAL;
	}
	if (!options->child && command->operands_max >= 0 && count > max) {
		rp_tool_error("%s: unexpected '%s'; see ringpipe %s --help", command->name,
			      options->operands[max], command->name);
		return -EINVAL;
	}
	return 0;
}

/*
 * Checks that a process is named in exactly one way: PID, -p PID, -n NAME, or a command after "--".
 */
static int check_process(const struct rp_tool_command *command, struct rp_tool_options *options)
{
	int ways = !!(options->given & RP_OPTION_PID) + !!(options->given & RP_OPTION_NAME) +
		   (options->operand_count > 0);
	pid_t pid = 0;

	if (!(command->options & RP_OPTION_PID))
		return 0;
	if (!options->child && options->operand_count &&
	    rp_pid_parse(options->operands[0], &pid)) {
		rp_tool_error("%s: requires a process id, not '%s'%s", command->name,
			      options->operands[0],
			      command->takes_child ? "; a command to run comes after --" : "");
		return -EINVAL;
	}
	if (ways == 0 && command->process_is_optional)
		return 0;
	if (options->pid_count > (command->takes_processes ? RP_PIDS_MAX : 1)) {
		rp_tool_error(command->takes_processes ? "%s: -p can be given up to %u times" :
			      "%s: takes one process, and -p is given several times",
			      command->name, RP_PIDS_MAX);
		return -EINVAL;
	}
	if (ways != 1) {
		rp_tool_error("%s: give one of PID, -p PID%s -n NAME%s", command->name,
			      command->takes_child ? "," : " and",
			      command->takes_child ? " and -- COMMAND" : "");
		return -EINVAL;
	}
	if (pid) {
		options->pid = options->pids[0] = pid;
		options->pid_count = 1;
	}
	return 0;
}

/* Checks that the command can write to "-", and that no trace goes to a terminal. */
static int check_output(const struct rp_tool_command *command,
			const struct rp_tool_options *options)
{
	if (!options->output || strcmp(options->output, "-"))
		return 0;
	if (command->needs_file) {
		rp_tool_error("%s: cannot write to -o -, because %s; give the name of a file",
			      command->name, command->needs_file);
		return -EINVAL;
	}
	if (command->is_binary && isatty(STDOUT_FILENO)) {
		rp_tool_error("%s: a trace is binary, and standard output is a terminal; give -o "
			      "the name of a file, or redirect standard output", command->name);
		return -EINVAL;
	}
	return 0;
}

void rp_options_explain_providers(const char *command, const char *text, size_t at)
{
	const size_t length = strcspn(text + at, ":,");

	if (length > RP_NAME_MAX)
		rp_tool_error("%s: --providers: a name has up to %u bytes, and '%.20s…' has %zu",
			      command, RP_NAME_MAX, text + at, length);
	else
		rp_tool_error("%s: --providers: cannot read '%s' from '%s' on; see ringpipe %s "
			      "--help", command, text, text + at, command);
}

int rp_options_parse(const struct rp_tool_command *command, int argc, char **argv,
		     struct rp_tool_options *ret_options)
{
	struct rp_tool_options options = {
		.buffer_mb = 64, .top = UINT64_MAX, .dump_type = 2, .refresh_ms = 1000,
		.port = 9464, .off_cpu_ns = 1000000,
	};
	int kept = 0, i = 0;

	while (i < argc) {
		int used;

		if (!strcmp(argv[i], "--")) {
			options.child = command->takes_child;
			i++;
			break;
		}
		if (argv[i][0] != '-' || argv[i][1] == '\0') {
			argv[kept++] = argv[i++];
			continue;
		}
		used = parse_option(command, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &options);
		if (used < 0)
			return used;
		i += used;
	}
	if (options.child && kept > 0) {
		rp_tool_error("%s: unexpected '%s' before --", command->name, argv[0]);
		return -EINVAL;
	}
	while (i < argc)
		argv[kept++] = argv[i++];
	argv[kept] = NULL;
	options.operands = argv;
	options.operand_count = kept;
	if (!(options.given & RP_OPTION_HELP)) {
		int ret = check_operands(command, &options);

		if (!ret)
			ret = check_process(command, &options);
		if (!ret)
			ret = check_output(command, &options);
		if (!ret && options.nettrace && !command->takes_version &&
		    !(command->options & RP_OPTION_VERSION)) {
			rp_tool_error("%s: --format requires text, json or csv", command->name);
			ret = -EINVAL;
		}
		if (ret)
			return ret;
	}
	*ret_options = options;
	return 0;
}

void rp_options_print_usage(const struct rp_tool_command *command)
{
	printf("Usage: ringpipe %s [OPTIONS] %s\n\nOptions:\n", command->name, command->arguments);
	rp_options_print(command->options);
	printf("\nringpipe %s --help explains more.\n", command->name);
}

int rp_options_run(const struct rp_tool_command *command, int argc, char **argv)
{
	struct rp_tool_options options;

	if (rp_options_parse(command, argc - 1, argv + 1, &options) < 0)
		return RP_EXIT_USAGE;
	if (options.given & RP_OPTION_HELP) {
		rp_options_print_usage(command);
		return RP_EXIT_OK;
	}
	return command->run(&options);
}
