/* SPDX-License-Identifier: MIT */
#ifndef RP_COUNTER_NUMBER_H
#define RP_COUNTER_NUMBER_H

#define RP_NUMBER_MAX 64

/*
 * Prints a number as .NET does: with as few digits as bring it back, as a power of ten below 1e-4
 * and from 1e17 on. On the counters' thread, whose locale is C's.
 */
void rp_number_print(double number, char text[RP_NUMBER_MAX]);

#endif
