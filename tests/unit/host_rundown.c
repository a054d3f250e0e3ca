/* SPDX-License-Identifier: MIT */
/* The rundown: the records and their order, with the module and without. */
#include <criterion/criterion.h>

#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/mappings.h"
#include "host/rundown.h"

/* A payload read from its beginning. */
struct payload {
	const uint8_t *at, *end;
};

static uint64_t take_number(struct payload *payload)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; payload->at < payload->end; shift += 7) {
		uint8_t byte = *payload->at++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	cr_assert(false, "a number without its end");
	return 0;
}

static char *take_text(struct payload *payload)
{
	uint16_t size;
	char *text;

	cr_assert_geq(payload->end - payload->at, 2);
	memcpy(&size, payload->at, 2);
	cr_assert_geq(payload->end - payload->at, 2 + size);
	text = strndup((const char *)payload->at + 2, size);
	payload->at += 2 + size;
	return text;
}

static struct payload payload_of(const struct rp_rundown_record *record)
{
	const uint8_t *bytes = record->payload;

	return (struct payload){ bytes, bytes + record->payload_bytes };
}

/* Reads all mappings. Return: the id of the mapping that contains the address. */
static uint64_t take_mappings(struct rp_rundown *rundown, const void *address)
{
	uint64_t at = (uint64_t)(uintptr_t)address, metadata = 0, wanted = 0;
	struct rp_rundown_record record;

	while (rp_rundown_next(rundown, &record)) {
		struct payload payload = payload_of(&record);
		uint64_t id = take_number(&payload), start, end;

		rp_rundown_reported(rundown);
		if (record.id == RP_RUNDOWN_METADATA)
			metadata = id;
		if (record.id != RP_RUNDOWN_MAPPING)
			continue;
		start = take_number(&payload);
		end = take_number(&payload);
		(void)take_number(&payload);
		free(take_text(&payload));
		cr_assert_eq(take_number(&payload), metadata, "its metadata comes before it");
		cr_assert_eq(payload.at, payload.end);
		if (at >= start && at < end)
			wanted = id;
	}
	return wanted;
}

static struct rp_rundown *begin(void)
{
	struct rp_rundown_record record;
	struct rp_rundown *rundown;
	struct payload payload;
	char *name;

	cr_assert_eq(rp_rundown_create(&rundown), 0);
	cr_assert(rp_rundown_next(rundown, &record));
	cr_assert_eq(record.id, RP_RUNDOWN_PROCESS);
	payload = payload_of(&record);
	cr_assert_eq(take_number(&payload), (uint64_t)getpid());
	name = take_text(&payload);
	cr_assert_str_eq(name, "unit-host_rundown");
	free(name);
	rp_rundown_reported(rundown);
	return rundown;
}

static void read_symbols(struct rp_rundown *rundown, const uint64_t *at, size_t count,
			 struct rp_rundown_result *ret_result)
{
	struct rp_address addresses[8];

	cr_assert_leq(count, 8);
	for (size_t i = 0; i < count; i++)
		addresses[i] = (struct rp_address){ at[i], rp_clock_monotonic_ns() };
	cr_assert_eq(rp_rundown_start(rundown, addresses, count, 0), 0);
	while (rp_rundown_is_busy(rundown))
		poll(NULL, 0, 1);
	rp_rundown_result(rundown, ret_result);
}

__attribute__((noinline, used)) int a_function_to_find(int value);

int a_function_to_find(int value)
{
	return value + 1;
}

Test(host_rundown, names_functions_of_the_program)
{
	const uint64_t at = (uint64_t)(uintptr_t)a_function_to_find;
	struct rp_rundown *rundown = begin();
	uint64_t mapping = take_mappings(rundown, (const void *)(uintptr_t)at);
	struct rp_rundown_result result;
	struct rp_rundown_record record;
	struct payload payload;
	char *name;

	read_symbols(rundown, &at, 1, &result);
	if (!MODULE)
		cr_skip_test("built without elfutils");
	cr_assert(rp_rundown_next(rundown, &record), "%s", result.note);
	cr_assert_eq(record.id, RP_RUNDOWN_SYMBOL);
	payload = payload_of(&record);
	cr_assert_eq(take_number(&payload), 1);
	cr_assert_eq(take_number(&payload), mapping);
	cr_assert_eq(take_number(&payload), at);
	cr_assert_gt(take_number(&payload), at);
	name = take_text(&payload);
	cr_assert_str_eq(name, "a_function_to_find");
	free(name);
	cr_assert_eq(payload.at, payload.end);
	rp_rundown_reported(rundown);
	cr_assert_not(rp_rundown_next(rundown, &record));
	cr_assert_eq(result.symbols, 1);
	cr_assert_eq(result.left_out, 0);
	cr_assert_str_empty(result.note);
	rp_rundown_destroy(rundown);
}

Test(host_rundown, names_functions_of_the_vdso)
{
	struct rp_rundown *rundown = begin();
	void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *function = vdso ? dlsym(vdso, "__vdso_clock_gettime") : NULL;
	const uint64_t at = (uint64_t)(uintptr_t)function;
	struct rp_rundown_result result;

	if (!MODULE || !function)
		cr_skip_test("no module, or no vDSO");
	cr_assert_neq(take_mappings(rundown, function), 0);
	read_symbols(rundown, &at, 1, &result);
	cr_assert_eq(result.symbols, 1, "%s", result.note);
	rp_rundown_destroy(rundown);
}

Test(host_rundown, counts_addresses_that_have_no_name)
{
	const uint64_t at[] = { 1, (uint64_t)(uintptr_t)a_function_to_find, UINT64_MAX };
	struct rp_rundown *rundown = begin();
	struct rp_rundown_result result;

	(void)take_mappings(rundown, NULL);
	read_symbols(rundown, at, 3, &result);
	cr_assert_eq(result.addresses, 3);
	cr_assert_eq(result.left_out, MODULE ? 2 : 3);
	rp_rundown_destroy(rundown);
}

Test(host_rundown, reports_what_was_loaded_since)
{
	struct rp_rundown *rundown = begin();
	struct rp_rundown_record record;
	void *library;

	(void)take_mappings(rundown, NULL);
	rp_rundown_look(rundown);
	cr_assert_not(rp_rundown_next(rundown, &record));
	library = dlopen(SYMBOLS_CODE, RTLD_NOW);
	cr_assert_not_null(library);
	rp_rundown_look(rundown);
	cr_assert_neq(take_mappings(rundown, dlsym(library, "plain_function")), 0);
	dlclose(library);
	rp_rundown_destroy(rundown);
}

Test(host_rundown, can_be_destroyed_while_symbols_are_read)
{
	const struct rp_address address = { (uint64_t)(uintptr_t)a_function_to_find, 1 };
	struct rp_rundown *rundown = begin();

	(void)take_mappings(rundown, NULL);
	cr_assert_eq(rp_rundown_start(rundown, &address, 1, 0), 0);
	rp_rundown_destroy(rundown);
	/* The rundown's thread releases the mappings when it is done. */
	while (rp_mappings_at(0))
		poll(NULL, 0, 1);
}
