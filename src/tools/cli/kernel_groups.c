/* SPDX-License-Identifier: MIT */
/* The values of --kernel and --profile: groups of kernel events. */
#include <errno.h>
#include <string.h>

#include "tools/cli/tool.h"

#define ALL_OF_A_PROCESS (RP_KERNEL_FUTEX - 1)
#define ALL_OF_THE_MACHINE (2 * RP_KERNEL_IRQ - 1)

struct name_of_bits {
	const char *name;
	unsigned int bits;
};

/* Those of a process come first. */
static const struct name_of_bits groups[] = {
	{ "sched", RP_KERNEL_SCHED }, { "faults", RP_KERNEL_FAULTS },
	{ "block", RP_KERNEL_BLOCK }, { "syscalls", RP_KERNEL_SYSCALLS },
	{ "all", ALL_OF_THE_MACHINE },
	{ "futex", RP_KERNEL_SCHED | RP_KERNEL_FUTEX }, { "irq", RP_KERNEL_IRQ },
};

#define GROUP_COUNT (sizeof(groups) / sizeof(groups[0]))
#define PROCESS_GROUP_COUNT 5

/* Adds the bits of the names in a list with commas. Return: 0; -EINVAL. */
static int take_names(const struct name_of_bits *names, size_t count, const char *list,
		      unsigned int *bits)
{
	for (;;) {
		size_t length = strcspn(list, ","), i = 0;

		while (i < count && (strlen(names[i].name) != length ||
				     strncmp(names[i].name, list, length)))
			i++;
		if (i == count)
			return -EINVAL;
		*bits |= names[i].bits;
		if (!list[length])
			return 0;
		list += length + 1;
	}
}

int rp_kernel_groups_parse(const char *list, unsigned int *ret_groups)
{
	int ret = take_names(groups, PROCESS_GROUP_COUNT, list, ret_groups);

	*ret_groups &= ALL_OF_A_PROCESS;
	return ret;
}

int rp_machine_groups_parse(const char *list, unsigned int *ret_groups)
{
	return take_names(groups, GROUP_COUNT, list, ret_groups);
}

int rp_profile_parse(const char *name, unsigned int *ret_groups)
{
	static const struct name_of_bits profiles[] = {
		{ "cpu", 0 },
		{ "latency", RP_KERNEL_SCHED | RP_KERNEL_SYSCALLS | RP_KERNEL_FUTEX },
		{ "io", RP_KERNEL_SCHED | RP_KERNEL_SYSCALLS | RP_KERNEL_BLOCK },
		{ "all", ALL_OF_THE_MACHINE },
	};

	return strchr(name, ',') ? -EINVAL : take_names(profiles, 4, name, ret_groups);
}
