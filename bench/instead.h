/* SPDX-License-Identifier: MIT */
/*
 * Declares a function of this program that replaces one of libc's for all libraries, libc included.
 * Its name in the source differs, so that the compiler does not treat it as the standard function.
 */
#ifndef BENCH_INSTEAD_H
#define BENCH_INSTEAD_H

#define BENCH_INSTEAD_OF(name) __asm__(#name)

#endif
