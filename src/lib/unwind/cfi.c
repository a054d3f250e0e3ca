/* SPDX-License-Identifier: MIT */
#include "unwind/cfi.h"

#include <string.h>

#include "unwind/eh_cursor.h"

#define REMEMBERED_MAX 4u

/*
 * The longest entry accepted, so that a signal handler ends in bounded time. The longest entry in
 * gcc itself has 20 KB.
 */
#define LENGTH_MAX (256u << 10)

/* A row of the table in .eh_frame_hdr; both members are relative to that section. */
struct index_row {
	int32_t start;
	int32_t description;
};

#define INDEX_ROWS 16u

/* Find the last row that begins at or before `offset`, among the `count` rows at `table`. */
static bool find_index_row(uint64_t table, uint64_t count, int64_t offset,
			   struct index_row *ret_row)
{
	struct index_row rows[INDEX_ROWS];
	uint64_t low = 0;

	while (count > INDEX_ROWS) {
		uint64_t half = count / 2;

		if (!rp_memory_peek(table + (low + half) * sizeof(rows[0]), rows, sizeof(rows[0])))
			return false;
		if (rows[0].start <= offset) {
			low += half;
			count -= half;
		} else {
			count = half;
		}
	}
	if (count == 0 || !rp_memory_peek(table + low * sizeof(rows[0]), rows,
					  count * sizeof(rows[0])))
		return false;
	while (count > 0 && rows[count - 1].start > offset)
		count--;
	if (count == 0)
		return false;
	*ret_row = rows[count - 1];
	return true;
}

/* Find the frame description entry (FDE) that covers `address` if any does. */
static bool find_description(const struct rp_object_text *object, uint64_t address,
			     uint64_t *ret_description)
{
	struct index_row row;
	struct rp_eh_cursor cursor;
	uint64_t count;
	uint8_t frame, counted, table;

	rp_eh_cursor_init(&cursor, object->header, object->header_end);
	if (rp_eh_cursor_byte(&cursor) != 1)
		return false;
	frame = rp_eh_cursor_byte(&cursor);
	counted = rp_eh_cursor_byte(&cursor);
	table = rp_eh_cursor_byte(&cursor);
	/* Every linker writes a table of sdata4 pairs, relative to the header. */
	if (counted == RP_POINTER_OMIT || table != (RP_POINTER_DATAREL | 0x0b))
		return false;
	if (frame != RP_POINTER_OMIT)
		(void)rp_eh_cursor_pointer(&cursor, frame, object->header);
	count = rp_eh_cursor_pointer(&cursor, counted, object->header);
	if (cursor.failed || count > (object->header_end - cursor.at) / sizeof(row) ||
	    !find_index_row(cursor.at, count, (int64_t)(address - object->header), &row))
		return false;
	*ret_description = object->header + (uint64_t)(int64_t)row.description;
	return true;
}

/* The part of a CIE that applies to all its FDEs. */
struct common {
	uint64_t code_align;
	int64_t data_align;
	uint64_t program, program_end;
	uint8_t return_register;
	uint8_t encoding;		/* encoding of addresses */
	bool has_augmentation;
	bool is_signal;
};

/* The 64-bit form of the length does not occur in .eh_frame of a loadable object. */
static bool begin_entry(struct rp_eh_cursor *cursor, uint64_t at)
{
	uint32_t length;

	rp_eh_cursor_init(cursor, at, at + 4);
	length = (uint32_t)rp_eh_cursor_fixed(cursor, 4);
	if (cursor->failed || length == 0 || length > LENGTH_MAX)
		return false;
	rp_eh_cursor_init(cursor, at + 4, at + 4 + length);
	return true;
}

static void read_augmentation(struct rp_eh_cursor *cursor, const char *letters,
			      struct common *common)
{
	uint64_t bytes = rp_eh_cursor_uleb(cursor);
	struct rp_eh_cursor inner = *cursor;

	rp_eh_cursor_skip(cursor, bytes);
	inner.end = cursor->at;
	common->has_augmentation = true;
	for (const char *letter = letters + 1; *letter; letter++) {
		uint8_t encoding;

		switch (*letter) {
		case 'R':
			common->encoding = rp_eh_cursor_byte(&inner);
			break;
		case 'P':
			encoding = rp_eh_cursor_byte(&inner);
			(void)rp_eh_cursor_pointer(&inner, encoding & 0x0f, 0);
			break;
		case 'L':
			(void)rp_eh_cursor_byte(&inner);
			break;
		case 'S':
			common->is_signal = true;
			break;
		default:
			break;
		}
	}
	cursor->failed |= inner.failed;
}

static bool read_common(uint64_t at, struct common *ret_common)
{
	struct rp_eh_cursor cursor;
	char letters[8];
	unsigned int count = 0;
	uint8_t version;

	memset(ret_common, 0, sizeof(*ret_common));
	if (!begin_entry(&cursor, at) || rp_eh_cursor_fixed(&cursor, 4) != 0)
		return false;
	version = rp_eh_cursor_byte(&cursor);
	if (version != 1 && version != 3)
		return false;
	do {
		letters[count] = (char)rp_eh_cursor_byte(&cursor);
	} while (letters[count] && ++count < sizeof(letters));
	if (count == sizeof(letters) || (count && letters[0] != 'z'))
		return false;
	ret_common->code_align = rp_eh_cursor_uleb(&cursor);
	ret_common->data_align = rp_eh_cursor_sleb(&cursor);
	ret_common->return_register = version == 1 ? rp_eh_cursor_byte(&cursor) :
				      (uint8_t)rp_eh_cursor_uleb(&cursor);
	if (count)
		read_augmentation(&cursor, letters, ret_common);
	ret_common->program = cursor.at;
	ret_common->program_end = cursor.end;
	return !cursor.failed && ret_common->return_register == RP_REG_RIP;
}

/* The state of running the CIE's and the FDE's program, up to the row of `address`. */
struct cfi_run {
	const struct common *common;
	uint64_t header;
	uint64_t address;
	uint64_t location;
	struct rp_cfi_row *row;
	struct rp_cfi_row initial;
	struct rp_cfi_row remembered[REMEMBERED_MAX];
	unsigned int remembered_count;
};

static void set_rule(struct cfi_run *run, uint64_t reg, uint8_t kind, int64_t value)
{
	if (reg >= RP_REG_COUNT)
		return;
	run->row->rules[reg].kind = kind;
	run->row->rules[reg].value = (int32_t)value;
}

/* Skip an expression. Return: the position of the expression, which starts with its length. */
static int32_t skip_expression(struct cfi_run *run, struct rp_eh_cursor *cursor)
{
	uint64_t place = cursor->at;

	rp_eh_cursor_skip(cursor, rp_eh_cursor_uleb(cursor));
	return (int32_t)(place - run->header);
}

/* Invalid tables may overflow the product, so multiply unsigned. */
static int64_t times(uint64_t factor, int64_t align)
{
	return (int64_t)(factor * (uint64_t)align);
}

static void restore(struct cfi_run *run, uint64_t reg)
{
	if (reg < RP_REG_COUNT)
		run->row->rules[reg] = run->initial.rules[reg];
}

static void define_frame(struct cfi_run *run, uint64_t reg, int64_t offset)
{
	run->row->frame_register = (uint8_t)(reg < RP_REG_COUNT ? reg : RP_REG_COUNT);
	run->row->frame_offset = (int32_t)offset;
	run->row->frame_is_expression = false;
}

/* The operations DW_CFA_… from 0x0c on that define the frame's address, and the rare operations. */
static void run_frame_operation(struct cfi_run *run, struct rp_eh_cursor *cursor,
				uint8_t operation)
{
	int64_t align = run->common->data_align;
	uint64_t reg;

	switch (operation) {
	case 0x0c:	/* def_cfa */
		reg = rp_eh_cursor_uleb(cursor);
		define_frame(run, reg, (int64_t)rp_eh_cursor_uleb(cursor));
		break;
	case 0x0d:	/* def_cfa_register */
		define_frame(run, rp_eh_cursor_uleb(cursor), run->row->frame_offset);
		break;
	case 0x0e:	/* def_cfa_offset */
		define_frame(run, run->row->frame_register, (int64_t)rp_eh_cursor_uleb(cursor));
		break;
	case 0x0f:	/* def_cfa_expression */
		run->row->frame_offset = skip_expression(run, cursor);
		run->row->frame_is_expression = true;
		break;
	case 0x12:	/* def_cfa_sf */
		reg = rp_eh_cursor_uleb(cursor);
		define_frame(run, reg, times((uint64_t)rp_eh_cursor_sleb(cursor), align));
		break;
	case 0x13:	/* def_cfa_offset_sf */
		define_frame(run, run->row->frame_register,
			     times((uint64_t)rp_eh_cursor_sleb(cursor), align));
		break;
	case 0x2e:	/* GNU_args_size */
		(void)rp_eh_cursor_uleb(cursor);
		break;
	default:
		cursor->failed = true;
	}
}

static void run_state_operation(struct cfi_run *run, struct rp_eh_cursor *cursor, bool remember)
{
	if (remember && run->remembered_count < REMEMBERED_MAX)
		run->remembered[run->remembered_count++] = *run->row;
	else if (!remember && run->remembered_count > 0)
		*run->row = run->remembered[--run->remembered_count];
	else
		cursor->failed = true;
}

/* The operations DW_CFA_… that define where a register is saved. */
static void run_register_operation(struct cfi_run *run, struct rp_eh_cursor *cursor,
				   uint8_t operation)
{
	int64_t align = run->common->data_align;
	uint64_t reg = rp_eh_cursor_uleb(cursor);

	switch (operation) {
	case 0x05:	/* offset_extended */
		set_rule(run, reg, RP_CFI_AT, times(rp_eh_cursor_uleb(cursor), align));
		break;
	case 0x06:	/* restore_extended */
		restore(run, reg);
		break;
	case 0x07:	/* undefined */
		set_rule(run, reg, RP_CFI_UNDEFINED, 0);
		break;
	case 0x08:	/* same_value */
		set_rule(run, reg, RP_CFI_SAME, 0);
		break;
	case 0x09:	/* register */
		set_rule(run, reg, RP_CFI_REGISTER, (int64_t)rp_eh_cursor_uleb(cursor));
		break;
	case 0x10:	/* expression */
		set_rule(run, reg, RP_CFI_AT_EXPRESSION, skip_expression(run, cursor));
		break;
	case 0x11:	/* offset_extended_sf */
		set_rule(run, reg, RP_CFI_AT, times((uint64_t)rp_eh_cursor_sleb(cursor), align));
		break;
	case 0x14:	/* val_offset */
		set_rule(run, reg, RP_CFI_IS, times(rp_eh_cursor_uleb(cursor), align));
		break;
	case 0x15:	/* val_offset_sf */
		set_rule(run, reg, RP_CFI_IS, times((uint64_t)rp_eh_cursor_sleb(cursor), align));
		break;
	case 0x16:	/* val_expression */
		set_rule(run, reg, RP_CFI_IS_EXPRESSION, skip_expression(run, cursor));
		break;
	default:
		cursor->failed = true;
	}
}

static void run_extended_operation(struct cfi_run *run, struct rp_eh_cursor *cursor,
				   uint8_t operation)
{
	uint64_t unit = run->common->code_align;

	switch (operation) {
	case 0x00:	/* nop */
		break;
	case 0x01:	/* set_loc */
		run->location = rp_eh_cursor_pointer(cursor, run->common->encoding, run->header);
		break;
	case 0x02:	/* advance_loc1 */
		run->location += rp_eh_cursor_byte(cursor) * unit;
		break;
	case 0x03:	/* advance_loc2 */
		run->location += rp_eh_cursor_fixed(cursor, 2) * unit;
		break;
	case 0x04:	/* advance_loc4 */
		run->location += rp_eh_cursor_fixed(cursor, 4) * unit;
		break;
	case 0x0a:	/* remember_state */
	case 0x0b:	/* restore_state */
		run_state_operation(run, cursor, operation == 0x0a);
		break;
	case 0x0c: case 0x0d: case 0x0e: case 0x0f: case 0x12: case 0x13: case 0x2e:
		run_frame_operation(run, cursor, operation);
		break;
	default:
		run_register_operation(run, cursor, operation);
	}
}

static bool run_program(struct cfi_run *run, uint64_t at, uint64_t end)
{
	struct rp_eh_cursor cursor;

	rp_eh_cursor_init(&cursor, at, end);
	while (!cursor.failed && cursor.at < cursor.end && run->location <= run->address) {
		uint8_t operation = rp_eh_cursor_byte(&cursor), low = operation & 0x3f;

		switch (operation >> 6) {
		case 1:		/* advance_loc */
			run->location += low * run->common->code_align;
			break;
		case 2:		/* offset */
			set_rule(run, low, RP_CFI_AT,
				 times(rp_eh_cursor_uleb(&cursor), run->common->data_align));
			break;
		case 3:		/* restore */
			restore(run, low);
			break;
		default:
			run_extended_operation(run, &cursor, low);
		}
	}
	return !cursor.failed;
}

bool rp_cfi_find(const struct rp_object_text *object, uint64_t address, struct rp_cfi_row *ret_row)
{
	struct common common;
	struct rp_eh_cursor cursor;
	struct cfi_run run = { .common = &common, .header = object->header, .address = address,
			   .row = ret_row };
	uint64_t description, place, start, bytes;

	if (!find_description(object, address, &description) ||
	    !begin_entry(&cursor, description))
		return false;
	place = cursor.at;
	if (!read_common(place - (uint32_t)rp_eh_cursor_fixed(&cursor, 4), &common))
		return false;
	start = rp_eh_cursor_pointer(&cursor, common.encoding, object->header);
	bytes = rp_eh_cursor_pointer(&cursor, common.encoding & 0x0f, 0);
	if (common.has_augmentation)
		rp_eh_cursor_skip(&cursor, rp_eh_cursor_uleb(&cursor));
	if (cursor.failed || address < start || address - start >= bytes)
		return false;
	memset(ret_row, 0, sizeof(*ret_row));
	/* The CIE's program contains no locations, so all of it applies. */
	if (!run_program(&run, common.program, common.program_end))
		return false;
	run.initial = *ret_row;
	run.location = start;
	ret_row->is_signal = common.is_signal;
	ret_row->start = start;
	ret_row->end = start + bytes;
	return run_program(&run, cursor.at, cursor.end);
}
