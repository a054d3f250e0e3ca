/* SPDX-License-Identifier: MIT */
/*
 * The interface of the module libringpipe-symbols.so, which finds the names of functions. Only the
 * module reads ELF symbol tables and debug files and demangles names.
 */
#ifndef RP_HOST_SYMBOLS_H
#define RP_HOST_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RP_SYMBOLS_MODULE "libringpipe-symbols.so"
#define RP_SYMBOLS_FUNCTION "rp_symbols_find"

#define RP_BUILD_ID_MAX 32u

/* A longer name is cut. */
#define RP_SYMBOL_NAME_MAX 1024u

/* A query for the functions of one object that contain the addresses. */
struct rp_symbols_query {
	uint32_t size;			/* of this struct: both must be from the same build */
	uint32_t address_count;
	const uint64_t *addresses;	/* sorted, as virtual addresses of the ELF file */
	/*
	 * Files to try until one has the build id, or until the first if the id is unknown; then
	 * its debug files. Or an image in memory.
	 */
	const char *const *paths;
	size_t path_count;
	const char *named;		/* the path by which debug files are found */
	const char *debug_directory;	/* the system's directory of debug files */
	const void *image;
	size_t image_bytes;
	const uint8_t *build_id;
	size_t build_id_bytes;
	/* Called for each function that contains some of them; `end` is exclusive. */
	void (*found)(void *data, uint64_t start, uint64_t end, const char *name);
	bool (*is_over)(void *data);	/* called at intervals; true: stop the search */
	/* Open a debug file for reading. A descriptor for close(2); -1: none. NULL: open(2). */
	int (*open_debug)(void *data, const char *path);
	void *data;
};

/*
 * The module's function. It reads files and does not map them, because a file that is truncated
 * meanwhile must not kill the host. The content of the files is untrusted.
 *
 * Return: 0; -EINVAL: the query is from another build; -ENOENT: no file could be read, or none has
 * this build id; -ENOEXEC: not an ELF file of this machine; -ENOMEM.
 */
typedef int (*rp_symbols_find_callback)(const struct rp_symbols_query *query);

/*
 * Load the module, once. Return: its function; NULL: it cannot be loaded, for the reason in
 * `ret_reason`.
 */
rp_symbols_find_callback rp_symbols_load(char *ret_reason, size_t space);

/* Handler for fork(2): waits at most a second for a thread that loads the module. */
void rp_symbols_fork_prepare(void);
void rp_symbols_fork_parent(void);
void rp_symbols_fork_child(void);

#endif
