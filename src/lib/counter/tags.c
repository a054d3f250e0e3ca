/* SPDX-License-Identifier: MIT */
/* Sets of tags as text. Clients receive this form, and the library compares sets by it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "counter/state.h"

#define TAGS_MAX 32u

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct rp_counter_tag *)a)->key,
		      ((const struct rp_counter_tag *)b)->key);
}

static int sort_tags(const struct rp_counter_tag *tags, size_t count,
		     struct rp_counter_tag sorted[TAGS_MAX], size_t *ret_bytes)
{
	size_t bytes = 1;

	if (count > TAGS_MAX || (count && !tags))
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		if (!rp_text_is_name(tags[i].key) || !tags[i].value)
			return -EINVAL;
		sorted[i] = tags[i];
		bytes += strlen(tags[i].key) + strlen(tags[i].value) + 2;
	}
	qsort(sorted, count, sizeof(*sorted), compare_keys);
	for (size_t i = 1; i < count; i++) {
		if (strcmp(sorted[i - 1].key, sorted[i].key) == 0)
			return -EINVAL;
	}
	*ret_bytes = bytes;
	return 0;
}

int rp_tags_join(const struct rp_counter_tag *tags, size_t tag_count, char *space, char **ret_text)
{
	struct rp_counter_tag sorted[TAGS_MAX];
	size_t bytes;
	char *text, *at;
	int ret = sort_tags(tags, tag_count, sorted, &bytes);

	if (ret != 0)
		return ret;
	text = bytes <= RP_TAGS_CAPACITY ? space : malloc(bytes);
	if (!text)
		return -ENOMEM;
	at = text;
	*at = '\0';
	for (size_t i = 0; i < tag_count; i++) {
		at = stpcpy(at, i ? "," : "");
		at = stpcpy(at, sorted[i].key);
		at = stpcpy(at, "=");
		at = stpcpy(at, sorted[i].value);
	}
	*ret_text = text;
	return 0;
}
