/* SPDX-License-Identifier: MIT */
/*
 * void from_nowhere(void (*run)(void)) calls `run` as the outermost frame: the walk of a stack ends
 * here, so no other library's tables are in what a stack costs.
 */
	.text
	.globl	from_nowhere
	.hidden	from_nowhere
	.type	from_nowhere, @function
from_nowhere:
	.cfi_startproc
	.cfi_undefined	rip
	subq	$8, %rsp
	.cfi_adjust_cfa_offset	8
	call	*%rdi
	addq	$8, %rsp
	.cfi_adjust_cfa_offset	-8
	ret
	.cfi_endproc
	.size	from_nowhere, . - from_nowhere
	.section .note.GNU-stack, "", @progbits
