/* SPDX-License-Identifier: MIT */
/*
 * Runs commands of `ringpipe` on files with flipped bits, each in a child process with limits of
 * memory and processor time. A command must end by itself with status 0, or with status 1 and a
 * message.
 *
 * usage: bit-flips COUNT SEED < COMMANDS
 *
 * Each line of COMMANDS has words separated by tabs: an intact file, the path of the copy to
 * damage, and the arguments of `ringpipe`. Commands run in order, over and over, until COUNT ran. A
 * first argument with a slash is the path of a program to execute; other commands run in the child
 * itself, which saves most of the time. A copy that made a command fail remains.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY_BYTES (512ull << 20)
#define PROCESSOR_S 5
#define WAIT_S 120		/* a command that waits this long hangs */
#define ARGUMENTS_MAX 32
#define COMMANDS_MAX 512
#define FLIPS_MAX 8u
#define FAILURES_MAX 20

struct flip_command {
	char *line;
	char *target;			/* the path of the damaged copy */
	char *arguments[ARGUMENTS_MAX + 1];
	int argument_count;
	uint8_t *bytes;			/* of the intact file */
	size_t size;
};

/* The main() of the command `ringpipe`. */
int rp_tool_main(int argc, char **argv);

static struct flip_command commands[COMMANDS_MAX];
static size_t command_count;
static uint64_t random_state;
static int messages;			/* what the child wrote to standard error */

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

/* xorshift64* */
static uint64_t choose(uint64_t count)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (random_state * 0x2545f4914f6cdd1dull >> 16) % count;
}

static void read_file(const char *path, struct flip_command *command)
{
	FILE *file = fopen(path, "rb");
	long size;

	if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) <= 0)
		fail(path);
	rewind(file);
	command->size = (size_t)size;
	command->bytes = malloc(command->size);
	if (!command->bytes || fread(command->bytes, 1, command->size, file) != command->size)
		fail(path);
	fclose(file);
}

static void read_commands(void)
{
	size_t capacity = 0;

	while (command_count < COMMANDS_MAX) {
		struct flip_command *command = &commands[command_count];
		char *word, *rest;
		int count = 0;

		if (getline(&command->line, &capacity, stdin) < 0)
			break;
		command->line[strcspn(command->line, "\n")] = '\0';
		word = strtok_r(command->line, "\t", &rest);
		command->target = strtok_r(NULL, "\t", &rest);
		if (!word || !command->target)
			break;
		read_file(word, command);
		while (count < ARGUMENTS_MAX && (word = strtok_r(NULL, "\t", &rest)))
			command->arguments[count++] = word;
		command->argument_count = count;
		command_count++;
		capacity = 0;
	}
}

/* Replace the checksum at the end of an index of a trace, so that the command trusts the index. */
static void repair_index(uint8_t *bytes, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325ull ^ (size - 8), word;
	size_t at = 0;

	for (; at + 8 <= size - 8; at += 8) {
		memcpy(&word, bytes + at, 8);
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	for (; at < size - 8; at++)
		hash = (hash ^ bytes[at]) * 0x100000001b3ull;
	memcpy(bytes + size - 8, &hash, 8);
}

static void write_damaged(const struct flip_command *command)
{
	const uint64_t flips = choose(4) ? 1 : 1 + choose(FLIPS_MAX);
	uint8_t *bytes = malloc(command->size);
	FILE *file = fopen(command->target, "wb");

	if (!bytes || !file)
		fail(command->target);
	memcpy(bytes, command->bytes, command->size);
	for (uint64_t i = 0; i < flips; i++)
		bytes[choose(command->size)] ^= (uint8_t)(1u << choose(8));
	if (command->size > 8 && strstr(command->target, ".rpidx") && choose(8))
		repair_index(bytes, command->size);
	if (fwrite(bytes, 1, command->size, file) != command->size || fclose(file))
		fail(command->target);
	free(bytes);
}

static void set_limits(bool has_memory_limit)
{
	const struct rlimit memory = { MEMORY_BYTES, MEMORY_BYTES };
	const struct rlimit time = { PROCESSOR_S, PROCESSOR_S + 1 };

	if ((has_memory_limit && setrlimit(RLIMIT_AS, &memory)) ||
	    (has_memory_limit && setrlimit(RLIMIT_CPU, &time)))
		fail("setrlimit");
	alarm(WAIT_S);
}

static void run_child(struct flip_command *command, bool has_memory_limit)
{
	char name[] = "ringpipe";
	char *arguments[ARGUMENTS_MAX + 2] = { name };
	const int null = open("/dev/null", O_RDWR);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(messages, STDERR_FILENO) < 0)
		fail("dup2");
	set_limits(has_memory_limit);
	if (strchr(command->arguments[0], '/')) {
		execv(command->arguments[0], command->arguments);
		fail(command->arguments[0]);
	}
	memcpy(arguments + 1, command->arguments, sizeof(command->arguments));
	exit(rp_tool_main(command->argument_count + 1, arguments));
}

/* Return: NULL; or how the command failed. */
static const char *judge(int status, off_t message_bytes)
{
	static char text[64];

	if (WIFSIGNALED(status)) {
		snprintf(text, sizeof(text), "ended by SIG%s", sigabbrev_np(WTERMSIG(status)));
		return text;
	}
	if (WEXITSTATUS(status) > 1) {
		snprintf(text, sizeof(text), "status %d", WEXITSTATUS(status));
		return text;
	}
	return WEXITSTATUS(status) == 1 && message_bytes == 0 ? "status 1 without a message" : NULL;
}

static void report(const struct flip_command *command, const char *failure, uint64_t run)
{
	char said[2000], kept[4096];
	const ssize_t got = pread(messages, said, sizeof(said), 0);

	snprintf(kept, sizeof(kept), "%s.failed-%" PRIu64, command->target, run);
	if (rename(command->target, kept))
		perror(kept);
	printf("%s:", failure);
	for (int i = 0; i < command->argument_count; i++)
		printf(" %s", command->arguments[i]);
	printf("\n%s is the file\n%.*s\n", kept, got > 0 ? (int)got : 0, said);
}

int main(int argc, char **argv)
{
	const char *sanitizers = getenv("SANITIZERS");
	const bool is_limited = !sanitizers || !strcmp(sanitizers, "none");
	const uint64_t count = argc > 2 ? strtoull(argv[1], NULL, 10) : 0;
	uint64_t failures = 0, refused = 0, slowest_us = 0;

	random_state = argc > 2 ? strtoull(argv[2], NULL, 10) * 2 + 1 : 1;
	messages = memfd_create("messages", MFD_CLOEXEC);
	read_commands();
	if (!command_count || messages < 0)
		return EXIT_FAILURE;
	for (uint64_t run = 0; run < count && failures < FAILURES_MAX; run++) {
		struct flip_command *command = &commands[run % command_count];
		struct rusage usage;
		const char *failure;
		uint64_t used_us;
		int status;
		pid_t child;

		write_damaged(command);
		if (ftruncate(messages, 0) || lseek(messages, 0, SEEK_SET) || fflush(NULL))
			fail("messages");
		child = fork();
		if (child == 0)
			run_child(command, is_limited);
		if (child < 0 || wait4(child, &status, 0, &usage) < 0)
			fail("fork");
		failure = judge(status, lseek(messages, 0, SEEK_END));
		if (failure)
			report(command, failure, run);
		failures += !!failure;
		refused += WIFEXITED(status) && WEXITSTATUS(status) == 1;
		used_us = (uint64_t)usage.ru_utime.tv_sec * 1000000 +
			  (uint64_t)usage.ru_utime.tv_usec;
		if (used_us > slowest_us)
			slowest_us = used_us;
	}
	printf("# figure: %" PRIu64 " commands read damaged files, %" PRIu64
	       " reported it, %" PRIu64 " failed, the longest took %" PRIu64 " ms\n",
	       count, refused, failures, slowest_us / 1000);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
