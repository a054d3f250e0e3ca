/* SPDX-License-Identifier: MIT */
/*
 * Structs of the API, which begin with their size: "Structs that grow" in <ringpipe/types.h>.
 */
#ifndef RP_BASE_SIZED_H
#define RP_BASE_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Copy a caller's options. Members that an older caller's struct lacks become zero.
 * @to: `known` bytes, the size of the library's own struct; its first member is set to this size.
 * @floor: the size of the struct's first version.
 * Return: 0; -EINVAL: NULL, a size below the floor, or nonzero bytes after those that the library
 * knows, with which a newer caller requests a feature that this library lacks.
 */
int rp_sized_read(void *to, size_t known, size_t floor, const void *from);

/*
 * Return why rp_sized_read() refuses a struct that is not NULL, as a clause for a report. Return
 * NULL if it does not refuse it.
 */
const char *rp_sized_refusal(const void *from, size_t known, size_t floor);

/* Return: whether a caller's struct for results, or NULL, has at least its first version. */
bool rp_sized_fits(const void *result, size_t floor);

/*
 * Copy the library's `known` bytes into a caller's struct for results, up to the size that the
 * caller has set. That size is unchanged. Members that the library does not know become zero.
 */
void rp_sized_write(void *result, const void *from, size_t known);

#endif
