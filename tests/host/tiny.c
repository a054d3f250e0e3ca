/* SPDX-License-Identifier: MIT */
#include "tiny.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FUNCTION_SPAN (TINY_LINES * TINY_LINE_SPAN)

__thread struct tiny_stack tiny_stack __attribute__((tls_model("initial-exec")));

const char *const tiny_names[TINY_FUNCTIONS] = {
	[TINY_MAIN] = "main", [TINY_SORT] = "sort_names", [TINY_COMPARE] = "compare",
};

static struct rp_host_range tiny_loop;
static uint64_t base;

uint64_t tiny_frame_of(enum tiny_function function, uint32_t line)
{
	return base + function * FUNCTION_SPAN + line * TINY_LINE_SPAN + TINY_LINE_SPAN / 2;
}

/* The loop of the interpreter. It leaves its frame on the stack while the body runs. */
__attribute__((noinline)) void tiny_run(enum tiny_function function, uint32_t line,
					void (*body)(void *), void *data)
{
	uint32_t depth = tiny_stack.depth;

	tiny_stack.frames[depth] = (struct tiny_frame){ function, line };
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	tiny_stack.depth = depth + 1;
	body(data);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	tiny_stack.depth = depth;
}

bool tiny_defers;

/* Requests a sample of this thread at its next safe point. */
static __thread volatile bool wants_sample __attribute__((tls_model("initial-exec")));

/* The stack of the one thread that computes, for the sampler's thread. */
static struct tiny_stack *computing;
static uint32_t computing_thread;
static uint32_t is_stopped, stands_still, sample_requested;

/* A second stop may still see that this thread stood still in the first one: look again. */
static void wait_while_stopped(void)
{
	do {
		__atomic_store_n(&stands_still, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&is_stopped, __ATOMIC_SEQ_CST))
			sched_yield();
		__atomic_store_n(&stands_still, 0, __ATOMIC_SEQ_CST);
	} while (__atomic_load_n(&is_stopped, __ATOMIC_SEQ_CST));
}

void tiny_safe_point(void)
{
	if (__atomic_load_n(&is_stopped, __ATOMIC_SEQ_CST))
		wait_while_stopped();
	if (wants_sample || __atomic_exchange_n(&sample_requested, 0, __ATOMIC_SEQ_CST)) {
		wants_sample = false;
		(void)rp_host_sample_now();
	}
}

/* A call of tiny_compute(). */
struct computation {
	int (*is_over)(void *over_data);
	void *over_data;
};

static void compute_body(void *data)
{
	const struct computation *computation = data;

	while (!computation->is_over(computation->over_data))
		tiny_safe_point();
}

void tiny_compute(int (*is_over)(void *over_data), void *over_data)
{
	struct computation computation = { is_over, over_data };

	computing = &tiny_stack;
	__atomic_store_n(&computing_thread, (uint32_t)gettid(), __ATOMIC_SEQ_CST);
	tiny_run(TINY_COMPARE, 40, compute_body, &computation);
	__atomic_store_n(&computing_thread, 0, __ATOMIC_SEQ_CST);
}

/* The sampler ends after its session, so it may stop the world while a check does. */
static int stop_world(void *data)
{
	(void)data;
	while (__atomic_exchange_n(&is_stopped, 1, __ATOMIC_SEQ_CST))
		sched_yield();
	while (__atomic_load_n(&computing_thread, __ATOMIC_SEQ_CST) &&
	       !__atomic_load_n(&stands_still, __ATOMIC_SEQ_CST))
		sched_yield();
	return 0;
}

static void start_world(void *data)
{
	(void)data;
	__atomic_store_n(&is_stopped, 0, __ATOMIC_SEQ_CST);
}

static void request_sample(uint32_t thread, void *data)
{
	(void)data;
	if (thread == __atomic_load_n(&computing_thread, __ATOMIC_SEQ_CST))
		__atomic_store_n(&sample_requested, 1, __ATOMIC_SEQ_CST);
}

/* Each invocation of the interpreter has one frame. */
static int walk(const struct rp_host_walk *walked, uint64_t *ret_frames, unsigned int max,
		void *data)
{
	const struct tiny_stack *stack = &tiny_stack;
	unsigned int count = 0;

	(void)data;
	if (walked->context == RP_HOST_WALK_SIGNAL && tiny_defers) {
		wants_sample = true;
		return -EAGAIN;
	}
	if (walked->context == RP_HOST_WALK_STOPPED) {
		if (walked->thread != __atomic_load_n(&computing_thread, __ATOMIC_SEQ_CST))
			return 0;
		stack = computing;
	}
	for (uint32_t i = stack->depth; i-- > 0 && count + 2 <= max;) {
		ret_frames[count++] = tiny_frame_of(stack->frames[i].function,
						    stack->frames[i].line);
		ret_frames[count++] = RP_HOST_FRAME_NATIVE;
	}
	return (int)count;
}

static int resolve(uint64_t frame, struct rp_host_method *ret_method, void *data)
{
	uint64_t place = (frame - base) / TINY_LINE_SPAN;

	(void)data;
	if (frame < base || place >= TINY_FUNCTIONS * TINY_LINES)
		return -ENOENT;
	ret_method->start = base + place * TINY_LINE_SPAN;
	ret_method->end = ret_method->start + TINY_LINE_SPAN;
	ret_method->line = (uint32_t)(place % TINY_LINES);
	snprintf(ret_method->name, sizeof(ret_method->name), "%s",
		 tiny_names[place / TINY_LINES]);
	snprintf(ret_method->file, sizeof(ret_method->file), "names.tiny");
	return 0;
}

static void list_modules(rp_host_module_visitor visit, void *visit_data, void *data)
{
	struct rp_host_module module = RP_HOST_MODULE_INIT;

	(void)data;
	module.range.start = base;
	module.range.end = base + TINY_FUNCTIONS * FUNCTION_SPAN;
	module.path = "[tiny]";
	visit(&module, visit_data);
}

static void list_methods(rp_host_method_visitor visit, void *visit_data, void *data)
{
	struct rp_host_method method = RP_HOST_METHOD_INIT;

	(void)data;
	method.line = 1;
	method.start = base;
	method.end = base + 16;
	method.code = (const void *)(uintptr_t)tiny_run;
	snprintf(method.name, sizeof(method.name), "main");
	snprintf(method.file, sizeof(method.file), "names.tiny");
	visit(&method, visit_data);
}

static int thread_name(uint32_t thread, char *ret_name, size_t space, void *data)
{
	(void)data;
	snprintf(ret_name, space, "tiny-%u", thread);
	return 0;
}

static void thread_begin(const char *name, void *data)
{
	(void)name;
	(void)data;
}

static void thread_end(void *data)
{
	(void)data;
}

static void start_up(void *data)
{
	(void)data;
}

static int process_state(void *data)
{
	(void)data;
	return RP_HOST_RUNNING;
}

/* Command 1 replies with its payload. */
static int command(const struct rp_host_command *request, struct rp_host_reply *reply, void *data)
{
	(void)data;
	return request->id == 1 ? rp_host_reply_put(reply, request->payload,
						    request->payload_bytes) : -ENOSYS;
}

static void *allocate(size_t bytes, void *data)
{
	(void)data;
	return malloc(bytes);
}

static void release(void *memory, void *data)
{
	(void)data;
	free(memory);
}

void tiny_init(struct rp_host *host)
{
	*host = (struct rp_host)RP_HOST_INIT;
	if (!base)
		base = (uint64_t)(uintptr_t)mmap(NULL, TINY_FUNCTIONS * FUNCTION_SPAN, PROT_NONE,
						 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
						 0);
	(void)rp_host_find_function((const void *)(uintptr_t)tiny_run, &tiny_loop);
	host->thread_name = thread_name;
	host->thread_begin = thread_begin;
	host->thread_end = thread_end;
	host->walk = walk;
	host->interpreters = &tiny_loop;
	host->interpreter_count = 1;
	host->resolve = resolve;
	host->list_modules = list_modules;
	host->list_methods = list_methods;
	host->stop_world = stop_world;
	host->start_world = start_world;
	host->request_sample = request_sample;
	host->start_up = start_up;
	host->process_state = process_state;
	host->process_name = "tiny";
	host->runtime_version = "tiny-1.0";
	host->command_set = RP_HOST_COMMAND_SET_MIN;
	host->command = command;
	host->allocate = allocate;
	host->release = release;
}
