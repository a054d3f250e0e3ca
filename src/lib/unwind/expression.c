/* SPDX-License-Identifier: MIT */
/*
 * DWARF expressions: they compute a frame's address where a register and an offset do not suffice.
 */
#include "unwind/cfi.h"
#include "unwind/eh_cursor.h"

#define VALUES_MAX 8u

#define DEREF 0x06u
#define BREG_FIRST 0x70u

struct evaluation {
	const struct rp_registers *registers;
	bool (*read)(const void *data, uint64_t address, uint64_t *ret_word);
	const void *data;
	uint64_t values[VALUES_MAX];
	unsigned int count;
	bool failed;
};

static void push_value(struct evaluation *run, uint64_t value)
{
	if (run->count < VALUES_MAX)
		run->values[run->count++] = value;
	else
		run->failed = true;
}

static uint64_t pop_value(struct evaluation *run)
{
	if (run->count > 0)
		return run->values[--run->count];
	run->failed = true;
	return 0;
}

/*
 * Only the operations that linkers and compilers use: in PLT stubs, realigned stacks and
 * hand-written code.
 */
static void run_arithmetic(struct evaluation *run, uint8_t operation)
{
	uint64_t top = pop_value(run), below = pop_value(run);

	switch (operation) {
	case 0x1a: push_value(run, below & top); break;
	case 0x1c: push_value(run, below - top); break;
	case 0x1e: push_value(run, below * top); break;
	case 0x21: push_value(run, below | top); break;
	case 0x22: push_value(run, below + top); break;
	case 0x24: push_value(run, top < 64 ? below << top : 0); break;
	case 0x25: push_value(run, top < 64 ? below >> top : 0); break;
	case 0x29: push_value(run, below == top); break;
	case 0x2a: push_value(run, (int64_t)below >= (int64_t)top); break;
	case 0x2b: push_value(run, (int64_t)below > (int64_t)top); break;
	case 0x2c: push_value(run, (int64_t)below <= (int64_t)top); break;
	case 0x2d: push_value(run, (int64_t)below < (int64_t)top); break;
	case 0x2e: push_value(run, below != top); break;
	default: run->failed = true;
	}
}

static void push_register(struct evaluation *run, uint8_t reg, int64_t offset)
{
	if (reg < RP_REG_COUNT && (run->registers->known & 1u << reg))
		push_value(run, run->registers->value[reg] + (uint64_t)offset);
	else
		run->failed = true;
}

static void run_value_operation(struct evaluation *run, struct rp_eh_cursor *cursor,
				uint8_t operation)
{
	uint64_t value;

	switch (operation) {
	case DEREF:
		if (run->read(run->data, pop_value(run), &value))
			push_value(run, value);
		else
			run->failed = true;
		break;
	case 0x08: push_value(run, rp_eh_cursor_byte(cursor)); break;
	case 0x09: push_value(run, (uint64_t)(int64_t)(int8_t)rp_eh_cursor_byte(cursor)); break;
	case 0x0a: push_value(run, rp_eh_cursor_fixed(cursor, 2)); break;
	case 0x0b:
		push_value(run, (uint64_t)(int64_t)(int16_t)rp_eh_cursor_fixed(cursor, 2));
		break;
	case 0x0c: push_value(run, rp_eh_cursor_fixed(cursor, 4)); break;
	case 0x0d:
		push_value(run, (uint64_t)(int64_t)(int32_t)rp_eh_cursor_fixed(cursor, 4));
		break;
	case 0x10: push_value(run, rp_eh_cursor_uleb(cursor)); break;
	case 0x11: push_value(run, (uint64_t)rp_eh_cursor_sleb(cursor)); break;
	case 0x12:	/* dup */
		value = pop_value(run);
		push_value(run, value);
		push_value(run, value);
		break;
	case 0x23:	/* plus_uconst */
		push_value(run, pop_value(run) + rp_eh_cursor_uleb(cursor));
		break;
	case 0x96: break;	/* nop */
	default:
		run_arithmetic(run, operation);
	}
}

/* Start to read the operations of an expression. Return: whether the expression can be read. */
static bool open_expression(struct rp_eh_cursor *cursor, const struct rp_object_text *object,
			    int32_t place)
{
	uint64_t at = object->header + (uint64_t)(int64_t)place, bytes;

	rp_eh_cursor_init(cursor, at, at + 512);
	bytes = rp_eh_cursor_uleb(cursor);
	if (cursor->failed || bytes > cursor->end - cursor->at)
		return false;
	cursor->end = cursor->at + bytes;
	return true;
}

bool rp_cfi_is_sum(const struct rp_object_text *object, int32_t place, bool is_read,
		   uint8_t *ret_register, int32_t *ret_offset)
{
	struct rp_eh_cursor cursor;
	uint8_t operation;
	int64_t offset;

	if (!open_expression(&cursor, object, place))
		return false;
	operation = rp_eh_cursor_byte(&cursor);
	offset = rp_eh_cursor_sleb(&cursor);
	if (operation < BREG_FIRST || operation - BREG_FIRST >= RP_REG_COUNT ||
	    offset != (int32_t)offset || (is_read && rp_eh_cursor_byte(&cursor) != DEREF) ||
	    cursor.failed || cursor.at != cursor.end)
		return false;
	*ret_register = operation - BREG_FIRST;
	*ret_offset = (int32_t)offset;
	return true;
}

bool rp_cfi_evaluate(const struct rp_object_text *object, int32_t place,
		     const struct rp_registers *registers, const uint64_t *push,
		     bool (*read)(const void *data, uint64_t address, uint64_t *ret_word),
		     const void *data, uint64_t *ret_value)
{
	struct evaluation run = { .registers = registers, .read = read, .data = data };
	struct rp_eh_cursor cursor;

	if (!open_expression(&cursor, object, place))
		return false;
	if (push)
		push_value(&run, *push);
	while (!cursor.failed && !run.failed && cursor.at < cursor.end) {
		uint8_t operation = rp_eh_cursor_byte(&cursor);

		if (operation >= 0x30 && operation <= 0x4f)		/* lit */
			push_value(&run, operation - 0x30u);
		else if (operation >= BREG_FIRST && operation <= 0x8f)
			push_register(&run, operation - BREG_FIRST, rp_eh_cursor_sleb(&cursor));
		else
			run_value_operation(&run, &cursor, operation);
	}
	if (cursor.failed || run.failed || run.count == 0)
		return false;
	*ret_value = run.values[run.count - 1];
	return true;
}
