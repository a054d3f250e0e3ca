/* SPDX-License-Identifier: MIT */
/* The shop's HTTP server. */
#ifndef SHOP_HTTP_H
#define SHOP_HTTP_H

#include <stdint.h>

/*
 * Listens on the loopback address; port 0 takes a free one. Every thread of the pool serves its own
 * connections.
 * Return: 0, or -errno of what the socket refused; -ENOMEM when the threads could not start.
 */
int shop_http_start(uint16_t port, unsigned int threads, uint16_t *ret_port);

/* Finishes the requests under way and ends the threads. */
void shop_http_stop(void);

#endif
