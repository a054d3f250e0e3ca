/* SPDX-License-Identifier: MIT */
#include "host/mappings.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/identity.h"

/* Limits the memory if the host keeps loading and unloading new libraries. */
#define MAPPINGS_MAX 16384u
#define CHUNK 64u

static struct {
	pthread_mutex_t lock;
	unsigned int holders;
	bool looked;
	unsigned long long adds, subs;	/* the loader's counters at the last update */
	uint64_t looked_ns;
	struct rp_mapping **items;
	size_t count, space;
	uint64_t last_id;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* One object of the loader. The loader's lock is held, so the object stays mapped. */
struct mapped_object {
	const struct dl_phdr_info *info;
	const char *name;
	enum rp_mapping_kind kind;
	const uint8_t *build_id;
	uint32_t build_id_bytes;
};

/* elf(5): notes of name size, description size, type, each padded to the segment's alignment. */
static void find_build_id(struct mapped_object *object, const ElfW(Phdr) *segment)
{
	const uint8_t *at = (const uint8_t *)(uintptr_t)(object->info->dlpi_addr +
							 segment->p_vaddr);
	const uint8_t *end = at + segment->p_memsz;
	size_t mask = segment->p_align == 8 ? 7 : 3;

	while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
		size_t name = (sizeof(*note) + note->n_namesz + mask) & ~mask;
		size_t size = name + ((note->n_descsz + mask) & ~mask);

		if (size > (size_t)(end - at))
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
		    note->n_descsz <= RP_BUILD_ID_MAX && memcmp(note + 1, "GNU", 4) == 0) {
			object->build_id = at + name;
			object->build_id_bytes = note->n_descsz;
			return;
		}
		at += size;
	}
}

static bool is_same(const struct rp_mapping *a, const struct rp_mapping *b)
{
	return a->start == b->start && a->end == b->end &&
	       a->build_id_bytes == b->build_id_bytes &&
	       memcmp(a->build_id, b->build_id, a->build_id_bytes) == 0 &&
	       strcmp(a->path, b->path) == 0;
}

/* Return: whether the newest entry that overlaps is the same segment of the same file. */
static bool is_known(const struct rp_mapping *mapping)
{
	for (size_t i = table.count; i-- > 0;) {
		const struct rp_mapping *known = table.items[i];

		if (known->start < mapping->end && mapping->start < known->end)
			return is_same(known, mapping);
	}
	return false;
}

static int append(struct rp_mapping *mapping)
{
	if (table.count == MAPPINGS_MAX)
		return -ENOSPC;
	if (table.count == table.space) {
		struct rp_mapping **grown = realloc(table.items,
						    (table.space + CHUNK) * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		table.items = grown;
		table.space += CHUNK;
	}
	mapping->id = ++table.last_id;
	table.items[table.count++] = mapping;
	return 0;
}

static void add_segment(const struct mapped_object *object, const ElfW(Phdr) *segment)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start = object->info->dlpi_addr + segment->p_vaddr;
	size_t name_bytes = strlen(object->name) + 1;
	struct rp_mapping *mapping = calloc(1, sizeof(*mapping) + name_bytes);

	if (!mapping)
		return;
	mapping->start = start & ~(page - 1);
	mapping->end = (start + segment->p_memsz + page - 1) & ~(page - 1);
	mapping->file_offset = segment->p_offset & ~(page - 1);
	mapping->after_ns = table.looked_ns;
	mapping->bias = object->info->dlpi_addr;
	mapping->vaddr = segment->p_vaddr;
	mapping->offset = segment->p_offset;
	mapping->kind = object->kind;
	mapping->build_id_bytes = object->build_id_bytes;
	if (object->build_id)
		memcpy(mapping->build_id, object->build_id, object->build_id_bytes);
	memcpy(mapping->path, object->name, name_bytes);
	if (is_known(mapping) || append(mapping) != 0)
		free(mapping);
}

static bool is_vdso(const struct dl_phdr_info *info)
{
	uint64_t base = getauxval(AT_SYSINFO_EHDR);

	for (int i = 0; base && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && base >= start &&
		    base < start + segment->p_memsz)
			return true;
	}
	return false;
}

/* Get the object's path; the loader only stores the argument of dlopen(3). */
static void resolve_name(struct mapped_object *object, char buffer[PATH_MAX])
{
	object->name = object->info->dlpi_name;
	if (is_vdso(object->info)) {
		object->kind = RP_MAPPING_VDSO;
		object->name = "[vdso]";
	} else if (!*object->name) {
		object->kind = RP_MAPPING_PROGRAM;
		rp_process_program(buffer, PATH_MAX);
		object->name = buffer;
	} else if (*object->name != '/' && realpath(object->name, buffer)) {
		object->name = buffer;
	}
}

/* One walk through the loader's objects, whose counters are the same in each call. */
struct mappings_walk {
	bool begun;
	unsigned long long adds, subs;
};

static int take_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct mappings_walk *walk = data;
	char buffer[PATH_MAX];
	struct mapped_object object = { .info = info };

	(void)size;
	if (!walk->begun && table.looked && info->dlpi_adds == table.adds &&
	    info->dlpi_subs == table.subs)
		return 1;
	*walk = (struct mappings_walk){ true, info->dlpi_adds, info->dlpi_subs };
	resolve_name(&object, buffer);
	for (int i = 0; i < info->dlpi_phnum && !object.build_id; i++) {
		if (info->dlpi_phdr[i].p_type == PT_NOTE)
			find_build_id(&object, &info->dlpi_phdr[i]);
	}
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X)
			add_segment(&object, segment);
	}
	return 0;
}

static void look(void)
{
	struct mappings_walk walk = { 0 };
	uint64_t now = rp_clock_monotonic_ns();

	dl_iterate_phdr(take_object, &walk);
	table.looked_ns = now;
	if (!walk.begun)
		return;
	table.looked = true;
	table.adds = walk.adds;
	table.subs = walk.subs;
}

void rp_mappings_hold(void)
{
	pthread_mutex_lock(&table.lock);
	table.holders++;
	look();
	pthread_mutex_unlock(&table.lock);
}

static void empty(void)
{
	for (size_t i = 0; i < table.count; i++)
		free(table.items[i]);
	free(table.items);
	table.items = NULL;
	table.count = 0;
	table.space = 0;
	table.looked = false;
	table.looked_ns = 0;
}

void rp_mappings_release(void)
{
	pthread_mutex_lock(&table.lock);
	if (--table.holders == 0)
		empty();
	pthread_mutex_unlock(&table.lock);
}

void rp_mappings_refresh(void)
{
	pthread_mutex_lock(&table.lock);
	if (table.holders)
		look();
	pthread_mutex_unlock(&table.lock);
}

const struct rp_mapping *rp_mappings_at(size_t index)
{
	const struct rp_mapping *mapping;

	pthread_mutex_lock(&table.lock);
	mapping = index < table.count ? table.items[index] : NULL;
	pthread_mutex_unlock(&table.lock);
	return mapping;
}

void rp_mappings_fork_prepare(void)
{
	pthread_mutex_lock(&table.lock);
}

void rp_mappings_fork_parent(void)
{
	pthread_mutex_unlock(&table.lock);
}

/* The streams that held the table belong to the parent. */
void rp_mappings_fork_child(void)
{
	pthread_mutex_unlock(&table.lock);
	table.holders = 0;
	empty();
}
