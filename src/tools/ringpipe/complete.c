/* SPDX-License-Identifier: MIT */
/*
 * ringpipe complete WORD…: called by the completion scripts of the shells. Prints the candidates
 * for the last word, one on each line, or `:file`, `:trace` or `:directory` where the shell
 * completes a path.
 */
#include "tools/ringpipe/complete.h"

#include <stdio.h>
#include <string.h>

#include "tools/client/target.h"
#include "tools/formats/format_writer.h"
#include "tools/ringpipe/report.h"

int rp_command_match(const char *name, int argc, char *const *argv)
{
	const char *second = strchr(name, ' ');
	size_t length = second ? (size_t)(second - name) : strlen(name);

	if (argc < 1 || strncmp(argv[0], name, length) != 0 || argv[0][length])
		return 0;
	if (!second)
		return 1;
	return argc > 1 && !strcmp(argv[1], second + 1) ? 2 : 0;
}

const char *rp_command_in_group(const char *name, const char *group)
{
	const size_t length = strlen(group);

	return !strncmp(name, group, length) && name[length] == ' ' ? name + length + 1 : NULL;
}

static void offer(const char *candidate, const char *begin)
{
	if (!strncmp(candidate, begin, strlen(begin)))
		puts(candidate);
}

/* Offers the words of "mini|heap|full" that are values: lower case with hyphens, or one digit. */
static void offer_words(const char *text, const char *begin)
{
	char word[32];

	while (*text) {
		size_t length = strcspn(text, "|");

		if (length == 0 || length >= sizeof(word)) {
			text += length ? length : 1;
			continue;
		}
		memcpy(word, text, length);
		word[length] = '\0';
		if (strspn(word, "abcdefghijklmnopqrstuvwxyz-") == length ||
		    (length == 1 && word[0] >= '0' && word[0] <= '9'))
			offer(word, begin);
		text += length;
	}
}

/* Offers the processes that can be traced, by id or by name. */
static void offer_targets(bool by_name, const char *begin)
{
	struct rp_target_list list;
	char id[16];

	if (rp_target_list_scan(&list) != 0)
		return;
	for (size_t i = 0; i < list.count; i++) {
		snprintf(id, sizeof(id), "%d", list.rows[i].pid);
		offer(by_name ? list.rows[i].name : id, begin);
	}
	rp_target_list_fini(&list);
}

static void offer_value(const struct rp_tool_command *command, const char *argument,
			const char *begin)
{
	if (!strcmp(argument, "PID") || !strcmp(argument, "NAME"))
		offer_targets(*argument == 'N', begin);
	else if (!strcmp(argument, "FILE"))
		puts(":file");
	else if (!strncmp(argument, "FORMAT", strlen("FORMAT")))	/* also FORMAT|TIME */
		offer_words(RP_FORMAT_WORDS, begin);
	else if (!strcmp(argument, "GROUPS"))
		offer_words(command->options & RP_OPTION_MACHINE ?
			    "all|sched|syscalls|futex|faults|block|irq" :
			    "all|sched|faults|block|syscalls", begin);
	else
		offer_words(argument, begin);
}

static void offer_operand(const struct rp_tool_command *command, const char *begin)
{
	if (command->options & RP_OPTION_PID)
		offer_targets(false, begin);
	else if (!strncmp(command->arguments, "FILE", 4))
		puts(":trace");
	else if (!strncmp(command->arguments, "(DIRECTORY", 10))
		puts(":directory");
}

/* Offers the first words of all commands, or the second words of the commands in `group`. */
static void offer_commands(const struct rp_tool_command *commands, size_t count, const char *group,
			   const char *begin)
{
	char word[32], last[32] = "";

	for (size_t i = 0; i < count; i++) {
		const char *name = group ? rp_command_in_group(commands[i].name, group) :
					   commands[i].name;

		if (!name)
			continue;
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(name, " "), name);
		if (strcmp(word, last) != 0)
			offer(word, begin);
		strcpy(last, word);
	}
}

static void complete_arguments(const struct rp_tool_command *command, int words, int before,
			       char *const *argv)
{
	const char *begin = argv[before], *argument = NULL;

	if (before > words)
		argument = rp_options_argument(command->options, argv[before - 1]);
	if (argument) {
		offer_value(command, argument, begin);
		return;
	}
	if (*begin != '-' && (before == words || argv[before - 1][0] == '-'))
		offer_operand(command, begin);
	else if (*begin != '-' && before == words + 1 && command->run == rp_command_report)
		rp_report_offer(begin);
	rp_options_offer(command->options, begin);
}

void rp_complete(const struct rp_tool_command *commands, size_t count, int argc, char *const *argv)
{
	const int before = argc - 1;

	if (argc < 1)
		return;
	if (before == 0) {
		offer_commands(commands, count, NULL, argv[0]);
		offer("--help", argv[0]);
		offer("--version", argv[0]);
		return;
	}
	if (!strcmp(argv[0], "help")) {
		offer_commands(commands, count, before == 1 ? NULL : argv[1], argv[before]);
		offer("--help", argv[before]);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		int words = rp_command_match(commands[i].name, before, argv);

		if (words > 0) {
			complete_arguments(&commands[i], words, before, argv);
			return;
		}
	}
	if (before == 1)
		offer_commands(commands, count, argv[0], argv[1]);
}
