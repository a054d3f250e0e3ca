/* SPDX-License-Identifier: MIT */
/*
 * Stands in for libFuzzer: gives each file of a folder to the fuzz target, whole, and cut at each
 * of its bytes.
 *
 * usage: NAME FOLDER
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Each beginning lies in memory of its own size, so that a sanitizer sees what is read past it. */
static void replay(const uint8_t *bytes, size_t size)
{
	for (size_t cut = 0; cut <= size; cut++) {
		uint8_t *copy = malloc(cut ? cut : 1);

		if (!copy)
			abort();
		memcpy(copy, bytes, cut);
		LLVMFuzzerTestOneInput(copy, cut);
		free(copy);
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
	struct dirent *entry;
	int files = 0;
	DIR *folder;

	if (argc != 2)
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
	printf("%d files\n", files);
	return files ? EXIT_SUCCESS : EXIT_FAILURE;
}
