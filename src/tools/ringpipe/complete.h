/* SPDX-License-Identifier: MIT */
/* Completion of the command line, which the scripts of bash, zsh and fish ask for. */
#ifndef RP_TOOL_COMPLETE_H
#define RP_TOOL_COMPLETE_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/ringpipe/tool.h"

/* Print the candidates for the last of the words after `ringpipe`, which may be empty. */
void rp_complete(const struct rp_tool_command *commands, size_t count, int argc, char *const *argv);

/* The number of words of a command's name that the arguments begin with: 0, where they do not. */
int rp_command_match(const char *name, int argc, char *const *argv);

/* The second word of a command's name whose first word is `group`; NULL: it is of no such group. */
const char *rp_command_in_group(const char *name, const char *group);

#endif
