/* SPDX-License-Identifier: MIT */
/*
 * The ways by which clients and this process meet, and which of them start-up waits for.
 *
 * A port that listens is a socket of ours. A port that connects goes to the socket of a tool: we
 * connect, identify ourselves in 34 bytes, and wait for a request; for each request, once more.
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
#define RP_PORTS_MAX 8u			/* the default one included */
#define RP_PORT_ATTEMPTS_MAX 10u
#define RP_ADVERTISE_BYTES 34u

struct rp_port {
	char path[RP_PORT_PATH_BYTES];
	bool listens;
	bool suspends;		/* atomic: start-up waits for a ResumeRuntime by this port */
	int fd;			/* of a port that listens; -1: it does not listen yet */
	int error;		/* of a port that listens: why it does not */
	unsigned int attempts;	/* of a port that listens: in vain, since the host closed it */
	struct rp_file_id socket;	/* what fd stands for */
	struct rp_file_id file;	/* of a port that listens: what it made at its path */
	bool connected;		/* the tool accepted the connection and may send */
	uint32_t delay_ms;	/* before the next attempt, should this one fail */
	uint64_t retry_ns;	/* CLOCK_MONOTONIC of the next attempt while not connected */
};

/* Slot 0 is the default port, the socket that clients find by the process id. */
struct rp_ports {
	struct rp_port slots[RP_PORTS_MAX];
	size_t count;
	uint32_t waiting;	/* atomic, a futex: how many still suspend */
};

/*
 * Reads `path[,connect|listen][,suspend|nosuspend]`, by default a port that connects and suspends.
 * If options contradict each other, the last one counts; case is ignored. A relative path
 * is taken from the working directory of this moment.
 *
 * Return: 0; -EINVAL: no path, or an unknown option; -ENAMETOOLONG: longer than a socket's address
 * can be; what getcwd(3) says.
 */
int rp_port_parse(const char *text, size_t length, struct rp_port *ret_port);

/*
 * Adds a port. One that listens does so from here on, but accepts no connection yet.
 *
 * Return: 0; -ENOSPC: there are RP_PORTS_MAX; -ENOTSOCK: something else is at its path; for one
 * that listens, what rp_listen_at() says.
 */
int rp_ports_add(struct rp_ports *ports, const struct rp_port *port);

/* Lets the port listen at its path. Return: 0; what rp_listen_at() says. */
int rp_port_listen(struct rp_port *port);

/*
 * Connects without waiting and says who we are. `ret_peer` is who listens there.
 *
 * Return: 0; -EACCES: that is neither this user nor root; what connect(2) and send(2) say.
 */
int rp_port_connect(const struct rp_port *port, const uint8_t cookie[16], int *ret_fd,
		    pid_t *ret_peer);

/* The connection came to nothing: sets the time of the next attempt, later each time. */
void rp_port_later(struct rp_port *port, uint64_t now_ns);

/* The connection served its purpose: the next one is due at once. */
void rp_port_again(struct rp_port *port, uint64_t now_ns);

/*
 * A client of `port` sent ResumeRuntime. If the port suspends, start-up no longer waits for it. If
 * it does not, start-up no longer waits for ports whose tool does not answer and may never return.
 */
void rp_ports_resume(struct rp_ports *ports, struct rp_port *port);

/* Whether start-up waits for this port still. Context: any thread. */
bool rp_port_suspends(const struct rp_port *port);

/* Whether start-up is suspended. Context: any thread. */
bool rp_ports_suspended(const struct rp_ports *ports);

/* Waits until it is not. Return: 0; -ETIMEDOUT. Context: any thread; restarts after a signal. */
int rp_ports_wait(const struct rp_ports *ports, unsigned int timeout_ms);

/* Takes away the files of those that listen. Context: any thread. */
void rp_ports_unlink(const struct rp_ports *ports);

/* In a forked child: it connects where its parent does, but neither listens nor suspends. */
void rp_ports_forget(struct rp_ports *ports);

/* The beginning of a sentence about the error, -errno, of a port. */
const char *rp_port_problem(int error);

#endif
