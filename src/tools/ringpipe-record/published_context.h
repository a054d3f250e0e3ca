/* SPDX-License-Identifier: MIT */
/*
 * Reads the attributes that a process publishes by OpenTelemetry's OTEP 4719
 * (oteps/profiles/4719-process-ctx.md): a header in a mapping named OTEL_CTX leads to a message in
 * the wire format of Protocol Buffers. All of it is untrusted and may change while it is read.
 */
#ifndef RP_RECORD_PUBLISHED_CONTEXT_H
#define RP_RECORD_PUBLISHED_CONTEXT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/trace/attribute_table.h"

/* Larger messages, and attributes beyond their number or the bytes of texts, are left out. */
#define RP_PUBLISHED_BYTES_MAX (1u << 20)
#define RP_PUBLISHED_ATTRIBUTES_MAX 1024u
#define RP_PUBLISHED_TEXTS_MAX (64u << 10)

struct rp_published_context {
	uint64_t published_ns;		/* CLOCK_BOOTTIME of the process; another for each change */
	uint8_t *message;		/* for free() */
	size_t bytes;
};

/*
 * Read what a process has published.
 * @known_ns: `published_ns` of what the caller knows already; 0: nothing.
 * Return: 0; -ENOENT: nothing, also if the process has ended; -EALREADY: what the caller knows;
 * -EAGAIN: it changes at the moment; -EBADMSG: not as the OTEP says; -ENOMEM.
 */
int rp_published_context_read(pid_t process, uint64_t known_ns,
			      struct rp_published_context *ret_context);

/* Called with an attribute: texts are UTF-8. Return: 0; another value ends the visit. */
typedef int (*rp_published_visit)(void *user, const struct rp_attribute *attribute);

/*
 * Visit the attributes of the resource, each key once. Values that are neither texts, numbers nor
 * truth values are left out.
 * @text_bytes: longer texts are cut.
 * Return: 0; -EBADMSG: the message is damaged after the attributes that were visited; -ENOMEM; what
 * the function returned.
 */
int rp_published_context_visit(const struct rp_published_context *context, size_t text_bytes,
			       rp_published_visit visit, void *user);

#endif
