/* SPDX-License-Identifier: MIT */
/* The table of orders, in SQLite. All functions may be called from any thread. */
#ifndef SHOP_STORAGE_H
#define SHOP_STORAGE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Opens the database, a file or ":memory:", and creates its table. Return: 0; -EIO, with a sentence
 * in `error`.
 */
int shop_storage_open(const char *path, char *error, size_t error_size);
void shop_storage_close(void);

/* Keeps other threads from the database. */
void shop_storage_lock(void);
void shop_storage_unlock(void);

/* Return: how long this thread has waited for the database. */
uint64_t shop_storage_waited_ns(void);

/* Adds an order. Return: 0 or -EIO. */
int shop_storage_insert(const char *customer, double total, uint64_t *ret_order_id);

/* Formats the order as a JSON object, to be freed. Return: 0, -ENOENT, -ENOMEM or -EIO. */
int shop_storage_find(uint64_t order_id, char **ret_json);

/* Reads the number of the newest order, 0 without orders. Return: 0 or -EIO. */
int shop_storage_latest(uint64_t *ret_order_id);

#endif
