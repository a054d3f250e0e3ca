/* SPDX-License-Identifier: MIT */
/*
 * The conformance suite on the host of tiny.c, correct or with one fault:
 *
 *	conformance MODE	the whole suite on a correct host: `signal`, `deferring`,
 *				`safe-point` or `stopped`
 *	conformance CHECK	one check on the host whose fault it must find
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/host_test.h>
#include <ringpipe/ringpipe.h>

#include "tiny.h"

RP_PROVIDER(faulty, "Tiny-Faulty");
RP_EVENT(faulty, walked, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(depth));

static const char *const names[] = {
	"compare names.tiny:30", "sort_names names.tiny:20", "main names.tiny:10",
};

/* A body in the innermost function, and the functions around it. */
struct nested {
	void (*body)(void *);
	void *data;
};

static void run_body(void *data)
{
	const struct nested *nested = data;

	nested->body(nested->data);
	__asm__ volatile("");
}

static void run_compare(void *data)
{
	tiny_run(TINY_COMPARE, 30, run_body, data);
	__asm__ volatile("");
}

static void run_sort(void *data)
{
	tiny_run(TINY_SORT, 20, run_compare, data);
	__asm__ volatile("");
}

static void call(void (*body)(void *), void *body_data, void *data)
{
	struct nested nested = { body, body_data };

	(void)data;
	tiny_run(TINY_MAIN, 10, run_sort, &nested);
}

static void compute(int (*is_over)(void *over_data), void *over_data, void *data)
{
	(void)data;
	tiny_compute(is_over, over_data);
}

/* The correct table, which the faulty callbacks use. */
static struct rp_host good;

static int overflows(const struct rp_host_walk *walk, uint64_t *ret_frames, unsigned int max,
		     void *data)
{
	int count = good.walk(walk, ret_frames, max, data);

	if (count >= 0 && (unsigned int)count <= max)
		ret_frames[count++] = tiny_frame_of(TINY_MAIN, 1);
	return count;
}

static int reverses(const struct rp_host_walk *walk, uint64_t *ret_frames, unsigned int max,
		    void *data)
{
	uint64_t frames[RP_STACK_MAX];
	int count = good.walk(walk, frames, max, data);

	for (int i = 0; i < count; i++)
		ret_frames[i] = frames[count - 1 - i];
	return count;
}

static int keeps_old_frames(const struct rp_host_walk *walk, uint64_t *ret_frames,
			    unsigned int max, void *data)
{
	static uint64_t frames[RP_STACK_MAX];
	static int last;
	int count = good.walk(walk, ret_frames, max, data);

	if (count > 0) {
		memcpy(frames, ret_frames, (size_t)count * sizeof(frames[0]));
		last = count;
		return count;
	}
	memcpy(ret_frames, frames, (size_t)last * sizeof(frames[0]));
	return last;
}

static int allocates(const struct rp_host_walk *walk, uint64_t *ret_frames, unsigned int max,
		     void *data)
{
	void *(*volatile get)(size_t) = malloc;

	free(get(100));
	return good.walk(walk, ret_frames, max, data);
}

static int writes_events(const struct rp_host_walk *walk, uint64_t *ret_frames, unsigned int max,
			 void *data)
{
	faulty_walked(1);
	return good.walk(walk, ret_frames, max, data);
}

static int never_samples(const struct rp_host_walk *walk, uint64_t *ret_frames, unsigned int max,
			 void *data)
{
	return walk->context == RP_HOST_WALK_SIGNAL ? -EAGAIN :
	       good.walk(walk, ret_frames, max, data);
}

static int misses_samples(const struct rp_host_walk *walk, uint64_t *ret_frames,
			  unsigned int max, void *data)
{
	return walk->context == RP_HOST_WALK_EVENT ? good.walk(walk, ret_frames, max, data) : 0;
}

static int accepts_all(uint64_t frame, struct rp_host_method *ret_method, void *data)
{
	if (good.resolve(frame, ret_method, data) != 0) {
		ret_method->start = frame - 1;
		ret_method->end = frame + 2;
		strcpy(ret_method->name, "unknown");
	}
	return 0;
}

static int has_wrong_range(uint64_t frame, struct rp_host_method *ret_method, void *data)
{
	int ret = good.resolve(frame, ret_method, data);

	ret_method->start += 0x10000;
	ret_method->end += 0x10000;
	return ret;
}

static int has_short_range(uint64_t frame, struct rp_host_method *ret_method, void *data)
{
	int ret = good.resolve(frame, ret_method, data);

	ret_method->start = frame;
	ret_method->end = frame + 1;
	return ret;
}

static int has_no_end(uint64_t frame, struct rp_host_method *ret_method, void *data)
{
	int ret = good.resolve(frame, ret_method, data);

	memset(ret_method->name, 'x', sizeof(ret_method->name));
	return ret;
}

static int works_in_one_thread(uint64_t frame, struct rp_host_method *ret_method, void *data)
{
	static __thread bool is_main = false;
	static bool has_begun;

	if (!has_begun)
		is_main = true;
	has_begun = true;
	return is_main ? good.resolve(frame, ret_method, data) : -ENOENT;
}

static void lists_wrong_module(rp_host_module_visitor visit, void *visit_data, void *data)
{
	struct rp_host_module module = {
		.size = sizeof(module), .range = { 0x10000, 0x20000 }, .path = "[tiny]",
	};

	(void)data;
	visit(&module, visit_data);
}

static void lists_the_program(rp_host_module_visitor visit, void *visit_data, void *data)
{
	uint64_t address = (uint64_t)(uintptr_t)lists_wrong_module;
	struct rp_host_module module = {
		.size = sizeof(module), .range = { address, address + 1 }, .path = "[tiny]",
	};

	(void)data;
	visit(&module, visit_data);
}

static void lists_no_code(rp_host_method_visitor visit, void *visit_data, void *data)
{
	struct rp_host_method method = {
		.size = sizeof(method),
		.start = tiny_frame_of(TINY_MAIN, 1),
		.end = tiny_frame_of(TINY_MAIN, 2),
		.code = (const void *)(uintptr_t)tiny_frame_of(TINY_MAIN, 1),
		.name = "main",
	};

	(void)data;
	visit(&method, visit_data);
}

static int does_not_stop(void *data)
{
	(void)data;
	return 0;
}

static int has_no_nul(uint32_t thread, char *ret_name, size_t space, void *data)
{
	(void)thread;
	(void)data;
	memset(ret_name, 'x', space);
	return 0;
}

static void unregisters(void *data)
{
	(void)data;
	rp_host_unregister();
}

static int has_no_state(void *data)
{
	(void)data;
	return 7;
}

static int accepts_all_commands(const struct rp_host_command *request, struct rp_host_reply *reply,
				void *data)
{
	(void)data;
	return rp_host_reply_put(reply, request->payload, request->payload_bytes);
}

static void *is_misaligned(size_t bytes, void *data)
{
	char *memory = malloc(bytes + 8);

	(void)data;
	return memory + 8;
}

static void releases_misaligned(void *memory, void *data)
{
	(void)data;
	free((char *)memory - 8);
}

static const struct rp_host_range no_interpreter = { 4096, 8192 };

#define FAULT(check, member, value) \
	if (strcmp(name, #check) == 0) { \
		host->member = (value); \
		return true; \
	}

/* Put the fault that a check must find into the table. Return: whether there is one. */
static bool put_fault(struct rp_host *host, const char *name)
{
	FAULT(walk_stays_within_its_maximum, walk, overflows)
	FAULT(walk_returns_the_running_functions, walk, reverses)
	FAULT(walk_is_empty_outside_of_the_host, walk, keeps_old_frames)
	FAULT(walk_allocates_nothing, walk, allocates)
	FAULT(walk_writes_no_events, walk, writes_events)
	FAULT(interpreters_are_on_the_stack, interpreters, &no_interpreter)
	FAULT(methods_contain_their_frames, resolve, has_wrong_range)
	FAULT(methods_have_a_middle, resolve, has_short_range)
	FAULT(resolve_ends_its_texts, resolve, has_no_end)
	FAULT(resolve_refuses_other_frames, resolve, accepts_all)
	FAULT(resolve_works_in_every_thread, resolve, works_in_one_thread)
	FAULT(modules_contain_the_frames, list_modules, lists_wrong_module)
	FAULT(modules_contain_no_loaded_objects, list_modules, lists_the_program)
	FAULT(listed_methods_have_code, list_methods, lists_no_code)
	FAULT(samples_show_the_host, walk, misses_samples)
	FAULT(deferred_samples_are_taken, walk, never_samples)
	FAULT(a_stopped_world_stands_still, stop_world, does_not_stop)
	FAULT(thread_names_are_ended, thread_name, has_no_nul)
	FAULT(threads_end_as_often_as_they_begin, thread_end, NULL)
	FAULT(start_up_is_called_once, start_up, unregisters)
	FAULT(process_state_is_known, process_state, has_no_state)
	FAULT(unknown_commands_are_refused, command, accepts_all_commands)
	if (strcmp(name, "allocations_are_aligned") == 0)
		host->release = releases_misaligned;
	FAULT(allocations_are_aligned, allocate, is_misaligned)
	return false;
}

static bool choose_mode(struct rp_host *host, const char *name)
{
	tiny_defers = strcmp(name, "deferring") == 0;
	if (strcmp(name, "safe-point") == 0)
		host->sample_mode = RP_HOST_SAMPLE_SAFE_POINT;
	else if (strcmp(name, "stopped") == 0)
		host->sample_mode = RP_HOST_SAMPLE_STOPPED;
	else
		return tiny_defers || strcmp(name, "signal") == 0;
	return true;
}

int main(int argc, char **argv)
{
	struct rp_host_test test = RP_HOST_TEST_INIT;
	struct rp_host host;
	int ret;

	tiny_init(&good);
	host = good;
	test.host = &host;
	test.call = call;
	test.compute = compute;
	test.names = names;
	test.name_count = sizeof(names) / sizeof(names[0]);
	if (argc != 2)
		return 2;
	if (choose_mode(&host, argv[1])) {
		ret = rp_host_test_run(&test, NULL, stdout);
		return ret != 0;
	}
	if (!put_fault(&host, argv[1])) {
		fprintf(stderr, "no fault for the check \"%s\"\n", argv[1]);
		return 2;
	}
	ret = rp_host_test_run(&test, argv[1], stdout);
	return ret != 1;
}
