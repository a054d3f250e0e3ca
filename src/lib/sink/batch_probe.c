/* SPDX-License-Identifier: MIT */
#include "sink/batch_probe.h"

#include <ringpipe/detail/probe.h>

#if !defined(RP_PLACE_0_)
#error "where the first four arguments of a function are"
#endif

/* Never called. This definition emits the stub, which is rp_batch_probe(). */
__attribute__((used)) static void define_probe(void)
{
	RP_PROBE_STUB_("rp_batch_probe", "0", "ringpipe", "batch",
		       "8@" RP_PLACE_0_ " 8@" RP_PLACE_1_ " 8@" RP_PLACE_2_ " 8@" RP_PLACE_3_);
}
