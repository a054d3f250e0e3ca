/* SPDX-License-Identifier: MIT */
/*
 * Compute a provider's GUID from its name, as .NET's EventSource does: SHA-1 (FIPS 180-4) over a
 * fixed namespace and the upper-case name in UTF-16BE. Version 5 is marked in the byte order that
 * .NET reads.
 */
#include <string.h>

#include <ringpipe/provider.h>

struct sha1 {
	uint32_t state[5];
	uint8_t block[64];
	uint64_t length;
};

static uint32_t rotate(uint32_t value, int by)
{
	return value << by | value >> (32 - by);
}

static void sha1_block(struct sha1 *sha)
{
	uint32_t w[80], v[5];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)sha->block[4 * i] << 24 | (uint32_t)sha->block[4 * i + 1] << 16 |
		       (uint32_t)sha->block[4 * i + 2] << 8 | sha->block[4 * i + 3];
	for (int i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	memcpy(v, sha->state, sizeof(v));
	for (int i = 0; i < 80; i++) {
		uint32_t f, k, next;

		if (i < 20)
			f = (v[1] & v[2]) | (~v[1] & v[3]), k = 0x5a827999;
		else if (i < 40)
			f = v[1] ^ v[2] ^ v[3], k = 0x6ed9eba1;
		else if (i < 60)
			f = (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]), k = 0x8f1bbcdc;
		else
			f = v[1] ^ v[2] ^ v[3], k = 0xca62c1d6;
		next = rotate(v[0], 5) + f + v[4] + k + w[i];
		v[4] = v[3], v[3] = v[2], v[2] = rotate(v[1], 30), v[1] = v[0], v[0] = next;
	}
	for (int i = 0; i < 5; i++)
		sha->state[i] += v[i];
}

static void sha1_add(struct sha1 *sha, uint8_t byte)
{
	sha->block[sha->length++ % 64] = byte;
	if (sha->length % 64 == 0)
		sha1_block(sha);
}

static void sha1_end(struct sha1 *sha, uint8_t ret_hash[20])
{
	uint64_t bits = sha->length * 8;

	sha1_add(sha, 0x80);
	while (sha->length % 64 != 56)
		sha1_add(sha, 0);
	for (int i = 56; i >= 0; i -= 8)
		sha1_add(sha, (uint8_t)(bits >> i));
	for (int i = 0; i < 20; i++)
		ret_hash[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}

/* Return the next code point. The name was checked to be UTF-8; other bytes pass unchanged. */
static uint32_t next_point(const char **at)
{
	const uint8_t *c = (const uint8_t *)*at;
	int more = *c >= 0xf0 ? 3 : *c >= 0xe0 ? 2 : *c >= 0xc0 ? 1 : 0;
	uint32_t point = more == 3 ? *c & 7u : more == 2 ? *c & 15u : more == 1 ? *c & 31u : *c;

	for (int i = 1; i <= more && c[i]; i++)
		point = point << 6 | (c[i] & 63u);
	*at += 1 + more;
	return point;
}

/*
 * Upper case of the usual scripts of names: ASCII, Latin-1, Greek and Cyrillic; independent of the
 * locale.
 */
static uint32_t upper(uint32_t point)
{
	if ((point >= 'a' && point <= 'z') || (point >= 0xe0 && point <= 0xfe && point != 0xf7) ||
	    (point >= 0x3b1 && point <= 0x3cb && point != 0x3c2) ||
	    (point >= 0x430 && point <= 0x44f))
		return point - 32;
	if (point >= 0x450 && point <= 0x45f)
		return point - 80;
	switch (point) {
	case 0xff: return 0x178;
	case 0x3ac: return 0x386;
	case 0x3ad: case 0x3ae: case 0x3af: return point - 37;
	case 0x3c2: return 0x3a3;
	case 0x3cc: return 0x38c;
	case 0x3cd: case 0x3ce: return point - 63;
	}
	return point;
}

static void sha1_add_unit(struct sha1 *sha, uint32_t unit)
{
	sha1_add(sha, (uint8_t)(unit >> 8));
	sha1_add(sha, (uint8_t)unit);
}

RP_PUBLIC void rp_guid_from_name(const char *name, struct rp_guid *ret_guid)
{
	static const uint8_t space[16] = {
		0x48, 0x2c, 0x2d, 0xb2, 0xc3, 0x90, 0x47, 0xc8,
		0x87, 0xf8, 0x1a, 0x15, 0xbf, 0xc1, 0x30, 0xfb,
	};
	static const uint8_t text_order[16] = {
		3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15,
	};
	struct sha1 sha = {
		.state = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 },
	};
	uint8_t hash[20];

	for (int i = 0; i < 16; i++)
		sha1_add(&sha, space[i]);
	while (*name) {
		uint32_t point = next_point(&name);

		point = upper(point);
		if (point >= 0x10000) {
			sha1_add_unit(&sha, 0xd800 + ((point - 0x10000) >> 10));
			point = 0xdc00 + ((point - 0x10000) & 0x3ff);
		}
		sha1_add_unit(&sha, point);
	}
	sha1_end(&sha, hash);
	hash[7] = (uint8_t)((hash[7] & 0x0f) | 0x50);
	for (int i = 0; i < 16; i++)
		ret_guid->bytes[i] = hash[text_order[i]];
}
