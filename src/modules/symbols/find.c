/* SPDX-License-Identifier: MIT */
/*
 * libringpipe-symbols.so: finds the functions that contain given addresses.
 *
 * An object's tables are read in this order: its .symtab, or that of its debug file, found by build
 * id or debug link; the small table packed in .gnu_debugdata; .dynsym. Each table is read only for
 * addresses that the previous ones did not resolve.
 */
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "modules/symbols/find.h"
#include "modules/symbols/object.h"
#include "modules/symbols/symbol_table.h"

/* `ret`: of the function that opened the object. Keeps it if it has the build id of the query. */
static int keep_same(const struct rp_symbols_query *query, int ret,
		     struct rp_object_file *ret_object)
{
	if (ret == 0 && query->build_id_bytes &&
	    !rp_object_has_build_id(ret_object, query->build_id, query->build_id_bytes)) {
		rp_object_close(ret_object);
		return -ENOENT;
	}
	return ret;
}

static int open_debug(const struct rp_symbols_query *query, const char *path,
		      struct rp_object_file *ret_object)
{
	int ret = query->open_debug ?
		  rp_object_open_fd(query->open_debug(query->data, path), ret_object) :
		  rp_object_open(path, ret_object);

	return keep_same(query, ret, ret_object);
}

static int open_by_build_id(const struct rp_symbols_query *query,
			    struct rp_object_file *ret_object)
{
	char path[PATH_MAX], digits[2 * RP_BUILD_ID_MAX + 1];

	if (query->build_id_bytes < 2 || query->build_id_bytes > RP_BUILD_ID_MAX)
		return -ENOENT;
	for (size_t i = 0; i < query->build_id_bytes; i++)
		snprintf(digits + 2 * i, 3, "%02x", query->build_id[i]);
	if ((size_t)snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug",
			     query->debug_directory, digits, digits + 2) >= sizeof(path))
		return -ENOENT;
	return open_debug(query, path, ret_object);
}

/* The checksum of a debug link: that of zlib and Ethernet, least significant bit first. */
static bool has_checksum(const struct rp_symbols_query *query,
			 const struct rp_object_file *object, uint32_t wanted)
{
	uint32_t table[256], sum = UINT32_MAX;
	uint8_t buffer[32768];
	uint64_t at = 0;
	size_t got;

	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
	}
	while ((got = rp_object_read(object, at, buffer, sizeof(buffer))) > 0) {
		if (query->is_over(query->data))
			return false;
		for (size_t i = 0; i < got; i++)
			sum = table[(sum ^ buffer[i]) & 0xff] ^ sum >> 8;
		at += got;
	}
	return ~sum == wanted;
}

/*
 * Searches the places of gdb's manual: the file's directory, its .debug, the global debug
 * directory.
 */
static int open_by_link(const struct rp_symbols_query *query, const struct rp_object_file *object,
			struct rp_object_file *ret_object, char path[PATH_MAX])
{
	const char *const places[][2] = {
		{ "", "" }, { "", "/.debug" }, { query->debug_directory, "" },
	};
	GElf_Word sum;
	const char *link = dwelf_elf_gnu_debuglink(object->elf, &sum);
	const char *slash = query->named ? strrchr(query->named, '/') : NULL;

	if (!link || !slash || strchr(link, '/'))
		return -ENOENT;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		if ((size_t)snprintf(path, PATH_MAX, "%s%.*s%s/%s", places[i][0],
				     (int)(slash - query->named), query->named, places[i][1],
				     link) >= PATH_MAX ||
		    open_debug(query, path, ret_object) != 0)
			continue;
		if (query->build_id_bytes || has_checksum(query, ret_object, sum))
			return 0;
		rp_object_close(ret_object);
	}
	return -ENOENT;
}

static void ask_debug_file(struct rp_lookup *lookup, const struct rp_object_file *object)
{
	struct rp_object_file debug;
	char path[PATH_MAX];

	if (open_by_build_id(lookup->query, &debug) != 0 &&
	    open_by_link(lookup->query, object, &debug, path) != 0)
		return;
	rp_lookup_table(lookup, &debug, SHT_SYMTAB);
	rp_object_close(&debug);
}

static void ask(struct rp_lookup *lookup, const struct rp_object_file *object)
{
	struct rp_object_file packed;

	if (!rp_lookup_table(lookup, object, SHT_SYMTAB) && !lookup->query->image)
		ask_debug_file(lookup, object);
	if (lookup->unnamed && rp_object_open_packed(object, &packed) == 0) {
		rp_lookup_table(lookup, &packed, SHT_SYMTAB);
		rp_object_close(&packed);
	}
	if (lookup->unnamed)
		rp_lookup_table(lookup, object, SHT_DYNSYM);
}

static int open_any(const struct rp_symbols_query *query, struct rp_object_file *ret_object)
{
	int ret = -ENOENT;

	if (query->image)
		return rp_object_open_image(query->image, query->image_bytes, ret_object);
	for (size_t i = 0; ret != 0 && i < query->path_count; i++)
		ret = keep_same(query, rp_object_open(query->paths[i], ret_object), ret_object);
	/* The object's file is gone, but its debug file may still exist. */
	if (ret != 0 && open_by_build_id(query, ret_object) == 0)
		ret = 0;
	return ret;
}

int rp_symbols_find_linked(const struct rp_symbols_query *query, char ret_path[PATH_MAX])
{
	struct rp_object_file object, debug;
	char path[PATH_MAX];
	int ret = open_any(query, &object);

	if (ret != 0)
		return ret;
	ret = open_by_link(query, &object, &debug, path);
	if (ret == 0) {
		memcpy(ret_path, path, sizeof(path));
		rp_object_close(&debug);
	}
	rp_object_close(&object);
	return ret;
}

int rp_symbols_find(const struct rp_symbols_query *query)
{
	struct rp_object_file object;
	struct rp_lookup lookup;
	int ret;

	if (query->size != sizeof(*query))
		return -EINVAL;
	if (!query->address_count)
		return 0;
	ret = open_any(query, &object);
	if (ret != 0)
		return ret;
	ret = rp_lookup_init(&lookup, query);
	if (ret == 0)
		ask(&lookup, &object);
	rp_lookup_fini(&lookup);
	rp_object_close(&object);
	return ret;
}
