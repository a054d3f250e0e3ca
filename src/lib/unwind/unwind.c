/* SPDX-License-Identifier: MIT */
#include "unwind/unwind.h"

#include <errno.h>
#include <string.h>
#include <ucontext.h>

#include <ringpipe/types.h>

#include "base/atomic.h"
#include "base/thread.h"
#include "unwind/fast_walk.h"
#include "unwind/steps.h"

/* The range that is searched for a lost frame pointer, and the words read in one step. */
#define SEARCH_BYTES (64u << 10)
#define SEARCH_WORDS 63u

/* The part of the stack in which ask_outwards() looks for return addresses. */
#define ASK_BYTES 4096u

/* More frames than the library has between an event's function and this file. */
#define LEFT_OUT_MAX 16u

/* The state of a walk from frame to frame. */
struct frame_walk {
	struct rp_registers *registers;
	const struct rp_window *window;
	struct rp_objects objects;
	bool is_sleeper;
	bool asks;		/* request unknown rules with ask() instead of looking them up */
};

enum step {
	STOP,
	GO_ON,
	UNKNOWN,		/* `asks` is set, and the rule is not cached; nothing changed */
};

/* Instructions whose rules rp_unwind_cache_fill() looks up. */
static uint64_t asked[64];

static enum step step_out_of_line(struct frame_walk *walk, enum rp_plain_kind *ret_kind);

/*
 * Read a word of the stack. Inside the walk's window, which is certain to be mapped, read it
 * directly; elsewhere by a system call, or not at all if the walk must not make one (`asks`).
 */
__attribute__((no_sanitize("address", "thread")))
static bool read_word(const void *data, uint64_t address, uint64_t *ret_word)
{
	const struct frame_walk *walk = data;

	if (address % 8 == 0 && address >= walk->window->low &&
	    address < walk->window->high) {
		*ret_word = *(const uint64_t *)(uintptr_t)address;
		return true;
	}
	return !walk->asks && rp_memory_peek(address, ret_word, sizeof(*ret_word));
}

/*
 * Return the function that a call of `target` reaches. If `target` is a linker's stub, that is the
 * function to which the stub jumps through a table.
 */
static uint64_t follow_stub(uint64_t target)
{
	static const uint8_t endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	uint8_t code[16];
	size_t at = 0;
	int32_t distance;
	uint64_t function;

	if (!rp_memory_peek(target, code, sizeof(code)))
		return target;
	if (memcmp(code, endbr, sizeof(endbr)) == 0)
		at += sizeof(endbr);
	at += code[at] == 0xf2;		/* bnd */
	if (code[at] != 0xff || code[at + 1] != 0x25)
		return target;
	memcpy(&distance, &code[at + 2], sizeof(distance));
	target += at + 6;
	return rp_memory_peek(target + (uint64_t)(int64_t)distance, &function, sizeof(function)) ?
	       function : target;
}

/*
 * Return: whether the instruction before the return address `from` calls the function at `start`.
 * Unless `exact`, a call of another function, which may have jumped to `start`, or an indirect call
 * suffices.
 */
static bool is_after_call(const struct frame_walk *walk, uint64_t from, uint64_t start, bool exact)
{
	uint8_t code[7];
	uint64_t target;
	int32_t distance;

	if (!rp_objects_find(&walk->objects, from - 1) ||
	    !rp_memory_peek(from - sizeof(code), code, sizeof(code)))
		return false;
	memcpy(&distance, &code[3], sizeof(distance));
	target = from + (uint64_t)(int64_t)distance;
	if (code[2] == 0xe8 && (target == start || follow_stub(target) == start))
		return true;
	if (exact)
		return false;
	if (code[2] == 0xe8 && rp_objects_find(&walk->objects, target))
		return true;
	/* ff /2: an indirect call, by register or by memory with a displacement of 0 to 4 bytes. */
	return (code[5] == 0xff && (code[6] & 0xf8) == 0xd0) ||
	       (code[5] == 0xff && (code[6] & 0xf8) == 0x10) ||
	       (code[4] == 0xff && (code[5] & 0xf8) == 0x50) ||
	       (code[1] == 0xff && ((code[2] & 0xf8) == 0x90 || code[2] == 0x15));
}

/*
 * Return: whether the return address `from` lies in the function of `row`. The function's earlier
 * calls left such addresses on the stack, where its current call passes arguments.
 */
static bool is_own_call(const struct rp_cfi_row *row, uint64_t from)
{
	return from > row->start && from <= row->end;
}

/* Return: whether the walk from a frame pointer at `place` reaches a thread's first function. */
static bool leads_out(const struct frame_walk *walk, uint64_t place)
{
	struct rp_registers registers = *walk->registers;
	struct frame_walk trial = *walk;
	enum rp_plain_kind kind = RP_PLAIN_NONE;
	unsigned int count = 0;

	trial.registers = &registers;
	trial.is_sleeper = false;
	rp_step_set(&registers, RP_REG_RBP, place);
	while (count++ < RP_STACK_MAX && step_out_of_line(&trial, &kind) == GO_ON)
		continue;
	return kind == RP_PLAIN_END;
}

/*
 * Find the frame pointer of the function of `row` in the stack of a sleeping thread. The function's
 * prologue stored the pair {caller's frame pointer, return address}; search for that pair from the
 * stack pointer upwards. Finished calls left such pairs too.
 *
 * With `exact`, the return address must follow a call of the function of `row`. Without `exact`, it
 * may follow any call that is_after_call() accepts: prefer a pair from which the walk reaches the
 * thread's first function, else use the first pair whose saved frame pointer is plausible.
 *
 * Return: whether a pair was found. Its address is then the frame pointer in walk->registers.
 */
static bool search(struct frame_walk *walk, const struct rp_cfi_row *row, bool exact)
{
	struct rp_registers *registers = walk->registers;
	uint64_t words[SEARCH_WORDS + 1], first = 0;

	for (uint64_t at = registers->value[RP_REG_RSP], end = at + SEARCH_BYTES; at < end;
	     at += SEARCH_WORDS * 8) {
		if (!rp_memory_peek(at, words, sizeof(words)))
			break;
		for (unsigned int i = 0; i < SEARCH_WORDS; i++) {
			uint64_t place = at + i * 8;

			if ((!exact && is_own_call(row, words[i + 1])) ||
			    !is_after_call(walk, words[i + 1], row->start, exact))
				continue;
			if (exact || leads_out(walk, place)) {
				rp_step_set(registers, RP_REG_RBP, place);
				return true;
			}
			if (!first && (words[i] == 0 || words[i] > place))
				first = place;
		}
	}
	if (first)
		rp_step_set(registers, RP_REG_RBP, first);
	return first != 0;
}

static bool search_frame_pointer(struct frame_walk *walk, const struct rp_plain *plain)
{
	uint64_t address = walk->registers->value[RP_REG_RIP] - 1;
	const struct rp_object_text *object = rp_objects_find(&walk->objects, address);
	struct rp_cfi_row row;

	/* The search works only for frames that `push %rbp; mov %rsp, %rbp` made. */
	if (plain->frame_register != RP_REG_RBP || !object ||
	    (plain->kind == RP_PLAIN_PLAIN && plain->frame_offset != 16) ||
	    !rp_cfi_find(object, address, &row))
		return false;
	return search(walk, &row, true) || search(walk, &row, false);
}

static inline __attribute__((always_inline))
bool step_plain(struct frame_walk *walk, const struct rp_plain *plain)
{
	if (walk->is_sleeper && !rp_step_is_known(walk->registers, plain->frame_register) &&
	    !search_frame_pointer(walk, plain))
		return false;
	return rp_step_plain(walk->registers, plain, read_word, walk);
}

static bool step_frame_pointer(struct frame_walk *walk)
{
	return rp_step_frame_pointer(walk->registers, read_word, walk);
}

#if defined(__x86_64__)
/* The index in struct sigcontext (see <ucontext.h>) of the DWARF registers 0 to 16. */
static const uint8_t context_place[RP_REG_COUNT] = {
	REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
	REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP,
};

bool rp_registers_of_context(const void *context, struct rp_registers *ret_registers)
{
	const ucontext_t *user = context;

	for (unsigned int reg = 0; reg < RP_REG_COUNT; reg++)
		ret_registers->value[reg] = (uint64_t)user->uc_mcontext.gregs[context_place[reg]];
	ret_registers->known = (1u << RP_REG_COUNT) - 1;
	return true;
}

/* Get the current registers and the address of an instruction in this function. */
static inline __attribute__((always_inline))
bool take_registers(struct rp_registers *ret_registers)
{
	__asm__ volatile(
		"movq %%rbx, 24(%0)\n\t"
		"movq %%rbp, 48(%0)\n\t"
		"movq %%rsp, 56(%0)\n\t"
		"movq %%r12, 96(%0)\n\tmovq %%r13, 104(%0)\n\t"
		"movq %%r14, 112(%0)\n\tmovq %%r15, 120(%0)\n\t"
		"leaq (%%rip), %%rax\n\t"
		"movq %%rax, 128(%0)\n\t"
		: : "r"(ret_registers->value) : "rax", "memory");
	ret_registers->known = RP_KEPT_REGISTERS | 1u << RP_REG_RSP | 1u << RP_REG_RIP;
	return true;
}

/*
 * Step from the signal trampoline, to which a handler returns, to the code that the signal
 * interrupted. In the trampoline, the stack pointer points to the ucontext that the kernel saved.
 * The interrupted code may be on another stack (sigaltstack(2)).
 */
static bool step_signal(struct frame_walk *walk)
{
	struct rp_registers *registers = walk->registers;
	uint64_t at = registers->value[RP_REG_RSP] + offsetof(ucontext_t, uc_mcontext.gregs);
	uint64_t saved[NGREG];

	if (!walk->asks && !rp_memory_peek(at, saved, sizeof(saved)))
		return false;
	for (unsigned int i = 0; walk->asks && i < NGREG; i++) {
		if (!read_word(walk, at + i * 8, &saved[i]))
			return false;
	}
	for (unsigned int reg = 0; reg < RP_REG_COUNT; reg++)
		registers->value[reg] = saved[context_place[reg]];
	registers->known = (1u << RP_REG_COUNT) - 1;
	return registers->value[RP_REG_RIP] != 0;
}
#else
bool rp_registers_of_context(const void *context, struct rp_registers *ret_registers)
{
	(void)context;
	(void)ret_registers;
	return false;
}

static bool take_registers(struct rp_registers *ret_registers)
{
	(void)ret_registers;
	return false;
}

static bool step_signal(struct frame_walk *walk)
{
	(void)walk;
	return false;
}
#endif

/* Add a rule to the cache. Code in no object, such as that of a JIT compiler, has none. */
static void learn(const struct rp_object_text *object, uint64_t address, uint64_t tag,
		  struct rp_cfi_row *ret_row, struct rp_plain *ret_plain)
{
	memset(ret_plain, 0, sizeof(*ret_plain));
	if (object && rp_cfi_find(object, address, ret_row))
		rp_plain_make(object, ret_row, ret_plain);
	rp_unwind_cache_put(tag, ret_plain);
}

/*
 * Request the rule of an instruction. A request does not replace an earlier one in the same entry:
 * after a wrong frame pointer, addresses may be garbage. Return: whether the request is new.
 */
static bool ask(uint64_t address)
{
	uint64_t *question = &asked[(address * 0x9e3779b97f4a7c15ull) >> 58];

	if (rp_load_relaxed(question) != 0)
		return false;
	rp_store_relaxed(question, address);
	return true;
}

/*
 * Request the rules of the frames further out: of each word of the stack that may be a return
 * address. Otherwise each call of rp_unwind_cache_fill() would add the rule of one more frame.
 */
static void ask_outwards(const struct frame_walk *walk)
{
	const uint64_t low = walk->registers->value[RP_REG_RSP];
	struct rp_objects objects;
	uint64_t word, words[3];

	rp_objects_open(&objects);
	for (uint64_t at = low; at - low < ASK_BYTES && read_word(walk, at, &word); at += 8) {
		const uint64_t tag = rp_unwind_cache_tag(word - 1, objects.generation);

		if (rp_objects_find(&objects, word - 1) && !rp_unwind_cache_words(tag, words))
			ask(word - 1);
	}
	rp_objects_close(&objects);
}

static bool step_realigned(struct frame_walk *walk, const struct rp_plain *plain)
{
	if (walk->is_sleeper && !rp_step_is_known(walk->registers, plain->frame_register) &&
	    !search_frame_pointer(walk, plain))
		return false;
	return rp_step_realigned(walk->registers, plain, read_word, walk);
}

/* Step with the rules in the tables, and add them to the cache. */
static bool step_hard(struct frame_walk *walk, uint64_t address, uint64_t tag,
		      struct rp_plain *ret_plain)
{
	const struct rp_object_text *object = rp_objects_find(&walk->objects, address);
	struct rp_cfi_row row;

	memset(ret_plain, 0, sizeof(*ret_plain));
	if (!object)
		return step_frame_pointer(walk);
	learn(object, address, tag, &row, ret_plain);
	switch (ret_plain->kind) {
	case RP_PLAIN_NONE:
		return step_frame_pointer(walk);
	case RP_PLAIN_PLAIN:
		return step_plain(walk, ret_plain);
	case RP_PLAIN_REALIGNED:
		return step_realigned(walk, ret_plain);
	case RP_PLAIN_SIGNAL:
		return step_signal(walk);
	case RP_PLAIN_END:
		return false;
	default:
		return rp_step_by_row(walk->registers, object, &row, read_word, walk);
	}
}

static inline __attribute__((always_inline)) enum step
step(struct frame_walk *walk, uint64_t address, enum rp_plain_kind *ret_kind)
{
	uint64_t tag = rp_unwind_cache_tag(address, walk->objects.generation);
	struct rp_plain plain = { .kind = RP_PLAIN_NONE };
	bool ret, known = rp_unwind_cache_get(tag, &plain);

	if (walk->asks && !known)
		return UNKNOWN;
	if (walk->asks && plain.kind == RP_PLAIN_HARD)
		ret = step_frame_pointer(walk);
	else if (!known || plain.kind == RP_PLAIN_HARD)
		ret = step_hard(walk, address, tag, &plain);
	else if (plain.kind == RP_PLAIN_PLAIN)
		ret = step_plain(walk, &plain);
	else if (plain.kind == RP_PLAIN_REALIGNED)
		ret = step_realigned(walk, &plain);
	else if (plain.kind == RP_PLAIN_SIGNAL)
		ret = step_signal(walk);
	else
		ret = plain.kind == RP_PLAIN_NONE && step_frame_pointer(walk);
	*ret_kind = plain.kind;
	return ret ? GO_ON : STOP;
}

static __attribute__((noinline)) enum step
step_out_of_line(struct frame_walk *walk, enum rp_plain_kind *ret_kind)
{
	uint64_t from = walk->registers->value[RP_REG_RIP];

	return step(walk, from - (*ret_kind != RP_PLAIN_SIGNAL), ret_kind);
}

/*
 * End a walk at a frame whose unwind rule, that of `address`, is not cached: request the rule, and
 * end the stack with the marker RP_FRAME_CUT. The frame pointer may lead to a wrong frame. This
 * function is out of line, so that walks with cached rules alone are not slowed down.
 *
 * `count` frames are stored already. If `count` is 0, the current frame belongs to the library's
 * own code, so nothing of the stack is known.
 * Return: the number of frames, with the marker; -EAGAIN: `count` is 0.
 */
static __attribute__((noinline, cold)) int
cut(const struct frame_walk *walk, uint64_t address, uint64_t *ret_frames, unsigned int count)
{
	if (ask(address))
		ask_outwards(walk);
	if (count == 0)
		return -EAGAIN;
	ret_frames[count++] = RP_FRAME_CUT;
	return (int)count;
}

/* Walk outwards, and store the frames whose stack pointer is at or above `inner`. */
static int walk_out(struct frame_walk *walk, uint64_t inner, uint64_t *ret_frames, unsigned int max)
{
	struct rp_registers *registers = walk->registers;
	unsigned int count = 0, left_out = 0;
	/*
	 * At the start and after a signal frame, the address is not a return address: it is the
	 * instruction that runs next, so the rule is looked up there and not one byte before it.
	 */
	enum rp_plain_kind kind = RP_PLAIN_SIGNAL;
	enum step next;
	uint64_t address;

	if (max == 0)
		return 0;
	if (walk->asks)
		walk->objects.generation = rp_objects_generation();
	else
		rp_objects_open(&walk->objects);
	do {
		if (registers->value[RP_REG_RSP] >= inner)
			ret_frames[count++] = registers->value[RP_REG_RIP];
		else if (++left_out > LEFT_OUT_MAX)
			break;
		if (count >= max)
			break;
		address = registers->value[RP_REG_RIP] - (kind != RP_PLAIN_SIGNAL);
		next = step(walk, address, &kind);
		if (next == UNKNOWN)
			return cut(walk, address, ret_frames, count);
	} while (next == GO_ON);
	if (!walk->asks)
		rp_objects_close(&walk->objects);
	return (int)count;
}

unsigned int rp_unwind(struct rp_registers *registers, const struct rp_window *window,
		       uint64_t *ret_frames, unsigned int max)
{
	struct frame_walk walk = { .registers = registers, .window = window };

	return (unsigned int)walk_out(&walk, 0, ret_frames, max);
}

/* As rp_unwind_callers(), with all registers. */
static __attribute__((noinline)) int
walk_callers(const void *frame, uint64_t stack_end, uint64_t *ret_frames, unsigned int max)
{
	struct rp_window window = { 0, 0 };
	struct rp_registers registers;
	struct frame_walk walk = { .registers = &registers, .window = &window, .asks = true };

	if (!take_registers(&registers))
		return 0;
	window.low = registers.value[RP_REG_RSP];
	window.high = stack_end;
	return walk_out(&walk, (uint64_t)(uintptr_t)frame + 16, ret_frames, max);
}

int rp_unwind_callers(const void *frame, uint64_t *ret_frames, unsigned int max)
{
	const uint64_t at = (uint64_t)(uintptr_t)frame;
	unsigned int count = 0;
	uint64_t low, high;

	/* The stack is in use from the stack pointer to its end, so those pages are mapped. */
	if (!rp_thread_stack_bounds(&low, &high) || at < low || at >= high)
		high = 0;
	else
		count = rp_fast_walk((struct rp_window){ at, high }, rp_objects_generation(),
				     ret_frames, max);
	return count > 0 ? (int)count : walk_callers(frame, high, ret_frames, max);
}

unsigned int rp_unwind_sleeper(uint64_t stack_pointer, uint64_t instruction, uint64_t *ret_frames,
			       unsigned int max)
{
	static const struct rp_window nothing;
	struct rp_registers registers = { .known = 0 };
	struct frame_walk walk = {
		.registers = &registers, .window = &nothing, .is_sleeper = true,
	};

	rp_step_set(&registers, RP_REG_RSP, stack_pointer);
	rp_step_set(&registers, RP_REG_RIP, instruction);
	return (unsigned int)walk_out(&walk, 0, ret_frames, max);
}

unsigned int rp_unwind_cache_fill(void)
{
	uint64_t addresses[sizeof(asked) / sizeof(asked[0])];
	struct rp_objects objects;
	unsigned int count = 0;

	/* Before the refresh, so that the list has all objects in which these addresses are. */
	for (unsigned int i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		addresses[count] = rp_load_relaxed(&asked[i]);
		if (addresses[count] == 0)
			continue;
		rp_store_relaxed(&asked[i], 0);
		count++;
	}
	rp_unwind_refresh();
	rp_objects_open(&objects);
	for (unsigned int i = 0; i < count; i++) {
		uint64_t tag = rp_unwind_cache_tag(addresses[i], objects.generation);
		struct rp_cfi_row row;
		struct rp_plain plain;

		learn(rp_objects_find(&objects, addresses[i]), addresses[i], tag, &row, &plain);
	}
	rp_objects_close(&objects);
	return count;
}
