/* SPDX-License-Identifier: MIT */
/* The common parts of the library's .S files, which are for x86-64. */
#ifndef RP_BASE_ASSEMBLY_H
#define RP_BASE_ASSEMBLY_H

#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

/* Begin a function, which is hidden unless `public` is 1; `bytes` is its alignment. */
.macro function name, public=0, bytes=16
	.balign	\bytes
	.globl	\name
	.ifeq	\public
	.hidden	\name
	.endif
	.type	\name, @function
\name:
	.cfi_startproc
	_CET_ENDBR
.endm

.macro end_function name
	.cfi_endproc
	.size	\name, . - \name
.endm

	.section .note.GNU-stack, "", @progbits
	.text

#endif
