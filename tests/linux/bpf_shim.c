/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into ringpipe-bpf: makes bpf(2) what BPF_SHIM says. `none`: a kernel without it.
 * `refuse`: the program for the probe begins with a read beyond its stack, so that the kernel's own
 * verifier refuses it.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void spoil(union bpf_attr *attr)
{
	static struct bpf_insn instructions[65536];

	if (attr->prog_type != BPF_PROG_TYPE_KPROBE || attr->insn_cnt > 65536)
		return;
	memcpy(instructions, (void *)attr->insns, attr->insn_cnt * sizeof(*instructions));
	instructions[0] = (struct bpf_insn){
		.code = BPF_LDX | BPF_MEM | BPF_DW,
		.dst_reg = BPF_REG_0,
		.src_reg = BPF_REG_10,
		.off = 8,
	};
	attr->insns = (unsigned long)instructions;
}

/* The kernel's own entry: this function takes the place of libc's. */
static long enter(long number, const long arguments[6])
{
	register long r10 __asm__("r10") = arguments[3];
	register long r8 __asm__("r8") = arguments[4];
	register long r9 __asm__("r9") = arguments[5];
	long ret;

	__asm__ volatile("syscall" : "=a"(ret)
			 : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]),
			   "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	if (ret >= 0 || ret < -4095)
		return ret;
	errno = (int)-ret;
	return -1;
}

long syscall(long number, ...)
{
	const char *wish = getenv("BPF_SHIM");
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_bpf && wish && strcmp(wish, "none") == 0) {
		errno = ENOSYS;
		return -1;
	}
	if (number == SYS_bpf && wish && strcmp(wish, "refuse") == 0 &&
	    arguments[0] == BPF_PROG_LOAD)
		spoil((union bpf_attr *)arguments[1]);
	return enter(number, arguments);
}
