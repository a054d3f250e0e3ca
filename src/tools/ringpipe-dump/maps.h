/* SPDX-License-Identifier: MIT */
/* The mappings of a process. */
#ifndef RP_DUMP_MAPS_H
#define RP_DUMP_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct rp_dump_mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset;		/* in the file */
	uint64_t inode;			/* 0: no file */
	bool readable, writable, executable, shared;
	bool excluded;			/* MADV_DONTDUMP, or memory of a device */
	bool touched;			/* some page is resident or swapped out */
	char *path;			/* or a name in brackets, or "" */
};

struct rp_dump_maps {
	struct rp_dump_mapping *rows;	/* by address */
	size_t count;
	size_t capacity;
};

/* Reads /proc/PID/smaps. Return: 0; -ENOMEM; -errno of reading. */
int rp_dump_maps_read(struct rp_dump_maps *maps, pid_t pid);

/* Does the same from the text of such a file. */
int rp_dump_maps_parse(struct rp_dump_maps *maps, FILE *file);

void rp_dump_maps_fini(struct rp_dump_maps *maps);

#endif
