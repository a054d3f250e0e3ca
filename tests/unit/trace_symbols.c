/* SPDX-License-Identifier: MIT */
/* The names of addresses of src/tools/analysis/, compared with a search through all ranges. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tools/trace/trace_symbols.h"
#include "tools/trace/system_event.h"

struct writer {
	struct rp_symbols symbols;
	uint8_t payload[70000];
	size_t used;
	uint64_t next_id;
};

static void put_number(struct writer *writer, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		writer->payload[writer->used++] = (uint8_t)(value | 0x80);
	writer->payload[writer->used++] = (uint8_t)value;
}

static void put_text(struct writer *writer, const char *text)
{
	const uint16_t bytes = (uint16_t)strlen(text);

	memcpy(writer->payload + writer->used, &bytes, 2);
	memcpy(writer->payload + writer->used + 2, text, bytes);
	writer->used += 2u + bytes;
}

static void take_from(struct writer *writer, const char *provider, uint32_t id, uint64_t process,
		      int64_t time_ns)
{
	struct rp_reader_type type = { .provider = (char *)provider, .name = "", .id = id };
	struct rp_reader_event event = RP_READER_EVENT_INIT;

	event.type = &type;
	event.process = event.thread = process;
	event.time_ns = time_ns;
	event.payload = writer->payload;
	event.payload_bytes = writer->used;
	cr_assert_eq(rp_symbols_take(&writer->symbols, &event), 0);
	writer->used = 0;
}

static void take(struct writer *writer, uint32_t id, uint64_t process, int64_t time_ns)
{
	take_from(writer, RP_SYSTEM_PROVIDER, id, process, time_ns);
}

/* Put a method of .NET, whose code begins at `start`. */
static void put_method(struct writer *writer, uint64_t start, uint32_t bytes,
		       const char *const *texts)
{
	const uint64_t numbers[3] = { 1, 2, start };
	const uint32_t more[3] = { bytes, 3, 4 };

	memcpy(writer->payload, numbers, sizeof(numbers));
	memcpy(writer->payload + sizeof(numbers), more, sizeof(more));
	writer->used = sizeof(numbers) + sizeof(more);
	for (int i = 0; i < 3; i++) {
		for (const char *at = texts[i];; at++) {
			writer->payload[writer->used++] = (uint8_t)*at;
			writer->payload[writer->used++] = 0;
			if (!*at)
				break;
		}
	}
}

static void name_process(struct writer *writer, uint64_t process, const char *name,
			 int64_t time_ns)
{
	put_number(writer, process);
	put_text(writer, name);
	put_text(writer, "");
	take(writer, RP_SYSTEM_EXISTING_PROCESS, process, time_ns);
}

/* Return: the id of the mapping. `end` is exclusive. */
static uint64_t map(struct writer *writer, uint64_t process, uint64_t start, uint64_t end,
		    const char *file, int64_t time_ns)
{
	put_number(writer, ++writer->next_id);
	put_number(writer, start);
	put_number(writer, end);
	put_number(writer, 0x1000);
	put_text(writer, file);
	put_number(writer, 0);
	take(writer, RP_SYSTEM_MAPPING, process, time_ns);
	return writer->next_id;
}

/* `last` is inclusive. */
static void function(struct writer *writer, uint64_t process, uint64_t mapping, uint64_t start,
		     uint64_t last, const char *name, int64_t time_ns)
{
	put_number(writer, ++writer->next_id);
	put_number(writer, mapping);
	put_number(writer, start);
	put_number(writer, last);
	put_text(writer, name);
	take(writer, RP_SYSTEM_FUNCTION, process, time_ns);
}

static struct rp_symbol find(struct writer *writer, uint64_t process, uint64_t address,
			     int64_t time_ns)
{
	struct rp_symbol symbol;

	rp_symbols_resolve(&writer->symbols, process, time_ns, address, &symbol);
	return symbol;
}

#define FUNCTIONS 2000u

Test(trace_symbols, each_address_has_the_function_whose_range_contains_it)
{
	static struct writer writer;
	static struct { uint64_t process, start, last; char name[16]; } rows[FUNCTIONS];
	uint64_t state = 7, at[3] = { 0 };

	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		const uint64_t process = 1 + i % 3;

		/* Some ranges follow each other directly, and some leave a gap. */
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		rows[i].process = process;
		rows[i].start = at[process - 1] + (state >> 33) % 3;
		rows[i].last = rows[i].start + (state >> 40) % 20;
		at[process - 1] = rows[i].last + 1;
		snprintf(rows[i].name, sizeof(rows[i].name), "f%u", i);
	}
	/* The order of the events differs from that of the addresses. */
	for (uint32_t i = FUNCTIONS; i > 0; i--)
		function(&writer, rows[i - 1].process, 0, rows[i - 1].start, rows[i - 1].last,
			 rows[i - 1].name, 0);
	cr_assert_eq(rp_symbols_sort(&writer.symbols), 0);
	for (uint64_t address = 0; address < at[0] + 10; address++) {
		for (uint64_t process = 1; process <= 4; process++) {
			const struct rp_symbol symbol = find(&writer, process, address, 5);
			const char *expected = NULL;

			for (uint32_t i = 0; i < FUNCTIONS; i++) {
				if (rows[i].process == process && rows[i].start <= address &&
				    rows[i].last >= address)
					expected = rows[i].name;
			}
			cr_assert(!expected == !symbol.function);
			cr_assert(!expected || !strcmp(expected, symbol.function));
		}
	}
	rp_symbols_fini(&writer.symbols);
}

Test(trace_symbols, a_mapping_that_replaces_another_one_does_so_from_its_time_on)
{
	static struct writer writer;
	uint64_t id = map(&writer, 1, 0x1000, 0x3000, "/old", 100);

	function(&writer, 1, id, 0x1000, 0x1fff, "old", 500);
	id = map(&writer, 1, 0x1000, 0x2000, "/new", 200);
	function(&writer, 1, id, 0x1000, 0x10ff, "new", 500);
	cr_assert_eq(rp_symbols_sort(&writer.symbols), 0);
	cr_expect_str_eq(find(&writer, 1, 0x1080, 150).function, "old");
	cr_expect_str_eq(find(&writer, 1, 0x1080, 50).function, "old");
	cr_expect_str_eq(find(&writer, 1, 0x1080, 200).function, "new");
	cr_expect_str_eq(find(&writer, 1, 0x1080, 250).file, "/new");
	/* The old function's name is not that of an address in the new file. */
	cr_expect_null(find(&writer, 1, 0x1180, 250).function);
	cr_expect_eq(find(&writer, 1, 0x1180, 250).file_offset, 0x1180);
	cr_expect_str_eq(find(&writer, 1, 0x2000, 250).file, "/old");
	rp_symbols_fini(&writer.symbols);
}

Test(trace_symbols, a_mapping_reported_at_the_end_names_earlier_addresses)
{
	static struct writer writer;
	const uint64_t id = map(&writer, 1, 0x1000, 0x3000, "/lib", 1000);

	function(&writer, 1, id, 0x1000, 0x1fff, "f", 1000);
	cr_assert_eq(rp_symbols_sort(&writer.symbols), 0);
	cr_expect_str_eq(find(&writer, 1, 0x1000, 5).function, "f");
	cr_expect_str_eq(find(&writer, 1, 0x2fff, 5).file, "/lib");
	cr_expect_null(find(&writer, 1, 0x3000, 5).file);
	rp_symbols_fini(&writer.symbols);
}

Test(trace_symbols, an_id_used_again_belongs_to_another_process)
{
	static struct writer writer;
	uint64_t id;

	name_process(&writer, 1, "first", 0);
	id = map(&writer, 1, 0x1000, 0x2000, "/first", 10);
	take(&writer, RP_SYSTEM_PROCESS_EXIT, 1, 100);
	/* The recorder looks up names later. */
	function(&writer, 1, id, 0x1000, 0x1fff, "f", 500);
	name_process(&writer, 1, "second", 200);
	cr_assert_eq(rp_symbols_sort(&writer.symbols), 0);
	cr_expect_str_eq(find(&writer, 1, 0x1000, 100).function, "f");
	cr_expect_null(find(&writer, 1, 0x1000, 300).file);
	cr_expect_str_eq(rp_symbols_process(&writer.symbols, 1, 50), "first");
	cr_expect_str_eq(rp_symbols_process(&writer.symbols, 1, 100), "first");
	cr_expect_str_eq(rp_symbols_process(&writer.symbols, 1, 150), "second");
	cr_expect_null(rp_symbols_process(&writer.symbols, 2, 50));
	rp_symbols_fini(&writer.symbols);
}

Test(trace_symbols, a_process_that_ended_keeps_its_name)
{
	static struct writer writer;

	name_process(&writer, 1, "before exec", 0);
	name_process(&writer, 1, "after exec", 50);
	take(&writer, RP_SYSTEM_PROCESS_EXIT, 1, 100);
	cr_assert_eq(rp_symbols_sort(&writer.symbols), 0);
	cr_expect_str_eq(rp_symbols_process(&writer.symbols, 1, 10), "before exec");
	cr_expect_str_eq(rp_symbols_process(&writer.symbols, 1, 1000), "after exec");
	rp_symbols_fini(&writer.symbols);
}

/* The last samples of a process come after its end, with the functions that called exit(2). */
Test(trace_symbols, addresses_have_names_until_another_process_has_the_id)
{
	const uint64_t kernel = 0xffff800000000000;
	static struct writer writer;
	uint64_t id;

	name_process(&writer, 1, "first", 0);
	id = map(&writer, 1, 0x1000, 0x2000, "/first", 5);
	function(&writer, 1, id, 0x1000, 0x1fff, "main", 150);
	id = map(&writer, 1, kernel, UINT64_MAX, "vmlinux", 10);
	take(&writer, RP_SYSTEM_PROCESS_EXIT, 1, 100);
	function(&writer, 1, id, kernel + 0x1000, kernel + 0x1fff, "exit", 150);
	name_process(&writer, 1, "second", 200);
	map(&writer, 1, kernel, UINT64_MAX, "vmlinux", 210);
	cr_assert_eq(rp_symbols_sort(&writer.symbols), 0);
	for (int64_t time_ns = 50; time_ns <= 250; time_ns += 50)
		cr_expect_str_eq(find(&writer, 1, kernel + 0x1800, time_ns).function, "exit");
	cr_expect_str_eq(find(&writer, 1, kernel + 0x1800, 150).file, "vmlinux");
	cr_expect_str_eq(find(&writer, 1, 0x1000, 150).function, "main");
	cr_expect_str_eq(find(&writer, 1, 0x1000, 199).file, "/first");
	cr_expect_null(find(&writer, 1, 0x1000, 200).file);
	cr_expect_null(find(&writer, 1, 0x1000, 200).function);
	rp_symbols_fini(&writer.symbols);
}

Test(trace_symbols, a_file_has_the_build_id_of_its_metadata)
{
	static struct writer writer;

	put_number(&writer, 9);
	put_text(&writer, "{\"type\":\"ELF\",\"build_id\":\"00ff\"}");
	put_text(&writer, "");
	take(&writer, RP_SYSTEM_METADATA, 1, 0);
	put_number(&writer, 1);
	put_number(&writer, 0x1000);
	put_number(&writer, 0x2000);
	put_number(&writer, 0);
	put_text(&writer, "/lib");
	put_number(&writer, 9);
	take(&writer, RP_SYSTEM_MAPPING, 1, 0);
	map(&writer, 1, 0x2000, 0x3000, "/none", 0);
	cr_assert_eq(rp_symbols_sort(&writer.symbols), 0);
	cr_expect_str_eq(find(&writer, 1, 0x1000, 0).build_id, "00ff");
	cr_expect_null(find(&writer, 1, 0x2000, 0).build_id);
	rp_symbols_fini(&writer.symbols);
}

Test(trace_symbols, code_of_dotnet_has_the_name_and_arguments_of_its_method)
{
	static const char *const texts[][3] = {
		{ "Shop.Cart", "Add", "instance void  (int32,class System.String)" },
		{ "", "Main", "" }, { "Shop.Cart", "Unload", "void ()" },
	};
	static const char runtime[] = "Microsoft-Windows-DotNETRuntime";
	static const char rundown[] = "Microsoft-Windows-DotNETRuntimeRundown";
	static struct writer writer;

	put_method(&writer, 0x1000, 0x100, texts[0]);
	take_from(&writer, rundown, 144, 1, 0);
	put_method(&writer, 0x2000, 0x100, texts[1]);
	take_from(&writer, runtime, 143, 1, 0);
	/* The runtime's event 144 reports that a method was unloaded. */
	put_method(&writer, 0x3000, 0x100, texts[2]);
	take_from(&writer, runtime, 144, 1, 0);
	cr_assert_eq(rp_symbols_sort(&writer.symbols), 0);
	cr_expect_str_eq(find(&writer, 1, 0x1000, 0).function,
			 "Shop.Cart.Add(int32,class System.String)");
	cr_expect_str_eq(find(&writer, 1, 0x10ff, 0).function,
			 "Shop.Cart.Add(int32,class System.String)");
	cr_expect_null(find(&writer, 1, 0x1100, 0).function);
	cr_expect_null(find(&writer, 2, 0x1000, 0).function);
	cr_expect_str_eq(find(&writer, 1, 0x2000, 0).function, "Main");
	cr_expect_null(find(&writer, 1, 0x3000, 0).function);
	rp_symbols_fini(&writer.symbols);
}

Test(trace_symbols, damaged_methods_of_dotnet_are_ignored)
{
	static const char *const texts[3] = { "Shop", "Add", "void ()" };
	static const char rundown[] = "Microsoft-Windows-DotNETRuntimeRundown";
	static struct writer writer;
	size_t bytes;

	put_method(&writer, 0x1000, 0x100, texts);
	bytes = writer.used;
	for (size_t i = 0; i < bytes; i++) {
		put_method(&writer, 0x1000, 0x100, texts);
		writer.used = i;
		take_from(&writer, rundown, 144, 1, 0);
	}
	put_method(&writer, 0x1000, 0, texts);
	take_from(&writer, rundown, 144, 1, 0);
	put_method(&writer, UINT64_MAX, 2, texts);
	take_from(&writer, rundown, 144, 1, 0);
	cr_assert_eq(rp_symbols_sort(&writer.symbols), 0);
	cr_expect_null(find(&writer, 1, 0x1000, 0).function);
	cr_expect_null(find(&writer, 1, UINT64_MAX, 0).function);
	rp_symbols_fini(&writer.symbols);
}

Test(trace_symbols, damaged_events_are_ignored)
{
	static struct writer writer;

	for (uint32_t id = 0; id < 10; id++) {
		for (size_t bytes = 0; bytes < 40; bytes++) {
			memset(writer.payload, 0xff, bytes);
			writer.used = bytes;
			take(&writer, id, 1, 0);
			memset(writer.payload, 0, bytes);
			memcpy(writer.payload + bytes / 2, "\xff\xff", 2);
			writer.used = bytes;
			take(&writer, id, 1, 0);
		}
	}
	put_number(&writer, 1);
	put_text(&writer, "[[[[[[\"");
	put_text(&writer, "");
	take(&writer, RP_SYSTEM_METADATA, 1, 0);
	cr_assert_eq(rp_symbols_sort(&writer.symbols), 0);
	cr_expect_null(find(&writer, 1, 0x1000, 0).function);
	rp_symbols_fini(&writer.symbols);
}

/* All ranges contain the address that is looked up, which must not cost a look at each. */
Test(trace_symbols, a_million_nested_ranges_do_not_make_lookups_slow)
{
	static struct writer writer;

	for (uint64_t i = 0; i < 1000000; i++)
		function(&writer, 1, 0, i, UINT64_MAX - 1, "f", 0);
	cr_assert_eq(rp_symbols_sort(&writer.symbols), 0);
	for (uint64_t i = 0; i < 1000000; i++)
		cr_assert_not_null(find(&writer, 1, UINT64_MAX - 2, 0).function);
	rp_symbols_fini(&writer.symbols);
}
