/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-bpf/program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "tools/cli/tool.h"

#define LOG_BYTES (1u << 20)
#define LOG_LINES 12	/* from the end of the log, which has the verifier's reason */

/* Suppresses libbpf's messages; the log contains the verifier's reason. */
static int keep_silent(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level, (void)format, (void)arguments;
	return 0;
}

/* The last lines of the verifier's log, without the statistics at its end. */
static const char *end_of_log(char *log)
{
	char *statistics = strstr(log, "\nverification time ");
	char *at;

	if (!statistics)
		statistics = strstr(log, "\nprocessed ");
	if (statistics)
		*statistics = '\0';
	at = log + strlen(log);
	for (int lines = 0; at > log && lines < LOG_LINES; at--)
		lines += at[-1] == '\n';
	return at > log ? at + 2 : log;
}

static void explain_load(int error, char *log)
{
	if (*log)
		rp_tool_error("the kernel's verifier refuses the BPF program (%s):\n%s",
			      strerror(-error), end_of_log(log));
	else if (error == -EPERM || error == -EACCES)
		rp_tool_error("no permission to load BPF programs: be root, or have the "
			      "capability CAP_SYS_ADMIN");
	else if (error == -ENOSYS)
		rp_tool_error("this kernel has no BPF (it requires CONFIG_BPF_SYSCALL)");
	else
		rp_tool_error("cannot load the BPF program: %s", strerror(-error));
}

/* Tests whether the kernel permits BPF at all, since libbpf's own error may be a different one. */
static int try_map(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ringpipe_try", 4, 8, 1, NULL);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int load(struct batch_bpf *skeleton, enum rp_bpf_mode mode, uint64_t linear_step, char *log)
{
	skeleton->rodata->mode = mode;
	skeleton->rodata->linear_step = linear_step;
	bpf_program__set_log_buf(skeleton->progs.take_batch, log, LOG_BYTES);
	return batch_bpf__load(skeleton);
}

int rp_bpf_program_load(enum rp_bpf_mode mode, uint64_t linear_step,
			struct rp_bpf_program *ret_program)
{
	struct batch_bpf *skeleton;
	char *log = calloc(1, LOG_BYTES);
	int ret;

	libbpf_set_print(keep_silent);
	ret = log ? try_map() : -ENOMEM;
	skeleton = ret ? NULL : batch_bpf__open();
	if (ret == 0)
		ret = skeleton ? load(skeleton, mode, linear_step, log) : -errno;
	if (ret != 0) {
		if (log)
			explain_load(ret, log);
		batch_bpf__destroy(skeleton);
	} else {
		*ret_program = (struct rp_bpf_program){ .skeleton = skeleton };
	}
	free(log);
	return ret;
}

/* An offset in a file that a process has mapped. */
struct place {
	uint64_t start, end;		/* of the mapping */
	uint64_t offset;
	char path[4096];
};

/* Return: 0; -ENOENT if no file is mapped there; -errno. */
static int find_place(pid_t pid, uint64_t address, struct place *ret_place)
{
	char name[64], line[4352];
	int ret = -ENOENT;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	maps = fopen(name, "re");
	if (!maps)
		return -errno;
	while (ret == -ENOENT && fgets(line, sizeof(line), maps)) {
		uint64_t offset;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %4095[^\n]",
			   &ret_place->start, &ret_place->end, &offset, ret_place->path) == 4 &&
		    address >= ret_place->start && address < ret_place->end) {
			ret_place->offset = offset + (address - ret_place->start);
			ret = 0;
		}
	}
	fclose(maps);
	return ret;
}

/*
 * Finds a name for the file in this process. The kernel's name (map_files) works even if the file
 * was deleted or is hidden by a mount. Without permission for that, the function uses the path.
 */
static void name_file(pid_t pid, const struct place *place, char *name, size_t space)
{
	int fd;

	snprintf(name, space, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, place->start,
		 place->end);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	else
		snprintf(name, space, "/proc/%d/root%s", pid, place->path);
}

int rp_bpf_program_attach(struct rp_bpf_program *program, pid_t pid, uint64_t address,
			  uint64_t session_id)
{
	char name[4352];
	struct place place;
	int ret = find_place(pid, address, &place);

	program->skeleton->bss->session_id = session_id;
	if (ret == 0) {
		name_file(pid, &place, name, sizeof(name));
		program->link = bpf_program__attach_uprobe(program->skeleton->progs.take_batch,
							   false, pid, name, place.offset);
		ret = program->link ? 0 : -errno;
	}
	if (ret == -EPERM || ret == -EACCES)
		/*
		 * CAP_BPF and CAP_PERFMON suffice to load the program, but uprobes need
		 * CAP_SYS_ADMIN.
		 */
		rp_tool_error("no permission to attach to process %d: be root, or have the "
			      "capability CAP_SYS_ADMIN", pid);
	else if (ret == -ENOENT)
		rp_tool_error("cannot attach to process %d: no file is mapped where it says that "
			      "its probe is, or the kernel has no uprobes (CONFIG_UPROBE_EVENTS)",
			      pid);
	else if (ret != 0)
		rp_tool_error("cannot attach to process %d: %s", pid, strerror(-ret));
	return ret;
}

void rp_bpf_program_fini(struct rp_bpf_program *program)
{
	bpf_link__destroy(program->link);
	batch_bpf__destroy(program->skeleton);
}
