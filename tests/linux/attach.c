/* SPDX-License-Identifier: MIT */
/*
 * attach OBJECT PID FILE EVENT: attaches to a probe of Probes-Host by libbpf, prints "ready", then
 * the arguments of each event, until it is interrupted.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <bpf/libbpf.h>

#define WORDS 12

static volatile sig_atomic_t ended;

static void end(int number)
{
	(void)number;
	ended = 1;
}

static int print(void *context, void *data, size_t size)
{
	const uint64_t *words = data;

	(void)context;
	if (size < (1 + WORDS) * sizeof(*words))
		return -EINVAL;
	printf("= ");
	for (uint64_t i = 1; i <= words[0] && i <= WORDS; i++)
		printf("%" PRId64 " ", (int64_t)words[i]);
	printf(".\n");
	fflush(stdout);
	return 0;
}

static int fail(const char *what)
{
	fprintf(stderr, "%s: error %d\n", what, errno);
	return 1;
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = end };
	struct bpf_object *object;
	struct bpf_program *program;
	struct ring_buffer *ring;
	struct bpf_link *link;

	if (argc != 5)
		return 2;
	sigaction(SIGINT, &action, NULL);
	object = bpf_object__open_file(argv[1], NULL);
	if (!object || bpf_object__load(object) != 0)
		return fail("cannot load");
	program = bpf_object__find_program_by_name(object, "seen");
	ring = ring_buffer__new(bpf_object__find_map_fd_by_name(object, "records"), print, NULL,
				NULL);
	if (!program || !ring)
		return fail("no ring");
	link = bpf_program__attach_usdt(program, atoi(argv[2]), argv[3], "probes", argv[4], NULL);
	if (!link)
		return fail("cannot attach");
	printf("ready\n");
	fflush(stdout);
	while (!ended && (ring_buffer__poll(ring, 100) >= 0 || errno == EINTR))
		;
	bpf_link__destroy(link);
	ring_buffer__free(ring);
	bpf_object__close(object);
	return 0;
}
