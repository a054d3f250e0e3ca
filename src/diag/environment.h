/* SPDX-License-Identifier: MIT */
/* The environment of this process, read and changed for clients. All calls from the server. */
#ifndef RP_DIAG_ENVIRONMENT_H
#define RP_DIAG_ENVIRONMENT_H

#include <stdbool.h>

#include "diag/message.h"

/*
 * Writes a ProcessEnvironment reply: u32 size of the stream behind the message, u16 0; the stream
 * is u32 count, strings NAME=VALUE.
 *
 * What is told is what the process was started with, as the kernel keeps it, with the changes that
 * clients made. `environ` itself cannot be read beside a host that calls setenv(3), which moves the
 * array and frees the old one; so what the host changed for itself is not seen.
 *
 * Return: RP_HRESULT_OK; FAIL: /proc cannot be read, or no memory.
 */
enum rp_hresult rp_environment_reply(struct rp_reply *reply);

/*
 * Carries out SetEnvironmentVariable: string name, string value; a value without even its NUL
 * takes the variable away.
 *
 * Return: RP_HRESULT_OK; BAD_ENCODING; INVALID_ARGUMENT: no name, or one with '=';
 * INVALID_OPERATION: start-up is not `suspended` and the host has set no callback; FAIL: no memory,
 * or the callback failed.
 */
enum rp_hresult rp_environment_change(struct rp_cursor *payload, bool suspended);

#endif
