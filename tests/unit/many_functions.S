/* SPDX-License-Identifier: MIT */
/* Twenty thousand functions of four bytes, one after another. */
	.text
	.globl many_functions
many_functions:
	.macro function
	.type one_of_twenty_thousand_functions_with_a_long_name_\@, %function
one_of_twenty_thousand_functions_with_a_long_name_\@:
	.skip 4, 0
	.size one_of_twenty_thousand_functions_with_a_long_name_\@, 4
	.endm
	.rept 20000
	function
	.endr
	.section .note.GNU-stack, "", %progbits
