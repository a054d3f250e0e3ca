/* SPDX-License-Identifier: MIT */
#ifndef RP_COUNTER_NUMBER_H
#define RP_COUNTER_NUMBER_H

#define RP_NUMBER_MAX 64

/*
 * Print a number as .NET does: with as few digits as identify it, and with an exponent below 1e-4
 * and from 1e17 on. Context: the counters' thread, which uses the C locale.
 */
void rp_number_print(double number, char text[RP_NUMBER_MAX]);

#endif
