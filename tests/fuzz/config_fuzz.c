/* SPDX-License-Identifier: MIT */
/*
 * Parses any text as a provider list and as a list of triggers. The parsers accept the text or
 * report the position of the error. reader_fuzz.c shows how to run it.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/session.h>

#include "trigger/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_provider(const struct rp_session_provider *provider)
{
	if (provider->size != sizeof(*provider) || !provider->name || !*provider->name ||
	    provider->level > 5)
		__builtin_trap();
	/* Reads all of the text, so that a sanitizer checks it. */
	if (provider->filter_data && strlen(provider->filter_data) > SIZE_MAX / 2)
		__builtin_trap();
}

static void check_trigger(const struct rp_trigger *trigger)
{
	if (!*trigger->provider || !*trigger->name || trigger->level > 5 ||
	    strlen(trigger->text) < strlen(trigger->provider) + strlen(trigger->name) + 1 ||
	    (trigger->kind == RP_TRIGGER_LATENCY) != (trigger->stop != NULL))
		__builtin_trap();
}

static void parse_triggers(const char *text)
{
	struct rp_trigger *triggers = NULL;
	size_t count = 0, at = SIZE_MAX;
	int ret = rp_triggers_parse(text, &triggers, &count, &at);

	if (ret == 0 && (count == 0 || count > RP_TRIGGERS_MAX))
		__builtin_trap();
	if (ret == -EINVAL && (triggers || count || at > strlen(text)))
		__builtin_trap();
	for (size_t i = 0; i < count; i++)
		check_trigger(&triggers[i]);
	free(triggers);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct rp_session_provider *providers = NULL;
	size_t count = 0, at = SIZE_MAX;
	char *text = strndup((const char *)bytes, size);
	int ret;

	if (!text)
		return 0;
	ret = rp_providers_parse(text, &providers, &count, &at);
	if (ret == 0) {
		/* Each entry takes a byte, and all but the first a comma. */
		if (count == 0 || count > (strlen(text) + 1) / 2)
			__builtin_trap();
		for (size_t i = 0; i < count; i++)
			check_provider(&providers[i]);
	} else if (providers || count || (ret == -EINVAL && at > strlen(text))) {
		__builtin_trap();
	}
	free(providers);
	parse_triggers(text);
	free(text);
	return 0;
}
