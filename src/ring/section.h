/* SPDX-License-Identifier: MIT */
/* What each restartable section written in assembly has in common. */
#ifndef RP_RING_SECTION_H
#define RP_RING_SECTION_H

#include <stddef.h>

/* Describes section 1..2 with abort handler 4, at 3: struct rseq_cs of the kernel's. */
#define RP_SECTION_DESCRIPTOR \
	".pushsection __rseq_cs, \"aw\"\n\t" \
	".balign 32\n" \
	"3:\n\t" \
	".long 0, 0\n\t" \
	".quad 1f, 2f - 1f, 4f\n\t" \
	".popsection\n\t"

/* In front of 4: what glibc registered, as the operand of an undefined instruction. */
#define RP_SECTION_SIGNATURE \
	".byte 0x0f, 0xb9, 0x3d\n\t" \
	".long 0x53053053\n"

/* An operand: where a member lies. */
#define OFFSET(name, type, member) [name] "i"(offsetof(struct type, member))

#endif
