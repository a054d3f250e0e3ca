/* SPDX-License-Identifier: MIT */
/* The shop's HTTP server. */
#ifndef SHOP_HTTP_H
#define SHOP_HTTP_H

#include <stdint.h>

/*
 * Listen on the loopback address; for port 0 the kernel chooses a free one. Every thread of the
 * pool serves its own connections. Return: 0; -errno of the socket; -ENOMEM if the threads could
 * not start.
 */
int shop_http_start(uint16_t port, unsigned int threads, uint16_t *ret_port);

/* Finish the pending requests and end the threads. */
void shop_http_stop(void);

#endif
