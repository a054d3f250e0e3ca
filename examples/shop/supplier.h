/* SPDX-License-Identifier: MIT */
/* A service that the shop asks: a process with a socket and its own span. */
#ifndef SHOP_SUPPLIER_H
#define SHOP_SUPPLIER_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/ringpipe.h>

/* Starts the process. Call it before the shop starts threads. Return: 0 or -errno. */
int shop_supplier_start(void);
void shop_supplier_stop(void);

/* Waits for an answer, which takes `ns`. Return: 0 or -errno. */
int shop_supplier_ask(uint64_t ns, const struct rp_activity *activity);

/* Return: whether a session records the spans of the process; false without the process. */
bool shop_supplier_is_traced(void);

#endif
