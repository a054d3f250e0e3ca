/* SPDX-License-Identifier: MIT */
#ifndef RP_COUNTER_REQUESTS_H
#define RP_COUNTER_REQUESTS_H

/*
 * Get the number that a session passes as `key` among its arguments. Return: the number, or
 * `otherwise` if the key is missing or its value is not a finite number. Context: the counters'
 * thread, whose C locale reads "0.5" and not "0,5".
 */
double rp_request_number(const char *filter_data, const char *key, double otherwise);

#endif
