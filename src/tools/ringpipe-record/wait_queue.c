/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/wait_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Moves the records to the start of the array when half of it was taken. */
static void compact(struct rp_wait_queue *queue)
{
	if (queue->first == 0 || queue->first < queue->count - queue->first)
		return;
	memmove(queue->records, queue->records + queue->first,
		(queue->count - queue->first) * sizeof(*queue->records));
	queue->count -= queue->first;
	queue->first = 0;
}

int rp_wait_queue_add(struct rp_wait_queue *queue, const struct rp_wait_record *record)
{
	struct rp_wait_record *copy = malloc(rp_wait_record_bytes(record)), **grown;
	size_t at;

	compact(queue);
	grown = rp_array_reserve(queue->records, queue->count, &queue->capacity, 1,
				 sizeof(*grown));
	if (grown)
		queue->records = grown;
	if (!copy || !grown) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, record, rp_wait_record_bytes(record));
	for (at = queue->count++; at > queue->first && grown[at - 1]->time_ns > record->time_ns;
	     at--)
		grown[at] = grown[at - 1];
	grown[at] = copy;
	return 0;
}

struct rp_wait_record *rp_wait_queue_take(struct rp_wait_queue *queue, uint64_t limit_ns)
{
	if (queue->first == queue->count || queue->records[queue->first]->time_ns >= limit_ns)
		return NULL;
	return queue->records[queue->first++];
}

void rp_wait_queue_fini(struct rp_wait_queue *queue)
{
	for (size_t i = queue->first; i < queue->count; i++)
		free(queue->records[i]);
	free(queue->records);
	memset(queue, 0, sizeof(*queue));
}
