/* SPDX-License-Identifier: MIT */
/* The environment of this process, which clients can read and change. Context: the server. */
#ifndef RP_DIAG_ENVIRONMENT_H
#define RP_DIAG_ENVIRONMENT_H

#include <stdbool.h>

#include "ipc/message.h"

/*
 * Build a ProcessEnvironment reply: u32 size of the stream after the message, u16 0. The stream is
 * u32 count, strings NAME=VALUE.
 *
 * The reply has the environment at the start of the process, from the kernel, plus the changes that
 * clients made. `environ` cannot be read while the host may call setenv(3), which frees the old
 * array, so the reply lacks changes by the host itself.
 *
 * Return: RP_HRESULT_OK; FAIL: /proc cannot be read, or no memory.
 */
enum rp_hresult rp_environment_reply(struct rp_message_buffer *reply);

/*
 * Execute SetEnvironmentVariable: string name, string value. A value without even its NUL removes
 * the variable.
 *
 * Return: RP_HRESULT_OK; BAD_ENCODING; INVALID_ARGUMENT: the name is empty or contains '=';
 * INVALID_OPERATION: start-up is not `suspended` and the host has set no callback; FAIL: no memory,
 * or the callback failed.
 */
enum rp_hresult rp_environment_change(struct rp_cursor *payload, bool suspended);

#endif
