/* SPDX-License-Identifier: MIT */
/*
 * A session stops while a writer, in the middle of a write, waits in the kernel for a page of a
 * ring. userfaultfd(2) makes the writer wait. The session's memory must not disappear: the kernel
 * would then end the process by SIGSEGV, although it would not resume the write.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define MAPPINGS_MAX 2048u

RP_PROVIDER(faulting, "Test-Faulting");
RP_EVENT(faulting, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial));
RP_EVENT(faulting, text, 2, RP_LEVEL_INFORMATIONAL, 0x1, RP_STRING(text));

struct mapping {
	uint64_t start, end;
};

static struct mapping before[MAPPINGS_MAX];
static unsigned int before_count;

/* List the shared writable mappings. Return: their number. */
static unsigned int list(struct mapping mappings[MAPPINGS_MAX])
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int count = 0;
	char line[512], rights[8];

	check(maps);
	while (fgets(line, sizeof(line), maps)) {
		struct mapping *mapping = &mappings[count];

		check(sscanf(line, "%lx-%lx %7s", &mapping->start, &mapping->end, rights) == 3);
		count += strcmp(rights, "rw-s") == 0;
		check(count < MAPPINGS_MAX);
	}
	fclose(maps);
	return count;
}

static bool is_new(const struct mapping *mapping)
{
	for (unsigned int i = 0; i < before_count; i++) {
		if (before[i].start == mapping->start)
			return false;
	}
	return true;
}

/* Return: a descriptor that gets a message when a thread touches a missing page of a ring. */
static int watch_rings(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	static struct mapping mappings[MAPPINGS_MAX];
	unsigned int count = list(mappings), watched = 0;
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0) {
		printf("userfaultfd: %s\n", strerror(errno));
		exit(SKIPPED);
	}
	for (unsigned int i = 0; i < count; i++) {
		struct uffdio_register range = {
			.range = { mappings[i].start, mappings[i].end - mappings[i].start },
			.mode = UFFDIO_REGISTER_MODE_MISSING,
		};

		if (is_new(&mappings[i]))
			watched += ioctl(fd, UFFDIO_REGISTER, &range) == 0;
	}
	check(watched > 0);
	return fd;
}

static void *write_mark(void *data)
{
	(void)data;
	check(faulting_mark(1) == 0);
	return NULL;
}

static void *write_text(void *data)
{
	(void)data;
	check(faulting_text("text") == 0);
	return NULL;
}

static void stop_during_fault(struct rp_session *session, void *(*write)(void *data))
{
	int fd = watch_rings();
	struct uffd_msg message;
	pthread_t writer;

	check(pthread_create(&writer, NULL, write, NULL) == 0);
	check(read(fd, &message, sizeof(message)) == sizeof(message));
	check(message.event == UFFD_EVENT_PAGEFAULT);
	check(rp_session_stop(session, NULL) == 0);
	/* The writer continues. */
	close(fd);
	check(pthread_join(writer, NULL) == 0);
}

static void stop_session(uint32_t flags, void *(*write)(void *data))
{
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;
	struct rp_session_provider provider = RP_SESSION_PROVIDER_INIT;
	struct rp_session *session;

	provider.name = "Test-Faulting";
	options.providers = &provider;
	options.provider_count = 1;
	options.flags = flags | RP_SESSION_NO_RUNDOWN;
	options.output_fd = -1;
	options.output_path = flags & RP_SESSION_OVERWRITE ? NULL : "/dev/null";
	before_count = list(before);
	check(rp_session_start(&options, &session) == 0);
	stop_during_fault(session, write);
}

int main(void)
{
	static void *(*const writes[])(void *data) = { write_mark, write_text };

	for (unsigned int i = 0; i < 2; i++) {
		stop_session(0, writes[i]);
		stop_session(RP_SESSION_OVERWRITE, writes[i]);
	}
	printf("ok\n");
	return 0;
}
