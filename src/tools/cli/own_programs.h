/* SPDX-License-Identifier: MIT */
/* Programs that are installed with the command. */
#ifndef RP_TOOL_OWN_PROGRAMS_H
#define RP_TOOL_OWN_PROGRAMS_H

#include <stdbool.h>

/* Return: whether the program is installed, or built, and may be executed. */
bool rp_own_program_exists(const char *program);

#endif
