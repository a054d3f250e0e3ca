/* SPDX-License-Identifier: MIT */
#include "tools/trace/loss_event.h"

#include <string.h>

#include <ringpipe/field.h>

#include "tools/trace/machine_clock.h"

static bool is_of_machine(const struct rp_reader_type *type)
{
	return !strcmp(type->name, RP_MACHINE_EVENT_LOSS) &&
	       !strcmp(type->provider, RP_MACHINE_PROVIDER);
}

bool rp_loss_event_is(const struct rp_reader_type *type)
{
	return is_of_machine(type) ||
	       (!strcmp(type->name, "EventsLost") && !strcmp(type->provider, "ringpipe"));
}

static bool take_number(const struct rp_fields *fields, const char *name, uint64_t *ret_number)
{
	struct rp_value value = RP_VALUE_INIT;

	if (rp_fields_find(fields, name, &value) != 0 ||
	    (value.type != RP_TYPE_U32 && value.type != RP_TYPE_U64))
		return false;
	*ret_number = value.u64;
	return true;
}

bool rp_loss_event_read(const struct rp_reader_event *event, struct rp_loss_event *ret_loss)
{
	struct rp_loss_event loss = { .is_of_machine = is_of_machine(event->type) };
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;
	uint64_t ring = RP_LOSS_NO_RING;

	rp_reader_get_fields(event, &fields);
	if (rp_fields_find(&fields, "reason", &value) != 0 ||
	    (value.type != RP_TYPE_STRING16 && value.type != RP_TYPE_STRING) ||
	    !take_number(&fields, loss.is_of_machine ? "lost" : "count", &loss.lost) ||
	    (!loss.is_of_machine && !take_number(&fields, "ring", &ring)))
		return false;
	rp_value_get_text(&value, loss.reason, sizeof(loss.reason));
	loss.ring = (uint32_t)ring;
	*ret_loss = loss;
	return true;
}
