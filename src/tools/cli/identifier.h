/* SPDX-License-Identifier: MIT */
/* Identifiers for code that a command generates, from names that may have any characters. */
#ifndef RP_TOOL_IDENTIFIER_H
#define RP_TOOL_IDENTIFIER_H

/* The bytes that an identifier may have in addition to those of its name, with its NUL. */
#define RP_IDENTIFIER_EXTRA 3u

/*
 * Make an identifier from a name: other characters become underscores, and a keyword of C or C++
 * gets one at its end.
 * @identifier: the space for it, strlen(name) + RP_IDENTIFIER_EXTRA bytes.
 */
void rp_identifier_put(const char *name, char *identifier);

/* Return: the identifier, for free(), or NULL without memory. */
char *rp_identifier_make(const char *name);

#endif
