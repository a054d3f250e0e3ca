/* SPDX-License-Identifier: MIT */
/*
 * Replaces libFuzzer: passes each file of a folder to the fuzz target, complete, truncated at each
 * byte, and with each byte changed.
 *
 * usage: NAME FOLDER
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static unsigned long executions;

/* The input is in memory of its exact size, so that a sanitizer reports a read beyond it. */
static void run(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, bytes, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	executions++;
}

static void replay(uint8_t *bytes, size_t size)
{
	run(bytes, size);
	for (size_t at = 0; at < size; at++) {
		uint8_t byte = bytes[at];

		run(bytes, at);
		/* Inverts all bits of every other byte, and one bit of the others. */
		bytes[at] ^= at % 2 ? 0xff : (uint8_t)(1u << at / 2 % 8);
		run(bytes, size);
		bytes[at] = byte;
	}
}

static int replay_file(const char *folder, const char *name)
{
	static uint8_t bytes[1 << 20];
	char path[4096];
	FILE *file;
	size_t size;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rb");
	if (!file) {
		perror(path);
		return -1;
	}
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	replay(bytes, size);
	return 0;
}

int main(int argc, char **argv)
{
	int files = 0, out = dup(STDOUT_FILENO);	/* a target may close its standard output */
	struct dirent *entry;
	DIR *folder;

	if (argc != 2 || out < 0)
		return EXIT_FAILURE;
	folder = opendir(argv[1]);
	if (!folder) {
		perror(argv[1]);
		return EXIT_FAILURE;
	}
	while ((entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		if (replay_file(argv[1], entry->d_name) < 0)
			return EXIT_FAILURE;
		files++;
	}
	closedir(folder);
	dprintf(out, "# figure: %lu executions of %d inputs, cut and changed at each byte\n",
		executions, files);
	return files ? EXIT_SUCCESS : EXIT_FAILURE;
}
