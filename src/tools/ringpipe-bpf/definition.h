/* SPDX-License-Identifier: MIT */
/* Event definitions that the process sends, and the paths to their fields. */
#ifndef RP_BPF_DEFINITION_H
#define RP_BPF_DEFINITION_H

#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>
#include <ringpipe/types.h>

#include "../../bpf/aggregate.h"

struct rp_bpf_definition {
	uint32_t number;		/* unique in this session */
	uint32_t id;
	uint32_t version;
	uint32_t level;
	uint64_t keywords;
	char *provider;
	char *name;
	struct rp_field *fields;
	uint32_t field_count;
	struct rp_reader_type *json;	/* of a JSON event, for its decoder; otherwise NULL */
};

/* Parse a definition frame. Return: 0; -EBADMSG if the frame is invalid; -ENOMEM. */
int rp_bpf_definition_read(const uint8_t *bytes, size_t size,
			   struct rp_bpf_definition *ret_definition);
void rp_bpf_definition_fini(struct rp_bpf_definition *definition);

/*
 * Find the path to a field, `name` or `struct.member`, from the beginning of a payload. Return: 0;
 * -ENOENT; -EOPNOTSUPP if BPF cannot count its type; -E2BIG if too many fields precede it.
 */
int rp_bpf_path_find(const struct rp_bpf_definition *definition, const char *name,
		     struct rp_bpf_path *ret_path);

#endif
