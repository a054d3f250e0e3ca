/* SPDX-License-Identifier: MIT */
#ifndef BENCH_KEYS_H
#define BENCH_KEYS_H

void write_plain(unsigned int count);

#endif
