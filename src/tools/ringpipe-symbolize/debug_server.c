/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-symbolize/debug_server.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#define LIBRARY "libdebuginfod.so.1"

/* Source: debuginfod_find_debuginfo(3). The library is loaded because most machines lack it. */
struct client;
typedef int (*progress_callback)(struct client *client, long done, long total);
typedef int (*find_callback)(struct client *client, const unsigned char *build_id,
			     int build_id_bytes, char **ret_path);

static struct {
	bool is_tried;
	struct client *(*begin)(void);
	find_callback find_debuginfo, find_executable;
	void (*set_progress)(struct client *client, progress_callback progress);
	void (*set_user_data)(struct client *client, void *data);
	void *(*get_user_data)(struct client *client);
	void (*end)(struct client *client);
} library;

struct question {
	bool (*is_over)(void *data);
	void *data;
};

static bool load(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	void *handle;

	if (library.is_tried || !urls || !*urls)
		return library.begin;
	library.is_tried = true;
	handle = dlopen(LIBRARY, RTLD_NOW);
	if (!handle)
		return false;
	*(void **)&library.find_debuginfo = dlsym(handle, "debuginfod_find_debuginfo");
	*(void **)&library.find_executable = dlsym(handle, "debuginfod_find_executable");
	*(void **)&library.set_progress = dlsym(handle, "debuginfod_set_progressfn");
	*(void **)&library.set_user_data = dlsym(handle, "debuginfod_set_user_data");
	*(void **)&library.get_user_data = dlsym(handle, "debuginfod_get_user_data");
	*(void **)&library.end = dlsym(handle, "debuginfod_end");
	if (library.find_debuginfo && library.find_executable && library.set_progress &&
	    library.set_user_data && library.get_user_data && library.end)
		*(void **)&library.begin = dlsym(handle, "debuginfod_begin");
	return library.begin;
}

/* Return: not 0: stop. */
static int follow(struct client *client, long done, long total)
{
	const struct question *question = library.get_user_data(client);

	(void)done;
	(void)total;
	return question->is_over(question->data);
}

char *rp_debug_server_get(const uint8_t *build_id, uint32_t build_id_bytes,
			  bool (*is_over)(void *data), void *data)
{
	struct question question = { is_over, data };
	struct client *client;
	char *path = NULL;
	int fd;

	if (!load())
		return NULL;
	client = library.begin();
	if (!client)
		return NULL;
	library.set_user_data(client, &question);
	library.set_progress(client, follow);
	fd = library.find_debuginfo(client, build_id, (int)build_id_bytes, &path);
	if (fd < 0 && !is_over(data))
		fd = library.find_executable(client, build_id, (int)build_id_bytes, &path);
	library.end(client);
	if (fd < 0)
		return NULL;
	close(fd);
	return path;
}
