/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/jit_dump.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x4a695444u		/* in the byte order of the writer */
#define NAME_MAX_BYTES 1024

enum { CODE_LOAD, CODE_MOVE };

struct dump_header {
	uint32_t magic, version, size, machine, reserved, process;
	uint64_t time, flags;
};

struct dump_record {
	uint32_t id, size;		/* size: of the whole record */
	uint64_t time;
};

struct code_load {
	uint32_t process, thread;
	uint64_t address, code_address, code_bytes, index;
};

struct code_move {
	uint32_t process, thread;
	uint64_t address, old_address, new_address, code_bytes, index;
};

bool rp_jit_dump_is_path(const char *path)
{
	const char *name = strrchr(path, '/');
	const size_t length = name ? strlen(name) : 0;

	return length > strlen("/jit-.dump") && !strncmp(name, "/jit-", 5) &&
	       !strcmp(name + length - 5, ".dump");
}

/* Return: whether all bytes were there. */
static bool get(int fd, void *bytes, size_t size, uint64_t offset)
{
	return pread(fd, bytes, size, (off_t)offset) == (ssize_t)size;
}

/* A name ends with a NUL, and the code follows it. A longer name is cut. */
static int take_load(int fd, uint64_t offset, uint64_t bytes, rp_jit_dump_callback callback,
		     void *data)
{
	struct rp_jit_function function;
	struct code_load load;
	char name[NAME_MAX_BYTES];
	size_t space = sizeof(name) - 1;

	if (bytes < sizeof(load) || !get(fd, &load, sizeof(load), offset))
		return 0;
	if (bytes - sizeof(load) < space)
		space = (size_t)(bytes - sizeof(load));
	if (!get(fd, name, space, offset + sizeof(load)))
		return 0;
	name[space] = '\0';
	function = (struct rp_jit_function){
		.start = load.code_address, .bytes = load.code_bytes, .name = name,
	};
	return *name && load.code_bytes ? callback(data, &function) : 0;
}

static int take_move(int fd, uint64_t offset, uint64_t bytes, rp_jit_dump_callback callback,
		     void *data)
{
	struct rp_jit_function function;
	struct code_move move;

	if (bytes < sizeof(move) || !get(fd, &move, sizeof(move), offset))
		return 0;
	function = (struct rp_jit_function){
		.start = move.new_address, .bytes = move.code_bytes,
		.old_start = move.old_address,
	};
	return move.code_bytes ? callback(data, &function) : 0;
}

int rp_jit_dump_read(int fd, rp_jit_dump_callback callback, void *data)
{
	struct dump_header header;
	struct dump_record prefix;
	uint64_t offset;
	int ret = 0;

	if (!get(fd, &header, sizeof(header), 0) || header.magic != MAGIC ||
	    header.size < sizeof(header))
		return -EBADMSG;
	offset = header.size;
	while (ret == 0 && get(fd, &prefix, sizeof(prefix), offset) &&
	       prefix.size >= sizeof(prefix)) {
		const uint64_t content = offset + sizeof(prefix);
		const uint64_t bytes = prefix.size - sizeof(prefix);

		if (prefix.id == CODE_LOAD)
			ret = take_load(fd, content, bytes, callback, data);
		else if (prefix.id == CODE_MOVE)
			ret = take_move(fd, content, bytes, callback, data);
		offset += prefix.size;
	}
	return ret;
}
