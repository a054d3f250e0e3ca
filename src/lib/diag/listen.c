/* SPDX-License-Identifier: MIT */
#include "diag/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 128

int rp_listen_path(const char *directory, const char *whose, pid_t pid, uint64_t start_ticks,
		   char ret_path[sizeof(((struct sockaddr_un *)0)->sun_path)])
{
	const size_t space = sizeof(((struct sockaddr_un *)0)->sun_path);
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	size_t length;
	int n;

	if (!directory || !*directory)
		directory = "/tmp";
	length = strlen(directory);
	while (length > 1 && directory[length - 1] == '/')
		length--;
	n = length < space ? snprintf(path, space, "%.*s/%s-diagnostic-%ld-%llu-socket",
				      (int)length, directory, whose, (long)pid,
				      (unsigned long long)start_ticks) : -1;
	if (n < 0 || (size_t)n >= space)
		return -ENAMETOOLONG;
	memcpy(ret_path, path, (size_t)n + 1);
	return 0;
}

int rp_listen_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

/*
 * Remove the socket at the path, unless a server listens there: a .NET runtime in this process
 * would use the same name.
 */
static int remove_stale(const struct sockaddr_un *address)
{
	int fd, error;
	struct stat file;

	if (lstat(address->sun_path, &file) == 0 && !S_ISSOCK(file.st_mode))
		return -EADDRINUSE;
	fd = rp_listen_socket();
	if (fd < 0)
		return fd;
	error = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? errno : 0;
	close(fd);
	if (error != ECONNREFUSED && error != ENOENT)
		return -EADDRINUSE;
	return unlink(address->sun_path) < 0 && errno != ENOENT ? -errno : 0;
}

/*
 * The file gets the mode of the socket's inode, minus the umask. If the umask removes a right of
 * the owner, fchmodat() restores it. This is safe, because connections fail before listen().
 */
static int bind_private(int fd, const struct sockaddr_un *address)
{
	struct stat file;
	int r;

	if (fchmod(fd, 0600) < 0 ||
	    bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		return -errno;
	if (lstat(address->sun_path, &file) == 0 &&
	    ((file.st_mode & 07777) == 0600 ||
	     fchmodat(AT_FDCWD, address->sun_path, 0600, AT_SYMLINK_NOFOLLOW) == 0))
		return 0;
	r = -errno;
	unlink(address->sun_path);
	return r;
}

int rp_listen_at(int fd, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int r;

	memcpy(address.sun_path, path, strnlen(path, sizeof(address.sun_path) - 1));
	r = bind_private(fd, &address);
	if (r == -EADDRINUSE) {
		r = remove_stale(&address);
		if (r == 0)
			r = bind_private(fd, &address);
	}
	if (r == 0 && listen(fd, BACKLOG) < 0) {
		r = -errno;
		unlink(path);
	}
	return r;
}

/*
 * A client has the power of a debugger, so the same restrictions apply. If the program started with
 * more rights than its user has (set-user-ID bit, file capabilities), or has ids of more than one
 * user, only root may connect. A program of another security domain (AppArmor, SELinux) that a
 * debugger may attach to is open to its user.
 */
static bool is_its_users(uid_t uid)
{
	uid_t user, effective_user, saved_user;
	gid_t group, effective_group, saved_group;

	if (getauxval(AT_SECURE) && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1)
		return false;
	return getresuid(&user, &effective_user, &saved_user) == 0 &&
	       getresgid(&group, &effective_group, &saved_group) == 0 &&
	       uid == user && uid == effective_user && uid == saved_user &&
	       group == effective_group && group == saved_group;
}

int rp_listen_check_peer_credentials(int fd, pid_t *ret_peer)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
	    (peer.uid != 0 && !is_its_users(peer.uid)))
		return -EACCES;
	*ret_peer = peer.pid;
	return 0;
}

int rp_listen_accept(int listen_fd, int *ret_fd, pid_t *ret_peer)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), r;

	if (fd < 0)
		return errno == EINTR || errno == ECONNABORTED ? -EACCES : -errno;
	r = rp_listen_check_peer_credentials(fd, ret_peer);
	if (r < 0) {
		shutdown(fd, SHUT_RDWR);
		close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}
