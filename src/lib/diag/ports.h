/* SPDX-License-Identifier: MIT */
/*
 * The ports through which clients reach this process, and which of them suspend its start-up.
 *
 * A listening port is a socket of this process. A connecting port connects to the socket of a tool,
 * identifies the process in 34 bytes, and waits for a request. It connects again for each further
 * request.
 *
 * Source: documentation/design-docs/ipc-protocol.md in dotnet/diagnostics, "Advertise"; the options
 * are those of the .NET runtime.
 */
#ifndef RP_DIAG_PORTS_H
#define RP_DIAG_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/file.h"

#define RP_PORT_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)
#define RP_PORTS_MAX 8u			/* including the default one */
#define RP_PORT_ATTEMPTS_MAX 10u

struct rp_port {
	char path[RP_PORT_PATH_BYTES];
	bool listens;
	bool suspends;		/* atomic: start-up waits for a ResumeRuntime through this port */
	int fd;			/* listening port; -1: it does not listen yet */
	int error;		/* listening port: the cause if it does not listen */
	unsigned int attempts;	/* listening port: failed attempts since the host closed it */
	struct rp_file_id socket;	/* identity of the socket behind fd */
	struct rp_file_id file;	/* listening port: identity of the file at its path */
	bool connected;		/* the tool has accepted the connection and may send */
	uint32_t delay_ms;	/* before the next attempt if this one fails */
	uint64_t retry_ns;	/* CLOCK_MONOTONIC of the next attempt while not connected */
};

/* Slot 0 is the default port, the socket that clients find by the process id. */
struct rp_ports {
	struct rp_port slots[RP_PORTS_MAX];
	size_t count;
	uint32_t waiting;	/* atomic, a futex: number of ports that still suspend */
};

/*
 * Parse `path[,connect|listen][,suspend|nosuspend]`; by default a port connects and suspends. If
 * options contradict each other, the last one counts; case is ignored. A relative path refers to
 * the current working directory.
 *
 * Return: 0; -EINVAL: no path, or an unknown option; -ENAMETOOLONG: longer than a socket's address
 * can be; -errno of getcwd(3).
 */
int rp_port_parse(const char *text, size_t length, struct rp_port *ret_port);

/*
 * Add a port. A listening port listens from now on, so clients can connect to it before the server
 * accepts them. A connecting port connects later, by rp_port_connect().
 *
 * Return: 0; -ENOSPC: there are RP_PORTS_MAX ports already; -ENOTSOCK: the file at the port's path
 * is not a socket; for a listening port, as rp_port_listen().
 */
int rp_ports_add(struct rp_ports *ports, const struct rp_port *port);

/* Let the port listen at its path. Return: 0; -errno of socket(2); as rp_listen_at(). */
int rp_port_listen(struct rp_port *port);

/*
 * Connect without waiting, and identify this process. `ret_peer` is the pid of the listening tool.
 *
 * Return: 0; -EACCES: the tool belongs neither to this user nor to root; -errno of connect(2) or
 * send(2).
 */
int rp_port_connect(const struct rp_port *port, const uint8_t cookie[16], int *ret_fd,
		    pid_t *ret_peer);

/* The connection failed: set the time of the next attempt, with a longer delay each time. */
void rp_port_later(struct rp_port *port, uint64_t now_ns);

/* The connection received a request: connect again immediately. */
void rp_port_again(struct rp_port *port, uint64_t now_ns);

/*
 * A client of `port` sent ResumeRuntime. If the port suspends start-up, start-up no longer waits
 * for this port. Otherwise start-up no longer waits for ports whose tool does not answer and may
 * never return.
 */
void rp_ports_resume(struct rp_ports *ports, struct rp_port *port);

/* Return: whether start-up waits for no port after rp_ports_resume() of `port`. */
bool rp_ports_resume_is_last(const struct rp_ports *ports, const struct rp_port *port);

/* Return: whether start-up still waits for this port. Context: any thread. */
bool rp_port_suspends(const struct rp_port *port);

/* Return: whether start-up is suspended. Context: any thread. */
bool rp_ports_suspended(const struct rp_ports *ports);

/*
 * Wait until start-up is not suspended. Return: 0; -ETIMEDOUT. Context: any thread; signals do not
 * end the wait.
 */
int rp_ports_wait(const struct rp_ports *ports, unsigned int timeout_ms);

/* Remove the files of the listening ports. Context: any thread. */
void rp_ports_unlink(const struct rp_ports *ports);

/*
 * In a forked child: keep only the default port and the connecting ports, and reset their state. No
 * port suspends start-up there.
 */
void rp_ports_forget(struct rp_ports *ports);

/* Return: the beginning of a sentence about the error, -errno, of a port. */
const char *rp_port_problem(int error);

#endif
