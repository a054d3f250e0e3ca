/* SPDX-License-Identifier: MIT */
/* Stack frames that their thread has left, by siglongjmp(3) for example. */
#ifndef RP_CORE_LEFT_FRAMES_H
#define RP_CORE_LEFT_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether a thread of this process sleeps in a function that is further out on its stack than a
 * frame, so that it can never return to that frame.
 *
 * Context: any thread; makes system calls.
 * Return: false also if the thread runs, or sleeps on another stack, or if /proc does not show its
 * stack pointer.
 */
bool rp_frame_is_left(uint32_t thread, uint64_t frame);

#endif
