/* SPDX-License-Identifier: MIT */
/* The socket that clients find this process by. */
#ifndef RP_DIAG_LISTEN_H
#define RP_DIAG_LISTEN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

/*
 * Writes `<directory>/<whose>-diagnostic-<pid>-<start>-socket`; directory NULL or "" is /tmp.
 * Return: 0; -ENAMETOOLONG: longer than a socket's address can be.
 */
int rp_listen_path(const char *directory, const char *whose, pid_t pid, uint64_t start_ticks,
		   char ret_path[sizeof(((struct sockaddr_un *)0)->sun_path)]);

/* A stream socket, non-blocking and close-on-exec. Return: the descriptor or -errno. */
int rp_listen_socket(void);

/*
 * Lets the socket listen at `path`, with a file of mode 0600 from the moment it exists, whatever
 * the umask. A socket left behind by an earlier owner of the name is replaced.
 *
 * Return: 0; -EADDRINUSE: a server listens there, or it is no socket; errors of bind and listen. No
 * file is left then.
 */
int rp_listen_at(int fd, const char *path);

/*
 * Checks the peer's credentials. Return: 0; -EACCES: neither root nor this process's user; or, for
 * a process with more rights than its user, not root.
 */
int rp_listen_check_peer(int fd, pid_t *ret_peer);

/*
 * Accepts a connection, non-blocking and close-on-exec. Those of other users than this process's
 * own and root are closed at once. `ret_peer` is the client's pid, 0 when it is not seen from here.
 *
 * Return: 0; -EACCES: closed, another may follow; -EAGAIN: no connection waits; errors of
 * accept4(2).
 */
int rp_listen_accept(int listen_fd, int *ret_fd, pid_t *ret_peer);

#endif
