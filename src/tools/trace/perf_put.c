/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/trace/perf_copy.h"
#include "tools/trace/stack_frame.h"

#define OUTPUT_BYTES (1u << 20)
#define CONTEXT_MAX 4095u		/* frames from -4095 on are marks of contexts */

void rp_perf_put_number(struct rp_perf_copy *copy, uint64_t value)
{
	do {
		const uint8_t byte = value & 0x7f;

		value >>= 7;
		copy->payload[copy->used++] = byte | (value ? 0x80 : 0);
	} while (value);
}

void rp_perf_put_bytes(struct rp_perf_copy *copy, const void *bytes, size_t size)
{
	memcpy(copy->payload + copy->used, bytes, size);
	copy->used += size;
}

/* For events of Universal.System. Texts are cut at RP_PERF_PATH_MAX bytes. */
static void put_text(struct rp_perf_copy *copy, const char *text)
{
	const size_t length = strlen(text);
	const uint16_t bytes = (uint16_t)(length < RP_PERF_PATH_MAX ? length : RP_PERF_PATH_MAX);

	rp_perf_put_bytes(copy, &bytes, sizeof(bytes));
	rp_perf_put_bytes(copy, text, bytes);
}

/* For events that declare their fields. Texts are cut likewise. */
static void put_string(struct rp_perf_copy *copy, const char *text)
{
	const size_t bytes = strlen(text);

	rp_perf_put_bytes(copy, text, bytes < RP_PERF_PATH_MAX ? bytes : RP_PERF_PATH_MAX - 1);
	copy->payload[copy->used++] = '\0';
}

int rp_perf_put_output(struct rp_perf_copy *copy)
{
	size_t size;
	const void *bytes = rp_encoder_output(copy->encoder, &size);

	if (size && fwrite(bytes, 1, size, copy->out) != size)
		return -EIO;
	rp_encoder_consume(copy->encoder, size);
	return 0;
}

int rp_perf_put(struct rp_perf_copy *copy, enum rp_machine_event kind,
		const struct rp_perf_place *place, const uint64_t *frames, uint32_t frame_count)
{
	const struct rp_encoder_event event = {
		.type = copy->types[kind], .time_ns = copy->last,
		.thread = place->thread, .process = place->process,
		.processor = place->processor, .frames = frames, .frame_count = frame_count,
		.payload = copy->payload, .payload_bytes = copy->used,
	};
	size_t size;
	int ret = rp_encoder_event(copy->encoder, &event);

	copy->used = 0;
	(void)rp_encoder_output(copy->encoder, &size);
	return ret == 0 && size >= OUTPUT_BYTES ? rp_perf_put_output(copy) : ret;
}

int rp_perf_put_process(struct rp_perf_copy *copy, struct rp_perf_process *process)
{
	const struct rp_perf_place place = { .process = process->pid, .thread = process->pid };

	/* The idle thread of a processor belongs to no process. */
	if (process->is_put || process->pid == 0)
		return 0;
	process->is_put = true;
	rp_perf_put_number(copy, process->pid);
	put_text(copy, process->name);
	put_text(copy, "");
	return rp_perf_put(copy, RP_MACHINE_EXISTING_PROCESS, &place, NULL, 0);
}

static void find_build_id(const struct rp_perf_copy *copy, struct rp_perf_mapped *mapped)
{
	const struct rp_perf_build_id *found;

	if (mapped->build_id_bytes)
		return;
	found = rp_perf_features_find(&copy->file.features, mapped->path);
	if (found) {
		memcpy(mapped->build_id, found->id, sizeof(mapped->build_id));
		mapped->build_id_bytes = found->bytes;
	}
}

static int put_mapping(struct rp_perf_copy *copy, const struct rp_perf_process *process,
		       struct rp_perf_mapped *mapped)
{
	const struct rp_perf_place place = { .process = process->pid, .thread = process->pid };
	char id[2 * sizeof(mapped->build_id) + 1] = "", json[128];
	const uint32_t number = ++copy->next_id;
	int ret = 0;

	mapped->is_put = true;
	find_build_id(copy, mapped);
	for (unsigned int i = 0; i < mapped->build_id_bytes; i++)
		snprintf(id + 2 * i, 3, "%02x", mapped->build_id[i]);
	if (*id) {
		snprintf(json, sizeof(json), "{\"type\":\"ELF\",\"build_id\":\"%s\"}", id);
		rp_perf_put_number(copy, number);
		put_text(copy, json);
		put_text(copy, "");
		ret = rp_perf_put(copy, RP_MACHINE_METADATA, &place, NULL, 0);
	}
	rp_perf_put_number(copy, number);
	rp_perf_put_number(copy, mapped->start);
	rp_perf_put_number(copy, mapped->end);
	rp_perf_put_number(copy, mapped->offset);
	put_text(copy, mapped->path);
	rp_perf_put_number(copy, *id ? number : 0);
	return ret ? ret : rp_perf_put(copy, RP_MACHINE_MAPPING, &place, NULL, 0);
}

/* Put the mapping of an address, before the first stack that has the address. */
static int put_mapping_of(struct rp_perf_copy *copy, struct rp_perf_process *process,
			  uint64_t address)
{
	for (size_t i = process->count; i > 0; i--) {
		struct rp_perf_mapped *mapped = &process->mappings[i - 1];

		if (address >= mapped->start && address < mapped->end)
			return mapped->is_put ? 0 : put_mapping(copy, process, mapped);
	}
	return 0;
}

/* Each process has the functions of the kernel that it used, as readers expect. */
static int put_kernel_function(struct rp_perf_copy *copy, struct rp_perf_process *process,
			       uint64_t address)
{
	const struct rp_perf_place place = { .process = process->pid, .thread = process->pid };
	const struct rp_kernel_symbol *symbol;
	struct rp_thread_slot *slot;
	uint64_t end;
	int ret = 0;

	symbol = rp_perf_kernel_find(copy, address, &end);
	if (!symbol || rp_thread_table_find(&process->kernel_functions, symbol->start))
		return 0;
	if (!process->kernel_mapping) {
		struct rp_perf_mapped kernel = {
			.start = RP_KERNEL_START, .end = UINT64_MAX, .path = "vmlinux",
		};

		ret = put_mapping(copy, process, &kernel);
		process->kernel_mapping = copy->next_id;
	}
	if (ret == 0)
		ret = rp_thread_table_add(&process->kernel_functions, symbol->start, &slot);
	if (ret)
		return ret;
	rp_perf_put_number(copy, ++copy->next_id);
	rp_perf_put_number(copy, process->kernel_mapping);
	rp_perf_put_number(copy, symbol->start);
	rp_perf_put_number(copy, end - 1);
	put_text(copy, symbol->name);
	return rp_perf_put(copy, RP_MACHINE_FUNCTION, &place, NULL, 0);
}

int rp_perf_put_frames(struct rp_perf_copy *copy, struct rp_perf_process *process,
		       const uint64_t *frames, uint32_t frame_count)
{
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < frame_count; i++)
		ret = frames[i] < RP_KERNEL_START ?
		      put_mapping_of(copy, process, frames[i]) :
		      put_kernel_function(copy, process, frames[i]);
	return ret;
}

int rp_perf_put_features(struct rp_perf_copy *copy)
{
	const struct rp_perf_features *features = &copy->file.features;
	const struct rp_perf_place nowhere = { 0 };
	char system[256];
	int ret = 0;

	if (features->host) {
		put_string(copy, features->host);
		put_string(copy, "");	/* the id of the boot is unknown */
		ret = rp_perf_put(copy, RP_MACHINE_DESCRIPTION, &nowhere, NULL, 0);
	}
	if (ret || !features->command)
		return ret;
	snprintf(system, sizeof(system), "Linux %s", features->release ? features->release : "");
	put_string(copy, features->command);
	put_string(copy, system);
	put_string(copy, features->machine ? features->machine : "");
	return rp_perf_put(copy, RP_MACHINE_PROCESS_INFO, &nowhere, NULL, 0);
}

uint32_t rp_perf_copy_frames(const uint8_t *frames, uint64_t count,
			     uint64_t ret_frames[RP_PERF_FRAMES_MAX])
{
	uint32_t copied = 0;

	for (uint64_t i = 0; i < count && copied < RP_PERF_FRAMES_MAX; i++) {
		uint64_t frame;

		memcpy(&frame, frames + 8 * i, sizeof(frame));
		if (frame < -(uint64_t)CONTEXT_MAX)
			ret_frames[copied++] = frame;
	}
	return copied;
}
