/* SPDX-License-Identifier: MIT */
#include "tools/client/recording.h"

#include <errno.h>
#include <string.h>

#include "ipc/provider_list.h"
#include "tools/cli/tool.h"
#include "tools/client/providers.h"

int rp_recording_providers_parse(const char *list, const char *command,
				 struct rp_session_provider **ret_providers, size_t *ret_count)
{
	size_t at = 0;
	int ret = rp_providers_parse(list, ret_providers, ret_count, &at);

	if (ret == -EINVAL)
		rp_options_explain_providers(command, list, at);
	else if (ret)
		rp_tool_error("%s: --providers: %s", command, strerror(-ret));
	return ret;
}

int rp_recording_providers(const struct rp_tool_options *options, const char *command,
			   struct rp_session_provider **ret_providers, size_t *ret_count)
{
	/* The default is every provider, with all keywords and every level. */
	return rp_recording_providers_parse(options->providers ? options->providers : "*", command,
					    ret_providers, ret_count);
}

const char *rp_recording_provider_name(size_t i, void *data)
{
	return ((const struct rp_session_provider *)data)[i].name;
}

int rp_recording_check_providers(const struct rp_tool_options *options,
				 const struct rp_target *target,
				 const struct rp_session_provider *providers, size_t count)
{
	return rp_recording_check_any(options, target, 1, target->pid, providers, count);
}

int rp_recording_check_any(const struct rp_tool_options *options, const struct rp_target *targets,
			   size_t target_count, pid_t pid,
			   const struct rp_session_provider *providers, size_t count)
{
	if (options->given & RP_OPTION_MISSING)
		return 0;
	return rp_providers_check_any(targets, target_count, pid, rp_recording_provider_name,
				      count, (void *)providers);
}

int rp_recording_search_providers(const struct rp_tool_options *options, const char *command,
				  const struct rp_session_provider *providers, size_t count,
				  struct rp_provider_search **ret_search)
{
	*ret_search = NULL;
	if (!options->providers || options->given & RP_OPTION_MISSING)
		return 0;
	return rp_provider_search_create(command, providers, count, ret_search);
}

bool rp_recording_has_sampler(const struct rp_session_provider *providers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(providers[i].name, "Microsoft-DotNETCore-SampleProfiler") == 0)
			return true;
	}
	return false;
}
