/* SPDX-License-Identifier: MIT */
/* Replies that list the process's providers, sessions and events. */
#ifndef RP_DIAG_LIST_COMMAND_H
#define RP_DIAG_LIST_COMMAND_H

#include "ipc/message.h"

/* Append the three tables of command 0x52 0x00. Return: 0; -ENOMEM. */
int rp_list_enabled(struct rp_message_buffer *reply);

/*
 * Append the table of command 0x52 0x0c: u32 rows, each: string provider, string event, u32 id,
 * u32 version, u32 level, u64 keywords, fields. Fields are u32 count, each: string name, u8 type
 * (enum rp_type), u8 element, u8 1 for a secret, and its members as fields again. An event that
 * several objects of the process define has a row for each. Return: 0; -ENOMEM.
 */
int rp_list_events(struct rp_message_buffer *reply);

#endif
