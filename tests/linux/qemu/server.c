/* SPDX-License-Identifier: MIT */
/* The server of doc/linux-tools.md: repeatedly places an order, until it is killed. */
#include <time.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop-Orders");
RP_EVENT(shop, order_placed, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(order_id), RP_STRING(customer),
	 RP_F64(total));

int main(void)
{
	const struct timespec pause = { .tv_nsec = 10000000 };

	for (uint64_t id = 1;; id++) {
		shop_order_placed(id, "Ada", 9.50);
		nanosleep(&pause, NULL);
	}
}
