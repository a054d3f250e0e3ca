/* SPDX-License-Identifier: MIT */
/* Completes the command line for the scripts of bash, zsh and fish. */
#ifndef RP_TOOL_COMPLETE_H
#define RP_TOOL_COMPLETE_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/cli/tool.h"

/* Prints the candidates for the last of the words after `ringpipe`; that word may be empty. */
void rp_complete(const struct rp_tool_command *commands, size_t count, int argc, char *const *argv);

/*
 * Return: the number of words of a command's name if the arguments begin with all of them; else 0.
 */
int rp_command_match(const char *name, int argc, char *const *argv);

/* Return: the second word of the command's name if the first is `group`; else NULL. */
const char *rp_command_in_group(const char *name, const char *group);

#endif
