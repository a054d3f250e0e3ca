/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/functions.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/atomic.h"
#include "modules/symbols/find.h"
#include "tools/ringpipe-record/foreign_file.h"
#include "tools/ringpipe-record/perf_map.h"
#include "tools/trace/stack_frame.h"

#define DEBUG_DIRECTORY "/usr/lib/debug"

struct function {
	uint64_t start, end;		/* addresses of the ELF file; end is exclusive */
	char *name;
};

/* The functions that queries found in one image. */
struct known {
	const struct rp_functions *all;
	const struct rp_image *image;
	struct function *functions;	/* sorted by start */
	size_t count, capacity;
	uint64_t *asked;		/* addresses of the next query */
	size_t asked_count, asked_capacity;
	struct rp_thread_table nameless;	/* addresses without a function */
	int error;
};

struct rp_functions {
	struct rp_kernel_symbols kernel;
	int kernel_error;
	struct known *known;
	size_t known_count, known_capacity;
	struct rp_record_hit *hits;	/* that were taken from the trace */
	size_t hit_count, hit_capacity;
	pthread_t reader;		/* of symbols; it alone uses `known` while it runs */
	bool has_reader;
	uint32_t is_read;		/* the reader has ended */
	struct rp_stop_requests *ending;	/* another thread waits for the reader; or NULL */
	int read_result;
};

int rp_functions_create(struct rp_functions **ret_functions)
{
	struct rp_functions *functions = calloc(1, sizeof(*functions));

	if (!functions)
		return -ENOMEM;
	functions->kernel_error = rp_kernel_symbols_read(&functions->kernel);
	*ret_functions = functions;
	return 0;
}

static void fini_known(struct known *known)
{
	for (size_t i = 0; i < known->count; i++)
		free(known->functions[i].name);
	free(known->functions);
	free(known->asked);
	rp_thread_table_fini(&known->nameless);
}

/* Wait for the thread that reads symbols, if it runs. 0; -ENOMEM. */
static int join_reader(struct rp_functions *functions)
{
	if (!functions->has_reader)
		return 0;
	pthread_join(functions->reader, NULL);
	functions->has_reader = false;
	return functions->read_result;
}

void rp_functions_destroy(struct rp_functions *functions)
{
	if (!functions)
		return;
	(void)join_reader(functions);
	for (size_t i = 0; i < functions->known_count; i++)
		fini_known(&functions->known[i]);
	free(functions->known);
	free(functions->hits);
	rp_kernel_symbols_fini(&functions->kernel);
	free(functions);
}

int rp_functions_kernel_error(const struct rp_functions *functions)
{
	return functions->kernel_error;
}

/* Return: NULL: no memory. */
static struct known *known_of(struct rp_functions *functions, const struct rp_image *image)
{
	struct known *grown;

	for (size_t i = 0; i < functions->known_count; i++) {
		if (functions->known[i].image == image)
			return &functions->known[i];
	}
	grown = rp_array_reserve(functions->known, functions->known_count,
				 &functions->known_capacity, 1, sizeof(*grown));
	if (!grown)
		return NULL;
	functions->known = grown;
	grown += functions->known_count++;
	*grown = (struct known){ .all = functions, .image = image };
	return grown;
}

static const struct function *find(const struct known *known, uint64_t vaddr)
{
	size_t above = rp_array_find(known->functions, known->count, sizeof(*known->functions),
				     vaddr + 1);

	return above > 0 && vaddr < known->functions[above - 1].end ? &known->functions[above - 1] :
	       NULL;
}

/* The address of a hit in its file. Return: false: it is not code of a file. */
static bool find_vaddr(const struct rp_record_hit *hit, uint64_t *ret_vaddr)
{
	return hit->image && rp_image_vaddr(hit->image, hit->file_offset, ret_vaddr);
}

/* Add the address to its image's next query, unless the answer is known. */
static int ask(struct rp_functions *functions, const struct rp_record_hit *hit)
{
	struct rp_thread_slot *slot;
	struct known *known;
	uint64_t vaddr, *grown;

	if (hit->address >= RP_KERNEL_START || !find_vaddr(hit, &vaddr))
		return 0;
	known = known_of(functions, hit->image);
	if (!known)
		return -ENOMEM;
	if (known->error || find(known, vaddr) || rp_thread_table_find(&known->nameless, vaddr))
		return 0;
	grown = rp_array_reserve(known->asked, known->asked_count, &known->asked_capacity, 1,
				 sizeof(*grown));
	/* It has no name until the query finds one, and is asked for once. */
	if (!grown || rp_thread_table_add(&known->nameless, vaddr, &slot) < 0)
		return -ENOMEM;
	known->asked = grown;
	grown[known->asked_count++] = vaddr;
	return 0;
}

static void add_function(void *data, uint64_t start, uint64_t end, const char *name)
{
	struct known *known = data;
	struct function *grown;
	size_t at = rp_array_find(known->functions, known->count, sizeof(*grown), start);
	char *copy;

	if (at < known->count && known->functions[at].start == start)
		return;
	grown = rp_array_reserve(known->functions, known->count, &known->capacity, 1,
				 sizeof(*grown));
	if (grown)
		known->functions = grown;
	copy = strdup(name);
	if (!grown || !copy) {
		free(copy);
		known->error = -ENOMEM;
		return;
	}
	memmove(grown + at + 1, grown + at, (known->count - at) * sizeof(*grown));
	grown[at] = (struct function){ start, end, copy };
	known->count++;
}

/* The thread that waits for the reader takes no requests meanwhile. */
static bool is_cut(const struct rp_functions *functions)
{
	struct rp_stop_requests *ending = rp_load_acquire(&functions->ending);

	return ending && rp_stop_requests_take(ending);
}

static bool is_over(void *data)
{
	return is_cut(((const struct known *)data)->all);
}

static int open_debug(void *data, const char *path)
{
	return rp_foreign_file_open_debug(path, ((const struct known *)data)->image->device);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int query(struct known *known)
{
	const int fd = rp_image_acquire(known->image);
	char path[64];
	const char *paths[] = { path };
	struct rp_symbols_query query = {
		.size = sizeof(query),
		.address_count = (uint32_t)known->asked_count,
		.addresses = known->asked,
		.paths = paths,
		.path_count = fd >= 0,
		.image = known->image->memory,
		.image_bytes = known->image->memory_bytes,
		.named = known->image->path,
		.debug_directory = DEBUG_DIRECTORY,
		.build_id = known->image->build_id,
		.build_id_bytes = known->image->build_id_bytes,
		.found = add_function,
		.is_over = is_over,
		.open_debug = open_debug,
		.data = known,
	};
	int ret;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	qsort(known->asked, known->asked_count, sizeof(*known->asked), compare);
	ret = rp_symbols_find(&query);
	rp_image_release(known->image, fd);
	known->asked_count = 0;
	if (ret < 0 && ret != -ENOMEM)
		known->error = ret;
	return ret == -ENOMEM || known->error == -ENOMEM ? -ENOMEM : 0;
}

static int name_kernel(const struct rp_functions *functions, struct rp_record_trace *trace,
		       const struct rp_record_hit *hit)
{
	const struct rp_kernel_symbol *symbol;
	uint64_t end;

	symbol = rp_kernel_symbols_find(&functions->kernel, hit->address, &end);
	return symbol ? rp_record_function(trace, hit->process, hit->mapping, symbol->start,
					  end, symbol->name) : 0;
}

/* Generated code may have a map of its functions, which its compiler writes. */
static int name_generated(struct rp_perf_map *map, struct rp_record_trace *trace,
			  const struct rp_record_hit *hit)
{
	const struct rp_perf_map_function *function;

	if (map->process != hit->process)
		rp_perf_map_read(map, hit->process);
	function = rp_perf_map_find(map, hit->address);
	return function ? rp_record_function(trace, hit->process, hit->mapping, function->start,
					    function->end, function->name) : 0;
}

static int name(struct rp_functions *functions, struct rp_record_trace *trace,
		const struct rp_record_hit *hit)
{
	const struct function *function;
	struct known *known;
	uint64_t vaddr, bias;

	if (hit->address >= RP_KERNEL_START)
		return name_kernel(functions, trace, hit);
	if (!find_vaddr(hit, &vaddr))
		return 0;
	known = known_of(functions, hit->image);
	if (!known)
		return -ENOMEM;
	function = find(known, vaddr);
	if (!function)
		return 0;
	bias = hit->address - vaddr;
	return rp_record_function(trace, hit->process, hit->mapping, function->start + bias,
				  function->end + bias, function->name);
}

/* Whether the address is not that of a file or of the kernel. */
static bool is_generated(const struct rp_record_hit *hit)
{
	uint64_t vaddr;

	return hit->address < RP_KERNEL_START && !find_vaddr(hit, &vaddr);
}

int rp_functions_name_generated(struct rp_record_trace *trace,
				const struct rp_machine_process *process)
{
	struct rp_perf_map map = { 0 };
	struct rp_record_hit *hits;
	size_t count;
	int ret = 0;

	hits = rp_record_hits(trace, &count);
	for (size_t i = 0; ret == 0 && i < count; i++) {
		if (hits[i].process != process || hits[i].is_named || !is_generated(&hits[i]))
			continue;
		ret = name_generated(&map, trace, &hits[i]);
		hits[i].is_named = true;
	}
	rp_perf_map_fini(&map);
	return ret;
}

int rp_functions_take(struct rp_functions *functions, struct rp_record_trace *trace)
{
	const struct rp_record_hit *hits;
	struct rp_record_hit *grown;
	size_t count;
	int ret;

	hits = rp_record_hits(trace, &count);
	if (count == 0)
		return 0;
	ret = join_reader(functions);
	grown = rp_array_reserve(functions->hits, functions->hit_count, &functions->hit_capacity,
				 count, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	functions->hits = grown;
	for (size_t i = 0; ret == 0 && i < count; i++) {
		if (!is_generated(&hits[i]))
			ret = ask(functions, &hits[i]);
		else if (!hits[i].is_named)
			ret = rp_functions_name_generated(trace, hits[i].process);
		grown[functions->hit_count++] = hits[i];
	}
	rp_record_hits_clear(trace);
	return ret;
}

static void *read_symbols(void *data)
{
	struct rp_functions *functions = data;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < functions->known_count && !is_cut(functions); i++) {
		if (functions->known[i].asked_count)
			ret = query(&functions->known[i]);
	}
	functions->read_result = ret;
	rp_store_release(&functions->is_read, 1u);
	return NULL;
}

/* Start the thread, or read the symbols here if there is no thread. */
static void start_reader(struct rp_functions *functions)
{
	functions->is_read = 0;
	functions->has_reader = pthread_create(&functions->reader, NULL, read_symbols,
					       functions) == 0;
	if (!functions->has_reader)
		read_symbols(functions);
}

static bool has_asked(const struct rp_functions *functions)
{
	for (size_t i = 0; i < functions->known_count; i++) {
		if (functions->known[i].asked_count)
			return true;
	}
	return false;
}

int rp_functions_step(struct rp_functions *functions, struct rp_record_trace *trace,
		      struct rp_stop_requests *ending, bool *ret_is_done)
{
	int ret = 0;

	*ret_is_done = false;
	rp_store_release(&functions->ending, ending);
	if (!functions->has_reader && has_asked(functions))
		start_reader(functions);
	if (functions->has_reader) {
		if (!ending && !rp_load_acquire(&functions->is_read))
			return 0;
		ret = join_reader(functions);
	}
	for (size_t i = 0; ret == 0 && i < functions->hit_count; i++) {
		ret = name(functions, trace, &functions->hits[i]);
		rp_record_hit_named(&functions->hits[i]);
	}
	functions->hit_count = 0;
	*ret_is_done = true;
	return ret;
}
