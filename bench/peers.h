/* SPDX-License-Identifier: MIT */
/* A logger of C++, with functions of C. */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void spdlog_open(const char *path);
void spdlog_write(uint64_t a, uint64_t b, uint64_t c, uint64_t d);
/* Waits until everything is in the file. */
void spdlog_settle(void);
void spdlog_close(void);

#ifdef __cplusplus
}
#endif

#endif
