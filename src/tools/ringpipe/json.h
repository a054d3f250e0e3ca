/* SPDX-License-Identifier: MIT */
/* The few things that json-c leaves to us. */
#ifndef RP_TOOL_JSON_H
#define RP_TOOL_JSON_H

#include <stdio.h>

#include <json.h>

/* A string that is valid UTF-8 whatever `text` is; null for NULL. */
struct json_object *rp_json_string(const char *text);

/* Prints the value, all control characters escaped: it may be a terminal, and strangers' text. */
void rp_json_put(FILE *stream, struct json_object *value, int style);

/* Prints the value on stdout, takes it over. Return: the exit status. */
int rp_json_print(struct json_object *value);

#endif
