/* SPDX-License-Identifier: MIT */
/* Additions to json-c. */
#ifndef RP_TOOL_JSON_H
#define RP_TOOL_JSON_H

#include <stdio.h>

#include <json.h>

/* Make a string of valid UTF-8 from any `text`; null for NULL. */
struct json_object *rp_json_string(const char *text);

/* Prints the value with all control characters escaped: a terminal may show the untrusted text. */
void rp_json_put(FILE *stream, struct json_object *value, int style);

/* Prints the value on stdout and releases it. Return: the exit status. */
int rp_json_print(struct json_object *value);

#endif
