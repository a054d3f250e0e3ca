/* SPDX-License-Identifier: MIT */
/* Names of the kernel's functions, if a perf.data was recorded with the kernel that runs now. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cursor.h"
#include "tools/trace/perf_copy.h"

#define NOTES_BYTES 4096u

/* Read the build id of the running kernel. Return: its bytes; 0: unknown. */
static uint8_t running_build_id(uint8_t ret_id[20])
{
	FILE *file = fopen("/sys/kernel/notes", "re");
	uint8_t notes[NOTES_BYTES];
	struct rp_cursor cursor;
	size_t size = file ? fread(notes, 1, sizeof(notes), file) : 0;

	if (file)
		fclose(file);
	cursor = rp_cursor_over(notes, size);
	while (rp_cursor_left(&cursor) >= sizeof(Elf64_Nhdr)) {
		const uint8_t *name, *id;
		Elf64_Nhdr note;

		rp_cursor_get(&cursor, &note, sizeof(note));
		if (rp_cursor_take(&cursor, (note.n_namesz + 3) & ~3u, &name) ||
		    rp_cursor_take(&cursor, (note.n_descsz + 3) & ~3u, &id))
			return 0;
		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    memcmp(name, "GNU", 4) != 0 || note.n_descsz > 20)
			continue;
		memcpy(ret_id, id, note.n_descsz);
		return (uint8_t)note.n_descsz;
	}
	return 0;
}

/* Without a build id, the release is what identifies a kernel. */
static bool is_running(const struct rp_perf_copy *copy)
{
	const struct rp_perf_features *features = &copy->file.features;
	const struct rp_perf_build_id *found = rp_perf_features_find(features, RP_PERF_KERNEL);
	const struct rp_perf_kernel *kernel = &copy->kernel;
	const uint8_t *wanted = kernel->build_id_bytes ? kernel->build_id :
				found ? found->id : NULL;
	const uint8_t bytes = kernel->build_id_bytes ? kernel->build_id_bytes :
			      found ? found->bytes : 0;
	struct utsname system;
	uint8_t id[20];

	if (bytes)
		return running_build_id(id) == bytes && memcmp(id, wanted, bytes) == 0;
	return features->release && uname(&system) == 0 &&
	       strcmp(features->release, system.release) == 0;
}

/* The kernel moves its code to another address at each boot; _text shows by how much. */
static bool is_at(const struct rp_kernel_symbols *symbols, uint64_t text)
{
	for (size_t i = 0; i < symbols->count && symbols->symbols[i].start <= text; i++) {
		if (symbols->symbols[i].start == text &&
		    strcmp(symbols->symbols[i].name, "_text") == 0)
			return true;
	}
	return false;
}

const struct rp_kernel_symbol *rp_perf_kernel_find(struct rp_perf_copy *copy, uint64_t address,
						   uint64_t *ret_end)
{
	struct rp_perf_kernel *kernel = &copy->kernel;

	if (!kernel->is_read) {
		kernel->is_read = true;
		if (kernel->text && is_running(copy) &&
		    rp_kernel_symbols_read(&kernel->symbols) == 0 &&
		    !is_at(&kernel->symbols, kernel->text))
			rp_kernel_symbols_fini(&kernel->symbols);
	}
	return kernel->symbols.count ?
	       rp_kernel_symbols_find(&kernel->symbols, address, ret_end) : NULL;
}
