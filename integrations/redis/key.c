/* SPDX-License-Identifier: MIT */
/*
 * Keys in events. Names of keys often contain names of users, so by default an event contains a
 * hash, by which events of the same key can be found. SipHash-1-3 with a random key makes it
 * impossible to find a name by trying names.
 */
#include "tracing.h"

#include <string.h>
#include <sys/random.h>

static uint64_t hash_key[2];
static bool shows_names;

static uint64_t rotate(uint64_t value, unsigned int bits)
{
	return value << bits | value >> (64 - bits);
}

static void mix(uint64_t v[4], unsigned int rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

static uint64_t hash(const void *data, size_t bytes)
{
	uint64_t v[4] = { hash_key[0] ^ 0x736f6d6570736575u, hash_key[1] ^ 0x646f72616e646f6du,
			  hash_key[0] ^ 0x6c7967656e657261u, hash_key[1] ^ 0x7465646279746573u };
	const unsigned char *from = data;
	uint64_t word, last = (uint64_t)bytes << 56;

	for (; bytes >= sizeof(word); bytes -= sizeof(word), from += sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		v[3] ^= word;
		mix(v, 1);
		v[0] ^= word;
	}
	for (size_t i = 0; i < bytes; i++)
		last |= (uint64_t)from[i] << 8 * i;
	v[3] ^= last;
	mix(v, 1);
	v[0] ^= last;
	v[2] ^= 0xff;
	mix(v, 3);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

int key_init(bool shows)
{
	shows_names = shows;
	if (hash_key[0] != 0 || getrandom(hash_key, sizeof(hash_key), 0) == sizeof(hash_key))
		return REDIS_OK;
	return REDIS_ERROR;
}

struct key key_of(const char *name, size_t bytes)
{
	struct key key = { .name = "", .hash = hash(name, bytes) };

	if (shows_names) {
		key.name = name;
		key.bytes = bytes;
	}
	return key;
}
