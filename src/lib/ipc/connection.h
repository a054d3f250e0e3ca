/* SPDX-License-Identifier: MIT */
/*
 * Connections of the diagnostics protocol: stream sockets of the Unix domain, for the server and
 * its clients. No function waits.
 */
#ifndef RP_IPC_CONNECTION_H
#define RP_IPC_CONNECTION_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A process that connects to the port of a tool first identifies itself: RP_ADVERTISE_MAGIC with
 * its NUL, the 16 bytes of its cookie, u64 pid, u16 0.
 */
#define RP_ADVERTISE_MAGIC "ADVR_V1"
#define RP_ADVERTISE_BYTES 34u

/* Create a socket, non-blocking and close-on-exec. Return: the descriptor or -errno. */
int rp_connection_socket(void);

/*
 * Connect to the Unix socket at `path`. A path that does not fit into a socket's address is reached
 * through its directory.
 *
 * Return: 0; -EAGAIN: the queue of the listening socket is full; -ENAMETOOLONG: the path does not
 * fit, and its directory cannot be opened or its file name is too long as well; -errno of
 * connect(2).
 */
int rp_connection_connect(int fd, const char *path);

/*
 * Get the credentials of the peer: the process that connected or, on the side that connects, the
 * one that listens. The pid is 0 if the process is in a pid namespace that is not visible here.
 *
 * Return: 0; -EACCES: the kernel does not report the credentials.
 */
int rp_connection_get_peer(int fd, uid_t *ret_uid, pid_t *ret_pid);

/*
 * Send the bytes from `*sent` on, and add the number of sent bytes to it.
 *
 * Return: 0: all are sent; -EAGAIN: the socket's buffer is full; -errno of send(2).
 */
int rp_connection_send(int fd, const uint8_t *bytes, size_t size, size_t *sent);

/*
 * Receive up to `size` bytes.
 *
 * Return: 0: `*ret_received` bytes, and 0 bytes at the end of the connection; -EAGAIN: no byte has
 * arrived; -errno of recv(2).
 */
int rp_connection_receive(int fd, uint8_t *bytes, size_t size, size_t *ret_received);

#endif
