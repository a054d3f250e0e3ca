/* SPDX-License-Identifier: MIT */
#include "recover/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "nettrace/outbuf.h"
#include "recover/definitions.h"

#define ATTEMPTS 3
#define ALLOCATE_BYTES (1u << 20)	/* at once: a signal ends fallocate(2), undone */

struct rp_keep {
	char *path;
	int fd;			/* of the directory */
	struct rp_file_id file;	/* what it stood for: a host may close and reuse numbers */
	struct rp_recover_head *head;
	size_t head_bytes;
	uint32_t ring_count;
	uint64_t events_bytes;
	uint64_t *serials;	/* by index: the definition that is in the file; 0: none */
	size_t serial_count;
};

void rp_keep_default_parent(char parent[RP_KEEP_PARENT_BYTES])
{
	snprintf(parent, RP_KEEP_PARENT_BYTES, "/dev/shm/ringpipe-%u", (unsigned int)geteuid());
}

int rp_keep_open_parent(const char *path)
{
	char standard[RP_KEEP_PARENT_BYTES];
	struct stat stat;
	int fd;

	if (!*path) {
		rp_keep_default_parent(standard);
		path = standard;
	}
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Whoever may write there could put other directories in place of ours. */
	if (fstat(fd, &stat) != 0 || stat.st_uid != geteuid() || (stat.st_mode & 022)) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

/* Where the descriptor leads, on the heap; NULL. */
static char *path_of(int fd)
{
	char link[64], path[RP_RECOVER_PATH_BYTES];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length <= 0)
		return NULL;
	path[length] = '\0';
	return strdup(path);
}

/* All of it is there afterwards: a full file system must be told now, not by a SIGBUS later. */
static int allocate(int fd, size_t size)
{
	struct rlimit limit;

	/* Past the limit the kernel would send SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size)
		return -EFBIG;
	for (size_t at = 0; at < size; at += ALLOCATE_BYTES) {
		size_t piece = size - at < ALLOCATE_BYTES ? size - at : ALLOCATE_BYTES;

		while (fallocate(fd, 0, (off_t)at, (off_t)piece) != 0) {
			if (errno != EINTR)
				return -errno;
		}
	}
	return 0;
}

/* Return: the descriptor of a new file, or -errno. */
static int make_file(const struct rp_keep *keep, const char *name, size_t size)
{
	int fd, ret;

	if (!rp_file_is(keep->fd, &keep->file))
		return -EBADF;
	fd = openat(keep->fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ret = allocate(fd, size);
	if (ret != 0) {
		close(fd);
		(void)unlinkat(keep->fd, name, 0);
		return ret;
	}
	return fd;
}

static void name_ring(char name[32], uint32_t number)
{
	snprintf(name, 32, "ring-%u", number);
}

int rp_keep_make_ring(struct rp_keep *keep, size_t size, uint32_t id, struct rp_ring **ret_ring,
		      uint32_t *ret_number)
{
	char name[32];
	int fd, ret;

	if (keep->ring_count >= keep->head->ring_room)
		return -ENOSPC;
	name_ring(name, keep->ring_count);
	fd = make_file(keep, name, RP_RING_CONTROL_BYTES + size);
	if (fd < 0)
		return fd;
	ret = rp_ring_create_in(fd, size, id, ret_ring);
	close(fd);
	if (ret == 0)
		*ret_number = keep->ring_count++;
	else
		(void)unlinkat(keep->fd, name, 0);
	return ret;
}

/* A forked child has none of it. */
static int map_head(struct rp_keep *keep, uint32_t ring_room)
{
	size_t bytes = sizeof(*keep->head) + 2 * rp_recover_record_bytes(ring_room);
	int fd, ret = 0;
	void *head;

	fd = make_file(keep, "session", bytes);
	if (fd < 0)
		return fd;
	head = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (head == MAP_FAILED)
		ret = -errno;
	close(fd);
	if (ret != 0)
		return ret;
	(void)madvise(head, bytes, MADV_DONTFORK);
	keep->head = head;
	keep->head_bytes = bytes;
	return 0;
}

static int fill_head(struct rp_keep *keep, const struct rp_keep_setup *setup)
{
	struct rp_recover_head *head = keep->head;
	char *output = setup->output_fd < 0 ? strdup("") : path_of(setup->output_fd);

	if (!output)
		return -EBADF;
	head->ring_room = setup->ring_room;
	head->process_id = (uint32_t)getpid();
	head->clock_is_tsc = rp_clock_is_tsc;
	head->processors = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
	head->start_ns = setup->start_ns;
	head->start_utc_ns = setup->start_utc_ns;
	snprintf(head->output, sizeof(head->output), "%s", output);
	free(output);
	snprintf(head->name, sizeof(head->name), "%s", setup->name);
	return 0;
}

static void leave_directory(struct rp_keep *keep)
{
	if (rp_file_is(keep->fd, &keep->file))
		close(keep->fd);
	keep->fd = -1;
	free(keep->path);
	keep->path = NULL;
}

static int make_directory(struct rp_keep *keep, const struct rp_keep_setup *setup)
{
	int parent = rp_keep_open_parent(setup->parent), ret = 0;
	char name[64];

	if (parent < 0)
		return parent;
	snprintf(name, sizeof(name), "%d-%llx", (int)getpid(), (unsigned long long)setup->start_ns);
	if (mkdirat(parent, name, 0700) != 0)
		ret = -errno;
	if (ret == 0) {
		keep->fd = openat(parent, name,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (keep->fd < 0)
			ret = -errno;
	}
	if (ret == 0) {
		rp_file_identify(keep->fd, &keep->file);
		keep->path = path_of(keep->fd);
		if (!keep->path)
			ret = -ENOMEM;
	}
	close(parent);
	return ret;
}

static int make_files(struct rp_keep *keep, const struct rp_keep_setup *setup)
{
	int fd, ret = -ENOENT;

	/* `ringpipe recover --prune` may take an empty directory for one that was left. */
	for (int i = 0; ret == -ENOENT && i < ATTEMPTS; i++) {
		leave_directory(keep);
		ret = make_directory(keep, setup);
		if (ret == 0)
			ret = map_head(keep, setup->ring_room);
	}
	if (ret == 0)
		ret = fill_head(keep, setup);
	fd = ret == 0 ? make_file(keep, "events", 0) : ret;
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

int rp_keep_create(const struct rp_keep_setup *setup, struct rp_keep **ret_keep)
{
	struct rp_keep *keep = calloc(1, sizeof(*keep));
	int ret;

	if (!keep)
		return -ENOMEM;
	keep->fd = -1;
	ret = setup->ring_room > RP_RECOVER_RINGS_MAX ? -EINVAL : make_files(keep, setup);
	if (ret != 0) {
		rp_keep_destroy(keep);
		return ret;
	}
	*ret_keep = keep;
	return 0;
}

void rp_keep_begin(struct rp_keep *keep)
{
	rp_compiler_barrier();
	memcpy(keep->head->magic, RP_RECOVER_MAGIC, sizeof(keep->head->magic));
	rp_compiler_barrier();
}

/* Return: whether all of it is in the file. */
static bool append(const struct rp_keep *keep, const void *bytes, size_t size)
{
	struct rlimit limit;
	ssize_t done = -1;
	int fd;

	if (!rp_file_is(keep->fd, &keep->file) ||
	    (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < keep->events_bytes + size))
		return false;
	fd = openat(keep->fd, "events", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	do
		done = pwrite(fd, bytes, size, (off_t)keep->events_bytes);
	while (done < 0 && errno == EINTR);
	close(fd);
	return done == (ssize_t)size;
}

void rp_keep_define(struct rp_keep *keep, uint32_t index, uint64_t serial,
		     const struct rp_encoder_definition *definition)
{
	struct rp_outbuf bytes = { 0 };
	uint64_t *grown;

	if (index < keep->serial_count && keep->serials[index] == serial + 1)
		return;
	if (index >= keep->serial_count) {
		grown = rp_memory_grow(keep->serials, &keep->serial_count, index, sizeof(*grown));
		if (!grown)
			return;
		keep->serials = grown;
	}
	rp_definition_put(&bytes, index, definition);
	if (!bytes.failed && append(keep, bytes.bytes, bytes.size)) {
		keep->events_bytes += bytes.size;
		keep->serials[index] = serial + 1;
	}
	rp_outbuf_fini(&bytes);
}

struct rp_recover_record *rp_keep_next_record(struct rp_keep *keep)
{
	struct rp_recover_head *head = keep->head;

	return (void *)((char *)(head + 1) + ((head->generation + 1) & 1) *
			rp_recover_record_bytes(head->ring_room));
}

void rp_keep_commit(struct rp_keep *keep)
{
	/* [RECOVER-RECORD] */
	rp_store_release(&keep->head->generation, keep->head->generation + 1);
}

static void remove_files(const struct rp_keep *keep)
{
	char name[32];

	if (keep->fd < 0 || !rp_file_is(keep->fd, &keep->file))
		return;
	for (uint32_t i = 0; i < keep->ring_count; i++) {
		name_ring(name, i);
		(void)unlinkat(keep->fd, name, 0);
	}
	(void)unlinkat(keep->fd, "events", 0);
	(void)unlinkat(keep->fd, "session", 0);
	if (keep->path && rp_file_is_at(keep->path, &keep->file))
		(void)rmdir(keep->path);
}

void rp_keep_destroy(struct rp_keep *keep)
{
	if (!keep)
		return;
	if (keep->head) {
		keep->head->ended = 1;
		rp_compiler_barrier();
	}
	remove_files(keep);
	if (keep->head)
		munmap(keep->head, keep->head_bytes);
	rp_keep_forget(keep);
}

void rp_keep_forget(struct rp_keep *keep)
{
	if (!keep)
		return;
	leave_directory(keep);
	free(keep->serials);
	free(keep);
}
