/* SPDX-License-Identifier: MIT */
/*
 * The first process of a machine that runs one program: mounts the file systems, runs the program,
 * reports that it began and how it ended, and stops the machine.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void mount_at(const char *type, const char *path)
{
	mkdir(path, 0755);
	if (mount(type, path, type, 0, "") < 0)
		perror(path);
}

int main(int argc, char **argv)
{
	int status = 0;
	pid_t child;

	(void)argc;
	mount_at("devtmpfs", "/dev");
	mount_at("proc", "/proc");
	mount_at("sysfs", "/sys");
	mount_at("tmpfs", "/tmp");
	mount_at("tmpfs", "/dev/shm");
	mount_at("tracefs", "/sys/kernel/tracing");
	printf("\nbegan\n");
	fflush(stdout);
	child = fork();
	if (child == 0) {
		/* The kernel passes on the arguments after "--" on its command line. */
		execv("/program", argv);
		perror("/program");
		_exit(127);
	}
	while (child > 0 && waitpid(child, &status, 0) != child)
		;
	printf("\nended: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) :
	       128 + WTERMSIG(status));
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	reboot(RB_AUTOBOOT);
	return 0;
}
