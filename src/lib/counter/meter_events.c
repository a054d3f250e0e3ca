/* SPDX-License-Identifier: MIT */
#include "counter/meter_events.h"

#include <stdio.h>

#include "counter/number.h"

#define MESSAGES 1u
#define TIME_SERIES 2u
#define PUBLISHING 4u
#define HISTOGRAM_TOTALS (1ull << 47)	/* the highest keyword that .NET leaves to providers */

#define TEXT(field_name) { .name = field_name, .type = RP_TYPE_STRING }
#define TIME(field_name) { .name = field_name, .type = RP_TYPE_TIME }
#define F64(field_name) { .name = field_name, .type = RP_TYPE_F64 }
#define U64(field_name) { .name = field_name, .type = RP_TYPE_U64 }
#define I32(field_name) { .name = field_name, .type = RP_TYPE_I32 }
#define PREFIX TEXT("sessionId"), TEXT("meterName"), TEXT("meterVersion"), TEXT("instrumentName")

static const struct rp_field interval[] = {
	TEXT("sessionId"), TIME("intervalStartTime"), TIME("intervalEndTime"),
};

static const struct rp_field rate[] = {
	PREFIX, TEXT("unit"), TEXT("tags"), TEXT("rate"), TEXT("value"), I32("instrumentId"),
};

static const struct rp_field gauge[] = {
	PREFIX, TEXT("unit"), TEXT("tags"), TEXT("lastValue"), I32("instrumentId"),
};

static const struct rp_field histogram[] = {
	PREFIX, TEXT("unit"), TEXT("tags"), TEXT("quantiles"), I32("count"), F64("sum"),
	I32("instrumentId"),
};

static const struct rp_field histogram_total[] = {
	PREFIX, TEXT("unit"), TEXT("tags"), U64("count"), F64("sum"), I32("instrumentId"),
};

static const struct rp_field instrument_fields[] = {
	PREFIX, TEXT("instrumentType"), TEXT("unit"), TEXT("description"), TEXT("instrumentTags"),
	TEXT("meterTags"), TEXT("meterScopeHash"), I32("instrumentId"),
	TEXT("meterTelemetrySchemaUrl"),
};

static const struct rp_field session_alone[] = { TEXT("sessionId") };

static const struct rp_field error[] = { TEXT("sessionId"), TEXT("errorMessage") };

static const struct rp_field misconfigured[] = {
	TEXT("clientId"), TEXT("expectedMaxHistograms"), TEXT("actualMaxHistograms"),
	TEXT("expectedMaxTimeSeries"), TEXT("actualMaxTimeSeries"),
	TEXT("expectedRefreshInterval"), TEXT("actualRefreshInterval"),
};

static const struct rp_field version[] = { I32("Major"), I32("Minor"), I32("Patch") };

#define FIELDS(array) array, sizeof(array) / sizeof((array)[0])

static const struct meter_row {
	const char *name;
	uint16_t id;
	uint8_t version, opcode;
	uint64_t keywords;
	const struct rp_field *fields;
	uint16_t field_count;
} rows[RP_METER_EVENT_COUNT] = {
	[RP_METER_COLLECTION_START] = { "CollectionStart", 2, 0, RP_OPCODE_START, TIME_SERIES,
					FIELDS(interval) },
	[RP_METER_COLLECTION_STOP] = { "CollectionStop", 3, 0, RP_OPCODE_STOP, TIME_SERIES,
				       FIELDS(interval) },
	[RP_METER_COUNTER_RATE] = { "CounterRateValuePublished", 4, 2, 0, TIME_SERIES,
				    FIELDS(rate) },
	[RP_METER_GAUGE_VALUE] = { "GaugeValuePublished", 5, 2, 0, TIME_SERIES, FIELDS(gauge) },
	[RP_METER_HISTOGRAM_VALUE] = { "HistogramValuePublished", 6, 2, 0, TIME_SERIES,
				       FIELDS(histogram) },
	[RP_METER_BEGIN] = { "BeginInstrumentReporting", 7, 3, 0, TIME_SERIES,
			     FIELDS(instrument_fields) },
	[RP_METER_END] = { "EndInstrumentReporting", 8, 3, 0, TIME_SERIES,
			   FIELDS(instrument_fields) },
	[RP_METER_ENUMERATED] = { "InitialInstrumentEnumerationComplete", 10, 0, 0,
				  TIME_SERIES | PUBLISHING, FIELDS(session_alone) },
	[RP_METER_PUBLISHED] = { "InstrumentPublished", 11, 3, 0, PUBLISHING,
				 FIELDS(instrument_fields) },
	[RP_METER_SERIES_LIMIT] = { "TimeSeriesLimitReached", 12, 0, 0, TIME_SERIES,
				    FIELDS(session_alone) },
	[RP_METER_HISTOGRAM_LIMIT] = { "HistogramLimitReached", 13, 0, 0, TIME_SERIES,
				       FIELDS(session_alone) },
	[RP_METER_CALLBACK_ERROR] = { "ObservableInstrumentCallbackError", 14, 0, 0, TIME_SERIES,
				      FIELDS(error) },
	[RP_METER_UPDOWN_RATE] = { "UpDownCounterRateValuePublished", 16, 2, 0, TIME_SERIES,
				   FIELDS(rate) },
	[RP_METER_MISCONFIGURED] = { "MultipleSessionsConfiguredIncorrectlyError", 17, 0, 0,
				     TIME_SERIES, FIELDS(misconfigured) },
	[RP_METER_VERSION] = { "Version", 18, 0, 0, MESSAGES, FIELDS(version) },
	[RP_METER_HISTOGRAM_TOTAL] = { "HistogramTotalPublished", 1000, 0, 0, HISTOGRAM_TOTALS,
				       FIELDS(histogram_total) },
};

static const char *const types[] = {
	[RP_COUNTER_SUM] = "Counter`1",
	[RP_COUNTER_UPDOWN] = "UpDownCounter`1",
	[RP_COUNTER_GAUGE] = "Gauge`1",
	[RP_COUNTER_HISTOGRAM] = "Histogram`1",
	[RP_COUNTER_OBSERVED_SUM] = "ObservableCounter`1",
	[RP_COUNTER_OBSERVED_UPDOWN] = "ObservableUpDownCounter`1",
	[RP_COUNTER_OBSERVED_GAUGE] = "ObservableGauge`1",
};

static struct rp_provider *provider;
static struct rp_event *events[RP_METER_EVENT_COUNT];

static void create_event(enum rp_meter_event which)
{
	const struct meter_row *row = &rows[which];
	struct rp_event_decl decl = {
		.size = sizeof(decl),
		.id = row->id,
		.name = row->name,
		.fields = row->fields,
		.field_count = row->field_count,
		.keywords = row->keywords,
		.version = row->version,
		.opcode = row->opcode,
		.level = RP_LEVEL_INFORMATIONAL,
		.flags = RP_EVENT_NO_STACK,
	};

	if (!events[which])
		(void)rp_event_create(provider, &decl, &events[which]);
}

void rp_meter_events_create(void)
{
	if (!provider && rp_provider_create(RP_METERS_PROVIDER, NULL, NULL, &provider) != 0)
		return;
	for (int which = 0; which < RP_METER_EVENT_COUNT; which++)
		create_event((enum rp_meter_event)which);
}

struct rp_event *rp_meter_event(enum rp_meter_event which)
{
	return events[which];
}

/* Put {session id, meter, its version, instrument}, with which most of the events begin. */
static void put_prefix(struct rp_outbox *out, enum rp_meter_event which, const char *session,
		       const struct rp_instrument *instrument)
{
	rp_outbox_begin(out, rp_meter_event(which));
	rp_outbox_text(out, session);
	rp_outbox_text(out, instrument->group->name);
	rp_outbox_text(out, "");
	rp_outbox_text(out, instrument->name);
}

void rp_meter_put_instrument(struct rp_outbox *out, enum rp_meter_event which, const char *session,
			     const struct rp_instrument *instrument)
{
	put_prefix(out, which, session, instrument);
	rp_outbox_text(out, types[instrument->kind]);
	rp_outbox_text(out, instrument->unit);
	rp_outbox_text(out, instrument->display_name);
	for (int i = 0; i < 3; i++)
		rp_outbox_text(out, "");	/* tags, the meter's tags, scope */
	rp_outbox_u32(out, instrument->id);
	rp_outbox_text(out, "");
}

static void put_number(struct rp_outbox *out, double number, bool is_known)
{
	char text[RP_NUMBER_MAX];

	rp_number_print(number, text);
	rp_outbox_text(out, is_known ? text : "");
}

static void put_quantiles(struct rp_outbox *out, const struct rp_delta *delta)
{
	char values[3][RP_NUMBER_MAX], text[3 * RP_NUMBER_MAX + 32];

	if (!delta->count) {
		rp_outbox_text(out, "");
		return;
	}
	rp_number_print(rp_delta_quantile(delta, 0.5), values[0]);
	rp_number_print(rp_delta_quantile(delta, 0.95), values[1]);
	rp_number_print(rp_delta_quantile(delta, 0.99), values[2]);
	snprintf(text, sizeof(text), "0.5=%s;0.95=%s;0.99=%s", values[0], values[1], values[2]);
	rp_outbox_text(out, text);
}

static enum rp_meter_event event_of(uint32_t kind)
{
	switch (kind) {
	case RP_COUNTER_SUM:
	case RP_COUNTER_OBSERVED_SUM:
		return RP_METER_COUNTER_RATE;
	case RP_COUNTER_UPDOWN:
	case RP_COUNTER_OBSERVED_UPDOWN:
		return RP_METER_UPDOWN_RATE;
	case RP_COUNTER_HISTOGRAM:
		return RP_METER_HISTOGRAM_VALUE;
	default:
		return RP_METER_GAUGE_VALUE;
	}
}

void rp_meter_put_series(struct rp_outbox *out, const char *session, const struct rp_series *series,
			 const struct rp_delta *delta)
{
	const struct rp_instrument *instrument = series->instrument;
	enum rp_meter_event which = event_of(instrument->kind);

	put_prefix(out, which, session, instrument);
	rp_outbox_text(out, instrument->unit);
	rp_outbox_text(out, series->tags);
	if (which == RP_METER_HISTOGRAM_VALUE) {
		put_quantiles(out, delta);
		rp_outbox_u32(out, (uint32_t)delta->count);
		rp_outbox_double(out, delta->sum);
	} else {
		if (which != RP_METER_GAUGE_VALUE)
			put_number(out, delta->change, delta->has_change);
		put_number(out, delta->value, delta->has_value);
	}
	rp_outbox_u32(out, instrument->id);
}

void rp_meter_put_total(struct rp_outbox *out, const char *session, const struct rp_mark *mark)
{
	const struct rp_instrument *instrument = mark->series->instrument;
	const struct rp_event *event = rp_meter_event(RP_METER_HISTOGRAM_TOTAL);

	if (instrument->kind != RP_COUNTER_HISTOGRAM || !event || !rp_event_enabled(event))
		return;
	if (mark->count == 0 && !*mark->series->tags && instrument->series_count > 1)
		return;
	put_prefix(out, RP_METER_HISTOGRAM_TOTAL, session, instrument);
	rp_outbox_text(out, instrument->unit);
	rp_outbox_text(out, mark->series->tags);
	rp_outbox_put(out, &mark->count, sizeof(mark->count));
	rp_outbox_double(out, mark->total);
	rp_outbox_u32(out, instrument->id);
}
