/* SPDX-License-Identifier: MIT */
/*
 * The common parts of all restartable sections for x86-64, in two forms: macros for .S files, and
 * strings for the sections in counter/add.c, which are inline in the functions that count.
 */
#ifndef RP_RING_SECTION_H
#define RP_RING_SECTION_H

#ifdef __ASSEMBLER__

#include "base/assembly.h"

/*
 * Emit the descriptor of a section, the kernel's struct rseq_cs. The section extends from
 * .Lname_begin to .Lname_end. After an abort, the thread continues at .Lname_abort.
 */
.macro describe_section name
	.pushsection __rseq_cs, "aw"
	.balign	32
.L\name\()_section:
	.long	0, 0
	.quad	.L\name\()_begin, .L\name\()_end - .L\name\()_begin, .L\name\()_abort
	.popsection
.endm

/*
 * The abort handler, after the signature that glibc registered. The signature is encoded as the
 * operand of an undefined instruction.
 */
.macro abort_handler name
	.byte	0x0f, 0xb9, 0x3d
	.long	0x53053053
.L\name\()_abort:
.endm

#else

/*
 * The descriptor (struct rseq_cs) at label 3 of the section from 1 to 2 with the abort handler 4.
 */
#define RP_SECTION_DESCRIPTOR \
	".pushsection __rseq_cs, \"aw\"\n\t" \
	".balign 32\n" \
	"3:\n\t" \
	".long 0, 0\n\t" \
	".quad 1f, 2f - 1f, 4f\n\t" \
	".popsection\n\t"

/* The signature before label 4, encoded as the operand of an undefined instruction. */
#define RP_SECTION_SIGNATURE \
	".byte 0x0f, 0xb9, 0x3d\n\t" \
	".long 0x53053053\n"

#endif

#endif
