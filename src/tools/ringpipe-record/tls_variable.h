/* SPDX-License-Identifier: MIT */
/*
 * Finds a thread-local variable that an ELF file of x86-64 exports, and where each thread of a
 * process has it.
 *
 * The variable of an executable has a fixed offset from the thread pointer. The loader chooses that
 * of a library when it maps the library, and stores it in the words that relocations of the library
 * name: the TLS descriptor of the variable, or its offset. A library that was loaded late may have
 * no fixed offset; its descriptor then leads to the index of the library in the thread's DTV.
 *
 * Files and processes are untrusted, and may change at any time.
 *
 * Source: "ELF Handling For Thread-Local Storage" and "Thread-Local Storage Descriptors for IA32
 * and AMD64/EM64T"; elf/dl-tls.c and sysdeps/x86/dl-tlsdesc.h of glibc.
 */
#ifndef RP_RECORD_TLS_VARIABLE_H
#define RP_RECORD_TLS_VARIABLE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../bpf/waits.h"

enum rp_tls_kind {
	RP_TLS_NONE,			/* the file does not define the variable */
	RP_TLS_FIXED,			/* of an executable; `offset` is from the thread pointer */
	RP_TLS_OFFSET,			/* the word at `slot` has an offset */
	RP_TLS_DESCRIPTOR,		/* the two words at `slot` are a TLS descriptor */
};

struct rp_tls_variable {
	enum rp_tls_kind kind;
	uint64_t slot;			/* an address of the file */
	int64_t offset;			/* FIXED only */
};

/* The program headers of an open file. */
struct rp_tls_file {
	int fd;
	const Elf64_Phdr *headers;
	uint32_t count;
	bool is_fixed;			/* the type of the file is ET_EXEC */
};

/* Find the variable. Its kind is RP_TLS_NONE if the file lacks it or is damaged. */
void rp_tls_variable_find(const struct rp_tls_file *file, const char *name,
			  struct rp_tls_variable *ret_variable);

/*
 * Find where the threads of a process have the variable.
 * @bias: the distance of the process's addresses from those of the file.
 * Return: 0; -EAGAIN: the loader has not stored it yet, or the process has ended; -ERANGE: the
 * offset is none that a thread can have.
 */
int rp_tls_variable_locate(const struct rp_tls_variable *variable, pid_t process, uint64_t bias,
			   struct rp_context_place *ret_place);

#endif
