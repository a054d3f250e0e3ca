/* SPDX-License-Identifier: MIT */
/* A witness inside the shop: counts the events that come back through a listener. */
#ifndef SHOP_LISTENER_H
#define SHOP_LISTENER_H

#include <stdio.h>

/* Return: 0 or -errno of rp_listener_start(). */
int shop_listener_start(void);
void shop_listener_stop(void);

/* Prints its figures as a member of a JSON object. */
void shop_listener_print(FILE *stream);

#endif
