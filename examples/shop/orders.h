/* SPDX-License-Identifier: MIT */
/* The shop's rules: which orders are valid. */
#ifndef SHOP_ORDERS_H
#define SHOP_ORDERS_H

#include <stdint.h>

#define SHOP_CUSTOMER_MAX 200u

/* Call it before the first order. Return: 0 or -ENOMEM. */
int shop_orders_start(void);

/*
 * Place an order. `total` is the number as the customer wrote it. Return: 0; -EINVAL, with
 * `*ret_reason` a sentence, if the order is invalid; -EIO if the storage failed.
 */
int shop_order_place(const char *customer, const char *total, uint64_t *ret_order_id,
		     const char **ret_reason);

#endif
