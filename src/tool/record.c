/* SPDX-License-Identifier: MIT */
/*
 * ringpipe record: a flight recorder in another process, switched on and off. ringpipe's own
 * commands 0x52/0x06, u32 1 for rings in files or 2 for coarse times and then the payload of
 * CollectTracing4, 0x52/0x0a, with a path and a quota in front of that payload, and 0x52/0x07,
 * without one; the reply to all is u64 session id.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/exchange.h"
#include "tool/output.h"
#include "tool/recording.h"
#include "tool/tool.h"

/* To stop takes as long as a snapshot on its way to a slow reader may. */
#define REPLY_TIMEOUT_MS 30000

/* The process may stand in another directory. */
static int put_output(const struct rp_tool_options *options, const char *output,
		      struct rp_wire_message *request)
{
	char *here = *output == '/' ? NULL : getcwd(NULL, 0), *path;

	if (asprintf(&path, "%s%s%s", here ? here : "", here ? "/" : "", output) < 0)
		path = NULL;
	free(here);
	if (!path) {
		rp_tool_error("out of memory");
		return -ENOMEM;
	}
	rp_wire_put_string(request, path);
	rp_wire_put_u64(request, (uint64_t)options->roll_mb << 20);
	free(path);
	return 0;
}

struct plan {
	const struct rp_tool_options *options;
	struct rp_session_provider *providers;
	size_t provider_count;
	char *output;			/* of --roll, or NULL */
};

static int build_start(const struct plan *plan, struct rp_wire_message *request)
{
	const struct rp_tool_options *options = plan->options;
	const bool stacks = options->given & RP_OPTION_STACKS;

	rp_wire_begin(request, RP_SET_RINGPIPE, options->roll_mb ? 0x0a : 0x06);
	if (!options->roll_mb) {
		rp_wire_put_u32(request, options->given & RP_OPTION_RECOVER ? 1 :
				options->given & RP_OPTION_COARSE ? 2 : 0);
	} else if (put_output(options, plan->output, request)) {
		return -ENOMEM;
	}
	rp_wire_put_u32(request, options->buffer_mb);
	rp_wire_put_u32(request, 1);
	rp_wire_put_u64(request, stacks);
	rp_wire_put_u8(request, stacks);
	rp_recording_put_providers(request, plan->providers, plan->provider_count);
	if (rp_wire_end(request) == 0)
		return 0;
	rp_tool_error("the provider list is too long for one request (64 KB)");
	return -E2BIG;
}

static void tell(const struct rp_exchange *exchange, const struct plan *plan)
{
	const struct rp_tool_options *options = plan->options;
	struct rp_wire_cursor cursor = { exchange->payload, exchange->payload_bytes, false };
	const struct rp_target *target = exchange->target;
	uint64_t id = rp_wire_get_u64(&cursor);

	if (options->given & RP_OPTION_STOP)
		printf("Process %d (%s) records no more; session %" PRIu64 " has ended.\n",
		       target->pid, target->name, id);
	else if (options->roll_mb)
		printf("Process %d (%s) writes files named like %s, session %" PRIu64 "\n",
		       target->pid, target->name, plan->output, id);
	else
		printf("Process %d (%s) records, session %" PRIu64 "; see ringpipe snapshot -p "
		       "%d\n", target->pid, target->name, id, target->pid);
}

static int ask(const struct rp_target *target, const struct rp_wire_message *request,
	       const struct plan *plan)
{
	const uint32_t given = plan->options->given;
	const char *what = given & RP_OPTION_STOP ? "stop recording in" :
			   given & RP_OPTION_COARSE ? "record with --coarse in" : "record";
	struct rp_exchange exchange;
	int ret = rp_exchange_begin(&exchange, target, request);

	if (!ret)
		ret = rp_exchange_run(&exchange, REPLY_TIMEOUT_MS);
	if (!ret)
		tell(&exchange, plan);
	else
		rp_exchange_explain(&exchange, what, ret);
	rp_exchange_end(&exchange);
	return ret ? RP_EXIT_FAILURE : RP_EXIT_OK;
}

/* What does not go together; said. */
static int check_usage(const struct rp_tool_options *options)
{
	const bool stop = options->given & RP_OPTION_STOP;

	if (stop && (options->given &
		     (RP_OPTION_PROVIDERS | RP_OPTION_BUFFER | RP_OPTION_COARSE |
		      RP_OPTION_STACKS | RP_OPTION_RECOVER | RP_OPTION_OUTPUT |
		      RP_OPTION_ROLL))) {
		rp_tool_error("record: --stop takes no option but -p or -n");
		return -EINVAL;
	}
	if (!(options->given & RP_OPTION_ROLL) != !(options->given & RP_OPTION_OUTPUT)) {
		rp_tool_error("record: --roll and -o go together");
		return -EINVAL;
	}
	if ((options->given & RP_OPTION_ROLL) && (options->given & RP_OPTION_RECOVER)) {
		rp_tool_error("record: give one of --roll and --recover");
		return -EINVAL;
	}
	if ((options->given & RP_OPTION_COARSE) &&
	    (options->given & (RP_OPTION_ROLL | RP_OPTION_RECOVER))) {
		rp_tool_error("record: --coarse goes with neither --roll nor --recover");
		return -EINVAL;
	}
	return 0;
}

static int record(const struct rp_target *target, struct plan *plan)
{
	const struct rp_tool_options *options = plan->options;
	static struct rp_wire_message request;
	int status = RP_EXIT_USAGE;

	plan->output = options->output ? rp_output_expand(options->output, target->pid) : NULL;
	if (options->output && !plan->output) {
		rp_tool_error("out of memory");
		return RP_EXIT_FAILURE;
	}
	rp_wire_begin(&request, RP_SET_RINGPIPE, 0x07);
	rp_wire_end(&request);
	if (options->given & RP_OPTION_STOP || build_start(plan, &request) == 0)
		status = ask(target, &request, plan);
	free(plan->output);
	return status;
}

int rp_command_record(const struct rp_tool_options *options)
{
	struct plan plan = { .options = options };
	int status = RP_EXIT_FAILURE;
	struct rp_target target;

	if (check_usage(options) ||
	    rp_recording_providers(options, "record", &plan.providers, &plan.provider_count))
		return RP_EXIT_USAGE;
	if (rp_target_find(options->pid, options->name, &target) == 0) {
		status = record(&target, &plan);
		rp_target_fini(&target);
	}
	free(plan.providers);
	return status;
}
