/* SPDX-License-Identifier: MIT */
/*
 * The events that report losses: EventsLost of the library and Loss of the recorder of the machine.
 */
#ifndef RP_TOOL_LOSS_EVENT_H
#define RP_TOOL_LOSS_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#define RP_LOSS_NO_RING UINT32_MAX	/* see src/lib/core/losses.c */

struct rp_loss_event {
	bool is_of_machine;
	uint32_t ring;			/* RP_LOSS_NO_RING: no ring counted it */
	char reason[64];		/* a longer text is cut */
	uint64_t lost;
};

/* Return: whether events of the type report losses. */
bool rp_loss_event_is(const struct rp_reader_type *type);

/* Read such an event. Return: whether it has the fields. */
bool rp_loss_event_read(const struct rp_reader_event *event, struct rp_loss_event *ret_loss);

#endif
