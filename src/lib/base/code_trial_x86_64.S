/* SPDX-License-Identifier: MIT */
/*
 * The function with which code.c tries a change of code. Its second instruction, at
 * rp_code_trial_site, is the jump of a static key's site and becomes the test.
 */
#include "base/assembly.h"

function rp_code_trial
	xorl	%eax, %eax
	.globl	rp_code_trial_site
	.hidden	rp_code_trial_site
rp_code_trial_site:
	.byte	0xe9
	.long	.Ltrial_jumped - . - 4
	ret
.Ltrial_jumped:
	movl	$1, %eax
	ret
end_function rp_code_trial
