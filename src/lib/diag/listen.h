/* SPDX-License-Identifier: MIT */
/* The socket by which clients find this process. */
#ifndef RP_DIAG_LISTEN_H
#define RP_DIAG_LISTEN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

/*
 * Build `<directory>/<whose>-diagnostic-<pid>-<start>-socket`; a directory of NULL or "" is /tmp.
 * Return: 0; -ENAMETOOLONG: longer than a socket's address can be.
 */
int rp_listen_path(const char *directory, const char *whose, pid_t pid, uint64_t start_ticks,
		   char ret_path[sizeof(((struct sockaddr_un *)0)->sun_path)]);

/* Create a stream socket, non-blocking and close-on-exec. Return: the descriptor or -errno. */
int rp_listen_socket(void);

/*
 * Let the socket listen at `path`. The file has mode 0600 from its creation, whatever the umask is.
 * A socket left by an earlier process with this name is replaced.
 *
 * Return: 0; -EADDRINUSE: a server listens there, or the file is not a socket; -errno of bind(2) or
 * listen(2). On failure no file is left.
 */
int rp_listen_at(int fd, const char *path);

/*
 * Check the peer's credentials. Return: 0; -EACCES: the peer is neither root nor this process's
 * user; or, if the process has more rights than its user, the peer is not root.
 */
int rp_listen_check_peer_credentials(int fd, pid_t *ret_peer);

/*
 * Accept a connection, non-blocking and close-on-exec. The function closes a connection of any user
 * other than root and this process's user. `ret_peer` is the client's pid, or 0 if the client is in
 * a pid namespace that is not visible here.
 *
 * Return: 0; -EACCES: closed, another connection may be waiting; -EAGAIN: no connection waits;
 * -errno of accept4(2).
 */
int rp_listen_accept(int listen_fd, int *ret_fd, pid_t *ret_peer);

#endif
