/* SPDX-License-Identifier: MIT */
#include "orders.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "accounts.h"
#include "events.h"
#include "storage.h"

/* Created once, so that counting needs no search by tag. */
static struct rp_counter *placed, *rejected;

int shop_orders_start(void)
{
	const struct rp_counter_tag tags[2] = { { "outcome", "placed" },
						{ "outcome", "rejected" } };
	int ret;

	ret = rp_counter_series(shop_orders_orders_counter(), &tags[0], 1, &placed);
	if (ret == 0)
		ret = rp_counter_series(shop_orders_orders_counter(), &tags[1], 1, &rejected);
	return ret;
}

/* Return: the error in an order, or NULL. */
static const char *find_fault(const char *customer, const char *total, double *ret_total)
{
	char *end;
	double value;

	if (!*customer)
		return "no customer";
	if (strlen(customer) > SHOP_CUSTOMER_MAX)
		return "the customer's name is too long";
	value = strtod(total, &end);
	if (end == total || *end || !isfinite(value))
		return "the total is not a number";
	if (value <= 0)
		return "the total is not positive";
	*ret_total = value;
	return NULL;
}

int shop_order_place(const char *customer, const char *total, uint64_t *ret_order_id,
		     const char **ret_reason)
{
	const char *fault;
	uint64_t order_id;
	double value;
	int ret;

	fault = find_fault(customer, total, &value);
	if (fault) {
		shop_book(SHOP_ORDER_REJECTED,
			  shop_orders_order_rejected(shop_serial(SHOP_ORDER_REJECTED), customer,
						     fault));
		rp_counter_add(rejected, 1);
		*ret_reason = fault;
		return -EINVAL;
	}
	ret = shop_storage_insert(customer, value, &order_id);
	if (ret < 0)
		return ret;
	shop_book(SHOP_ORDER_PLACED,
		  shop_orders_order_placed(shop_serial(SHOP_ORDER_PLACED), order_id, customer,
					   value));
	rp_counter_add(placed, 1);
	*ret_order_id = order_id;
	return 0;
}
