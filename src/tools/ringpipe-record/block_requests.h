/* SPDX-License-Identifier: MIT */
/* The requests to block devices that tracepoints report as issued and not yet as complete. */
#ifndef RP_RECORD_BLOCK_REQUESTS_H
#define RP_RECORD_BLOCK_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../bpf/waits.h"

struct rp_issued_request {
	uint64_t began_ns;
	pid_t process, thread;		/* that issued it */
	uint32_t device;		/* as the kernel stores it: major << 20 | minor */
	uint32_t operation;		/* as in struct rp_block_request */
	uint64_t sector;
};

struct rp_block_requests {
	struct rp_issued_request *issued;
	size_t count, capacity;
};

/* Add a request. One of the same device and sector whose end was lost is replaced. 0; -ENOMEM. */
int rp_block_requests_add(struct rp_block_requests *requests,
			  const struct rp_issued_request *request);

/* Take the request of this device and sector. Return: whether there is one. */
bool rp_block_requests_take(struct rp_block_requests *requests, uint32_t device, uint64_t sector,
			    struct rp_issued_request *ret_request);
void rp_block_requests_fini(struct rp_block_requests *requests);

/* Fill in what is known when the request is issued, and the name of the device from sysfs. */
void rp_block_request_describe(const struct rp_issued_request *issued,
			       struct rp_block_request *ret_request);

/*
 * Return: the operation (REQ_OP_ of the kernel) of the field `rwbs`, such as "WS" or "FF", which
 * has flags before and after it.
 */
uint32_t rp_block_operation(const char *rwbs, size_t space);

/* Return: the BLK_STS_ of the kernel that becomes this -errno; 0: no error. */
int32_t rp_block_status(int32_t error);

#endif
