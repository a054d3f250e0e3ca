/* SPDX-License-Identifier: MIT */
/* Counts the events that the shop receives through an in-process listener. */
#ifndef SHOP_LISTENER_H
#define SHOP_LISTENER_H

#include <stdio.h>

/* Return: 0 or -errno of rp_listener_start(). */
int shop_listener_start(void);
void shop_listener_stop(void);

/* Prints its counts as a member of a JSON object. */
void shop_listener_print(FILE *stream);

#endif
