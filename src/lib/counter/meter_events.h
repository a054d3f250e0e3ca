/* SPDX-License-Identifier: MIT */
/*
 * The events of the provider System.Diagnostics.Metrics, as .NET 9 has them. Clients match them by
 * name and read the payload by position and version.
 *
 * HistogramTotalPublished is ringpipe's own: HistogramValuePublished has count and sum of an
 * interval, so a client that adds them up misses what was recorded before it came, and intervals
 * that were dropped. The total of a series comes in each interval, before its value, to sessions
 * that ask for its keyword, which .NET does not use; other clients never see it.
 */
#ifndef RP_COUNTER_METER_EVENTS_H
#define RP_COUNTER_METER_EVENTS_H

#include "counter/outbox.h"
#include "counter/state.h"

#define RP_METERS_PROVIDER "System.Diagnostics.Metrics"

enum rp_meter_event {
	RP_METER_COLLECTION_START,
	RP_METER_COLLECTION_STOP,
	RP_METER_COUNTER_RATE,
	RP_METER_GAUGE_VALUE,
	RP_METER_HISTOGRAM_VALUE,
	RP_METER_BEGIN,
	RP_METER_END,
	RP_METER_ENUMERATED,
	RP_METER_PUBLISHED,
	RP_METER_SERIES_LIMIT,
	RP_METER_HISTOGRAM_LIMIT,
	RP_METER_CALLBACK_ERROR,
	RP_METER_UPDOWN_RATE,
	RP_METER_MISCONFIGURED,
	RP_METER_VERSION,
	RP_METER_HISTOGRAM_TOTAL,
	RP_METER_EVENT_COUNT,
};

/*
 * Create the provider and its events, unless they are there. Context: the counters' thread, without
 * a lock, for exporters may block.
 */
void rp_meter_events_create(void);

/* The event. NULL: it could not be created. With the counters' lock. */
struct rp_event *rp_meter_event(enum rp_meter_event which);

/* {session id, meter, its version, instrument}, which most of them begin with. */
void rp_meter_put_prefix(struct rp_outbox *out, enum rp_meter_event which, const char *session,
			 const struct rp_instrument *instrument);

/* BEGIN, END or PUBLISHED: all there is to know about an instrument. */
void rp_meter_put_instrument(struct rp_outbox *out, enum rp_meter_event which, const char *session,
			     const struct rp_instrument *instrument);

/* One series of an instrument, by its kind. */
void rp_meter_put_series(struct rp_outbox *out, const char *session, const struct rp_series *series,
			 const struct rp_delta *delta);

/*
 * Adds the number and sum of all values that a histogram's series has recorded since its creation,
 * as of the mark's last collection. Adds nothing if no session wants totals, for other kinds, and
 * for an unused series without tags among others.
 */
void rp_meter_put_total(struct rp_outbox *out, const char *session, const struct rp_mark *mark);

#endif
