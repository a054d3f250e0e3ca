/* SPDX-License-Identifier: MIT */
/* A component in the program itself, which shows what its control() was called with. */
#ifndef ATTACHED_COMPONENT_H
#define ATTACHED_COMPONENT_H

#include <inttypes.h>
#include <stdio.h>

#include <ringpipe/component_host.h>

static struct rp_component_state component_state;

static int component_start(const struct rp_component_host *host, struct rp_component *component)
{
	return rp_component_init(&component_state, host, NULL, 0, component);
}

static int component_attach(struct rp_provider *provider)
{
	const struct rp_component_options options = {
		.size = sizeof(options), .provider = provider,
	};
	struct rp_component_link *link;

	return rp_component_attach(component_start, &options, &link);
}

static inline struct rp_component_words component_words(void)
{
	const struct rp_component_words *words = &component_state.words[RP_COMPONENT_DEFAULT];

	return (struct rp_component_words){
		.keywords = __atomic_load_n(&words->keywords, __ATOMIC_RELAXED),
		.levels = __atomic_load_n(&words->levels, __ATOMIC_RELAXED),
	};
}

static inline bool component_words_are(uint64_t keywords, uint64_t levels)
{
	const struct rp_component_words words = component_words();

	return words.keywords == keywords && words.levels == levels;
}

/* Print the keywords and the bit vector of levels. */
static inline void component_print(char *text)
{
	const struct rp_component_words words = component_words();

	sprintf(text, "%" PRIx64 " %" PRIx64, words.keywords, words.levels);
}

#endif
