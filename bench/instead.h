/* SPDX-License-Identifier: MIT */
/*
 * Declares a function of a program's own that libraries, libc included, call by the name of one of
 * libc's. In the source it has another name: a program that counts its allocations is not where
 * everybody else's malloc comes from.
 */
#ifndef BENCH_INSTEAD_H
#define BENCH_INSTEAD_H

#define BENCH_INSTEAD_OF(name) __asm__(#name)

#endif
