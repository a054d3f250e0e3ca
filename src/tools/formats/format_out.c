/* SPDX-License-Identifier: MIT */
#include "tools/formats/format_out.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "tools/trace/output.h"

#define DIGITS_MAX 20u		/* of a 64-bit number */
#define HEX_PART 4096u		/* bytes that rp_out_hex() writes after one check */

int rp_out_init(struct rp_format_out *out, struct rp_output *output)
{
	*out = (struct rp_format_out){ .output = output };
	if (!output)
		return 0;
	out->buffer = malloc(RP_FORMAT_OUT_BYTES);
	if (!out->buffer)
		return -ENOMEM;
	out->capacity = RP_FORMAT_OUT_BYTES;
	return 0;
}

void rp_out_fini(struct rp_format_out *out)
{
	free(out->buffer);
	*out = (struct rp_format_out){ 0 };
}

int rp_out_flush(struct rp_format_out *out)
{
	if (out->output && !out->error && out->used) {
		out->error = rp_output_write(out->output, out->buffer, out->used);
		out->written += out->used;
		out->used = 0;
	}
	return out->error;
}

char *rp_out_reserve_slow(struct rp_format_out *out, size_t bytes)
{
	char *grown;

	if (out->error)
		return NULL;
	if (out->output)
		return rp_out_flush(out) ? NULL : out->buffer;
	grown = rp_array_reserve(out->buffer, out->used, &out->capacity, bytes, 1);
	if (!grown) {
		out->error = -ENOMEM;
		return NULL;
	}
	out->buffer = grown;
	return out->buffer + out->used;
}

void rp_out_bytes_slow(struct rp_format_out *out, const void *bytes, size_t size)
{
	const char *from = bytes;

	while (size) {
		const size_t part = size < RP_FORMAT_OUT_BYTES ? size : RP_FORMAT_OUT_BYTES;
		char *to = rp_out_reserve(out, part);

		if (!to)
			return;
		memcpy(to, from, part);
		out->used += part;
		from += part;
		size -= part;
	}
}

/* Return: the first digit; the last one is at end[-1]. */
static char *put_digits(char *end, uint64_t number)
{
	static const char pairs[] =
		"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
		"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
		"8081828384858687888990919293949596979899";

	while (number >= 100) {
		end -= 2;
		memcpy(end, pairs + 2 * (number % 100), 2);
		number /= 100;
	}
	if (number >= 10) {
		end -= 2;
		memcpy(end, pairs + 2 * number, 2);
	} else {
		*--end = (char)('0' + number);
	}
	return end;
}

/* Return: how many decimal digits the number has. */
static size_t count_digits(uint64_t number)
{
	static const uint64_t powers[DIGITS_MAX] = {
		0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000,
		10000000000, 100000000000, 1000000000000, 10000000000000, 100000000000000,
		1000000000000000, 10000000000000000, 100000000000000000, 1000000000000000000,
		10000000000000000000u,
	};
	/* The number of bits gives the number of digits, or one too many. */
	const unsigned int bits = 64 - (unsigned int)__builtin_clzll(number | 1);
	const unsigned int most = bits * 1233 >> 12;

	return most + (number >= powers[most]);
}

void rp_out_u64(struct rp_format_out *out, uint64_t number)
{
	const size_t digits = count_digits(number);
	char *to = rp_out_reserve(out, digits);

	if (!to)
		return;
	put_digits(to + digits, number);
	out->used += digits;
}

void rp_out_i64(struct rp_format_out *out, int64_t number)
{
	if (number < 0)
		rp_out_char(out, '-');
	rp_out_u64(out, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void rp_out_us(struct rp_format_out *out, int64_t ns)
{
	const uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	const unsigned int rest = (unsigned int)(size % 1000);
	const size_t digits = count_digits(size / 1000);
	char *to;

	if (ns < 0)
		rp_out_char(out, '-');
	to = rp_out_reserve(out, digits + 4);
	if (!to)
		return;
	put_digits(to + digits, size / 1000);
	to[digits] = '.';
	to[digits + 1] = (char)('0' + rest / 100);
	to[digits + 2] = (char)('0' + rest / 10 % 10);
	to[digits + 3] = (char)('0' + rest % 10);
	out->used += digits + 4;
}

void rp_out_ms(struct rp_format_out *out, int64_t ns)
{
	const uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	unsigned int rest = (unsigned int)(size % 1000000);
	char digits[6];

	if (ns < 0)
		rp_out_char(out, '-');
	rp_out_u64(out, size / 1000000);
	rp_out_char(out, '.');
	for (size_t i = sizeof(digits); i > 0; i--, rest /= 10)
		digits[i - 1] = (char)('0' + rest % 10);
	rp_out_bytes(out, digits, sizeof(digits));
}

void rp_out_hex(struct rp_format_out *out, const void *bytes, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *at = bytes;

	while (size) {
		const size_t part = size < HEX_PART ? size : HEX_PART;
		char *to = rp_out_reserve(out, 2 * part);

		if (!to)
			return;
		for (size_t i = 0; i < part; i++, at++) {
			to[2 * i] = digits[*at >> 4];
			to[2 * i + 1] = digits[*at & 15];
		}
		out->used += 2 * part;
		size -= part;
	}
}

void rp_out_guid(struct rp_format_out *out, const void *guid)
{
	const uint8_t *bytes = guid;

	rp_out_hex(out, bytes, 4);
	for (size_t at = 4; at < 10; at += 2) {
		rp_out_char(out, '-');
		rp_out_hex(out, bytes + at, 2);
	}
	rp_out_char(out, '-');
	rp_out_hex(out, bytes + 10, 6);
}
