/* SPDX-License-Identifier: MIT */
/*
 * Changing the code of this process while it runs, one byte at a time.
 *
 * The byte is the first of an instruction of five, and both values make five of it: a jump, and a
 * test of a register with a number, which does nothing but spoil the flags. So a processor that
 * fetches the instruction meanwhile gets one or the other, and wherever a thread stands, it stands
 * at the border of an instruction. AMD's manual (24593, 7.6.1) allows this; Intel's (volume 3,
 * "Handling Self- and Cross-Modifying Code") wants the other processors to execute a serializing
 * instruction in between, which no thread can be made to do. The usual way there, a breakpoint
 * first, begins with the same store of one byte into running code, and needs a handler for SIGTRAP:
 * a thread that blocks the signal would be killed, and a debugger stopped. So no breakpoints.
 * After the store membarrier makes every thread fetch anew.
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

/* What a site begins with. */
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

/* Once in each process, on a thread that has some milliseconds. False: no membarrier for code. */
bool rp_code_prepare(void);

/*
 * Tries it all on code of the library's own: whether the system lets mprotect(2) make code
 * writable, and whoever forbids that means what is written through /proc as well; and whether what
 * is written is what is executed, not what an emulator made of it before. The library's own segment
 * is opened: no other change at the same time.
 */
bool rp_code_can_change(void);

#endif
