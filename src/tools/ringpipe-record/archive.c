/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>
#include <json.h>

#include <ringpipe/types.h>

#include "base/array.h"
#include "host/identity.h"
#include "tools/cli/display_text.h"
#include "tools/client/doctor.h"

#define CHUNK_BYTES (256u << 10)
#define NAME_MAX_BYTES 512

bool rp_archive_is_supported(void)
{
	return true;
}

/* libarchive reports the errno of a failed write, or a code of its own. */
static int explain(struct archive *archive)
{
	int error = archive_errno(archive);

	return error > 0 && error < 4096 ? -error : -EIO;
}

static int begin_entry(struct archive *archive, const char *name, int64_t size, mode_t mode)
{
	struct archive_entry *entry = archive_entry_new();
	int ret;

	if (!entry)
		return -ENOMEM;
	archive_entry_set_pathname(entry, name);
	archive_entry_set_size(entry, size);
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_perm(entry, mode);
	archive_entry_set_mtime(entry, time(NULL), 0);
	ret = archive_write_header(archive, entry) == ARCHIVE_OK ? 0 : explain(archive);
	archive_entry_free(entry);
	return ret;
}

static int put_bytes(struct archive *archive, const void *bytes, size_t size)
{
	la_ssize_t put = archive_write_data(archive, bytes, size);

	return put == (la_ssize_t)size ? 0 : put < 0 ? explain(archive) : -EIO;
}

static int put_json(struct archive *archive, const char *name, struct json_object *object)
{
	const char *text;
	int ret = -ENOMEM;

	text = object ? json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
						       JSON_C_TO_STRING_NOSLASHESCAPE) : NULL;
	if (text) {
		size_t size = strlen(text);

		ret = begin_entry(archive, name, (int64_t)size, 0644);
		if (ret == 0)
			ret = put_bytes(archive, text, size);
	}
	json_object_put(object);
	return ret;
}

/* Put what the file has from its beginning on. A file that shrinks meanwhile is filled up. */
static int put_file(struct archive *archive, const char *name, int fd, mode_t mode)
{
	uint8_t *chunk;
	struct stat file;
	off_t at = 0;
	int ret;

	if (fstat(fd, &file) != 0)
		return -errno;
	chunk = malloc(CHUNK_BYTES);
	if (!chunk)
		return -ENOMEM;
	ret = begin_entry(archive, name, file.st_size, mode);
	while (ret == 0 && at < file.st_size) {
		size_t want = file.st_size - at < (off_t)CHUNK_BYTES ?
			      (size_t)(file.st_size - at) : CHUNK_BYTES;
		ssize_t got = pread(fd, chunk, want, at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			ret = -errno;
		if (got == 0) {
			memset(chunk, 0, want);
			got = (ssize_t)want;
		}
		if (ret == 0)
			ret = put_bytes(archive, chunk, (size_t)got);
		at += got;
	}
	free(chunk);
	return ret;
}

static int put_path(struct archive *archive, const char *name, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = put_file(archive, name, fd, 0644);
	close(fd);
	return ret;
}

/* Add PRETTY_NAME of os-release. */
static void add_distribution(struct json_object *object)
{
	FILE *file = fopen("/etc/os-release", "re");
	char line[256], name[200];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "PRETTY_NAME=\"%199[^\"]", name) == 1)
			json_object_object_add(object, "distribution",
					       json_object_new_string(name));
	}
	if (file)
		fclose(file);
}

static struct json_object *describe_system(const struct rp_archive_plan *plan)
{
	struct json_object *object = json_object_new_object();
	char *command = rp_process_command_line();
	struct utsname system;
	char utc[RP_TEXT_MAX];

	if (!object || !command) {
		json_object_put(object);
		free(command);
		return NULL;
	}
	uname(&system);
	json_object_object_add(object, "ringpipe", json_object_new_string(RP_VERSION_STRING));
	json_object_object_add(object, "command", json_object_new_string(command));
	free(command);
	json_object_object_add(object, "started",
			       json_object_new_string(rp_text_utc_ns(plan->start_utc_ns, utc)));
	json_object_object_add(object, "duration_ms", json_object_new_int64(plan->duration_ms));
	json_object_object_add(object, "host", json_object_new_string(system.nodename));
	json_object_object_add(object, "kernel", json_object_new_string(system.release));
	json_object_object_add(object, "kernel_version", json_object_new_string(system.version));
	json_object_object_add(object, "architecture", json_object_new_string(system.machine));
	add_distribution(object);
	json_object_object_add(object, "processors",
			       json_object_new_int64(sysconf(_SC_NPROCESSORS_ONLN)));
	json_object_object_add(object, "memory_bytes", json_object_new_int64(
			       (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)));
	return object;
}

/* The binaries that the archive has so far. */
struct binaries {
	struct archive *archive;
	const struct rp_image **put;
	size_t count, capacity;
};

/* Several paths may have the same file. */
static bool is_put(const struct binaries *binaries, const struct rp_image *image)
{
	for (size_t i = 0; i < binaries->count; i++) {
		const struct rp_image *other = binaries->put[i];

		if (other->build_id_bytes == image->build_id_bytes &&
		    !memcmp(other->build_id, image->build_id, image->build_id_bytes))
			return true;
	}
	return false;
}

static int put_memory(struct archive *archive, const char *name, const void *bytes, size_t size)
{
	int ret = begin_entry(archive, name, (int64_t)size, 0755);

	return ret ? ret : put_bytes(archive, bytes, size);
}

/* Whether the archive can have the file, by its descriptor. The vDSO is in memory only. */
static bool has_binary(const struct rp_image *image, int fd)
{
	return image->build_id_bytes && (fd >= 0 || image->memory);
}

static int put_binary(const struct rp_image *image, int fd, struct binaries *binaries)
{
	char id[2 * RP_BUILD_ID_MAX + 1] = "", name[NAME_MAX_BYTES];
	const struct rp_image **grown;

	grown = rp_array_reserve(binaries->put, binaries->count, &binaries->capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	binaries->put = grown;
	grown[binaries->count++] = image;
	for (uint32_t i = 0; i < image->build_id_bytes; i++)
		snprintf(id + 2 * i, 3, "%02x", image->build_id[i]);
	snprintf(name, sizeof(name), "binaries/.build-id/%.2s/%s", id, id + 2);
	return fd >= 0 ? put_file(binaries->archive, name, fd, 0755) :
	       put_memory(binaries->archive, name, image->memory, image->memory_bytes);
}

static int take_image(const struct rp_image *image, void *data)
{
	const int fd = image->is_used ? rp_image_acquire(image) : -1;
	struct binaries *binaries = data;
	int ret = 0;

	if (image->is_used && has_binary(image, fd) && !is_put(binaries, image))
		ret = put_binary(image, fd, binaries);
	rp_image_release(image, fd);
	return ret;
}

static int put_binaries(struct archive *archive, const struct rp_images *images)
{
	struct binaries binaries = { .archive = archive };
	int ret = rp_images_visit(images, take_image, &binaries);

	free(binaries.put);
	return ret;
}

static int list_missing(const struct rp_image *image, void *data)
{
	const int fd = image->is_used ? rp_image_acquire(image) : -1;
	int ret = 0;

	if (image->is_used && !has_binary(image, fd) &&
	    fprintf(data, "%s\t%s\n", image->path, fd < 0 ?
		    "the file could not be opened" : "the file has no build id") < 0)
		ret = -ENOMEM;
	rp_image_release(image, fd);
	return ret;
}

/* Name the files of the stacks that neither the archive nor a build id stands for. */
static int put_missing(struct archive *archive, const struct rp_images *images)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	int ret = -ENOMEM;

	if (!stream)
		return -ENOMEM;
	ret = rp_images_visit(images, list_missing, stream);
	if (fclose(stream) != 0)
		ret = -ENOMEM;
	if (ret == 0 && size)
		ret = begin_entry(archive, "missing.txt", (int64_t)size, 0644);
	if (ret == 0 && size)
		ret = put_bytes(archive, text, size);
	free(text);
	return ret;
}

static int put_all(struct archive *archive, const struct rp_archive_plan *plan)
{
	int ret = put_path(archive, plan->trace_name, plan->trace_path);

	if (ret == 0)
		ret = put_json(archive, "system.json", describe_system(plan));
	if (ret == 0)
		ret = put_json(archive, "checks.json", rp_doctor_to_json());
	if (ret == 0 && plan->has_binaries)
		ret = put_binaries(archive, plan->images);
	if (ret == 0)
		ret = put_missing(archive, plan->images);
	return ret ? ret : put_file(archive, "log.txt", plan->log_fd, 0644);
}

int rp_archive_write(const struct rp_archive_plan *plan)
{
	const int flags = O_WRONLY | O_CLOEXEC;
	struct archive *archive = archive_write_new();
	int fd = open(plan->path, flags | O_CREAT | O_EXCL, 0644), ret = 0;
	const bool is_new = fd >= 0;

	if (fd < 0 && errno == EEXIST && plan->is_forced)
		fd = open(plan->path, flags | O_TRUNC);
	if (fd < 0)
		ret = -errno;
	else if (!archive)
		ret = -ENOMEM;
	if (ret == 0 && (archive_write_set_format_zip(archive) != ARCHIVE_OK ||
			 archive_write_open_fd(archive, fd) != ARCHIVE_OK))
		ret = explain(archive);
	if (ret == 0)
		ret = put_all(archive, plan);
	if (ret == 0 && archive_write_close(archive) != ARCHIVE_OK)
		ret = explain(archive);
	archive_write_free(archive);
	if (fd >= 0 && close(fd) != 0 && ret == 0)
		ret = -errno;
	if (is_new && ret < 0)
		unlink(plan->path);
	return ret;
}
