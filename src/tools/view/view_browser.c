/* SPDX-License-Identifier: MIT */
#include "tools/view/view_browser.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/tool.h"

#define SUFFIX ".html"

extern char **environ;

static const char *read_variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* Write a page that leads to the address. Return: its path; NULL, with errno. */
static char *write_page(const char *url)
{
	const char *folder = read_variable("XDG_RUNTIME_DIR");
	char *path;
	int fd, length;

	if (!folder)
		folder = read_variable("TMPDIR");
	if (asprintf(&path, "%s/ringpipe-view-XXXXXX" SUFFIX, folder ? folder : "/tmp") < 0)
		return NULL;
	fd = mkostemps(path, (int)strlen(SUFFIX), O_CLOEXEC);
	if (fd < 0) {
		free(path);
		return NULL;
	}
	length = dprintf(fd, "<!doctype html><meta charset=utf-8><title>ringpipe view</title>"
			 "<meta name=referrer content=no-referrer>"
			 "<meta http-equiv=refresh content=\"0;url=%s\">"
			 "<a href=\"%s\">ringpipe view</a>\n", url, url);
	close(fd);
	if (length >= 0)
		return path;
	rp_view_browser_close(path);
	return NULL;
}

/* Return: 0; -errno. */
static int start_browser(char *path)
{
	char program[] = "xdg-open", *const arguments[] = { program, path, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, defaults;
	pid_t pid;
	int ret = posix_spawn_file_actions_init(&actions);

	if (ret)
		return -ret;
	ret = posix_spawnattr_init(&attributes);
	if (ret == 0) {
		/* The end of the browser must not look like a signal that ends the command. */
		signal(SIGCHLD, SIG_IGN);
		sigemptyset(&none);
		sigemptyset(&defaults);
		sigaddset(&defaults, SIGCHLD);
		posix_spawnattr_setsigmask(&attributes, &none);
		posix_spawnattr_setsigdefault(&attributes, &defaults);
		/* Ctrl-C ends the command and not the browser. */
		posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK |
					 POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
		ret = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
						       O_RDONLY, 0);
		if (ret == 0)
			ret = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO,
							       "/dev/null", O_WRONLY, 0);
		if (ret == 0)
			ret = posix_spawnp(&pid, program, &actions, &attributes, arguments,
					   environ);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return -ret;
}

char *rp_view_browser_open(const char *url)
{
	char *path;
	int ret;

	if (!read_variable("DISPLAY") && !read_variable("WAYLAND_DISPLAY")) {
		rp_tool_error("view: --open needs a display, and neither DISPLAY nor "
			      "WAYLAND_DISPLAY is set; open the address in a browser");
		return NULL;
	}
	path = write_page(url);
	if (!path) {
		rp_tool_error("view: cannot write a file for the browser: %s; open the address in "
			      "a browser", strerror(errno));
		return NULL;
	}
	ret = start_browser(path);
	if (ret == 0)
		return path;
	if (ret == -ENOENT)
		rp_tool_error("view: --open needs xdg-open, which is not installed; open the "
			      "address in a browser");
	else
		rp_tool_error("view: cannot run xdg-open: %s; open the address in a browser",
			      strerror(-ret));
	rp_view_browser_close(path);
	return NULL;
}

void rp_view_browser_close(char *path)
{
	if (path)
		unlink(path);
	free(path);
}
