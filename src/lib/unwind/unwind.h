/* SPDX-License-Identifier: MIT */
/*
 * Unwinds stacks without frame pointers, with the tables of .eh_frame, which compilers write for
 * every function on x86-64.
 *
 * The code may run in a signal handler that interrupted anything, in a program that may be broken.
 * It allocates nothing and takes no lock. It reads memory directly only inside the calling thread's
 * own stack, from the stack pointer up. It reads everything else, the tables included, with
 * process_vm_readv(2), which fails if nothing is mapped: a library may be unmapped while its tables
 * are being read. A cache keeps the rules of each instruction, so most walks make few system calls.
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
	uint32_t known;			/* bit mask of the registers whose value is known */
};

/* A range of memory that stays mapped during the call, low <= address < high; both 0: none. */
struct rp_window {
	uint64_t low, high;
};

/*
 * Update the list of loaded objects. rp_unwind() does not know objects that were loaded since the
 * last call, and follows frame pointers in their frames.
 *
 * Context: one thread at a time, not a signal handler; takes the dynamic loader's lock.
 * Return: whether the list changed.
 */
bool rp_unwind_refresh(void);

/*
 * Get the registers from a signal handler's third argument. Return: false on machines other than
 * x86-64.
 */
bool rp_registers_of_context(const void *context, struct rp_registers *ret_registers);

/*
 * Walk from `registers` to the outermost caller, and change `registers` on the way. `ret_frames`
 * receives up to `max` addresses: first the current instruction, then return addresses, innermost
 * first.
 *
 * Context: any, signal handlers included; does not wait.
 * Return: the number of addresses, at least 1 if `max` is at least 1.
 */
unsigned int rp_unwind(struct rp_registers *registers, const struct rp_window *window,
		       uint64_t *ret_frames, unsigned int max);

/*
 * Walk the calling thread's stack from here outwards, and get the return addresses of the callers
 * of one of its functions, innermost first. Works only on x86-64. The function makes no system call
 * and reads only the thread's own stack. If an unwind rule is not in the cache, the function
 * requests it, and the stack ends there with RP_FRAME_CUT; rp_unwind_cache_fill() later adds the
 * requested rules.
 * @frame: the frame pointer of that function.
 *
 * Context: any, signal handlers included; does not wait.
 * Return: the number of elements; 0: the walk does not reach `frame`; -EAGAIN: rules for the
 * library's own functions, which lie between here and `frame`, are not in the cache yet.
 */
int rp_unwind_callers(const void *frame, uint64_t *ret_frames, unsigned int max);

/*
 * Refresh the list of objects, and look up the rules that rp_unwind_callers() requested.
 *
 * Context: as rp_unwind_refresh().
 * Return: the number of rules requested since the last call. Stacks that needed these rules may be
 * cut short.
 */
unsigned int rp_unwind_cache_fill(void);

/*
 * As rp_unwind(), for another thread of this process, of which only the stack pointer and the
 * instruction pointer are known. If a function's unwind rules need a frame pointer that no inner
 * frame saved, the unwinder searches the stack for the return address of a call to that function.
 * The result is correct only if the thread sleeps until the unwinder returns.
 *
 * Context: any thread.
 */
unsigned int rp_unwind_sleeper(uint64_t stack_pointer, uint64_t instruction, uint64_t *ret_frames,
			       unsigned int max);

/*
 * Handlers for pthread_atfork(3). A refresh holds a lock of the dynamic loader that glibc does not
 * release in the child.
 */
void rp_unwind_fork_prepare(void);
void rp_unwind_fork_parent(void);
void rp_unwind_fork_child(void);

#endif
