/* SPDX-License-Identifier: MIT */
#ifndef RP_COUNTER_REQUESTS_H
#define RP_COUNTER_REQUESTS_H

/*
 * The number that a session gives as `key` among its arguments, or `otherwise` when the key is
 * missing or it is none. On the counters' thread, whose locale is C's: "0.5", not "0,5".
 */
double rp_request_number(const char *filter_data, const char *key, double otherwise);

#endif
