/* SPDX-License-Identifier: MIT */
#ifndef RP_BASE_TASK_SIGNALS_H
#define RP_BASE_TASK_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Read which signals a thread of this process blocks.
 * Return: whether they were read; false also if the thread has ended.
 */
bool rp_task_blocked_signals(uint32_t id, uint64_t *ret_mask);

#endif
