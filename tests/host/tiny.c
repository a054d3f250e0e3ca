/* SPDX-License-Identifier: MIT */
#include "tiny.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

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

/* Each invocation of the interpreter has one frame. */
static int walk(const struct rp_host_walk *stack, uint64_t *ret_frames, unsigned int max,
		void *data)
{
	unsigned int count = 0;

	(void)data;
	(void)stack;
	for (uint32_t i = tiny_stack.depth; i-- > 0 && count + 2 <= max;) {
		ret_frames[count++] = tiny_frame_of(tiny_stack.frames[i].function,
						    tiny_stack.frames[i].line);
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
	struct rp_host_module module = {
		.size = sizeof(module),
		.range = { base, base + TINY_FUNCTIONS * FUNCTION_SPAN },
		.path = "[tiny]",
	};

	(void)data;
	visit(&module, visit_data);
}

void tiny_init(struct rp_host *host)
{
	*host = (struct rp_host)RP_HOST_INIT;
	if (!base)
		base = (uint64_t)(uintptr_t)mmap(NULL, TINY_FUNCTIONS * FUNCTION_SPAN, PROT_NONE,
						 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
						 0);
	(void)rp_host_find_function((const void *)(uintptr_t)tiny_run, &tiny_loop);
	host->walk = walk;
	host->resolve = resolve;
	host->list_modules = list_modules;
	host->interpreters = &tiny_loop;
	host->interpreter_count = 1;
}
