/* SPDX-License-Identifier: MIT */
#ifndef RP_BASE_TASK_SIGNALS_H
#define RP_BASE_TASK_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Read a set of signals from the status of a thread of this process.
 * @field: "\nSigBlk:" for the blocked signals, or "\nSigPnd:" for those that are pending.
 *
 * Return: whether the set was read; false also if the thread has ended.
 */
bool rp_task_signals(uint32_t id, const char *field, uint64_t *ret_mask);

#endif
