/* SPDX-License-Identifier: MIT */
#include "base/utf.h"
#include "nettrace/convert.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nettrace/format.h"

enum op_code {
	OP_COPY,
	OP_BOOL,
	OP_CHAR,
	OP_GUID,
	OP_TIME,
	OP_STRING,
	OP_STRING16,
	OP_ARRAY,	/* the next `inner` ops convert one element */
};

struct rp_plan_op {
	uint8_t code;
	uint32_t in_bytes;	/* of a fixed-size value or an array's element */
	uint32_t out_bytes;
	uint32_t inner;
	uint32_t tail_bytes;	/* minimum output of the ops after it */
};

struct input {
	const uint8_t *at, *end;
	bool cut;		/* the payload was cut to the size limit */
};

static const struct {
	uint8_t code, in_bytes, out_bytes;
} fixed_types[] = {
	[RP_TYPE_BOOL] = { OP_BOOL, 1, 4 },
	[RP_TYPE_CHAR] = { OP_CHAR, 1, 2 },
	[RP_TYPE_I8] = { OP_COPY, 1, 1 },
	[RP_TYPE_U8] = { OP_COPY, 1, 1 },
	[RP_TYPE_I16] = { OP_COPY, 2, 2 },
	[RP_TYPE_U16] = { OP_COPY, 2, 2 },
	[RP_TYPE_I32] = { OP_COPY, 4, 4 },
	[RP_TYPE_U32] = { OP_COPY, 4, 4 },
	[RP_TYPE_I64] = { OP_COPY, 8, 8 },
	[RP_TYPE_U64] = { OP_COPY, 8, 8 },
	[RP_TYPE_F32] = { OP_COPY, 4, 4 },
	[RP_TYPE_F64] = { OP_COPY, 8, 8 },
	[RP_TYPE_POINTER] = { OP_COPY, 8, 8 },
	[RP_TYPE_GUID] = { OP_GUID, 16, 16 },
	[RP_TYPE_TIME] = { OP_TIME, 8, 8 },
};

void rp_guid_swap(const uint8_t *in, uint8_t *out)
{
	static const uint8_t from[8] = { 3, 2, 1, 0, 5, 4, 7, 6 };
	uint8_t swapped[8];

	for (int i = 0; i < 8; i++)
		swapped[i] = in[from[i]];
	memmove(out + 8, in + 8, 8);
	memcpy(out, swapped, 8);
}

/* `merge_from`: copies may be joined with a copy at or after this op. */
static int add_op(struct rp_plan *plan, struct rp_plan_op op, uint32_t merge_from)
{
	struct rp_plan_op *last = plan->op_count ? &plan->ops[plan->op_count - 1] : NULL;

	if (op.code == OP_COPY && plan->op_count > merge_from && last->code == OP_COPY) {
		last->in_bytes += op.in_bytes;
		last->out_bytes += op.out_bytes;
		/* The sizes of very wide structs must not overflow. */
		return last->out_bytes > RP_WIRE_PAYLOAD_MAX ? -EMSGSIZE : 0;
	}
	if (plan->op_count == plan->op_capacity) {
		uint32_t capacity = plan->op_capacity ? plan->op_capacity * 2 : 8;
		struct rp_plan_op *ops = realloc(plan->ops, capacity * sizeof(*ops));

		if (!ops)
			return -ENOMEM;
		plan->ops = ops;
		plan->op_capacity = capacity;
	}
	if (plan->op_count > RP_WIRE_PAYLOAD_MAX)
		return -EMSGSIZE;
	plan->ops[plan->op_count++] = op;
	return 0;
}

static int add_fixed(struct rp_plan *plan, uint8_t type, const struct rp_field *members,
		     size_t member_count, uint32_t merge_from, int depth)
{
	int ret = 0;

	if (depth > RP_STRUCT_DEPTH_MAX)
		return -EINVAL;
	if (type == RP_TYPE_STRUCT) {
		if (member_count && !members)
			return -EINVAL;
		for (size_t i = 0; i < member_count && !ret; i++)
			ret = add_fixed(plan, members[i].type, members[i].members,
					members[i].member_count, merge_from, depth + 1);
		return ret;
	}
	if (type >= sizeof(fixed_types) / sizeof(*fixed_types) || !fixed_types[type].in_bytes)
		return -EINVAL;
	return add_op(plan, (struct rp_plan_op) {
		.code = fixed_types[type].code,
		.in_bytes = fixed_types[type].in_bytes,
		.out_bytes = fixed_types[type].out_bytes,
	}, merge_from);
}

static int add_array(struct rp_plan *plan, const struct rp_field *field)
{
	uint32_t array = plan->op_count;
	int ret;

	ret = add_op(plan, (struct rp_plan_op) { .code = OP_ARRAY }, array);
	if (!ret)
		ret = add_fixed(plan, field->element, field->members, field->member_count,
				array + 1, 0);
	if (ret < 0)
		return ret;
	for (uint32_t i = array + 1; i < plan->op_count; i++) {
		plan->ops[array].in_bytes += plan->ops[i].in_bytes;
		plan->ops[array].out_bytes += plan->ops[i].out_bytes;
	}
	plan->ops[array].inner = plan->op_count - array - 1;
	return plan->ops[array].inner ? 0 : -EINVAL;
}

static int add_field(struct rp_plan *plan, const struct rp_field *field, uint32_t *merge_from,
		     int depth);

/* Add a struct that is not an array's element. Such a struct may contain strings. */
static int add_struct(struct rp_plan *plan, const struct rp_field *field, uint32_t *merge_from,
		      int depth)
{
	int ret = 0;

	if (depth > RP_STRUCT_DEPTH_MAX || (field->member_count && !field->members))
		return -EINVAL;
	for (size_t i = 0; i < field->member_count && !ret; i++)
		ret = field->members[i].type == RP_TYPE_ARRAY ? -EINVAL :
		      add_field(plan, &field->members[i], merge_from, depth + 1);
	return ret;
}

static int add_field(struct rp_plan *plan, const struct rp_field *field, uint32_t *merge_from,
		     int depth)
{
	int ret;

	switch (field->type) {
	case RP_TYPE_STRUCT:
		return add_struct(plan, field, merge_from, depth);
	case RP_TYPE_STRING:
		ret = add_op(plan, (struct rp_plan_op) { .code = OP_STRING }, 0);
		break;
	case RP_TYPE_STRING16:
		ret = add_op(plan, (struct rp_plan_op) { .code = OP_STRING16 }, 0);
		break;
	case RP_TYPE_ARRAY:
		ret = add_array(plan, field);
		break;
	default:
		return add_fixed(plan, field->type, NULL, 0, *merge_from, 0);
	}
	/* Do not merge the fields that follow into the array's element. */
	*merge_from = plan->op_count;
	return ret;
}

/* Compute each op's tail_bytes and the plan's min_bytes. */
static int measure(struct rp_plan *plan)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < plan->op_count; i += 1 + plan->ops[i].inner)
		total += plan->ops[i].code >= OP_STRING ? 2 : plan->ops[i].out_bytes;
	if (total > RP_WIRE_PAYLOAD_MAX)
		return -EMSGSIZE;
	plan->min_bytes = total;
	for (uint32_t i = 0; i < plan->op_count; i += 1 + plan->ops[i].inner) {
		total -= plan->ops[i].code >= OP_STRING ? 2 : plan->ops[i].out_bytes;
		plan->ops[i].tail_bytes = total;
	}
	return 0;
}

int rp_plan_make(struct rp_plan *plan, const struct rp_field *fields, size_t field_count)
{
	uint32_t merge_from = 0;
	int ret = 0;

	memset(plan, 0, sizeof(*plan));
	for (size_t i = 0; i < field_count && !ret; i++)
		ret = add_field(plan, &fields[i], &merge_from, 0);
	if (!ret)
		ret = measure(plan);
	if (ret < 0) {
		rp_plan_fini(plan);
		return ret;
	}
	plan->kind = RP_PLAN_CONVERT;
	if (!field_count)
		plan->kind = RP_PLAN_VERBATIM;
	else if (!plan->op_count || (plan->op_count == 1 && plan->ops[0].code == OP_COPY))
		plan->kind = RP_PLAN_COPY;
	return 0;
}

void rp_plan_fini(struct rp_plan *plan)
{
	free(plan->ops);
	memset(plan, 0, sizeof(*plan));
}

size_t rp_plan_memory(const struct rp_plan *plan)
{
	return plan->op_capacity * sizeof(*plan->ops);
}

size_t rp_plan_bound(const struct rp_plan *plan, size_t payload_bytes)
{
	size_t bound;

	/* A bool grows most: one byte becomes four. */
	if (plan->kind == RP_PLAN_COPY)
		return plan->min_bytes;
	if (payload_bytes > RP_WIRE_PAYLOAD_MAX)
		return RP_WIRE_PAYLOAD_MAX;
	bound = payload_bytes;
	if (plan->kind == RP_PLAN_CONVERT)
		bound = 4 * payload_bytes + plan->min_bytes;
	return bound < RP_WIRE_PAYLOAD_MAX ? bound : RP_WIRE_PAYLOAD_MAX;
}

static void copy_or_zero(struct input *in, size_t size, uint8_t *out)
{
	size_t there = in->end - in->at;

	if (there >= size)
		there = size;
	else
		memset(out + there, 0, size - there);
	memcpy(out, in->at, there);
	in->at += there;
}

static void put_time(const uint8_t *in, uint8_t *out)
{
	int64_t ns, ticks;

	memcpy(&ns, in, sizeof(ns));
	ticks = ns / 100 - (ns % 100 < 0) + RP_WIRE_TIME_1970;
	memcpy(out, &ticks, sizeof(ticks));
}

static uint8_t *run_fixed(const struct rp_plan_op *ops, uint32_t count, struct input *in,
			  uint8_t *out)
{
	uint8_t value[16];
	uint32_t wide;

	for (const struct rp_plan_op *op = ops; op < ops + count; op++) {
		if (op->code == OP_COPY) {
			copy_or_zero(in, op->in_bytes, out);
			out += op->out_bytes;
			continue;
		}
		copy_or_zero(in, op->in_bytes, value);
		if (op->code == OP_GUID) {
			rp_guid_swap(value, out);
		} else if (op->code == OP_TIME) {
			put_time(value, out);
		} else {
			wide = op->code == OP_BOOL ? value[0] != 0 : value[0];
			memcpy(out, &wide, op->out_bytes);
		}
		out += op->out_bytes;
	}
	return out;
}

static uint8_t *run_string(struct input *in, uint8_t *out, size_t space)
{
	size_t left = in->end - in->at;
	const uint8_t *nul = left ? memchr(in->at, 0, left) : NULL;
	size_t bytes = nul ? (size_t)(nul - in->at) : left;
	size_t units;

	units = rp_utf16_from_utf8(in->at, bytes, out, space / 2 - 1);
	/* A character of two units may leave one unit unused. */
	if (units + 2 >= space / 2)
		in->cut |= rp_utf16_count(in->at, bytes) > units;
	out += 2 * units;
	in->at += nul ? bytes + 1 : bytes;
	out[0] = out[1] = 0;
	return out + 2;
}

static uint8_t *run_string16(struct input *in, uint8_t *out, size_t space)
{
	size_t left = (in->end - in->at) / 2, units = 0, taken;

	while (units < left && (in->at[2 * units] || in->at[2 * units + 1]))
		units++;
	taken = units;
	if (taken > space / 2 - 1) {
		taken = space / 2 - 1;
		/* Not half a surrogate pair. */
		if (taken && (in->at[2 * taken - 1] & 0xfc) == 0xd8)
			taken--;
		in->cut = true;
	}
	memcpy(out, in->at, 2 * taken);
	out += 2 * taken;
	in->at = units < left ? in->at + 2 * units + 2 : in->end;
	out[0] = out[1] = 0;
	return out + 2;
}

static uint8_t *run_array(const struct rp_plan_op *op, struct input *in, uint8_t *out, size_t space)
{
	uint8_t head[2];
	uint16_t count, reported;
	size_t there, fit;
	const uint8_t *start;

	copy_or_zero(in, 2, head);
	memcpy(&reported, head, 2);
	count = reported;
	there = (in->end - in->at) / op->in_bytes;
	fit = (space - 2) / op->out_bytes;
	if (count > there)
		count = there;
	if (count > fit) {
		count = fit;
		in->cut = true;
	}
	memcpy(out, &count, 2);
	out += 2;
	start = in->at;
	if (op->inner == 1 && op[1].code == OP_COPY) {
		memcpy(out, in->at, (size_t)count * op->in_bytes);
		out += (size_t)count * op->out_bytes;
	} else {
		for (uint16_t i = 0; i < count; i++)
			out = run_fixed(op + 1, op->inner, in, out);
	}
	/* The next field begins after all elements of the count, even if the output has fewer. */
	in->at = reported > there ? in->end : start + (size_t)reported * op->in_bytes;
	return out;
}

static size_t convert(const struct rp_plan *plan, struct input *in, uint8_t *out)
{
	const struct rp_plan_op *end = plan->ops + plan->op_count;
	const struct rp_plan_op *next;
	uint8_t *start = out;

	for (const struct rp_plan_op *op = plan->ops; op < end; op = next) {
		size_t space = RP_WIRE_PAYLOAD_MAX - op->tail_bytes - (out - start);

		next = op + 1 + op->inner;
		if (op->code == OP_STRING)
			out = run_string(in, out, space);
		else if (op->code == OP_STRING16)
			out = run_string16(in, out, space);
		else if (op->code == OP_ARRAY)
			out = run_array(op, in, out, space);
		else
			out = run_fixed(op, 1, in, out);
	}
	return out - start;
}

size_t rp_plan_run(const struct rp_plan *plan, const void *payload, size_t payload_bytes,
		   uint8_t *out, bool *ret_cut)
{
	static const uint8_t nothing[1];
	struct input in = { .at = payload ? payload : nothing };

	*ret_cut = false;
	if (!payload)
		payload_bytes = 0;
	in.end = in.at + payload_bytes;
	if (plan->kind == RP_PLAN_CONVERT) {
		payload_bytes = convert(plan, &in, out);
		*ret_cut = in.cut;
		return payload_bytes;
	}
	if (plan->kind == RP_PLAN_COPY && payload_bytes < plan->min_bytes) {
		copy_or_zero(&in, plan->min_bytes, out);
		return plan->min_bytes;
	}
	payload_bytes = rp_plan_bound(plan, in.end - in.at);
	*ret_cut = plan->kind == RP_PLAN_VERBATIM && (size_t)(in.end - in.at) > payload_bytes;
	memcpy(out, in.at, payload_bytes);
	return payload_bytes;
}
