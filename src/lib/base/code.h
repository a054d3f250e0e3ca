/* SPDX-License-Identifier: MIT */
/*
 * Changes the code of this process while it runs, one byte at a time.
 *
 * The byte is the first of a five-byte instruction. Both of its values make an instruction of five
 * bytes: a jump, or a test of a register against a number, whose only effect is on the flags. So a
 * processor that fetches the instruction during the change executes one of the two, and no thread
 * can be in the middle of an instruction. After the store, membarrier(2) makes every thread fetch
 * the code again.
 *
 * AMD's manual (24593, 7.6.1, asynchronous modification) guarantees that other processors execute
 * either the old or the new instruction, for a store inside an aligned quadword. Intel's manual
 * (volume 3, "Handling Self- and Cross-Modifying Code") does not: it requires a serializing
 * instruction between the store and the execution, on the executing processor. The errata of many
 * models describe faults without one ("Unsynchronized Cross-Modifying Code Operations Can Cause
 * Unexpected Instruction Execution Results"). For Linux, Intel named one exception (R. J. Moore,
 * linux-kernel, 20 September 2006): a breakpoint in place of an instruction's first byte. LLVM's
 * XRay stores two bytes as this module stores one; but that is practice, not a guarantee. A
 * breakpoint needs a handler for SIGTRAP. It kills a thread that blocks the signal, and a debugger
 * stops there and continues in the middle of the instruction. So this module uses no breakpoints.
 * Without an explicit request, it changes code only on processors whose manual allows it.
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
	uintptr_t begin, end;	/* page-aligned */
	int protection;
	bool open;		/* writable, until rp_code_close() */
};

/*
 * Find the segment that contains this address. Return: 0; -ENOENT: there is none, or it is not both
 * readable and executable.
 */
int rp_code_find(const void *address, struct rp_code *ret_code);

/* A series of changes; rp_code_end() makes them visible to all threads. */
struct rp_code_change {
	int memory;		/* /proc/thread-self/mem; -1: not open, or refused */
	struct rp_file_id file;
	uintptr_t page;		/* page of the last write */
	bool asked;
	bool written;
};

/* Return: the first byte of a site. */
unsigned char rp_code_read(const unsigned char *at);

/*
 * Change one byte. The kernel writes it through /proc, so that the code is never writable. If the
 * kernel refuses that (after the process changed its user or its root), use mprotect(2).
 * Return: 0; -errno of mprotect(2).
 */
int rp_code_write(struct rp_code_change *change, struct rp_code *code, unsigned char *at,
		  unsigned char byte);

/* Restore the protection that mprotect(2) changed. Return: false if the system refused; retry. */
bool rp_code_close(struct rp_code *code);

/* End the series: afterwards each thread executes the new code, and the descriptor is closed. */
void rp_code_end(struct rp_code_change *change);

/* Return: whether the processor's manual guarantees what rp_code_write() relies on. */
bool rp_code_is_promised(void);

/* The same for a maker, by the twelve characters with which the processor names it. */
bool rp_code_is_promised_by(const char maker[12]);

/* Call once in each process; may take some time. Return: 0; -errno of membarrier(2). */
int rp_code_prepare(void);

/*
 * Try a change on a function of the library. The function checks two things:
 *
 * - mprotect(2) may make code writable. A system that forbids this also disapproves of writes
 *   through /proc.
 * - The processor executes the new code. An emulator may execute an earlier translation.
 *
 * The library's own segment becomes writable meanwhile, so there must be no other change.
 *
 * Return: 0; -errno of mprotect(2); -EOPNOTSUPP: another machine, or an emulator that does not
 * notice changes.
 */
int rp_code_try(void);

#endif
