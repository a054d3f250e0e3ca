/* SPDX-License-Identifier: MIT */
/* The shop's business: what is an order, and what is not. */
#ifndef SHOP_ORDERS_H
#define SHOP_ORDERS_H

#include <stdint.h>

#define SHOP_CUSTOMER_MAX 200u

/* Before the first order. Return: 0 or -ENOMEM. */
int shop_orders_start(void);

/*
 * Places an order. `total` is the number as the customer wrote it.
 * Return: 0; -EINVAL, with `*ret_reason` a sentence, for an order that is refused; -EIO when the
 * storage failed.
 */
int shop_order_place(const char *customer, const char *total, uint64_t *ret_order_id,
		     const char **ret_reason);

#endif
