/* SPDX-License-Identifier: MIT */
/* The container of a process. */
#ifndef RP_TOOL_CONTAINER_H
#define RP_TOOL_CONTAINER_H

#include <stddef.h>
#include <sys/types.h>

#define RP_CONTAINER_MAX 64		/* bytes of a name, with its NUL */

/*
 * Find the name of the innermost container in the content of /proc/PID/cgroup: the first 12 digits
 * of the id that Docker, Podman, containerd and CRI-O use, or the name that LXC and systemd-nspawn
 * use. `ret_name` is "" if the content names no container.
 */
void rp_container_find(const char *cgroups, char ret_name[RP_CONTAINER_MAX]);

/*
 * Read the name of a process's container by rp_container_find(). `inner_pid` is the pid that the
 * process has in its own pid namespace. If the process is in no container, the name is that of the
 * pid namespace, such as "pid:[4026532198]", or "" if `inner_pid` equals `pid`.
 */
void rp_container_read(pid_t pid, pid_t inner_pid, char ret_name[RP_CONTAINER_MAX]);

#endif
