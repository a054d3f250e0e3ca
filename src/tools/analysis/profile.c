/* SPDX-License-Identifier: MIT */
#include "tools/analysis/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cursor.h"
#include "tools/analysis/call_parts.h"
#include "tools/trace/stack_frame.h"
#include "tools/trace/system_event.h"

#define KERNEL_FILE "vmlinux"

/* The value of a ThreadSample of a running thread, as the runtime of .NET defines it. */
#define RUNNING 2

static int count_event(const struct rp_reader_event *event, void *data)
{
	struct rp_profile *profile = data;

	if (!rp_time_range_has(&profile->range, event->time_ns))
		return 0;
	profile->seen[rp_profile_classify(event)]++;
	if (event->time_ns < profile->first_ns)
		profile->first_ns = event->time_ns;
	if (event->time_ns > profile->last_ns)
		profile->last_ns = event->time_ns;
	return 0;
}

int rp_profile_init(struct rp_profile *profile, enum rp_profile_by by, const char *path,
		    const struct rp_time_range *range)
{
	int ret;

	*profile = (struct rp_profile){
		.by = by, .has_kernel = true, .first_ns = INT64_MAX, .range = *range,
	};
	ret = rp_call_tree_init(&profile->tree);
	if (ret)
		return ret;
	return path ? rp_symbols_read(&profile->symbols, path, range, count_event, profile) :
		      rp_symbols_sort(&profile->symbols);
}

int rp_profile_init_shared(struct rp_profile *profile, enum rp_profile_by by,
			   const struct rp_profile *other)
{
	*profile = (struct rp_profile){
		.by = by, .has_kernel = true, .symbols = other->symbols, .shares_symbols = true,
		.last_ns = other->last_ns, .range = other->range,
	};
	memcpy(profile->seen, other->seen, sizeof(profile->seen));
	return rp_call_tree_init(&profile->tree);
}

void rp_profile_fini(struct rp_profile *profile)
{
	if (!profile->shares_symbols)
		rp_symbols_fini(&profile->symbols);
	rp_call_tree_fini(&profile->tree);
	rp_host_stacks_fini(&profile->host_stacks);
	free(profile->functions);
}

void rp_profile_set_reader(struct rp_profile *profile, const struct rp_reader *reader)
{
	struct rp_reader_info info = RP_READER_INFO_INIT;

	rp_reader_get_info(reader, &info);
	/* A reader accepts only 4 and 8. */
	profile->pointer_bytes = info.pointer_bytes;
}

enum rp_profile_event rp_profile_classify(const struct rp_reader_event *event)
{
	static const struct {
		const char *provider;
		const char *name;	/* NULL: any, because other writers leave it out */
		uint32_t id;
		enum rp_profile_event kind;
	} kinds[] = {
		{ "Universal.Events", NULL, 1, RP_PROFILE_SAMPLE },
		{ "Universal.Events", NULL, 2, RP_PROFILE_SWITCH },
		{ "Microsoft-DotNETCore-SampleProfiler", NULL, 0, RP_PROFILE_THREAD_SAMPLE },
		{ "Ringpipe-Machine", "Wait", 1, RP_PROFILE_WAIT },
		{ "Ringpipe-Machine", "FutexWait", 4, RP_PROFILE_FUTEX_WAIT },
	};
	const struct rp_reader_type *type = event->type;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (type->id == kinds[i].id && !strcmp(type->provider, kinds[i].provider) &&
		    (!kinds[i].name || !strcmp(type->name, kinds[i].name)))
			return kinds[i].kind;
	}
	return RP_PROFILE_OTHER;
}

int rp_profile_process(struct rp_profile *profile, const struct rp_reader_event *event,
		       uint64_t *ret_process)
{
	int ret = 0;

	*ret_process = rp_processes_find(&profile->symbols.tree, event);
	if (profile->seen[RP_PROFILE_SAMPLE] &&
	    profile->seen[RP_PROFILE_THREAD_SAMPLE] &&
	    rp_profile_classify(event) == RP_PROFILE_THREAD_SAMPLE && rp_profile_is_running(event))
		ret = rp_host_stacks_keep(&profile->host_stacks, &profile->symbols, event,
					  *ret_process, profile->pointer_bytes);
	return ret;
}

uint64_t rp_profile_number(const struct rp_reader_event *event, const char *field)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;

	rp_reader_get_fields(event, &fields);
	if (rp_fields_find(&fields, field, &value) != 0)
		return 0;
	switch (value.type) {
	case RP_TYPE_U8:
	case RP_TYPE_U16:
	case RP_TYPE_U32:
	case RP_TYPE_U64:
	case RP_TYPE_POINTER:
		return value.u64;
	default:
		return 0;
	}
}

bool rp_profile_is_kernel(const struct rp_call_function *function)
{
	return function->file && !strcmp(function->file, KERNEL_FILE);
}

/* Texts that were looked up before have the same pointers. */
static int intern(struct rp_profile *profile, const struct rp_symbol *symbol,
		  uint32_t *ret_function)
{
	const uintptr_t hash = ((uintptr_t)symbol->function >> 4) * 31 + (uintptr_t)symbol->file;
	struct rp_profile_slot *slot = &profile->cache[hash % RP_PROFILE_CACHE];
	int ret;

	if (slot->is_used && slot->name == symbol->function && slot->file == symbol->file) {
		*ret_function = slot->function;
		return 0;
	}
	ret = rp_call_tree_function(&profile->tree, symbol->function, symbol->file, ret_function);
	if (ret == 0)
		*slot = (struct rp_profile_slot){
			symbol->function, symbol->file, *ret_function, true,
		};
	return ret;
}

/*
 * Look up a frame. All frames but the innermost ones of the kernel and of the program are return
 * addresses. A call may be the last instruction of its function, so the byte before is looked up.
 */
static int find_function(struct rp_profile *profile, const struct rp_reader_event *event,
			 uint64_t process, uint32_t index, uint32_t *ret_function)
{
	const uint64_t address = rp_stack_frame(event, profile->pointer_bytes, index);
	const bool is_exact = index == 0 || address == RP_FRAME_CUT ||
			      (address < RP_KERNEL_START &&
			       rp_stack_frame(event, profile->pointer_bytes,
					      index - 1) >= RP_KERNEL_START);
	const uint64_t at = address - !is_exact;
	struct rp_profile_address *known =
		&profile->addresses[rp_call_hash(process, at) % RP_PROFILE_ADDRESSES];
	struct rp_symbol symbol;
	int ret;

	if (known->is_used && known->process == process && known->address == at) {
		*ret_function = known->function;
		return 0;
	}
	rp_symbols_resolve(&profile->symbols, process, event->time_ns, at, &symbol);
	if (!symbol.file && address >= RP_KERNEL_START)
		symbol.file = KERNEL_FILE;
	ret = intern(profile, &symbol, ret_function);
	if (ret == 0 && symbol.is_constant)
		*known = (struct rp_profile_address){ process, at, *ret_function, true };
	return ret;
}

/*
 * Return: the innermost frame that counts. Every wait ends in the kernel's scheduler, so a wait
 * counts for the function of the program that entered the kernel, if its stack has one.
 */
static uint32_t first_frame(const struct rp_profile *profile, const struct rp_reader_event *event)
{
	for (uint32_t i = 0; !profile->has_kernel && i < event->frame_count; i++) {
		if (rp_stack_frame(event, profile->pointer_bytes, i) < RP_KERNEL_START)
			return i;
	}
	return 0;
}

/* Return: how many of the innermost functions are wrappers of libringpipe-inbox. */
static uint32_t inbox_frames(const struct rp_profile *profile, uint32_t count)
{
	static const char name[] = "libringpipe-inbox.so";
	uint32_t i;

	for (i = 0; profile->skips_inbox && i < count; i++) {
		const char *file = profile->tree.functions[profile->functions[i]].file;
		const char *slash = file ? strrchr(file, '/') : NULL;

		if (!file || strncmp(slash ? slash + 1 : file, name, sizeof(name) - 1) != 0)
			return i;
	}
	return i;
}

static int add_stack(struct rp_profile *profile, const struct rp_reader_event *event,
		     uint64_t process, const struct rp_call_weight *weight, uint32_t *ret_group,
		     uint32_t *ret_node)
{
	const bool has_process = profile->by != RP_PROFILE_BY_FUNCTION;
	const uint32_t first = first_frame(profile, event), frames = event->frame_count - first;
	/* One more than the tree takes shows the tree that functions were left out. */
	const uint32_t count = frames > RP_CALL_DEPTH_MAX ? RP_CALL_DEPTH_MAX + 1 : frames;
	uint32_t *functions, skipped;
	int ret;

	functions = rp_array_reserve(profile->functions, 0, &profile->function_capacity, count + 1,
				     sizeof(*functions));
	if (!functions)
		return -ENOMEM;
	profile->functions = functions;
	/* Another process with the same id is another group. */
	ret = rp_call_tree_group(&profile->tree, has_process ? process : 0, has_process ?
				 rp_symbols_life(&profile->symbols, process, event->time_ns) : 0,
				 profile->by == RP_PROFILE_BY_THREAD ? event->thread : 0,
				 ret_group);
	for (uint32_t i = 0; ret == 0 && i < count; i++)
		ret = find_function(profile, event, process, first + i, &functions[i]);
	if (ret)
		return ret;
	skipped = inbox_frames(profile, count);
	return rp_call_tree_add(&profile->tree, *ret_group, functions + skipped, count - skipped,
				weight, ret_node);
}

int rp_profile_add(struct rp_profile *profile, const struct rp_reader_event *event,
		   uint64_t process, const struct rp_call_weight *weight, uint32_t *ret_group,
		   uint32_t *ret_node)
{
	struct rp_reader_event sample;
	int ret;

	if (!profile->seen[RP_PROFILE_THREAD_SAMPLE] ||
	    rp_profile_classify(event) != RP_PROFILE_SAMPLE)
		return add_stack(profile, event, process, weight, ret_group, ret_node);
	sample = *event;
	ret = rp_host_stacks_give(&profile->host_stacks, &sample, profile->pointer_bytes);
	return ret ? ret : add_stack(profile, &sample, process, weight, ret_group, ret_node);
}

int rp_profile_read(struct rp_profile *profile, struct rp_reader *reader, rp_profile_take take,
		    void *data)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	uint64_t process;
	int ret;

	rp_profile_set_reader(profile, reader);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		ret = rp_profile_process(profile, &event, &process);
		if (ret == 0 && rp_time_range_has(&profile->range, event.time_ns))
			ret = take(profile, &event, process, data);
		if (ret)
			return ret;
	}
	rp_call_tree_finish(&profile->tree);
	return ret;
}

bool rp_profile_is_running(const struct rp_reader_event *event)
{
	int32_t type;

	if (event->payload_bytes < sizeof(type))
		return false;
	memcpy(&type, event->payload, sizeof(type));
	return type == RUNNING;
}

bool rp_profile_is_sample(const struct rp_profile *profile, const struct rp_reader_event *event)
{
	const enum rp_profile_event kind = rp_profile_classify(event);

	return kind == RP_PROFILE_SAMPLE ||
	       (kind == RP_PROFILE_THREAD_SAMPLE && !profile->seen[RP_PROFILE_SAMPLE] &&
		rp_profile_is_running(event));
}

static bool is_wanted(const struct rp_profile *profile, const struct rp_reader_event *event,
		      uint64_t process)
{
	return !profile->where || rp_expression_matches(profile->where, event, process);
}

static int take_sample(struct rp_profile *profile, const struct rp_reader_event *event,
		       uint64_t process, void *data)
{
	const struct rp_call_weight weight = { .count = 1 };
	uint32_t group;

	(void)data;
	if (!rp_profile_is_sample(profile, event) || !is_wanted(profile, event, process))
		return 0;
	return rp_profile_add(profile, event, process, &weight, &group, NULL);
}

int rp_profile_read_samples(struct rp_profile *profile, struct rp_reader *reader)
{
	return rp_profile_read(profile, reader, take_sample, NULL);
}

/* The latest `cswitch`, whose details are the next event of its thread. */
struct last_switch {
	uint64_t thread;
	bool is_set;
	uint32_t group, node;
};

static int take_wait(struct rp_profile *profile, const struct rp_reader_event *event,
		     uint64_t process, void *data)
{
	const enum rp_profile_event kind = rp_profile_classify(event);
	struct rp_cursor payload = rp_cursor_over(event->payload, event->payload_bytes);
	struct rp_call_weight weight = { 0 };
	struct last_switch *last = data;

	if (kind == RP_PROFILE_WAIT && last->is_set && last->thread == event->thread) {
		last->is_set = false;
		weight.runnable_ns = rp_profile_number(event, "runnable_ns");
		rp_call_tree_add_to(&profile->tree, last->group, last->node, &weight);
	}
	if (kind != RP_PROFILE_SWITCH || !is_wanted(profile, event, process))
		return 0;
	weight.count = 1;
	weight.time_ns = rp_system_take_number(&payload);
	last->is_set = true;
	last->thread = event->thread;
	return rp_profile_add(profile, event, process, &weight, &last->group, &last->node);
}

int rp_profile_read_waits(struct rp_profile *profile, struct rp_reader *reader)
{
	struct last_switch last = { .is_set = false };

	return rp_profile_read(profile, reader, take_wait, &last);
}
