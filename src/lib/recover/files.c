/* SPDX-License-Identifier: MIT */
#include "recover/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/shield.h"
#include "nettrace/outbuf.h"
#include "recover/definitions.h"

#define ATTEMPTS 3
#define ALLOCATE_BYTES (1u << 20)	/* a signal undoes a whole fallocate(2) */

struct rp_recovery_files {
	char *path;
	int fd;			/* the directory's descriptor */
	struct rp_file_id file;	/* the directory: the program may close and reuse the number */
	struct rp_recover_header *header;
	size_t header_bytes;
	uint32_t ring_count;
	uint64_t events_bytes;
	uint64_t *serials;	/* by index: serial + 1 of the definition in the file; 0: none */
	size_t serial_count;
};

void rp_recovery_default_parent(char parent[RP_RECOVERY_PARENT_BYTES])
{
	snprintf(parent, RP_RECOVERY_PARENT_BYTES, "/dev/shm/ringpipe-%u", (unsigned int)geteuid());
}

/*
 * Open the directory `path`, in which each session of this user has a directory of its own. Create
 * it if it does not exist. "" means the default.
 * Return: the descriptor; -EPERM: the directory belongs to another user, or others may write to it;
 * -ELOOP or -ENOTDIR: the path is a symbolic link, or no directory; -errno of mkdir(2) or open(2).
 */
static int open_parent(const char *path)
{
	char standard[RP_RECOVERY_PARENT_BYTES];
	const uid_t user = geteuid();
	struct stat stat;
	int fd;

	if (!*path) {
		rp_recovery_default_parent(standard);
		path = standard;
	}
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return rp_failed("mkdir");
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return rp_failed("open");
	/* Another user with write permission could replace our directories. */
	if (fstat(fd, &stat) != 0 || stat.st_uid != user || (stat.st_mode & 022)) {
		close(fd);
		/* libc returns the error of a refused call as if it were a user. */
		return user >= (uid_t)-4095 ? rp_failed_with("geteuid", -(int)user) : -EPERM;
	}
	return fd;
}

/* Allocate the whole file now, so that a full file system is an error here, not a SIGBUS later. */
static int allocate(int fd, size_t size)
{
	RP_SHIELDED struct rp_shield shield = rp_shield_raise();

	for (size_t at = 0; at < size; at += ALLOCATE_BYTES) {
		size_t piece = size - at < ALLOCATE_BYTES ? size - at : ALLOCATE_BYTES;

		while (fallocate(fd, 0, (off_t)at, (off_t)piece) != 0) {
			if (errno != EINTR)
				return rp_failed("fallocate");
		}
	}
	return 0;
}

/* Return: the descriptor of a new file, or -errno. */
static int make_file(const struct rp_recovery_files *recovery, const char *name, size_t size)
{
	int fd, ret;

	if (!rp_file_is(recovery->fd, &recovery->file))
		return -EBADF;
	fd = openat(recovery->fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return rp_failed("openat");
	ret = allocate(fd, size);
	if (ret != 0) {
		close(fd);
		(void)unlinkat(recovery->fd, name, 0);
		return ret;
	}
	return fd;
}

static void name_ring(char name[32], uint32_t number)
{
	snprintf(name, 32, "ring-%u", number);
}

int rp_recovery_make_ring(struct rp_recovery_files *recovery, size_t size, uint32_t id,
			  struct rp_ring **ret_ring, uint32_t *ret_number)
{
	char name[32];
	int fd, ret;

	if (recovery->ring_count >= recovery->header->ring_space)
		return -ENOSPC;
	name_ring(name, recovery->ring_count);
	fd = make_file(recovery, name, RP_RING_CONTROL_BYTES + size);
	if (fd < 0)
		return fd;
	ret = rp_ring_create_in(fd, size, id, ret_ring);
	close(fd);
	if (ret == 0)
		*ret_number = recovery->ring_count++;
	else
		(void)unlinkat(recovery->fd, name, 0);
	return ret;
}

/* MADV_DONTFORK: a forked child must not change the parent's header. */
static int map_header(struct rp_recovery_files *recovery, uint32_t ring_space)
{
	size_t bytes = sizeof(*recovery->header) + 2 * rp_recover_record_bytes(ring_space);
	int fd, ret = 0;
	void *header;

	fd = make_file(recovery, "session", bytes);
	if (fd < 0)
		return fd;
	header = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (header == MAP_FAILED)
		ret = rp_failed("mmap");
	close(fd);
	if (ret != 0)
		return ret;
	(void)madvise(header, bytes, MADV_DONTFORK);
	recovery->header = header;
	recovery->header_bytes = bytes;
	return 0;
}

static int fill_header(struct rp_recovery_files *recovery, const struct rp_recovery_setup *setup)
{
	struct rp_recover_header *header = recovery->header;
	char *output = setup->output_fd < 0 ? strdup("") : rp_file_path(setup->output_fd);

	if (!output)
		return rp_failed("readlink");
	header->ring_space = setup->ring_space;
	header->process_id = (uint32_t)getpid();
	header->clock_is_tsc = rp_clock_is_tsc;
	header->processors = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
	header->format = setup->format == 6 ? 6 : 4;
	header->start_ns = setup->start_ns;
	header->start_utc_ns = setup->start_utc_ns;
	header->own_ids = setup->own_ids;
	snprintf(header->output, sizeof(header->output), "%s", output);
	free(output);
	snprintf(header->name, sizeof(header->name), "%s", setup->name);
	return 0;
}

static void leave_directory(struct rp_recovery_files *recovery)
{
	if (rp_file_is(recovery->fd, &recovery->file))
		close(recovery->fd);
	recovery->fd = -1;
	free(recovery->path);
	recovery->path = NULL;
}

/* Open the new directory, or remove it: without /proc, its path is unknown. */
static int open_directory(struct rp_recovery_files *recovery, int parent, const char *name)
{
	int ret = 0;

	recovery->fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (recovery->fd < 0) {
		ret = rp_failed("openat");
	} else {
		rp_file_identify(recovery->fd, &recovery->file);
		recovery->path = rp_file_path(recovery->fd);
		if (!recovery->path)
			ret = rp_failed("readlink");
	}
	if (ret != 0)
		(void)unlinkat(parent, name, AT_REMOVEDIR);
	return ret;
}

static int make_directory(struct rp_recovery_files *recovery, const struct rp_recovery_setup *setup)
{
	int parent = open_parent(setup->parent), ret;
	char name[64];

	if (parent < 0)
		return parent;
	snprintf(name, sizeof(name), "%d-%llx", (int)getpid(), (unsigned long long)setup->start_ns);
	if (mkdirat(parent, name, 0700) != 0)
		ret = rp_failed("mkdirat");
	else
		ret = open_directory(recovery, parent, name);
	close(parent);
	return ret;
}

static int make_files(struct rp_recovery_files *recovery, const struct rp_recovery_setup *setup)
{
	int fd, ret = -ENOENT;

	/* `ringpipe recover --prune` may delete the directory while it is empty: retry. */
	for (int i = 0; ret == -ENOENT && i < ATTEMPTS; i++) {
		leave_directory(recovery);
		ret = make_directory(recovery, setup);
		if (ret == 0)
			ret = map_header(recovery, setup->ring_space);
	}
	if (ret == 0)
		ret = fill_header(recovery, setup);
	fd = ret == 0 ? make_file(recovery, "events", 0) : ret;
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

int rp_recovery_create(const struct rp_recovery_setup *setup,
		       struct rp_recovery_files **ret_recovery)
{
	struct rp_recovery_files *recovery = calloc(1, sizeof(*recovery));
	int ret;

	if (!recovery)
		return -ENOMEM;
	recovery->fd = -1;
	ret = setup->ring_space > RP_RECOVER_RINGS_MAX ? -EINVAL : make_files(recovery, setup);
	if (ret != 0) {
		rp_recovery_destroy(recovery);
		return ret;
	}
	*ret_recovery = recovery;
	return 0;
}

void rp_recovery_begin(struct rp_recovery_files *recovery)
{
	rp_compiler_barrier();
	memcpy(recovery->header->magic, RP_RECOVER_MAGIC, sizeof(recovery->header->magic));
	rp_compiler_barrier();
}

/* Return: whether all bytes are in the file. */
static bool append(const struct rp_recovery_files *recovery, const void *bytes, size_t size)
{
	RP_SHIELDED struct rp_shield shield = rp_shield_raise();
	ssize_t done = -1;
	int fd;

	if (!rp_file_is(recovery->fd, &recovery->file))
		return false;
	fd = openat(recovery->fd, "events", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	do
		done = pwrite(fd, bytes, size, (off_t)recovery->events_bytes);
	while (done < 0 && errno == EINTR);
	close(fd);
	return done == (ssize_t)size;
}

void rp_recovery_define(struct rp_recovery_files *recovery, uint32_t index, uint64_t serial,
		     const struct rp_definition *definition)
{
	struct rp_outbuf bytes = { 0 };
	uint64_t *grown;

	if (index < recovery->serial_count && recovery->serials[index] == serial + 1)
		return;
	if (index >= recovery->serial_count) {
		grown = rp_memory_grow(recovery->serials, &recovery->serial_count, index,
				       sizeof(*grown));
		if (!grown)
			return;
		recovery->serials = grown;
	}
	rp_definition_put(&bytes, index, definition);
	if (!bytes.failed && append(recovery, bytes.bytes, bytes.size)) {
		recovery->events_bytes += bytes.size;
		recovery->serials[index] = serial + 1;
	}
	rp_outbuf_fini(&bytes);
}

static struct rp_recover_record *record_of(struct rp_recover_header *header, uint64_t generation)
{
	return (void *)((char *)(header + 1) + (generation & 1) *
			rp_recover_record_bytes(header->ring_space));
}

struct rp_recover_record *rp_recovery_next_record(struct rp_recovery_files *recovery)
{
	return record_of(recovery->header, recovery->header->generation + 1);
}

void rp_recovery_set_lost(struct rp_recovery_files *recovery, uint64_t lost_besides)
{
	struct rp_recover_header *header = recovery->header;

	rp_store_relaxed(&record_of(header, header->generation)->lost_besides, lost_besides);
}

void rp_recovery_commit(struct rp_recovery_files *recovery)
{
	/* [RECOVER-RECORD] */
	rp_store_release(&recovery->header->generation, recovery->header->generation + 1);
}

static void remove_files(const struct rp_recovery_files *recovery)
{
	char name[32];

	if (recovery->fd < 0 || !rp_file_is(recovery->fd, &recovery->file))
		return;
	for (uint32_t i = 0; i < recovery->ring_count; i++) {
		name_ring(name, i);
		(void)unlinkat(recovery->fd, name, 0);
	}
	(void)unlinkat(recovery->fd, "events", 0);
	(void)unlinkat(recovery->fd, "session", 0);
	if (recovery->path && rp_file_is_at(recovery->path, &recovery->file))
		(void)rmdir(recovery->path);
}

void rp_recovery_destroy(struct rp_recovery_files *recovery)
{
	if (!recovery)
		return;
	if (recovery->header) {
		recovery->header->ended = 1;
		rp_compiler_barrier();
	}
	remove_files(recovery);
	if (recovery->header)
		munmap(recovery->header, recovery->header_bytes);
	rp_recovery_forget(recovery);
}

void rp_recovery_leave(struct rp_recovery_files *recovery)
{
	recovery->header->failed = 1;
	munmap(recovery->header, recovery->header_bytes);
	rp_recovery_forget(recovery);
}

void rp_recovery_forget(struct rp_recovery_files *recovery)
{
	if (!recovery)
		return;
	leave_directory(recovery);
	free(recovery->serials);
	free(recovery);
}
