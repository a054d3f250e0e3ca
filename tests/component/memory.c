/* SPDX-License-Identifier: MIT */
/*
 * Each allocation of a host that attaches a component fails once. The host gets -ENOMEM, and the
 * next attempt works.
 */
#include "../process/check.h"
#include "../process/failing_malloc.h"

#include <errno.h>
#include <stdlib.h>

#include "contract.h"

#define ALLOCATIONS_MAX 200u

RP_PROVIDER(memory, "Test-Component-Memory");
RP_PROVIDER(memory_private, "Test-Component-Memory-Private");

static __thread unsigned int left;	/* allocations until one fails; 0: none */
static __thread bool has_failed;

static struct rp_component_state state;

static bool fails(void)
{
	if (left == 0 || --left > 0)
		return false;
	has_failed = true;
	errno = ENOMEM;
	return true;
}

static int enter(const struct rp_component_host *host, struct rp_component *component)
{
	return rp_component_init(&state, host, NULL, 0, component);
}

static int attach(unsigned int failure, struct rp_component_link **ret_link)
{
	const struct rp_component_options options = {
		.size = sizeof(options), .provider = memory_provider(),
		.private_provider = memory_private_provider(),
	};
	int ret;

	has_failed = false;
	left = failure;
	ret = rp_component_attach(enter, &options, ret_link);
	left = 0;
	return ret;
}

static int fire(unsigned int failure)
{
	int ret;

	left = failure;
	ret = state.host.fire_dynamic(state.host.context, RP_COMPONENT_DEFAULT, RP_LEVEL_ERROR,
				      "fired", "", 0);
	left = 0;
	return ret;
}

/* Return: whether an allocation failed. */
static bool attach_with_failure(unsigned int failure)
{
	struct rp_component_link *link = NULL;
	const int ret = attach(failure, &link);
	const bool failed = has_failed;

	check(failed ? ret == -ENOMEM || ret == 0 : ret == 0);
	check((ret == 0) == (link != NULL));
	check(ret != 0 || rp_component_detach(link) == 0);
	check(state.words[RP_COMPONENT_DEFAULT].levels == 0);
	check(attach(0, &link) == 0);
	/* An event needs no memory of the allocator. */
	check(fire(1) == 0);
	check(rp_component_detach(link) == 0);
	return failed;
}

int main(void)
{
	struct rp_listener *listener = listen_to("Test-Component-Memory");
	struct rp_listener_event event = { .size = sizeof(event) };
	unsigned int failures = 0;

	while (failures < ALLOCATIONS_MAX && attach_with_failure(failures + 1))
		failures++;
	check(failures > 5 && failures < ALLOCATIONS_MAX);
	for (unsigned int i = 0; i <= failures; i++) {
		check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
		check(strcmp(event.name, "DynamicError") == 0);
	}
	check(rp_listener_stop(listener, NULL) == 0);
	printf("# figure: %u allocations of a host that attaches a component failed\n", failures);
	return EXIT_SUCCESS;
}
