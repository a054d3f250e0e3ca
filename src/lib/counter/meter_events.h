/* SPDX-License-Identifier: MIT */
/*
 * The events of the provider System.Diagnostics.Metrics, as in .NET 9. Clients match events by name
 * and read the payload by position and version.
 *
 * HistogramTotalPublished is an addition of ringpipe. HistogramValuePublished has the count and the
 * sum of one interval, so a client that adds them up misses values from before its start and from
 * dropped intervals. In each interval, a session that requests the keyword of totals gets the total
 * of a series before its value. .NET does not use that keyword, so other clients never see these
 * events.
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
 * Create the provider and its events, if they do not exist. Context: the counters' thread, without
 * a lock, because exporters may block.
 */
void rp_meter_events_create(void);

/* Return: the event; NULL: it could not be created. The caller holds the counters' lock. */
struct rp_event *rp_meter_event(enum rp_meter_event which);

/* Put BEGIN, END or PUBLISHED: the complete description of an instrument. */
void rp_meter_put_instrument(struct rp_outbox *out, enum rp_meter_event which, const char *session,
			     const struct rp_instrument *instrument);

/* Put the event of one series, according to the instrument's kind. */
void rp_meter_put_series(struct rp_outbox *out, const char *session, const struct rp_series *series,
			 const struct rp_delta *delta);

/*
 * Put the number and the sum of all values that a histogram's series has recorded since its
 * creation, as of the mark's last collection. The function puts nothing if no session wants totals,
 * if the instrument is no histogram, or for an unused series without tags next to other series.
 */
void rp_meter_put_total(struct rp_outbox *out, const char *session, const struct rp_mark *mark);

#endif
