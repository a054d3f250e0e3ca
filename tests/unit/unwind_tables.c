/* SPDX-License-Identifier: MIT */
/*
 * Tables of .eh_frame that are truncated, wrong or random: a lookup returns what the undamaged
 * table says, or no result.
 */
#include <criterion/criterion.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unwind/cfi.h"

#define PAGE 4096u
#define ADDRESSES 500u

TestSuite(unwind_tables, .timeout = 120);

/* The tables of libc, which use most of the format's features, at the end of accessible memory. */
struct copy {
	struct rp_object_text original, object;
	uint8_t *bytes;			/* from the header on */
	size_t size;
	uint64_t addresses[ADDRESSES];	/* of the copy's functions */
	struct rp_cfi_row rows[ADDRESSES];
	bool found[ADDRESSES];
};

static struct copy copy;

static uint64_t random_state = 88172645463325252ull;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static int find_tables(struct dl_phdr_info *info, size_t size, void *data)
{
	const ElfW(Phdr) *header = NULL;

	(void)size, (void)data;
	if (!strstr(info->dlpi_name, "libc.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X) {
			copy.original.start = start;
			copy.original.end = start + segment->p_memsz;
		} else if (segment->p_type == PT_GNU_EH_FRAME) {
			header = segment;
		}
	}
	if (!header)
		return 1;
	copy.original.header = info->dlpi_addr + header->p_vaddr;
	copy.original.header_end = copy.original.header + header->p_memsz;
	/* .eh_frame follows, in the same segment. */
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && segment->p_vaddr <= header->p_vaddr &&
		    header->p_vaddr - segment->p_vaddr < segment->p_memsz)
			copy.size = segment->p_vaddr + segment->p_memsz - header->p_vaddr;
	}
	return 1;
}

static uint8_t *map_fenced(size_t size)
{
	size_t whole = (size + PAGE - 1) & ~(size_t)(PAGE - 1);
	uint8_t *map = mmap(NULL, whole + PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(map, MAP_FAILED);
	cr_assert_eq(mprotect(map + whole, PAGE, PROT_NONE), 0);
	return map + whole - size;
}

static void make_copy(void)
{
	uint64_t shift;

	dl_iterate_phdr(find_tables, NULL);
	if (copy.size == 0)
		cr_skip_test("no libc with tables");
	copy.bytes = map_fenced(copy.size);
	memcpy(copy.bytes, (void *)(uintptr_t)copy.original.header, copy.size);
	/* Everything in them is relative to their own address. */
	shift = (uint64_t)(uintptr_t)copy.bytes - copy.original.header;
	copy.object.start = copy.original.start + shift;
	copy.object.end = copy.original.end + shift;
	copy.object.header = copy.original.header + shift;
	copy.object.header_end = copy.original.header_end + shift;
	for (unsigned int i = 0; i < ADDRESSES; i++) {
		uint64_t address = copy.original.start +
				   next_random() % (copy.original.end - copy.original.start);

		copy.found[i] = rp_cfi_find(&copy.original, address, &copy.rows[i]);
		copy.rows[i].start += shift;
		copy.addresses[i] = address + shift;
	}
}

static bool are_same(const struct rp_cfi_row *a, const struct rp_cfi_row *b)
{
	for (unsigned int reg = 0; reg < RP_REG_COUNT; reg++) {
		if (a->rules[reg].kind != b->rules[reg].kind ||
		    a->rules[reg].value != b->rules[reg].value)
			return false;
	}
	return a->frame_offset == b->frame_offset && a->frame_register == b->frame_register &&
	       a->frame_is_expression == b->frame_is_expression &&
	       a->is_signal == b->is_signal && a->start == b->start;
}

/* Return: how many are found; each must agree with the undamaged tables. */
static unsigned int count_true(void)
{
	struct rp_cfi_row row;
	unsigned int count = 0;

	for (unsigned int i = 0; i < ADDRESSES; i++) {
		if (!rp_cfi_find(&copy.object, copy.addresses[i], &row))
			continue;
		cr_assert(copy.found[i]);
		cr_assert(are_same(&row, &copy.rows[i]), "address %u", i);
		count++;
	}
	return count;
}

Test(unwind_tables, tables_say_the_same_wherever_they_lie)
{
	unsigned int expected = 0;

	make_copy();
	for (unsigned int i = 0; i < ADDRESSES; i++)
		expected += copy.found[i];
	cr_assert_gt(expected, ADDRESSES / 2);
	cr_assert_eq(count_true(), expected);
}

Test(unwind_tables, tables_cut_off_report_the_truth_or_nothing)
{
	uint8_t *end, *start;
	unsigned int before, count;

	make_copy();
	before = count = count_true();
	end = copy.bytes + copy.size;
	start = (uint8_t *)(((uintptr_t)copy.bytes + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
	for (uint8_t *cut = end - PAGE; cut > start; cut -= PAGE) {
		cr_assert_eq(mprotect(cut, PAGE, PROT_NONE), 0);
		count = count_true();
		cr_assert_leq(count, before);
	}
	cr_assert_lt(count, before);
}

Test(unwind_tables, index_cut_off_is_not_believed)
{
	make_copy();
	for (uint64_t cut = copy.object.header; cut < copy.object.header + 64; cut++) {
		copy.object.header_end = cut;
		cr_assert_eq(count_true(), 0u, "at %u",
			     (unsigned int)(cut - copy.object.header));
	}
}

static bool read_nothing(const void *data, uint64_t address, uint64_t *ret_word)
{
	(void)data, (void)address;
	*ret_word = next_random();
	return true;
}

static void evaluate_all(const struct rp_cfi_row *row)
{
	struct rp_registers registers = { .known = (1u << RP_REG_COUNT) - 1 };
	uint64_t value, push = 1;

	if (row->frame_is_expression)
		(void)rp_cfi_evaluate(&copy.object, row->frame_offset, &registers, NULL,
				      read_nothing, NULL, &value);
	for (unsigned int reg = 0; reg < RP_REG_COUNT; reg++) {
		cr_assert_leq(row->rules[reg].kind, RP_CFI_IS_EXPRESSION);
		if (row->rules[reg].kind >= RP_CFI_AT_EXPRESSION)
			(void)rp_cfi_evaluate(&copy.object, row->rules[reg].value, &registers,
					      &push, read_nothing, NULL, &value);
	}
}

/* Changes a few bytes of the description that is looked up, of its neighbours, or of the index. */
static void damage_and_look(void)
{
	uint64_t saved[8];
	uint8_t *places[8];
	struct rp_cfi_row row;

	for (unsigned int i = 0; i < 8; i++) {
		size_t space = next_random() % 4 == 0 ? 64 : copy.size - 8;

		places[i] = copy.bytes + next_random() % space;
		memcpy(&saved[i], places[i], 8);
		if (next_random() % 2)
			*places[i] = (uint8_t)next_random();
		else
			memset(places[i], next_random() % 2 ? 0xff : 0x80, 8);
	}
	for (unsigned int i = 0; i < 40; i++) {
		uint64_t address = copy.addresses[next_random() % ADDRESSES];

		if (rp_cfi_find(&copy.object, address, &row)) {
			cr_assert_leq(row.start, address);
			evaluate_all(&row);
		}
	}
	for (unsigned int i = 8; i-- > 0;)
		memcpy(places[i], &saved[i], 8);
}

Test(unwind_tables, damaged_tables_do_no_harm)
{
	unsigned int expected;

	make_copy();
	/* Limits the copy, so that damage is more likely to matter. */
	copy.size = copy.size > 16 * PAGE ? 16 * PAGE : copy.size;
	expected = count_true();
	for (unsigned int i = 0; i < 500; i++)
		damage_and_look();
	cr_assert_eq(count_true(), expected);
}

/* Tables made by hand: one CIE, one FDE, an index of one row. */
#define HEADER 0u
#define CIE 64u
#define FDE 128u
#define CODE 0x100000u		/* beyond all tables; of CODE_BYTES bytes */
#define CODE_BYTES 0x1000u

static struct rp_object_text made;

static void put32(uint8_t *table, size_t at, uint32_t value)
{
	memcpy(table + at, &value, 4);
}

/* The frame is 8 above the stack pointer; the return address is right below the frame. */
static const uint8_t cie[] = {
	0x14, 0, 0, 0,			/* length */
	0, 0, 0, 0,			/* a CIE */
	1, 'z', 'R', 0, 1, 0x78, 16,	/* data alignment -8, return address in 16 */
	1, 0x1b,			/* addresses: sdata4, relative to where they are */
	0x0c, 7, 8, 0x90, 1,		/* def_cfa, offset */
	0, 0,
};

static uint8_t *make_tables(const uint8_t *program, size_t bytes)
{
	size_t size = FDE + 17 + bytes;
	uint8_t *table = map_fenced(size < 4 * PAGE ? 4 * PAGE : size);
	uint64_t base = (uint64_t)(uintptr_t)table;

	table[0] = 1;
	table[1] = 0x1b;
	table[2] = 0x03;
	table[3] = 0x3b;
	put32(table, 4, CIE - 4);
	put32(table, 8, 1);
	put32(table, 12, CODE);
	put32(table, 16, FDE);
	memcpy(table + CIE, cie, sizeof(cie));
	put32(table, FDE, (uint32_t)(13 + bytes));
	put32(table, FDE + 4, FDE + 4 - CIE);
	put32(table, FDE + 8, CODE - (FDE + 8));
	put32(table, FDE + 12, CODE_BYTES);
	table[FDE + 16] = 0;		/* no augmentation */
	if (bytes)
		memcpy(table + FDE + 17, program, bytes);
	made.start = base + CODE;
	made.end = made.start + CODE_BYTES;
	made.header = base;
	made.header_end = base + 20;
	return table;
}

static bool look(uint64_t offset, struct rp_cfi_row *ret_row)
{
	return rp_cfi_find(&made, made.start + offset, ret_row);
}

/* Whether a lookup finds rules for such a program in the FDE. */
#define IS_FOUND(...) is_found((const uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }))

static bool is_found(const uint8_t *program, size_t bytes)
{
	struct rp_cfi_row row;

	(void)make_tables(program, bytes);
	return look(CODE_BYTES - 1, &row);
}

Test(unwind_tables, tables_made_by_hand_are_understood)
{
	/* push %rbp at 1; mov %rsp, %rbp at 4; then a state remembered and restored. */
	static const uint8_t program[] = { 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x0a,
					   0x44, 0x0c, 7, 8, 0xc6, 0x44, 0x0b };
	struct rp_cfi_row row;

	(void)make_tables(program, sizeof(program));
	cr_assert(look(0, &row));
	cr_expect_eq(row.frame_register, RP_REG_RSP);
	cr_expect_eq(row.frame_offset, 8);
	cr_expect_eq(row.rules[RP_REG_RIP].kind, RP_CFI_AT);
	cr_expect_eq(row.rules[RP_REG_RIP].value, -8);
	cr_expect_eq(row.rules[RP_REG_RBP].kind, RP_CFI_SAME);
	cr_assert(look(3, &row));
	cr_expect_eq(row.frame_offset, 16);
	cr_expect_eq(row.rules[RP_REG_RBP].value, -16);
	cr_assert(look(4, &row));
	cr_expect_eq(row.frame_register, RP_REG_RBP);
	cr_assert(look(8, &row));
	cr_expect_eq(row.frame_offset, 8);
	cr_expect_eq(row.rules[RP_REG_RBP].kind, RP_CFI_SAME);
	cr_assert(look(12, &row));
	cr_expect_eq(row.frame_register, RP_REG_RBP);
	cr_expect_eq(row.frame_offset, 16);
	cr_expect_not(look(CODE_BYTES, &row));
	cr_expect_not(look(-1ull, &row));
}

Test(unwind_tables, programs_that_make_no_sense_are_refused)
{
	cr_expect(IS_FOUND(0, 0));
	cr_expect_not(IS_FOUND(0x3f), "no such operation");
	cr_expect_not(IS_FOUND(0x0b), "a state that was not kept");
	cr_expect_not(IS_FOUND(0x0a, 0x0a, 0x0a, 0x0a, 0x0a), "states without end");
	cr_expect_not(IS_FOUND(0x0e), "an operand that is missing");
	cr_expect_not(IS_FOUND(0x0e, 0x80, 0x80, 0x80), "a number without an end");
	cr_expect_not(IS_FOUND(0x0f, 0x7f, 0x77, 8), "an expression longer than the entry");
	cr_expect_not(IS_FOUND(0x10, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		      "the same, around the address space");
	cr_expect(IS_FOUND(0x09, 3, 0xff, 0xff, 3), "a register that there is not: no rule");
	cr_expect(IS_FOUND(0x0c, 0xff, 0x7f, 8), "and the frame in one: none is known there");
}

/* Replaces four bytes, or one, of a valid table. */
static bool is_found_with(size_t at, uint32_t value, size_t bytes)
{
	struct rp_cfi_row row;
	uint8_t *table = make_tables((const uint8_t[]){ 0, 0 }, 2);

	memcpy(table + at, &value, bytes);
	return look(5, &row);
}

Test(unwind_tables, lengths_and_places_that_lie_are_not_followed)
{
	cr_assert(is_found_with(HEADER, 1, 1));
	cr_expect_not(is_found_with(HEADER, 2, 1), "another version");
	cr_expect_not(is_found_with(HEADER + 2, 0xff, 1), "no index");
	cr_expect_not(is_found_with(HEADER + 3, 0x1b, 1), "an index of another kind");
	cr_expect_not(is_found_with(HEADER + 8, 0, 4), "an index of nothing");
	cr_expect_not(is_found_with(HEADER + 8, 2, 4), "an index longer than its space");
	cr_expect_not(is_found_with(HEADER + 8, UINT32_MAX, 4), "much longer");
	cr_expect_not(is_found_with(HEADER + 16, 0x7ffffff0, 4), "a description nowhere");
	cr_expect_not(is_found_with(HEADER + 16, CIE, 4), "a description that is none");
	cr_expect_not(is_found_with(FDE, 0, 4), "an end");
	cr_expect_not(is_found_with(FDE, 3, 4), "shorter than itself");
	cr_expect_not(is_found_with(FDE, UINT32_MAX, 4), "the long form");
	cr_expect_not(is_found_with(FDE + 4, 0x7ffffff0, 4), "what all have in common nowhere");
	cr_expect_not(is_found_with(FDE + 4, 4, 4), "or in itself");
	cr_expect_not(is_found_with(FDE + 12, 5, 4), "a function that ends before");
	cr_expect_not(is_found_with(FDE + 16, 0x7f, 1), "more augmentation than entry");
	cr_expect_not(is_found_with(CIE, 9, 4), "cut in its names");
	cr_expect_not(is_found_with(CIE + 8, 4, 1), "another version of it");
	cr_expect_not(is_found_with(CIE + 9, 'e', 1), "an augmentation nobody knows");
	cr_expect_not(is_found_with(CIE + 14, 15, 1), "a return address elsewhere");
	cr_expect_not(is_found_with(CIE + 15, 0x7f, 1), "more augmentation than entry");
	cr_expect_not(is_found_with(CIE + 16, 0x4b, 1), "addresses relative to what is not told");
}

/* Only no-op instructions, but far too many for a signal handler to read. */
Test(unwind_tables, description_without_measure_is_refused)
{
	struct rp_cfi_row row;
	size_t bytes = 32u << 20;
	uint8_t *program = calloc(1, bytes);

	cr_assert_not_null(program);
	(void)make_tables(program, 60000);
	cr_expect(look(0, &row));
	(void)make_tables(program, bytes);
	cr_expect_not(look(0, &row));
	free(program);
}

static const struct rp_registers known = { .value = { [RP_REG_RSP] = 1000 },
					   .known = 1u << RP_REG_RSP };

static bool read_last(const void *data, uint64_t address, uint64_t *ret_word)
{
	(void)data;
	*ret_word = address + 1;
	return address < 2000;
}

#define VALUE_OF(...) value_of((const uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }))
#define NO_VALUE 0xbadu

static uint64_t value_of(const uint8_t *expression, size_t bytes)
{
	uint8_t *table = make_tables(expression, bytes);
	uint64_t value = NO_VALUE;
	bool has_value = rp_cfi_evaluate(&made, FDE + 17, &known, NULL, read_last, NULL, &value);

	(void)table;
	cr_assert_eq(has_value, value != NO_VALUE);
	return value;
}

Test(unwind_tables, expressions_report_their_value_or_none)
{
	cr_expect_eq(VALUE_OF(2, 0x77, 8), 1008u);
	cr_expect_eq(VALUE_OF(3, 0x77, 0, 0x06), 1001u);
	cr_expect_eq(VALUE_OF(5, 0x77, 8, 0x31, 0x22, 0x96), 1009u);
	cr_expect_eq(VALUE_OF(0), NO_VALUE, "nothing at all");
	cr_expect_eq(VALUE_OF(2, 0x76, 0), NO_VALUE, "a register nobody knows");
	cr_expect_eq(VALUE_OF(2, 0x8f, 0), NO_VALUE, "a register that there is not");
	cr_expect_eq(VALUE_OF(1, 0x22), NO_VALUE, "a sum of nothing");
	cr_expect_eq(VALUE_OF(1, 0x06), NO_VALUE, "a word from nowhere");
	cr_expect_eq(VALUE_OF(4, 0x0a, 0xff, 0xff, 0x06), NO_VALUE, "a word that is not there");
	cr_expect_eq(VALUE_OF(9, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30), NO_VALUE,
		     "more than there is space for");
	cr_expect_eq(VALUE_OF(3, 0x2f, 0xfd, 0xff), NO_VALUE, "a jump back");
	cr_expect_eq(VALUE_OF(1, 0x77), NO_VALUE, "an operand that is missing");
	cr_expect_eq(VALUE_OF(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x06),
		     NO_VALUE, "longer than all memory");
	cr_expect_eq(VALUE_OF(4, 0x31, 0x08, 200, 0x24), 0u, "a shift out of the word");
}
