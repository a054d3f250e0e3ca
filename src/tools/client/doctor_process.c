/* SPDX-License-Identifier: MIT */
/* Checks of what a process with the library uses: this process tries it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <linux/membarrier.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "tools/client/doctor.h"
#include "tools/client/target.h"

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

#define CID_BYTES 28u			/* of the area of rseq, up to the end of mm_cid */

/* The kernel's inode numbers of the first namespaces: include/linux/proc_ns.h. */
#define FIRST_PID_NAMESPACE 0xeffffffcu
#define FIRST_USER_NAMESPACE 0xeffffffdu

void rp_check_kernel(struct rp_finding *ret_finding)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2) {
		rp_finding_set(ret_finding, RP_CHECK_MISSING, NULL, "uname: %s", strerror(errno));
		return;
	}
	if (strcmp(name.machine, "x86_64") != 0)
		rp_finding_set(ret_finding, RP_CHECK_LIMITED, NULL,
			       "Linux %s on %s: events take locks, and there is no ringpipe record",
			       name.release, name.machine);
	else if (major < 5 || (major == 5 && minor < 10))
		rp_finding_set(ret_finding, RP_CHECK_LIMITED, "use Linux 5.10 or later",
			       "Linux %s is older than 5.10", name.release);
	else
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "Linux %s on %s", name.release,
			       name.machine);
}

void rp_check_libc(struct rp_finding *ret_finding)
{
	unsigned int major = 0, minor = 0;
	const char *version = gnu_get_libc_version();

	if (sscanf(version, "%u.%u", &major, &minor) == 2 &&
	    (major > 2 || (major == 2 && minor >= 35)))
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "glibc %s", version);
	else
		rp_finding_set(ret_finding, RP_CHECK_LIMITED, "use glibc 2.35 or later",
			       "glibc %s registers no thread for rseq, so events take locks",
			       version);
}

void rp_check_rseq(struct rp_finding *ret_finding)
{
	const unsigned int *size = dlsym(RTLD_DEFAULT, "__rseq_size");
	const unsigned long bytes = getauxval(AT_RSEQ_FEATURE_SIZE);

	/* The kernel rejects these arguments, if it has the call. */
	if (syscall(SYS_rseq, NULL, 0, 0, 0) != 0 && errno == ENOSYS)
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       "use a kernel with CONFIG_RSEQ; allow rseq in the seccomp filter",
			       "the kernel or a seccomp filter refuses rseq, so events take locks");
	else if (!size || *size == 0)
		rp_finding_set(ret_finding, RP_CHECK_LIMITED,
			       "unset glibc.pthread.rseq in GLIBC_TUNABLES; use glibc 2.35 or "
			       "later",
			       "glibc did not register this thread, so events take locks");
	else if (bytes < CID_BYTES)
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL,
			       "registered by glibc, without mm_cid (before Linux 6.3): one ring "
			       "per processor");
	else
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL,
			       "registered by glibc; the kernel fills %lu bytes, mm_cid included",
			       bytes);
}

void rp_check_membarrier(struct rp_finding *ret_finding)
{
	const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	if (commands < 0)
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       "allow membarrier in the seccomp filter", "membarrier: %s",
			       strerror(errno));
	else if (!(commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ))
		rp_finding_set(ret_finding, RP_CHECK_LIMITED, "use Linux 5.10 or later",
			       "no command for rseq, so events take locks");
	else
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "has the command for rseq");
}

void rp_check_clock(struct rp_finding *ret_finding)
{
	char name[32] = "unknown";
	ssize_t length = rp_file_read("/sys/devices/system/clocksource/clocksource0/"
				      "current_clocksource", name, sizeof(name) - 1);

	if (length > 0)
		name[length] = '\0';
	name[strcspn(name, "\n")] = '\0';
	rp_clock_init(NULL);
	if (rp_clock_is_tsc)
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL,
			       "the processor's counter, which is the kernel's clock source, too");
	else
		rp_finding_set(ret_finding, RP_CHECK_LIMITED,
			       "boot with clocksource=tsc if the machine's TSC is reliable; in a "
			       "guest, RINGPIPE_CLOCK=tsc takes it",
			       "the kernel's clock source is %s: each event calls clock_gettime(), "
			       "and takes locks", name);
}

/* Whether a file can be made in the directory. Return: 0; -errno. */
static int try_directory(const char *directory)
{
	char path[RP_CHECK_TEXT_MAX];
	int fd, ret;

	if (snprintf(path, sizeof(path), "%s/ringpipe-doctor-XXXXXX", directory) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	ret = fd < 0 ? -errno : 0;
	if (fd >= 0) {
		close(fd);
		unlink(path);
	}
	return ret;
}

void rp_check_sockets(struct rp_finding *ret_finding)
{
	const char *directory = rp_target_directory();
	int ret = try_directory(directory);

	if (ret)
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       "make the directory writable, or set TMPDIR for server and tools",
			       "%s: %s", directory, strerror(-ret));
	else
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "in %s", directory);
}

void rp_check_recovery(struct rp_finding *ret_finding)
{
	int ret = try_directory("/dev/shm");

	if (ret)
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       "mount a tmpfs at /dev/shm, or set RINGPIPE_RECOVER to a directory",
			       "/dev/shm: %s", strerror(-ret));
	else
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "in /dev/shm");
}

static bool lttng_daemon_listens(void)
{
	const char *home = getenv("HOME");
	char path[RP_CHECK_TEXT_MAX];

	if (access("/var/run/lttng/lttng-ust-sock-8", F_OK) == 0)
		return true;
	snprintf(path, sizeof(path), "%s/.lttng/lttng-ust-sock-8", home ? home : "");
	return access(path, F_OK) == 0;
}

/* The constructor of LTTng-UST starts threads, so a child process loads the library. */
static bool lttng_loads(void)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(dlopen("liblttng-ust.so.1", RTLD_NOW) ? 0 : 1);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0;
}

void rp_check_lttng(struct rp_finding *ret_finding)
{
	if (!lttng_loads())
		rp_finding_set(ret_finding, RP_CHECK_MISSING,
			       "install liblttng-ust (Debian: liblttng-ust1)",
			       "liblttng-ust.so.1 cannot be loaded");
	else if (!lttng_daemon_listens())
		rp_finding_set(ret_finding, RP_CHECK_LIMITED,
			       "install lttng-tools; lttng-sessiond --daemonize",
			       "liblttng-ust, and no session daemon");
	else
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL,
			       "liblttng-ust, and a session daemon");
}

static bool is_in_first(const char *namespace, unsigned int first)
{
	struct stat status;

	return stat(namespace, &status) == 0 && status.st_ino == first;
}

void rp_check_container(struct rp_finding *ret_finding)
{
	bool is_first_pid = is_in_first("/proc/self/ns/pid", FIRST_PID_NAMESPACE);
	bool is_first_user = is_in_first("/proc/self/ns/user", FIRST_USER_NAMESPACE);

	if (access("/proc/self/ns/pid", F_OK) != 0)
		rp_finding_set(ret_finding, RP_CHECK_MISSING, "mount -t proc proc /proc",
			       "/proc is not mounted");
	else if (!is_first_pid || !is_first_user)
		rp_finding_set(ret_finding, RP_CHECK_LIMITED,
			       "run the command on the host, or with --pid=host --privileged",
			       "in a container: %s%s%s", is_first_pid ? "" : "its own processes",
			       is_first_pid || is_first_user ? "" : ", ",
			       is_first_user ? "" : "its own users");
	else
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL,
			       "none: all processes of the machine can be seen");
}
