/* SPDX-License-Identifier: MIT */
/* Stacks: the writer's callers, from any place, without a read outside the writer's stack. */
#include "../in_valgrind.h"
#include "core_support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

RP_PROVIDER(stacks, "Test-Stacks");
RP_EVENT(stacks, here, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(number));

static struct rp_listener *listener;

/* The ends of functions are unknown: a return address is within this distance of its function. */
#define NEAR 4096

static bool is_in(uint64_t address, const void *function)
{
	return address > (uint64_t)(uintptr_t)function &&
	       address < (uint64_t)(uintptr_t)function + NEAR;
}

/* The return addresses of the chain's two inner functions, which are its frames. */
static uint64_t in_middle, in_outermost;

static uint64_t frame_at(const void *return_address)
{
	return (uint64_t)(uintptr_t)return_address;
}

static __attribute__((noinline)) void innermost(uint32_t number)
{
	in_middle = frame_at(__builtin_return_address(0));
	cr_assert_eq(stacks_here(number), 0);
	__asm__ volatile("");
}

/* Called through these pointers, so that no compiler specialises a copy for the number. */
static void (*volatile call_innermost)(uint32_t) = innermost;

static __attribute__((noinline)) void middle(uint32_t number)
{
	in_outermost = frame_at(__builtin_return_address(0));
	call_innermost(number);
	__asm__ volatile("");
}

static void (*volatile call_middle)(uint32_t) = middle;

static __attribute__((noinline)) void outermost(uint32_t number)
{
	call_middle(number);
	__asm__ volatile("");
}

static void (*volatile call_outermost)(uint32_t) = outermost;

/* The first frame, starting at `from`, inside the function; -1: none. */
static int frame_of(const struct rp_listener_event *event, const void *function, int from)
{
	for (uint32_t i = (uint32_t)from; i < event->frame_count; i++) {
		if (is_in(event->frames[i], function))
			return (int)i;
	}
	return -1;
}

/* Return: whether the unwind rules of the chain's functions and of their callers are cached. */
static bool is_chain_known(void)
{
	struct rp_listener_event event;

	call_outermost(0);
	expect_event(listener, &event);
	return event.frame_count > 0 && event.frames[event.frame_count - 1] != RP_FRAME_CUT;
}

static void set_up(void)
{
	listener = push_to(NULL, NULL, "Test-Stacks", RP_SESSION_STACKS);
	wait_until(is_chain_known());
}

static void tear_down(void)
{
	expect_end(listener);
}

TestSuite(core_stack, .init = set_up, .fini = tear_down);

/*
 * The rules of the callers, which get into the cache now, may replace one of the chain. The stack
 * is then marked as cut, and the rule is cached again.
 */
static bool is_cut_in_chain(const struct rp_listener_event *event)
{
	return event->frame_count > 0 && event->frame_count < 5 &&
	       event->frames[event->frame_count - 1] == RP_FRAME_CUT;
}

/* Expect the chain on the stack of an event that `call` writes. */
static void expect_chain(uint32_t number, void (*call)(uint32_t number))
{
	struct rp_listener_event event;
	uint32_t at;

	do {
		call(number);
		expect_event(listener, &event);
	} while (is_cut_in_chain(&event));
	cr_assert_eq(*(const uint32_t *)event.payload, number);
	cr_assert_geq(event.frame_count, 3u);
	/* The generated function, unless it is inlined; then the three, innermost first. */
	at = event.frames[1] == in_middle ? 0 : 1;
	cr_assert_lt(at + 2, event.frame_count);
	cr_assert(is_in(event.frames[at], innermost));
	cr_assert_eq(event.frames[at + 1], in_middle);
	cr_assert_eq(event.frames[at + 2], in_outermost);
	cr_assert_leq(event.frame_count, RP_STACK_MAX);
}

Test(core_stack, frames_are_the_callers_innermost_first)
{
	expect_chain(1, call_outermost);
}

static void *in_thread(void *data)
{
	call_outermost(*(uint32_t *)data);
	return NULL;
}

static void call_in_thread(uint32_t number)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, in_thread, &number), 0);
	pthread_join(thread, NULL);
}

Test(core_stack, other_threads_have_stacks_too)
{
	expect_chain(2, call_in_thread);
}

static void call_on_own_stack(uint32_t number)
{
	static char stack[4 << 20] __attribute__((aligned(4096)));	/* sanitizers need much */
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	cr_assert_eq(pthread_attr_setstack(&attr, stack, sizeof(stack)), 0);
	cr_assert_eq(pthread_create(&thread, &attr, in_thread, &number), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
}

Test(core_stack, thread_on_a_stack_of_its_own_has_one)
{
	expect_chain(3, call_on_own_stack);
}

static __attribute__((noinline)) void recurse(int depth)
{
	if (depth == 0)
		cr_assert_eq(stacks_here(4), 0);
	else
		recurse(depth - 1);
	__asm__ volatile("");
}

Test(core_stack, deep_stack_is_cut_at_the_limit)
{
	struct rp_listener_event event;

	do {
		recurse(1000);
		expect_event(listener, &event);
	} while (event.frames[event.frame_count - 1] == RP_FRAME_CUT);
	cr_assert_eq(event.frame_count, RP_STACK_MAX);
	cr_assert(is_in(event.frames[RP_STACK_MAX - 1], recurse));
}

static void skip_under_valgrind(const char *why)
{
	if (runs_in_valgrind())
		cr_skip_test("%s", why);
}

static void on_signal(int signal)
{
	(void)signal;
	(void)stacks_here(5);
}

Test(core_stack, handler_on_an_alternate_stack_writes_without_harm)
{
	char *memory = mmap(NULL, 3 * 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t alternate = { .ss_sp = memory + 65536, .ss_size = 65536 };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	struct rp_listener_event event;

	skip_under_valgrind("valgrind 3.19 loses track of a stack after a handler on another");
	/* No readable memory around it. */
	cr_assert_neq(memory, MAP_FAILED);
	cr_assert_eq(mprotect(alternate.ss_sp, alternate.ss_size, PROT_READ | PROT_WRITE), 0);
	cr_assert_eq(sigaltstack(&alternate, NULL), 0);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	expect_event(listener, &event);
	cr_assert_eq(*(const uint32_t *)event.payload, 5u);
	alternate.ss_flags = SS_DISABLE;
	sigaltstack(&alternate, NULL);
	munmap(memory, 3 * 65536);
}

#if defined(__x86_64__)
static __attribute__((noinline)) void write_directly(void)
{
	struct rp_part part = { "only", 4 };

	cr_assert_eq(rp_event_write(&stacks_here_event_, &part, 1), 0);
	__asm__ volatile("");
}

/* No unwind rule is cached yet in a process that has written no event with a stack. */
Test(core_stack_first, first_stack_of_a_process_is_its_caller_and_a_cut)
{
	struct rp_listener_event event;

	listener = push_to(NULL, NULL, "Test-Stacks", RP_SESSION_STACKS);
	write_directly();
	expect_event(listener, &event);
	cr_assert_eq(event.frame_count, 2u, "%u frames", event.frame_count);
	cr_assert(is_in(event.frames[0], write_directly));
	cr_assert_eq(event.frames[1], RP_FRAME_CUT);
	expect_end(listener);
}

static void write_seven(void)
{
	cr_assert_eq(stacks_here(7), 0);
	__asm__ volatile("");
}

static __attribute__((noinline)) void call_by(void (*call_back)(void (*run)(void)))
{
	call_back(write_seven);
	__asm__ volatile("");
}

/* Whether the stack has the caller of the library's function, which keeps no frame pointer. */
static bool shows_caller(void *code)
{
	void (*call_back)(void (*run)(void));
	struct rp_listener_event event;
	int at;

	*(void **)&call_back = dlsym(code, "passing_call");
	cr_assert_not_null(call_back);
	call_by(call_back);
	expect_event(listener, &event);
	at = frame_of(&event, *(void **)&call_back, 0);
	return at > 0 && (uint32_t)at + 1 < event.frame_count &&
	       is_in(event.frames[at + 1], call_by);
}

Test(core_stack, callers_of_a_library_without_frame_pointers_are_shown)
{
	void *code = dlopen(PASSING_CODE, RTLD_NOW);

	skip_under_valgrind("valgrind runs code of its own");
	cr_assert_not_null(code, "%s", dlerror());
	expect_end(listener);
	listener = push_to(NULL, NULL, "Test-Stacks", RP_SESSION_STACKS);
	wait_until(shows_caller(code));
	dlclose(code);
}

Test(core_stack, library_loaded_during_a_session_is_known_soon)
{
	void *code;

	skip_under_valgrind("valgrind runs code of its own");
	code = dlopen(PASSING_CODE, RTLD_NOW);
	cr_assert_not_null(code, "%s", dlerror());
	wait_until(shows_caller(code));
	dlclose(code);
}

/* Calls rp_event_write() like code without frame pointers, with an arbitrary value in rbp. */
static __attribute__((noinline)) long write_with_rbp(struct rp_event *event,
						     const struct rp_part *part, uint64_t rbp)
{
	register long result __asm__("rax") = (long)(uintptr_t)rp_event_write;

	__asm__ volatile(
		"pushq %%rbp\n\t"
		"pushq %%rbx\n\t"
		"movq %%rsp, %%rbx\n\t"
		"andq $-16, %%rsp\n\t"
		"movq %[rbp], %%rbp\n\t"
		"callq *%%rax\n\t"
		"movq %%rbx, %%rsp\n\t"
		"popq %%rbx\n\t"
		"popq %%rbp\n\t"
		: "+r"(result)
		: "D"(event), "S"(part), "d"(1), [rbp] "r"(rbp)
		: "rcx", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3",
		  "xmm4", "xmm5", "xmm6", "xmm7");
	return result;
}

static void write_hostile(uint64_t stack_end)
{
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	const uint64_t hostile[] = {
		0, 1, 7, 8, 16, 4096, here, here - 8, here - 4096, here + 1, here + 3, here | 7,
		here + 8, here + 16, stack_end, stack_end - 8, stack_end - 16, stack_end + 8,
		stack_end + 4096, 0x7fffffffffff, 0x7ffffffffff8, 0x800000000000,
		0x4141414141414140, 0x8000000000000000, 0xffff800000000000, 0xffffffffff600000,
		UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 8, UINT64_MAX - 15, UINT64_MAX - 16,
		UINT64_MAX - 23, UINT64_MAX - 31,
	};

	for (uint32_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		struct rp_part part = { &i, sizeof(i) };

		(void)write_with_rbp(&stacks_here_event_, &part, hostile[i]);
	}
}

static void *write_hostile_in_thread(void *data)
{
	pthread_attr_t attr;
	void *stack;
	size_t size;

	(void)data;
	cr_assert_eq(pthread_getattr_np(pthread_self(), &attr), 0);
	pthread_attr_getstack(&attr, &stack, &size);
	pthread_attr_destroy(&attr);
	write_hostile((uint64_t)(uintptr_t)stack + size);
	return NULL;
}

static void expect_hostile(void)
{
	struct rp_listener_event event;
	uint32_t i;

	for (i = 0; i < 33; i++) {
		expect_event(listener, &event);
		cr_assert_eq(*(const uint32_t *)event.payload, i);
		cr_assert_leq(event.frame_count, RP_STACK_MAX);
	}
}

Test(core_stack, hostile_frame_pointers_in_a_thread_do_no_harm)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, write_hostile_in_thread, NULL), 0);
	pthread_join(thread, NULL);
	expect_hostile();
}

Test(core_stack, hostile_frame_pointers_in_the_main_thread_do_no_harm)
{
	write_hostile_in_thread(NULL);
	expect_hostile();
}
#endif

Test(core_stack, session_without_the_flag_gets_no_frames)
{
	struct rp_listener *plain = listen_to("Test-Stacks");
	struct rp_listener_event event;

	call_outermost(6);
	expect_event(plain, &event);
	cr_assert_eq(event.frame_count, 0u);
	cr_assert_eq(event.payload_bytes, 4u);
	expect_end(plain);
	/* The other session has the event, too. */
	expect_event(listener, &event);
	cr_assert_gt(event.frame_count, 0u);
}

Test(core_stack, event_may_refuse_stacks)
{
	static const struct rp_field field[] = { { "number", NULL, 0, RP_TYPE_U32, 0, 0, NULL } };
	struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 1, .name = "bare", .fields = field, .field_count = 1,
		.flags = RP_EVENT_NO_STACK,
	};
	struct rp_listener_event event;
	struct rp_provider *provider;
	struct rp_event *bare;

	cr_assert_eq(rp_provider_create("Test-Stacks", NULL, NULL, &provider), 0);
	cr_assert_eq(rp_event_create(provider, &decl, &bare), 0);
	cr_assert_eq(rp_event_write(bare, &(struct rp_part){ "abcd", 4 }, 1), 0);
	expect_event(listener, &event);
	cr_assert_eq(event.frame_count, 0u);
	cr_assert_arr_eq(event.payload, "abcd", 4);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}
