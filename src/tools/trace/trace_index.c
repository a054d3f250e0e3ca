/* SPDX-License-Identifier: MIT */
/* Builds the index of a trace in one pass of the reader. */
#include "tools/trace/trace_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/hash.h"
#include "nettrace/reader_parts.h"
#include "tools/cli/progress.h"
#include "tools/trace/event_names.h"

/* An index of a smaller trace costs more to store than to build. */
#define STORED_BYTES_MIN (1u << 20)
#define PROGRESS_BLOCKS 64u		/* blocks between two looks at the clock */

struct index_builder {
	struct rp_trace_index *index;
	struct rp_index_block block;	/* of the events since the last block */
	const struct rp_reader_type *type;	/* of the last event in the block; or NULL */
	size_t type_index;
	uint64_t thread, process;	/* of the last event in the block */
	/* Indexes into `types` plus 1, by the hash of the type; a power of two. */
	uint32_t *slots;
	size_t slot_count;
	bool failed;			/* no memory */
	const struct rp_input *input;	/* or NULL */
	struct rp_progress progress;
};

static uint64_t hash_of(const struct rp_index_type *type)
{
	const uint32_t numbers[2] = { type->id, type->version };
	uint64_t hash = rp_hash_text(RP_HASH_BEGIN, type->provider);

	return rp_hash_bytes(rp_hash_text(hash, type->name), numbers, sizeof(numbers));
}

static bool is_same(const struct rp_index_type *a, const struct rp_index_type *b)
{
	return a->id == b->id && a->version == b->version && !strcmp(a->name, b->name) &&
	       !strcmp(a->provider, b->provider);
}

static uint32_t *find_slot(const struct index_builder *builder, const struct rp_index_type *type)
{
	const size_t mask = builder->slot_count - 1;
	size_t at = (size_t)hash_of(type) & mask;

	while (builder->slots[at] &&
	       !is_same(&builder->index->types[builder->slots[at] - 1], type))
		at = (at + 1) & mask;
	return &builder->slots[at];
}

static int grow_slots(struct index_builder *builder)
{
	const size_t count = builder->slot_count ? builder->slot_count * 2 : 256;
	uint32_t *slots;

	if (builder->slot_count / 2 > builder->index->type_count)
		return 0;
	slots = calloc(count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(builder->slots);
	builder->slots = slots;
	builder->slot_count = count;
	for (size_t i = 0; i < builder->index->type_count; i++)
		*find_slot(builder, &builder->index->types[i]) = (uint32_t)i + 1;
	return 0;
}

static int add_type(struct index_builder *builder, const struct rp_index_type *type)
{
	struct rp_trace_index *index = builder->index;
	struct rp_index_type copy = {
		.provider = strdup(type->provider), .name = strdup(type->name),
		.id = type->id, .version = type->version,
	};
	struct rp_index_type *grown = rp_array_reserve(index->types, index->type_count,
						       &index->type_capacity, 1, sizeof(*grown));

	if (grown)
		index->types = grown;
	if (!grown || !copy.provider || !copy.name) {
		free((char *)copy.provider);
		free((char *)copy.name);
		return -ENOMEM;
	}
	grown[index->type_count++] = copy;
	return 0;
}

/* The reader's type remembers its index, plus 1, in `user`. Return: 0; -ENOMEM. */
static int take_type(struct index_builder *builder, struct rp_reader_type *type)
{
	const struct rp_index_type wanted = {
		.provider = type->provider, .name = type->name,
		.id = type->id, .version = type->version,
	};
	uint32_t *slot;

	if (!type->user) {
		if (grow_slots(builder) < 0)
			return -ENOMEM;
		slot = find_slot(builder, &wanted);
		if (!*slot) {
			if (add_type(builder, &wanted) < 0)
				return -ENOMEM;
			*slot = (uint32_t)builder->index->type_count;
		}
		type->user = (void *)(uintptr_t)*slot;
	}
	builder->type = type;
	builder->type_index = (uintptr_t)type->user - 1;
	builder->block.types |= 1ull << builder->type_index % 64;
	if (rp_event_describes(type))
		builder->block.flags |= RP_INDEX_DESCRIBES;
	return 0;
}

static int take_event(struct index_builder *builder, const struct rp_reader_event *event)
{
	struct rp_index_block *block = &builder->block;

	if (event->type != builder->type && take_type(builder, event->type) < 0)
		return -ENOMEM;
	if (!block->events) {
		block->first_ns = block->last_ns = event->time_ns;
		builder->thread = ~event->thread;
	}
	if (event->thread != builder->thread || event->process != builder->process) {
		builder->thread = event->thread;
		builder->process = event->process;
		block->threads |= rp_index_bit(event->thread);
		block->processes |= rp_index_bit(event->process);
	}
	if (event->time_ns < block->first_ns)
		block->first_ns = event->time_ns;
	if (event->time_ns > block->last_ns)
		block->last_ns = event->time_ns;
	block->events++;
	builder->index->types[builder->type_index].events++;
	return 0;
}

static void add_up(struct rp_trace_index *index, const struct rp_index_block *block)
{
	if (!block->events)
		return;
	if (!index->events || block->first_ns < index->first_ns)
		index->first_ns = block->first_ns;
	if (!index->events || block->last_ns > index->last_ns)
		index->last_ns = block->last_ns;
	index->events += block->events;
}

static void take_block(void *data, const struct rp_reader_block *read)
{
	struct index_builder *builder = data;
	struct rp_trace_index *index = builder->index;
	struct rp_index_block *grown = rp_array_reserve(index->blocks, index->block_count,
							&index->block_capacity, 1, sizeof(*grown));

	if (!grown) {
		builder->failed = true;
		return;
	}
	index->blocks = grown;
	builder->block.begin = read->begin;
	builder->block.end = read->end;
	builder->block.kind = (uint16_t)read->kind;
	if (read->flags & RP_POINT_FLUSH_THREADS)
		builder->block.flags |= RP_INDEX_FLUSHES_THREADS;
	if (read->flags & RP_POINT_FLUSH_METADATA)
		builder->block.flags |= RP_INDEX_FLUSHES_METADATA;
	grown[index->block_count++] = builder->block;
	add_up(index, &builder->block);
	index->end = read->end;
	builder->block = (struct rp_index_block){ 0 };
	if (builder->input && index->block_count % PROGRESS_BLOCKS == 0)
		rp_progress_show(&builder->progress, builder->input->taken, builder->input->bytes);
	/* The next block's set starts empty, and the reader may have freed the type. */
	builder->type = NULL;
}

/*
 * Build the index of a trace, whose reader has returned no event yet, by reading all of it.
 * @input: of the reader, to show the progress; or NULL.
 *
 * Return: 0, also for a damaged trace; -ECANCELED; -ENOMEM.
 */
static int build_index(struct rp_reader *reader, const struct rp_input *input,
		       struct rp_trace_index *ret_index)
{
	struct index_builder builder = { .index = ret_index, .input = input };
	const struct rp_reader_event *event;
	struct rp_reader_info info = RP_READER_INFO_INIT;
	int ret = 0, read = 0;

	*ret_index = (struct rp_trace_index){ .end = reader->source.offset };
	rp_reader_get_info(reader, &info);
	ret_index->has_processes = info.version == RP_NETTRACE_V6;
	rp_progress_begin(&builder.progress, !input);
	reader->on_block = take_block;
	reader->on_block_data = &builder;
	while (ret == 0 && !builder.failed && (read = rp_reader_next_ref(reader, &event)) == 1)
		ret = take_event(&builder, event);
	reader->on_block = NULL;
	rp_progress_end(&builder.progress);
	ret_index->is_whole = read == 0;
	free(builder.slots);
	if (ret == 0 && !builder.failed && read != -ENOMEM && read != -ECANCELED)
		return 0;
	rp_trace_index_fini(ret_index);
	return read == -ECANCELED ? read : -ENOMEM;
}

void rp_trace_index_fini(struct rp_trace_index *index)
{
	for (size_t i = 0; i < index->type_count && !index->texts; i++) {
		free((char *)index->types[i].provider);
		free((char *)index->types[i].name);
	}
	free(index->texts);
	free(index->types);
	free(index->blocks);
	*index = (struct rp_trace_index){ 0 };
}

void rp_trace_index_close(struct rp_trace_index *index)
{
	if (!index)
		return;
	rp_trace_index_fini(index);
	free(index);
}

static int build(const char *path, int signal_fd, struct rp_trace_index *index)
{
	struct rp_reader *reader;
	struct rp_input input;
	int ret = rp_input_open_undamaged(&input, path, signal_fd, &reader);

	if (ret < 0)
		return ret;
	ret = rp_input_can_seek(&input) ? build_index(reader, &input, index) :
	      -ESPIPE;
	/* Without the file, the next command builds the index again. */
	if (ret == 0 && input.bytes >= STORED_BYTES_MIN)
		(void)rp_trace_index_store(path, input.fd, index);
	rp_reader_close(reader);
	rp_input_close(&input);
	return ret;
}

int rp_trace_index_open(const char *path, int signal_fd, struct rp_trace_index **ret_index)
{
	struct rp_trace_index *index = calloc(1, sizeof(*index));
	int fd = index ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	int ret = !index ? -ENOMEM : fd < 0 ? -errno : 0;

	if (ret == 0) {
		ret = rp_trace_index_load(path, fd, index);
		close(fd);
	}
	if (ret == -ESTALE) {
		rp_trace_index_fini(index);
		ret = build(path, signal_fd, index);
	}
	if (ret < 0)
		rp_trace_index_close(index);
	else
		*ret_index = index;
	return ret;
}
