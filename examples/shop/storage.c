/* SPDX-License-Identifier: MIT */
#include "storage.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "accounts.h"
#include "clock.h"
#include "events.h"

enum statement {
	BEGIN,
	INSERT,
	COMMIT,
	FIND,
	LATEST,
	STATEMENT_COUNT,
};

static const struct {
	const char *name;
	const char *sql;
} texts[STATEMENT_COUNT] = {
	[BEGIN] = { "begin", "BEGIN IMMEDIATE" },
	[INSERT] = { "insert_order", "INSERT INTO orders (customer, total) VALUES (?1, ?2)" },
	[COMMIT] = { "commit", "COMMIT" },
	[FIND] = { "find_order", "SELECT json_object('order_id', id, 'customer', customer, "
		   "'total', total) FROM orders WHERE id = ?1" },
	[LATEST] = { "latest_order", "SELECT coalesce(max(id), 0) FROM orders" },
};

/* All threads share one connection, since SQLite allows only one writer at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sqlite3 *database;
static sqlite3_stmt *statements[STATEMENT_COUNT];

static _Thread_local uint64_t waited_ns;

void shop_storage_lock(void)
{
	const uint64_t start_ns = shop_clock_ns();

	pthread_mutex_lock(&lock);
	waited_ns += shop_clock_ns() - start_ns;
}

void shop_storage_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

uint64_t shop_storage_waited_ns(void)
{
	return waited_ns;
}

static void report_failure(enum statement which)
{
	shop_book(SHOP_FAILED,
		  shop_storage_failed(shop_serial(SHOP_FAILED), texts[which].name,
				      sqlite3_extended_errcode(database),
				      sqlite3_errmsg(database)));
}

/* Steps to the statement's next row. Return: 1; 0 without a row; -EIO. */
static int step(enum statement which)
{
	uint64_t start_ns = shop_clock_ns();
	int ret = sqlite3_step(statements[which]);
	uint64_t took_ns = shop_clock_ns() - start_ns;

	if (ret != SQLITE_ROW && ret != SQLITE_DONE) {
		report_failure(which);
		return -EIO;
	}
	if (which == COMMIT)
		shop_book(SHOP_COMMIT, shop_storage_commit(shop_serial(SHOP_COMMIT), took_ns));
	else
		shop_book(SHOP_QUERY,
			  shop_storage_query(shop_serial(SHOP_QUERY), texts[which].name,
					     ret == SQLITE_ROW, took_ns));
	return ret == SQLITE_ROW;
}

static int run(enum statement which)
{
	int ret = step(which);

	sqlite3_reset(statements[which]);
	return ret < 0 ? ret : 0;
}

int shop_storage_open(const char *path, char *error, size_t error_size)
{
	static const char schema[] =
		"PRAGMA journal_mode = WAL;"
		"PRAGMA synchronous = NORMAL;"
		"CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY,"
		" customer TEXT NOT NULL, total REAL NOT NULL) STRICT;";
	int ret;

	/* The mutex above suffices, so SQLite's own are off. */
	ret = sqlite3_open_v2(path, &database,
			      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			      NULL);
	if (ret == SQLITE_OK)
		ret = sqlite3_exec(database, schema, NULL, NULL, NULL);
	for (int i = 0; i < STATEMENT_COUNT && ret == SQLITE_OK; i++)
		ret = sqlite3_prepare_v3(database, texts[i].sql, -1, SQLITE_PREPARE_PERSISTENT,
					 &statements[i], NULL);
	if (ret == SQLITE_OK)
		return 0;
	snprintf(error, error_size, "%s: %s", path,
		 database ? sqlite3_errmsg(database) : sqlite3_errstr(ret));
	shop_storage_close();
	return -EIO;
}

void shop_storage_close(void)
{
	for (int i = 0; i < STATEMENT_COUNT; i++) {
		sqlite3_finalize(statements[i]);
		statements[i] = NULL;
	}
	sqlite3_close(database);
	database = NULL;
}

int shop_storage_insert(const char *customer, double total, uint64_t *ret_order_id)
{
	int ret;

	shop_storage_lock();
	sqlite3_bind_text(statements[INSERT], 1, customer, -1, SQLITE_STATIC);
	sqlite3_bind_double(statements[INSERT], 2, total);
	ret = run(BEGIN);
	if (ret == 0)
		ret = run(INSERT);
	if (ret == 0)
		ret = run(COMMIT);
	if (ret == 0)
		*ret_order_id = (uint64_t)sqlite3_last_insert_rowid(database);
	else if (!sqlite3_get_autocommit(database))
		sqlite3_exec(database, "ROLLBACK", NULL, NULL, NULL);
	sqlite3_clear_bindings(statements[INSERT]);
	pthread_mutex_unlock(&lock);
	return ret;
}

int shop_storage_find(uint64_t order_id, char **ret_json)
{
	const char *text;
	char *json = NULL;
	int ret;

	shop_storage_lock();
	sqlite3_bind_int64(statements[FIND], 1, (sqlite3_int64)order_id);
	ret = step(FIND);
	if (ret == 1) {
		text = (const char *)sqlite3_column_text(statements[FIND], 0);
		json = text ? strdup(text) : NULL;
		ret = json ? 0 : -ENOMEM;
	} else if (ret == 0) {
		ret = -ENOENT;
	}
	sqlite3_reset(statements[FIND]);
	pthread_mutex_unlock(&lock);
	if (ret == 0)
		*ret_json = json;
	return ret;
}

int shop_storage_latest(uint64_t *ret_order_id)
{
	int ret;

	shop_storage_lock();
	ret = step(LATEST);
	if (ret == 1)
		*ret_order_id = (uint64_t)sqlite3_column_int64(statements[LATEST], 0);
	sqlite3_reset(statements[LATEST]);
	pthread_mutex_unlock(&lock);
	return ret < 0 ? ret : 0;
}
