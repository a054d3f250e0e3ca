/* SPDX-License-Identifier: MIT */
/*
 * Stacks that no compiler produces: broken, unmapped, endless, on another stack, through code
 * without an unwind table or without a mapping. For each, the library returns the frames that it
 * can find, without a fault.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "../in_valgrind.h"
#include "unwind/loaded_objects.h"
#include "unwind/unwind.h"

#define FRAMES_MAX 100u
#define PAGE 4096u

/* Each function is in its own section of the program, so that an address identifies it. */
#define PLACE(name) __attribute__((noinline, section("text_" #name)))
extern const char __start_text_taker[], __stop_text_taker[];
extern const char __start_text_middle[], __stop_text_middle[];
extern const char __start_text_outer[], __stop_text_outer[];

/* Keeps the compiler from making the call before it a tail call. */
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

struct stack {
	uint64_t frames[FRAMES_MAX];
	unsigned int count;
};

static struct stack seen;

static void init(void)
{
	if (runs_in_valgrind())
		cr_skip_test("valgrind runs code of its own");
	rp_unwind_refresh();
}

TestSuite(unwind_stack, .init = init, .timeout = 120);

static bool is_in_taker(uint64_t address)
{
	return address >= (uint64_t)(uintptr_t)__start_text_taker &&
	       address < (uint64_t)(uintptr_t)__stop_text_taker;
}

static bool is_in_middle(uint64_t address)
{
	return address >= (uint64_t)(uintptr_t)__start_text_middle &&
	       address < (uint64_t)(uintptr_t)__stop_text_middle;
}

static bool is_in_outer(uint64_t address)
{
	return address >= (uint64_t)(uintptr_t)__start_text_outer &&
	       address < (uint64_t)(uintptr_t)__stop_text_outer;
}

static void unwind_context(const ucontext_t *context)
{
	static const struct rp_window nothing;
	struct rp_registers registers;

	cr_assert(rp_registers_of_context(context, &registers));
	seen.count = rp_unwind(&registers, &nothing, seen.frames, FRAMES_MAX);
	cr_assert_leq(seen.count, FRAMES_MAX);
}

/* Takes the stack from this function outwards. */
static PLACE(taker) void take_stack(void)
{
	ucontext_t context;

	cr_assert_eq(getcontext(&context), 0);
	unwind_context(&context);
	NO_TAIL_CALL();
}

static PLACE(middle) void call_taker(void)
{
	take_stack();
	NO_TAIL_CALL();
}

/* Overwrites one of the two words that a call with a frame pointer pushes. */
static PLACE(outer) __attribute__((no_sanitize("address", "thread")))
void call_spoiled(unsigned int word, uint64_t value)
{
	volatile uint64_t *frame = __builtin_frame_address(0);
	uint64_t before = frame[word];

	frame[word] = value;
	call_taker();
	frame[word] = before;
}

static void (*volatile spoil)(unsigned int word, uint64_t value) = call_spoiled;

static void expect_known_calls(void)
{
	cr_assert_geq(seen.count, 3u);
	cr_expect(is_in_taker(seen.frames[0]));
	cr_expect(is_in_middle(seen.frames[1]));
	cr_expect(is_in_outer(seen.frames[2]));
}

static void spoil_with_all(unsigned int word)
{
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	uint64_t circle[4];
	const uint64_t hostile[] = {
		0, 1, 7, 8, 4096, here, here + 1, here + 8, here - 8, here - 4096, here + (1 << 20),
		(uint64_t)(uintptr_t)&circle, (uint64_t)(uintptr_t)&seen,
		(uint64_t)(uintptr_t)call_taker, 0x4141414141414141, 0x7fffffffffff,
		0x7ffffffffff8, 0x800000000000, 0x8000000000000000, 0xffff800000000000,
		0xffffffffff600000, UINT64_MAX - 15, UINT64_MAX - 7, UINT64_MAX,
	};

	/* Frames that point to each other. */
	circle[0] = circle[2] = (uint64_t)(uintptr_t)&circle;
	circle[1] = circle[3] = (uint64_t)(uintptr_t)call_taker + 1;
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		spoil(word, hostile[i]);
		expect_known_calls();
		if (word == 1 && hostile[i] == 0)
			cr_expect_eq(seen.count, 3u, "%u frames", seen.count);
		else if (word == 1)
			cr_expect_eq(seen.frames[3], hostile[i]);
		else
			cr_expect_geq(seen.count, 4u);
	}
}

Test(unwind_stack, broken_return_address_leaves_the_calls_before_it)
{
	spoil_with_all(1);
}

Test(unwind_stack, broken_frame_pointer_leaves_the_calls_before_it)
{
	spoil_with_all(0);
}

static void (*volatile taker_called)(void) = call_taker;

/* Through a pointer, so that the call instruction does not contain the target. */
static PLACE(outer) void call_by_pointer(void)
{
	taker_called();
	NO_TAIL_CALL();
}

/*
 * A sleeping thread's frame pointer and return address may be in two places; the second is the true
 * one. If `leads_out`, it continues with this function's frame, and so reaches the thread's first
 * frame.
 */
static void expect_the_second(bool is_own_call, bool leads_out)
{
	static volatile uint64_t elsewhere[(64 << 10) / 8 + 64];
	volatile uint64_t here[16] = { 0 }, *stack = leads_out ? here : elsewhere;
	uint64_t frames[FRAMES_MAX];
	unsigned int count;

	call_by_pointer();
	expect_known_calls();
	stack[0] = is_own_call ? 0 : (uint64_t)(uintptr_t)&stack[14];
	stack[1] = seen.frames[is_own_call ? 1 : 3];
	stack[8] = (uint64_t)(uintptr_t)(leads_out ? __builtin_frame_address(0) :
						      (const void *)&stack[14]);
	stack[9] = seen.frames[2];
	count = rp_unwind_sleeper((uint64_t)(uintptr_t)stack, seen.frames[1], frames, FRAMES_MAX);
	cr_assert_geq(count, leads_out ? 3u : 2u);
	cr_expect_eq(frames[0], seen.frames[1]);
	cr_expect_eq(frames[1], seen.frames[2]);
}

/*
 * A call with arguments on the stack leaves the return address of an earlier call between them. A
 * zero before that address looks like the first frame of a thread.
 */
Test(unwind_stack, sleeper_did_not_come_from_calls_that_its_function_made_before)
{
	expect_the_second(true, true);
}

Test(unwind_stack, sleeper_did_not_come_from_such_a_call_where_nothing_leads_out)
{
	expect_the_second(true, false);
}

/* Finished calls have left a frame whose caller no longer exists. */
Test(unwind_stack, sleeper_did_not_come_from_what_leads_nowhere)
{
	expect_the_second(false, true);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

struct texts {
	struct { uint64_t start, bytes; } of[64];
	unsigned int count;
};

static int add_text(struct dl_phdr_info *info, size_t size, void *data)
{
	struct texts *texts = data;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum && texts->count < 64; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
			continue;
		texts->of[texts->count].start = info->dlpi_addr + header->p_vaddr;
		texts->of[texts->count++].bytes = header->p_memsz;
	}
	return 0;
}

#define GARBAGE_WORDS (16u * PAGE / 8)

/* A word like those on stacks: an address on the stack, code, a number, anything. */
static uint64_t random_word(uint64_t *state, const struct texts *texts, const uint64_t *garbage)
{
	uint64_t pick = next_random(state), what = next_random(state) % 8;
	unsigned int text = (unsigned int)(pick % texts->count);

	if (what < 3)
		return (uint64_t)(uintptr_t)garbage + pick % (GARBAGE_WORDS * 8 + 64);
	if (what < 6)
		return texts->of[text].start + next_random(state) % texts->of[text].bytes;
	return what == 6 ? pick : pick % 4096;
}

static uint64_t *map_garbage(uint64_t *state, const struct texts *texts)
{
	uint64_t *garbage = mmap(NULL, 18 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* No accessible memory on either side. */
	cr_assert_neq(garbage, MAP_FAILED);
	garbage += PAGE / 8;
	cr_assert_eq(mprotect(garbage, 16 * PAGE, PROT_READ | PROT_WRITE), 0);
	for (unsigned int i = 0; i < GARBAGE_WORDS; i++)
		garbage[i] = random_word(state, texts, garbage);
	return garbage;
}

static void expect_end_of_garbage(uint64_t *state, const struct texts *texts, uint64_t *garbage,
				  bool is_sleeper)
{
	struct rp_window window = { (uint64_t)(uintptr_t)garbage,
				    (uint64_t)(uintptr_t)(garbage + GARBAGE_WORDS) };
	struct rp_registers registers = { .known = (1u << RP_REG_COUNT) - 1 };
	uint64_t instruction, frames[FRAMES_MAX];
	unsigned int count;

	for (unsigned int reg = 0; reg < RP_REG_COUNT; reg++)
		registers.value[reg] = random_word(state, texts, garbage);
	instruction = registers.value[RP_REG_RIP];
	if (is_sleeper)
		count = rp_unwind_sleeper(registers.value[RP_REG_RSP], instruction, frames,
					  FRAMES_MAX);
	else
		count = rp_unwind(&registers, &window, frames, FRAMES_MAX);
	cr_assert_geq(count, 1u);
	cr_assert_leq(count, FRAMES_MAX);
	cr_assert_eq(frames[0], instruction);
}

Test(unwind_stack, garbage_everywhere_is_followed_to_an_end)
{
	struct texts texts = { .count = 0 };
	uint64_t state = 88172645463325252ull, *garbage;

	dl_iterate_phdr(add_text, &texts);
	garbage = map_garbage(&state, &texts);
	for (int i = 0; i < 50000; i++)
		expect_end_of_garbage(&state, &texts, garbage, false);
	for (int i = 0; i < 500; i++)
		expect_end_of_garbage(&state, &texts, garbage, true);
}

/* The frame is at the stack pointer: the first instruction of any function. */
static unsigned int unwind_from(uint64_t instruction, const uint64_t *stack)
{
	static const struct rp_window nothing;
	struct rp_registers registers = { .known = 1u << RP_REG_RIP | 1u << RP_REG_RSP };

	registers.value[RP_REG_RIP] = instruction;
	registers.value[RP_REG_RSP] = (uint64_t)(uintptr_t)stack;
	seen.count = rp_unwind(&registers, &nothing, seen.frames, FRAMES_MAX);
	return seen.count;
}

Test(unwind_stack, stack_that_is_not_mapped_shows_the_function_alone)
{
	uint64_t *memory = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start = (uint64_t)(uintptr_t)take_stack, *end = memory + PAGE / 8;

	cr_assert_neq(memory, MAP_FAILED);
	cr_expect_eq(unwind_from(start, memory), 1u);
	cr_expect_eq(unwind_from(start, NULL), 1u);
	cr_expect_eq(unwind_from(start, (uint64_t *)UINT64_MAX), 1u);
	/* A stack that ends in the middle. */
	cr_assert_eq(mprotect(memory, PAGE, PROT_READ | PROT_WRITE), 0);
	end[-1] = end[-2] = start + 1;
	cr_expect_eq(unwind_from(start, end - 2), 3u);
	cr_expect_eq(seen.frames[2], start + 1);
	/* A word that crosses the boundary. */
	cr_expect_eq(unwind_from(start, (uint64_t *)(uintptr_t)((uintptr_t)end - 4)), 1u);
}

static PLACE(outer) void recurse(unsigned int depth)
{
	if (depth == 0)
		call_taker();
	else
		recurse(depth - 1);
	NO_TAIL_CALL();
}

Test(unwind_stack, deep_recursion_is_cut_at_the_limit)
{
	recurse(10000);
	expect_known_calls();
	cr_assert_eq(seen.count, FRAMES_MAX);
	for (unsigned int i = 2; i < FRAMES_MAX; i++)
		cr_assert(is_in_outer(seen.frames[i]), "frame %u", i);
}

static sigjmp_buf out_of_overflow;

static void on_overflow(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	unwind_context(context);
	siglongjmp(out_of_overflow, 1);
}

static PLACE(outer) unsigned int recurse_for_ever(volatile unsigned int *depth)
{
	return ++*depth ? recurse_for_ever(depth) + *depth : 0;
}

static void *overflow(void *data)
{
	static char memory[256 << 10];
	stack_t alternate = { .ss_sp = memory, .ss_size = sizeof(memory) };
	volatile unsigned int depth = 0;

	(void)data;
	cr_assert_eq(sigaltstack(&alternate, NULL), 0);
	if (sigsetjmp(out_of_overflow, 1) == 0)
		(void)recurse_for_ever(&depth);
	alternate.ss_flags = SS_DISABLE;
	sigaltstack(&alternate, NULL);
	return NULL;
}

Test(unwind_stack, overflow_of_a_stack_shows_what_called_itself)
{
	struct sigaction action = { .sa_sigaction = on_overflow,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };
	pthread_t thread;

#ifdef __SANITIZE_THREAD__
	cr_skip_test("ThreadSanitizer counts calls, and has room for so many");
#endif
	cr_assert_eq(sigaction(SIGSEGV, &action, NULL), 0);
	cr_assert_eq(pthread_create(&thread, NULL, overflow, NULL), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(seen.count, FRAMES_MAX);
	for (unsigned int i = 1; i < FRAMES_MAX; i++)
		cr_assert(is_in_outer(seen.frames[i]), "frame %u", i);
}

static void on_signal(int number)
{
	(void)number;
	call_taker();
}

static PLACE(outer) void raise_signal(void)
{
	raise(SIGUSR1);
	NO_TAIL_CALL();
}

/* Continues from the handler's stack to the interrupted one. */
Test(unwind_stack, handler_on_an_alternate_stack_shows_what_it_interrupted)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	char *memory = mmap(NULL, 66 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t alternate = { .ss_sp = memory + PAGE, .ss_size = 64 * PAGE };
	unsigned int at = 0;

	cr_assert_neq(memory, MAP_FAILED);
	cr_assert_eq(mprotect(alternate.ss_sp, alternate.ss_size, PROT_READ | PROT_WRITE), 0);
	cr_assert_eq(sigaltstack(&alternate, NULL), 0);
	cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
	raise_signal();
	alternate.ss_flags = SS_DISABLE;
	cr_assert_eq(sigaltstack(&alternate, NULL), 0);
	munmap(memory, 66 * PAGE);
	cr_assert_geq(seen.count, 3u);
	cr_expect(is_in_taker(seen.frames[0]));
	cr_expect(is_in_middle(seen.frames[1]));
	while (at < seen.count && !is_in_outer(seen.frames[at]))
		at++;
	cr_expect_lt(at, seen.count, "what was interrupted is not among %u frames", seen.count);
}

/* Calls its first argument: with a frame pointer, and with eight bytes on the stack instead. */
static const uint8_t with_pointer[] = {
	0x55,				/* push %rbp */
	0x48, 0x89, 0xe5,		/* mov %rsp, %rbp */
	0xff, 0xd7,			/* call *%rdi */
	0x5d,				/* pop %rbp */
	0xc3,				/* ret */
};
static const uint8_t without_pointer[] = {
	0x48, 0x83, 0xec, 0x08,		/* sub $8, %rsp */
	0xff, 0xd7,			/* call *%rdi */
	0x48, 0x83, 0xc4, 0x08,		/* add $8, %rsp */
	0xc3,				/* ret */
};

static PLACE(outer) void call_made(void (*made)(void (*)(void)))
{
	made(call_taker);
	NO_TAIL_CALL();
}

/* Code generated at run time, in a separate mapping; the caller's frame has a pointer. */
static uint64_t run_made_code(const uint8_t *code, size_t bytes)
{
	void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*made)(void (*)(void));

	cr_assert_neq(memory, MAP_FAILED);
	memcpy(memory, code, bytes);
	if (mprotect(memory, PAGE, PROT_READ | PROT_EXEC) != 0)
		cr_skip_test("no program may make code here");
	*(void **)&made = memory;
	call_made(made);
	return (uint64_t)(uintptr_t)memory;
}

Test(unwind_stack, generated_code_is_followed_by_its_frame_pointer)
{
	uint64_t made = run_made_code(with_pointer, sizeof(with_pointer));

	cr_assert_geq(seen.count, 5u);
	cr_expect(is_in_taker(seen.frames[0]));
	cr_expect(is_in_middle(seen.frames[1]));
	cr_expect_eq(seen.frames[2], made + 6);
	cr_expect(is_in_outer(seen.frames[3]));
}

/* The walk misses the code's caller: the frame pointer is the caller's, one frame too far. */
Test(unwind_stack, code_made_without_a_frame_pointer_is_reported_and_hides_its_caller)
{
	uint64_t made = run_made_code(without_pointer, sizeof(without_pointer));

	cr_assert_geq(seen.count, 3u);
	cr_expect(is_in_taker(seen.frames[0]));
	cr_expect(is_in_middle(seen.frames[1]));
	cr_expect_eq(seen.frames[2], made + 6);
	for (unsigned int i = 3; i < seen.count; i++)
		cr_expect_not(is_in_outer(seen.frames[i]));
}

static void *open_code(void)
{
	void *code = dlopen(PASSING_CODE, RTLD_NOW);

	cr_assert_not_null(code, "%s", dlerror());
	return code;
}

Test(unwind_stack, library_without_frame_pointers_is_followed_by_its_tables)
{
	void *code = open_code();
	void (*call_back)(void (*run)(void));

	*(void **)&call_back = dlsym(code, "passing_call");
	cr_assert_not_null(call_back);
	cr_assert(rp_unwind_refresh());
	call_made(call_back);
	cr_assert_geq(seen.count, 5u);
	cr_expect(is_in_middle(seen.frames[1]));
	cr_expect_gt(seen.frames[2], (uint64_t)(uintptr_t)call_back);
	cr_expect_lt(seen.frames[2], (uint64_t)(uintptr_t)call_back + 64);
	cr_expect(is_in_outer(seen.frames[3]));
	dlclose(code);
}

/* A library that was loaded and unloaded; then its addresses hold other content. */
Test(unwind_stack, library_that_went_is_no_harm)
{
	struct rp_objects objects;
	struct rp_object_text text;
	uint64_t start, span;
	uint64_t stack[64];
	void *code = open_code(), *place;
	uint64_t function = (uint64_t)(uintptr_t)dlsym(code, "passing_call");

	cr_assert(rp_unwind_refresh());
	rp_objects_open(&objects);
	cr_assert_not_null(rp_objects_find(&objects, function));
	text = *rp_objects_find(&objects, function);
	rp_objects_close(&objects);
	dlclose(code);
	for (unsigned int i = 0; i < 64; i++)
		stack[i] = function + i;
	for (uint64_t at = text.start; at < text.end; at++)
		cr_assert_geq(unwind_from(at, stack), 1u);
	start = text.start & ~(uint64_t)(PAGE - 1);
	span = ((text.end > text.header_end ? text.end : text.header_end) - start + PAGE) &
	       ~(uint64_t)(PAGE - 1);
	place = mmap((void *)(uintptr_t)start, span, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	cr_assert_eq((uint64_t)(uintptr_t)place, start);
	for (uint64_t state = 1, i = 0; i < span / 8; i++)
		((uint64_t *)place)[i] = next_random(&state);
	for (uint64_t at = text.start; at < text.end; at++)
		cr_assert_geq(unwind_from(at, stack), 1u);
	munmap(place, span);
	cr_assert(rp_unwind_refresh());
	rp_objects_open(&objects);
	cr_expect_null(rp_objects_find(&objects, function));
	rp_objects_close(&objects);
}
