/* SPDX-License-Identifier: MIT */
/*
 * Stacks without frame pointers: by the tables of .eh_frame, which compilers write for every
 * function of x86-64.
 *
 * Made for a signal handler that interrupted anything, in a program that may be broken. It
 * allocates nothing and takes no lock. The stack is read directly only inside the calling thread's
 * own stack, from the stack pointer up; all else, the tables included, by process_vm_readv(2),
 * which fails where nothing is mapped: a library may go away while its tables are being read. What
 * was learnt of an instruction is kept in a table of our own, so that system calls are the
 * exception.
 */
#ifndef RP_UNWIND_UNWIND_H
#define RP_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/types.h>

/* Registers, by their DWARF numbers on x86-64. */
enum rp_register {
	RP_REG_RBX = 3,
	RP_REG_RBP = 6,
	RP_REG_RSP = 7,
	RP_REG_R12 = 12,
	RP_REG_R15 = 15,
	RP_REG_RIP = 16,
	RP_REG_COUNT = 17,
};

struct rp_registers {
	uint64_t value[RP_REG_COUNT];
	uint32_t known;			/* bit mask */
};

/* Memory that cannot go away during the call, low <= address < high; both 0: none. */
struct rp_window {
	uint64_t low, high;
};

/*
 * Looks which objects are loaded. Objects that came since the last call are unknown to rp_unwind():
 * frames in them are followed by their frame pointers.
 *
 * Context: one thread at a time, not a signal handler; takes the dynamic loader's lock.
 * Return: whether there was news.
 */
bool rp_unwind_refresh(void);

/* Get the registers from a signal handler's third argument. False on other machines. */
bool rp_registers_of_context(const void *context, struct rp_registers *ret_registers);

/*
 * Follows the calls from `registers` out, which are changed. `ret_frames` gets up to `max`
 * addresses: that of the registers, then return addresses, innermost first.
 *
 * Context: any, signal handlers included; does not wait.
 * Return: how many, at least 1 if max is.
 */
unsigned int rp_unwind(struct rp_registers *registers, const struct rp_window *window,
		       uint64_t *ret_frames, unsigned int max);

/*
 * The calls that led to a function that has a frame pointer, `frame`, and that is running below the
 * caller: return addresses, innermost first. Only on x86-64. Makes no system call and reads only
 * the thread's own stack. It requests rules that are not in the cache, and follows frame pointers
 * until rp_unwind_cache_fill() was called. A stack that needed such rules and does not reach the
 * outermost function ends with RP_FRAME_CUT, which is counted, unless it has `max` frames.
 *
 * Context: any, signal handlers included; does not wait.
 * Return: how many; 0 if the stack does not lead there; -EAGAIN: none, since rules are not known.
 */
int rp_unwind_callers(const void *frame, uint64_t *ret_frames, unsigned int max);

/*
 * Refresh, and look up the rules that rp_unwind_callers() requested.
 *
 * Context: as rp_unwind_refresh().
 * Return: how many rules were requested since the last call. Stacks that need them may end too
 * early.
 */
unsigned int rp_unwind_cache_fill(void);

/*
 * As rp_unwind(), for another thread of this process, of which only these two registers are known.
 * If the rules of a function need its frame pointer, and no frame between here and there saved it,
 * the function searches the stack for the return address of a call to that function. The result is
 * correct only if the thread slept all the time.
 *
 * Context: any thread.
 */
unsigned int rp_unwind_sleeper(uint64_t stack_pointer, uint64_t instruction, uint64_t *ret_frames,
			       unsigned int max);

/*
 * Around fork, as pthread_atfork(3) has it. A refresh holds a lock of the dynamic loader that glibc
 * does not free in children.
 */
void rp_unwind_fork_prepare(void);
void rp_unwind_fork_parent(void);
void rp_unwind_fork_child(void);

#endif
