/* SPDX-License-Identifier: MIT */
/*
 * Names of functions: what the engine asks of the module libringpipe-symbols.so, which alone knows
 * ELF's symbol tables, debug files and mangled names.
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

/* A query for the functions of one object that hold the addresses. */
struct rp_symbols_query {
	uint32_t size;			/* of this struct: module and library are of one build */
	uint32_t address_count;
	const uint64_t *addresses;	/* ascending, in the file's own terms */
	/*
	 * Files to try, until one has the build id (any one, where that is unknown); then its debug
	 * files. Or an image in memory.
	 */
	const char *const *paths;
	size_t path_count;
	const char *named;		/* the path that debug files are looked for by */
	const char *debug_directory;	/* where the system keeps those of all programs */
	const void *image;
	size_t image_bytes;
	const uint8_t *build_id;
	size_t build_id_bytes;
	/* Called for each function that holds some of them; `end` is exclusive. */
	void (*found)(void *data, uint64_t start, uint64_t end, const char *name);
	bool (*is_over)(void *data);	/* called now and then; true: stop the search */
	void *data;
};

/*
 * The module's function. It reads files and does not map them, since a file that is truncated
 * meanwhile must not kill the host. The content of the files is untrusted.
 *
 * Return: 0; -EINVAL: the query is of another build; -ENOENT: no such file could be read, or no
 * file has this build id; -ENOEXEC: not an ELF file of this machine; -ENOMEM.
 */
typedef int (*rp_symbols_find_callback)(const struct rp_symbols_query *query);

/* Load the module, once. Return: NULL, with a reason in `ret_reason`, if that fails. */
rp_symbols_find_callback rp_symbols_load(char *ret_reason, size_t space);

/* Around fork(2): waits, a second at most, for a thread that is loading it. */
void rp_symbols_fork_prepare(void);
void rp_symbols_fork_parent(void);
void rp_symbols_fork_child(void);

#endif
