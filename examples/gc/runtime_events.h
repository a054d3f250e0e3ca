/* SPDX-License-Identifier: MIT */
/* The .NET runtime's events of collections, with its ids, versions and fields. */
#ifndef GC_RUNTIME_EVENTS_H
#define GC_RUNTIME_EVENTS_H

#include <ringpipe/ringpipe.h>

#include "gc_contract.h"

/* Numbers of the runtime. */
enum gc_reason {
	GC_REASON_ALLOCATION = 0,
	GC_REASON_INDUCED = 1,
	GC_REASON_LOW_MEMORY = 2,
};

#define GC_OLDEST_GENERATION 2u		/* a collection of the whole heap */
#define GC_TYPE_BLOCKING 0u
#define GC_SUSPEND_FOR_COLLECTION 1u

RP_PROVIDER(runtime, "Microsoft-Windows-DotNETRuntime");
RP_PROVIDER(runtime_private, "Microsoft-Windows-DotNETRuntimePrivate");

RP_EVENT_EX(runtime, GCStart, (RP_ID(1), RP_VERSION(2), RP_KEYWORDS(GC_KEYWORD)),
	    RP_U32(Count), RP_U32(Depth), RP_U32(Reason), RP_U32(Type), RP_U16(ClrInstanceID),
	    RP_U64(ClientSequenceNumber));
RP_EVENT_EX(runtime, GCEnd, (RP_ID(2), RP_VERSION(1), RP_KEYWORDS(GC_KEYWORD)),
	    RP_U32(Count), RP_U32(Depth), RP_U16(ClrInstanceID));
RP_EVENT_EX(runtime, GCRestartEEEnd, (RP_ID(3), RP_VERSION(1), RP_KEYWORDS(GC_KEYWORD)),
	    RP_U16(ClrInstanceID));
RP_EVENT_EX(runtime, GCHeapStats, (RP_ID(4), RP_VERSION(1), RP_KEYWORDS(GC_KEYWORD)),
	    RP_U64(GenerationSize0), RP_U64(TotalPromotedSize0), RP_U64(GenerationSize1),
	    RP_U64(TotalPromotedSize1), RP_U64(GenerationSize2), RP_U64(TotalPromotedSize2),
	    RP_U64(GenerationSize3), RP_U64(TotalPromotedSize3), RP_U64(FinalizationPromotedSize),
	    RP_U64(FinalizationPromotedCount), RP_U32(PinnedObjectCount), RP_U32(SinkBlockCount),
	    RP_U32(GCHandleCount), RP_U16(ClrInstanceID));
RP_EVENT_EX(runtime, GCRestartEEBegin, (RP_ID(7), RP_VERSION(1), RP_KEYWORDS(GC_KEYWORD)),
	    RP_U16(ClrInstanceID));
RP_EVENT_EX(runtime, GCSuspendEEEnd, (RP_ID(8), RP_VERSION(1), RP_KEYWORDS(GC_KEYWORD)),
	    RP_U16(ClrInstanceID));
RP_EVENT_EX(runtime, GCSuspendEEBegin, (RP_ID(9), RP_VERSION(1), RP_KEYWORDS(GC_KEYWORD)),
	    RP_U32(Reason), RP_U32(Count), RP_U16(ClrInstanceID));

#endif
