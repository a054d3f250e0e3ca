/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-gen/probe_notes.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OWNER "stapsdt"
#define SEMAPHORE 16u		/* the offset in the description; two addresses precede it */
#define TEXTS 24u

static int compare_notes(const void *a, const void *b)
{
	const struct rp_probe_note *x = a, *y = b;

	return (x->semaphore > y->semaphore) - (x->semaphore < y->semaphore);
}

static bool is_identifier(const char *text)
{
	if (!isalpha((unsigned char)*text) && *text != '_')
		return false;
	while (isalnum((unsigned char)*text) || *text == '_')
		text++;
	return !*text;
}

/* Read the description of a note. Return: whether it is that of a probe with a semaphore. */
static bool read_note(const uint8_t *description, uint32_t bytes, struct rp_probe_note *ret_note)
{
	if (bytes <= TEXTS || !memchr(description + TEXTS, 0, bytes - TEXTS))
		return false;
	memcpy(&ret_note->semaphore, description + SEMAPHORE, sizeof(ret_note->semaphore));
	ret_note->provider = (const char *)description + TEXTS;
	return ret_note->semaphore && is_identifier(ret_note->provider);
}

int rp_probe_notes_read(struct rp_probe_notes *notes, const struct rp_elf_image *image)
{
	const uint8_t *at;
	uint64_t left;

	*notes = (struct rp_probe_notes){ 0 };
	at = rp_elf_contents(image, ".note.stapsdt", &left);
	if (!at)
		return 0;
	/* No note is shorter than its header. */
	notes->list = calloc(left / sizeof(Elf64_Nhdr) + 1, sizeof(*notes->list));
	if (!notes->list)
		return -ENOMEM;
	while (left >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr header;
		uint64_t name, whole;

		memcpy(&header, at, sizeof(header));
		name = sizeof(header) + (((uint64_t)header.n_namesz + 3) & ~UINT64_C(3));
		whole = name + (((uint64_t)header.n_descsz + 3) & ~UINT64_C(3));
		if (whole > left)
			break;
		if (header.n_namesz == sizeof(OWNER) &&
		    memcmp(at + sizeof(header), OWNER, sizeof(OWNER)) == 0 &&
		    read_note(at + name, header.n_descsz, &notes->list[notes->count]))
			notes->count++;
		at += whole;
		left -= whole;
	}
	qsort(notes->list, notes->count, sizeof(*notes->list), compare_notes);
	return 0;
}

const char *rp_probe_notes_provider(const struct rp_probe_notes *notes, uint64_t semaphore)
{
	const struct rp_probe_note key = { .semaphore = semaphore };
	const struct rp_probe_note *found = notes->count ?
		bsearch(&key, notes->list, notes->count, sizeof(key), compare_notes) : NULL;

	return found ? found->provider : NULL;
}

void rp_probe_notes_free(struct rp_probe_notes *notes)
{
	free(notes->list);
	*notes = (struct rp_probe_notes){ 0 };
}
