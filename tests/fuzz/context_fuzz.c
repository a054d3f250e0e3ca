/* SPDX-License-Identifier: MIT */
/*
 * Uses any bytes as the attributes that a process publishes, and as a file that may have the
 * thread-local variable of trace ids. reader_fuzz.c shows how to run it; link all of src/.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "input.h"
#include "tools/ringpipe-record/published_context.h"
#include "tools/ringpipe-record/tls_variable.h"

#define TEXT_BYTES 100u
#define HEADERS_MAX 16u

static int take_attribute(void *data, const struct rp_attribute *attribute)
{
	size_t *count = data;

	if (!*attribute->key || strlen(attribute->key) > TEXT_BYTES ||
	    strlen(attribute->value) > TEXT_BYTES)
		abort();
	return ++*count > RP_PUBLISHED_ATTRIBUTES_MAX ? -E2BIG : 0;
}

static void read_attributes(const uint8_t *bytes, size_t size)
{
	const struct rp_published_context context = {
		.message = (uint8_t *)bytes, .bytes = size,
	};
	size_t count = 0;

	if (rp_published_context_visit(&context, TEXT_BYTES, take_attribute, &count) == -E2BIG)
		abort();
}

static void find_variable(const uint8_t *bytes, size_t size)
{
	struct rp_tls_variable variable;
	Elf64_Phdr headers[HEADERS_MAX];
	Elf64_Ehdr header;
	int fd;

	if (size < sizeof(header))
		return;
	memcpy(&header, bytes, sizeof(header));
	if (header.e_phoff > size || header.e_phnum > HEADERS_MAX ||
	    header.e_phnum * sizeof(*headers) > size - header.e_phoff)
		return;
	memcpy(headers, bytes + header.e_phoff, header.e_phnum * sizeof(*headers));
	fd = memfd_create("elf", MFD_CLOEXEC);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	rp_tls_variable_find(&(struct rp_tls_file){
		.fd = fd, .headers = headers, .count = header.e_phnum,
		.is_fixed = header.e_type == ET_EXEC,
	}, "otel_thread_ctx_v1", &variable);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	read_attributes(bytes, size);
	find_variable(bytes, size);
	return 0;
}
