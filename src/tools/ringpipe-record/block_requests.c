/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/block_requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"

#define MINOR_BITS 20u			/* of the kernel's dev_t */
#define REQUESTS_MAX 16384u		/* as in the map of the BPF programs */

static void remove_at(struct rp_block_requests *requests, size_t index)
{
	requests->issued[index] = requests->issued[--requests->count];
}

bool rp_block_requests_take(struct rp_block_requests *requests, uint32_t device, uint64_t sector,
			    struct rp_issued_request *ret_request)
{
	for (size_t i = 0; i < requests->count; i++) {
		if (requests->issued[i].device != device || requests->issued[i].sector != sector)
			continue;
		*ret_request = requests->issued[i];
		remove_at(requests, i);
		return true;
	}
	return false;
}

int rp_block_requests_add(struct rp_block_requests *requests,
			  const struct rp_issued_request *request)
{
	struct rp_issued_request *grown, replaced;

	(void)rp_block_requests_take(requests, request->device, request->sector, &replaced);
	if (requests->count == REQUESTS_MAX)
		remove_at(requests, 0);
	grown = rp_array_reserve(requests->issued, requests->count, &requests->capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	requests->issued = grown;
	grown[requests->count++] = *request;
	return 0;
}

void rp_block_requests_fini(struct rp_block_requests *requests)
{
	free(requests->issued);
}

void rp_block_request_describe(const struct rp_issued_request *issued,
			       struct rp_block_request *ret_request)
{
	char link[64], target[4096];
	const char *slash;
	ssize_t size;

	*ret_request = (struct rp_block_request){
		.sector = issued->sector, .operation = issued->operation,
		.major = issued->device >> MINOR_BITS,
		.minor = issued->device & ((1u << MINOR_BITS) - 1),
	};
	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", ret_request->major,
		 ret_request->minor);
	size = readlink(link, target, sizeof(target) - 1);
	if (size <= 0)
		return;
	target[size] = '\0';
	slash = strrchr(target, '/');
	if (slash)
		snprintf(ret_request->device, sizeof(ret_request->device), "%.*s",
			 (int)sizeof(ret_request->device) - 1, slash + 1);
}

/* Source: blk_fill_rwbs() of Linux. A flush before the request comes first, as "F". */
uint32_t rp_block_operation(const char *rwbs, size_t space)
{
	static const char letters[] = { 'R', 'W', 'F', 'D' };	/* by number */
	const char first = space > 0 ? rwbs[0] : '\0';
	const char second = space > 1 && first ? rwbs[1] : '\0';
	const char letter = first == 'F' && second && strchr("RWDFN", second) ? second : first;

	for (uint32_t i = 0; i < sizeof(letters); i++)
		if (letter == letters[i])
			return !(letter == 'D' && second == 'E') ? i : 5;	/* secure erase */
	return UINT32_MAX;
}

/* Source: the table blk_errors of Linux, whose index is the status. */
int32_t rp_block_status(int32_t error)
{
	static const int errors[] = {
		0, EOPNOTSUPP, ETIMEDOUT, ENOSPC, ENOLINK, EREMOTEIO, EBADE, ENODATA, EILSEQ,
		ENOMEM, EIO,
	};

	for (int32_t i = 0; i < (int32_t)(sizeof(errors) / sizeof(errors[0])); i++)
		if (error == -errors[i])
			return i;
	return 10;			/* BLK_STS_IOERR */
}
