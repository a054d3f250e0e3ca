/* SPDX-License-Identifier: MIT */
/*
 * Changing the code of this process while it runs, one byte at a time.
 *
 * The byte is the first of an instruction of five, and both values make five of it: a jump, and a
 * test of a register with a number, which does nothing but spoil the flags. So a processor that
 * fetches the instruction meanwhile gets one or the other, and wherever a thread stands, it stands
 * at the border of an instruction. After the store membarrier makes every thread fetch anew.
 *
 * That the other processors get one or the other, whole, is what AMD promises of a store inside an
 * aligned quadword (manual 24593, 7.6.1, asynchronous modification). Intel does not: its manual
 * (volume 3, "Handling Self- and Cross-Modifying Code") wants a serializing instruction between the
 * store and the execution, on the processor that executes, and the errata of many models describe
 * faults without ("Unsynchronized Cross-Modifying Code Operations Can Cause Unexpected Instruction
 * Execution Results"). What Intel excepted when asked, for Linux (R. J. Moore, linux-kernel,
 * 20 September 2006), is a breakpoint in place of an instruction's first byte. LLVM's XRay stores
 * two bytes as we store one; but that is practice, not a promise. A breakpoint takes a handler for
 * SIGTRAP, and a thread that blocks the signal is killed at it, while a debugger stops there and
 * goes on in the middle of the instruction. So this module uses no breakpoints, and without an
 * explicit request it changes code only on processors whose manual allows it.
 */
#ifndef RP_BASE_CODE_H
#define RP_BASE_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"

#define RP_CODE_JUMP 0xe9u	/* jmp rel32 */
#define RP_CODE_PASS 0xa9u	/* test $imm32, %eax */

/* The executable segment of an object. */
struct rp_code {
	uintptr_t begin, end;	/* whole pages */
	int protection;
	bool open;		/* writable, until rp_code_close() */
};

/* The segment that has this address. Return: 0; -ENOENT: none, or none that can be read. */
int rp_code_find(const void *address, struct rp_code *ret_code);

/* A series of changes, at the end of which all threads see them. */
struct rp_code_change {
	int memory;		/* /proc/thread-self/mem; -1: not opened, or refused */
	struct rp_file_id file;
	uintptr_t page;		/* written to last */
	bool asked;
	bool written;
};

/* The first byte of a site. */
unsigned char rp_code_read(const unsigned char *at);

/*
 * Changes one byte, by the kernel's hand: through /proc, so that code is at no time writable; where
 * that is refused (a process that changed its user, or its root), by mprotect(2).
 * Return: 0 or -errno, as mprotect(2) has it.
 */
int rp_code_write(struct rp_code_change *change, struct rp_code *code, unsigned char *at,
		  unsigned char byte);

/* Takes back what mprotect(2) gave. False: the system refused; try again. */
bool rp_code_close(struct rp_code *code);

/* After it each thread executes what was written, and descriptors are closed. */
void rp_code_end(struct rp_code_change *change);

/* Whether the processor's maker promises what rp_code_write() needs of it. */
bool rp_code_is_promised(void);

/* The same of a maker, as the processor's twelve characters name it. */
bool rp_code_is_promised_by(const char maker[12]);

/* Once in each process, on a thread that has some time. Return: 0; -errno: no membarrier. */
int rp_code_prepare(void);

/*
 * Tries it all on code of the library's own: whether the system lets mprotect(2) make code
 * writable, and whoever forbids that means what is written through /proc as well; and whether what
 * is written is what is executed, not what an emulator made of it before. The library's own segment
 * is opened: no other change at the same time.
 *
 * Return: 0; what mprotect(2) said; -EOPNOTSUPP: another machine, or an emulator that does not see
 * what is written.
 */
int rp_code_try(void);

#endif
