/* SPDX-License-Identifier: MIT */
/* The container of a process. */
#ifndef RP_TOOL_CONTAINER_H
#define RP_TOOL_CONTAINER_H

#include <stddef.h>
#include <sys/types.h>

#define RP_CONTAINER_MAX 64		/* bytes of a name, with its NUL */

/*
 * Find a container's name in the content of /proc/PID/cgroup: the first 12 digits of the id that
 * Docker, Podman, containerd and CRI-O use, or the name that LXC and systemd-nspawn use. `ret_name`
 * is "" if there is none.
 */
void rp_container_find(const char *cgroups, char ret_name[RP_CONTAINER_MAX]);

/*
 * Read the container of a process, which has `inner_pid` in its pid namespace. A process in another
 * pid namespace without a known container has the namespace, "pid:[4026532198]". `ret_name` is ""
 * if the process is in none.
 */
void rp_container_read(pid_t pid, pid_t inner_pid, char ret_name[RP_CONTAINER_MAX]);

#endif
