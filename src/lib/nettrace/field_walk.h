/* SPDX-License-Identifier: MIT */
#ifndef RP_NETTRACE_FIELD_WALK_H
#define RP_NETTRACE_FIELD_WALK_H

/* How a payload is laid out, in struct rp_fields. */
enum rp_layout {
	RP_LAYOUT_WRITTEN,	/* as in types.h */
	RP_LAYOUT_WIRE,		/* as in a file */
};

#endif
