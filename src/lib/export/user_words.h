/* SPDX-License-Identifier: MIT */
/*
 * The kernel's user_events: words in which the kernel sets a bit while a tracepoint has a reader. A
 * registration belongs to the calling thread and to the threads that it creates afterwards. Only
 * these threads can undo it, and it ends with the last of them.
 */
#ifndef RP_EXPORT_USER_WORDS_H
#define RP_EXPORT_USER_WORDS_H

#include <stdint.h>

/* `bit` is a mask. Return: 0; -EOPNOTSUPP: not a user_events file; -errno of ioctl(2). */
int rp_user_word_register(int fd, const char *command, uint64_t *word, uint64_t bit,
			  uint32_t *ret_write_index);
void rp_user_word_unregister(int fd, uint64_t *word, uint64_t bit);

/* Open the user_events file in tracefs. Return: a descriptor, or -errno. */
int rp_user_words_open(void);

#endif
