/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into programs that use libbpf: simulates the kernel that BPF_SHIM describes. `none`: a
 * kernel without bpf(2). `refuse`: the probe's program begins with a read beyond its stack, so that
 * the kernel's own verifier rejects it; `refuse:NAME` selects the program of that name.
 * `without:NAME`: a kernel without that tracepoint. `storage:COUNT`: a kernel that creates no
 * storage of threads; the map more_waits, which replaces the storage, has COUNT entries.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int libbpf_find_vmlinux_btf_id(const char *name, enum bpf_attach_type type);

/* Whether BPF_SHIM selects this name. */
static int is_wished(const char *wish, const char *name)
{
	const char *of = getenv("BPF_SHIM");
	size_t length = strlen(wish);

	return of && strncmp(of, wish, length) == 0 && strcmp(of + length, name) == 0;
}

int libbpf_find_vmlinux_btf_id(const char *name, enum bpf_attach_type type)
{
	int (*next)(const char *, enum bpf_attach_type) =
		(int (*)(const char *, enum bpf_attach_type))dlsym(RTLD_NEXT, __func__);

	return is_wished("without:", name) ? -ESRCH : next(name, type);
}

/* Return: the entries of `storage:COUNT`; 0: BPF_SHIM is something else. */
static unsigned int entries_of_storage(void)
{
	const char *wish = getenv("BPF_SHIM");

	return wish && strncmp(wish, "storage:", 8) == 0 ? (unsigned int)atoi(wish + 8) : 0;
}

static void limit_map(union bpf_attr *attr)
{
	if (entries_of_storage() && strcmp(attr->map_name, "more_waits") == 0)
		attr->max_entries = entries_of_storage();
}

/* A call clobbers the registers of its arguments, so the flags are set right before it. */
static void clear_flags(struct bpf_insn *instructions, unsigned int call)
{
	while (call-- > 0 && instructions[call].code != (BPF_JMP | BPF_CALL)) {
		if (instructions[call].code != (BPF_ALU64 | BPF_MOV | BPF_K) ||
		    instructions[call].dst_reg != BPF_REG_4)
			continue;
		instructions[call].imm = 0;
		break;
	}
}

static void change(struct bpf_insn *instructions, unsigned int count)
{
	if (!entries_of_storage()) {
		instructions[0] = (struct bpf_insn){
			.code = BPF_LDX | BPF_MEM | BPF_DW,
			.dst_reg = BPF_REG_0,
			.src_reg = BPF_REG_10,
			.off = 8,
		};
		return;
	}
	for (unsigned int i = 0; i < count; i++) {
		if (instructions[i].code == (BPF_JMP | BPF_CALL) && instructions[i].src_reg == 0 &&
		    instructions[i].imm == BPF_FUNC_task_storage_get)
			clear_flags(instructions, i);
	}
}

static void change_program(union bpf_attr *attr)
{
	static struct bpf_insn instructions[65536];
	const int probe = attr->prog_type == BPF_PROG_TYPE_KPROBE;

	if (attr->insn_cnt > 65536 || !(is_wished("refuse:", attr->prog_name) ||
					(probe && is_wished("refuse", "")) ||
					entries_of_storage()))
		return;
	memcpy(instructions, (void *)attr->insns, attr->insn_cnt * sizeof(*instructions));
	change(instructions, attr->insn_cnt);
	attr->insns = (unsigned long)instructions;
}

/* Makes the system call directly, since this function replaces libc's. */
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
	if (number == SYS_bpf && arguments[0] == BPF_PROG_LOAD)
		change_program((union bpf_attr *)arguments[1]);
	if (number == SYS_bpf && arguments[0] == BPF_MAP_CREATE)
		limit_map((union bpf_attr *)arguments[1]);
	return enter(number, arguments);
}
