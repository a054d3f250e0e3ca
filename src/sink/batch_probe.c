/* SPDX-License-Identifier: MIT */
/*
 * Source of the note's layout: the SystemTap wiki, "UserSpaceProbeImplementation": three sizes, the
 * owner "stapsdt", type 3; then the address of the instruction, of a section by which prelinked
 * files are corrected, of a semaphore (none); provider, name, arguments.
 *
 * The instruction is a nop of one byte: one of five bytes is a jump to the kernel's trampoline on
 * kernels 6.18 and later, whose first ones wrote over what the caller keeps below its stack.
 */
#include "sink/batch_probe.h"

#if defined(__x86_64__)
#define FIRST_ARGUMENTS "8@%rdi 8@%rsi 8@%rdx 8@%rcx"
#elif defined(__aarch64__)
#define FIRST_ARGUMENTS "8@x0 8@x1 8@x2 8@x3"
#else
#error "where the first four arguments of a function are"
#endif

__asm__(".pushsection .text\n"
	".balign 16\n"
	".hidden rp_batch_probe\n"
	".global rp_batch_probe\n"
	".type rp_batch_probe, %function\n"
	"rp_batch_probe:\n\t"
	"nop\n\t"
	"ret\n"
	".size rp_batch_probe, . - rp_batch_probe\n"
	".popsection\n"
	".pushsection .stapsdt.base, \"aG\", %progbits, .stapsdt.base, comdat\n"
	".weak _.stapsdt.base\n"
	".hidden _.stapsdt.base\n"
	"_.stapsdt.base:\n\t"
	".space 1\n"
	".size _.stapsdt.base, 1\n"
	".popsection\n"
	".pushsection .note.stapsdt, \"\", %note\n\t"
	".balign 4\n\t"
	".4byte 2f - 1f, 4f - 3f, 3\n"
	"1:\t.asciz \"stapsdt\"\n"
	"2:\t.balign 4\n"
	"3:\t.8byte rp_batch_probe, _.stapsdt.base, 0\n\t"
	".asciz \"ringpipe\"\n\t"
	".asciz \"batch\"\n\t"
	".asciz \"" FIRST_ARGUMENTS "\"\n"
	"4:\t.balign 4\n"
	".popsection\n");
