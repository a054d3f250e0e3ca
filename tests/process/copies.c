/* SPDX-License-Identifier: MIT */
/*
 * usage: copies PLUGIN COPIES COMMAND
 *
 * Loads copies of a plugin that contains the library. The copies trace and list each other, and
 * `ringpipe ps` shows how many there are.
 *
 * A library that is loaded late gets its thread-local storage from a reserve of the loader (1,664
 * bytes with glibc 2.36). A copy of the library may use at most TLS_BYTES of that reserve.
 */
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <ringpipe/host.h>

#define TLS_BYTES 192u
#define EVENTS 1000u

static const char *plugin_path, *command_path;
static char folder[] = "/tmp/rp-copies-XXXXXX";

/* The loader identifies a library by its inode, so each copy needs a separate file. */
static void copy_plugin(const char *to)
{
	static char bytes[1 << 16];
	int in = open(plugin_path, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	ssize_t size;

	check(in >= 0 && out >= 0);
	while ((size = read(in, bytes, sizeof(bytes))) > 0)
		check(write(out, bytes, (size_t)size) == size);
	check(size == 0);
	close(in);
	close(out);
}

struct tls {
	const char *path;
	size_t bytes;
};

static int look_at_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct tls *tls = data;

	(void)size;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_TLS && strcmp(info->dlpi_name, tls->path) == 0)
			tls->bytes = info->dlpi_phdr[i].p_memsz;
	}
	return 0;
}

static size_t tls_bytes(const char *path)
{
	struct tls tls = { path, 0 };

	dl_iterate_phdr(look_at_object, &tls);
	return tls.bytes;
}

struct seen {
	uint32_t copies, own_order, orders;	/* orders: a bit for each order seen */
	const char *own_path;
};

static int see(const struct rp_host_copy *copy, void *data)
{
	struct seen *seen = data;

	check(copy->size == sizeof(*copy) && copy->order > 0 && copy->order < 32);
	seen->copies++;
	seen->orders |= 1u << copy->order;
	if (copy->is_caller) {
		seen->own_order = copy->order;
		seen->own_path = copy->path;
	}
	return 0;
}

/* Check the list. The program contains the copy that was loaded first. */
static void expect_copies(uint32_t copies)
{
	struct seen seen = { .copies = 0 };

	check(rp_host_list_copies(see, &seen) == 0);
	check(seen.copies == copies && seen.own_order == 1);
	check(seen.orders == (2u << copies) - 2);
}

static int end_list(const struct rp_host_copy *copy, void *data)
{
	(void)copy, (void)data;
	return -ECANCELED;
}

static void expect_in_ps(const char *text)
{
	char command[512], line[1024], pid[16];
	bool found = false;
	FILE *rows;

	snprintf(command, sizeof(command), "'%s' ps", command_path);
	snprintf(pid, sizeof(pid), "%d ", (int)getpid());
	rows = popen(command, "r");
	check(rows);
	while (fgets(line, sizeof(line), rows)) {
		const char *at = line + strspn(line, " ");

		found |= strncmp(at, pid, strlen(pid)) == 0 && strstr(at, text);
	}
	check(pclose(rows) == 0);
	check(found);
}

/* Check that each copy has separate sessions, and that only its own trace has its events. */
static void load_and_trace(unsigned int number)
{
	int (*trace)(const char *path, uint64_t from, uint64_t count);
	int (*list)(rp_host_copy_callback callback, void *data);
	struct seen seen = { .copies = 0 };
	char library[64], path[64];
	uint64_t events, lost;
	void *handle;

	snprintf(library, sizeof(library), "%s/%u.so", folder, number);
	snprintf(path, sizeof(path), "%s/%u.nettrace", folder, number);
	copy_plugin(library);
	handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fprintf(stderr, "copy %u: %s\n", number, dlerror());
	check(handle);
	printf("copy %u: %zu bytes of thread-local storage\n", number, tls_bytes(library));
	check(tls_bytes(library) <= TLS_BYTES);
	*(void **)&trace = dlsym(handle, "copied_trace");
	check(trace && trace(path, number, EVENTS) == 0);
	count_trace(path, "Test-Copied", &events, &lost);
	check(events == EVENTS && lost == 0);
	*(void **)&list = dlsym(handle, "copied_list");
	check(list && list(see, &seen) == 0);
	check(seen.copies == number + 1 && seen.own_order == number + 1 && seen.own_path);
	expect_copies(number + 1);
	check(unlink(path) == 0);
}

int main(int argc, char **argv)
{
	char library[64], text[32];
	unsigned int copies;
	pid_t child;
	int status;

	check(argc == 4);
	plugin_path = argv[1];
	copies = (unsigned int)atoi(argv[2]);
	command_path = argv[3];
	check(mkdtemp(folder));
	expect_copies(1);
	for (unsigned int i = 1; i <= copies; i++)
		load_and_trace(i);
	check(rp_host_list_copies(end_list, NULL) == -ECANCELED);
	snprintf(text, sizeof(text), "(1 of %u)", copies + 1);
	expect_in_ps(text);
	child = fork();
	check(child >= 0);
	if (child == 0) {
		expect_copies(copies + 1);
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && status == 0);
	for (unsigned int i = 1; i <= copies; i++) {
		snprintf(library, sizeof(library), "%s/%u.so", folder, i);
		check(unlink(library) == 0);
	}
	check(rmdir(folder) == 0);
	return 0;
}
