/* SPDX-License-Identifier: MIT */
/* Names of containers, in /proc/PID/cgroup as the programs that create containers leave it. */
#include <criterion/criterion.h>

#include "tools/client/container.h"

#define ID "4f1d2c3b5a697887766554433221100ffeeddccbbaa998877665544332211000"

static const struct {
	const char *cgroups, *name;
} cases[] = {
	{ "12:pids:/docker/" ID "\n0::/\n", "4f1d2c3b5a69" },
	{ "0::/system.slice/docker-" ID ".scope\n", "4f1d2c3b5a69" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID
	  ".scope/container\n", "4f1d2c3b5a69" },
	{ "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1a2b_3c.slice/"
	  "cri-containerd-" ID ".scope\n", "4f1d2c3b5a69" },
	{ "11:cpu:/kubepods/burstable/pod1a2b/" ID "\n", "4f1d2c3b5a69" },
	{ "0::/kubepods.slice/crio-" ID ".scope", "4f1d2c3b5a69" },
	{ "3:cpu:/lxc/web1\n2:pids:/lxc/web1\n", "web1" },
	{ "0::/lxc.payload.web2/system.slice/nginx.service\n", "web2" },
	{ "0::/machine.slice/machine-db.scope/payload\n", "db" },
	{ "0::/machine.slice/systemd-nspawn@db2.service/payload\n", "db2" },
	/* The inner one of two. */
	{ "0::/lxc.payload.host/docker/" ID "\n", "4f1d2c3b5a69" },
	/* None. */
	{ "0::/system.slice/nginx.service\n", "" },
	{ "12:pids:/user.slice/user-0.slice\n0::/\n", "" },
	{ "0::/docker/4f1d2c\n", "" },
	{ "0::/lxc/\n", "" },
	{ "", "" },
	{ "no colons\n:\n::\n", "" },
};

Test(container, its_name_is_found_in_the_cgroups_of_each_kind)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[RP_CONTAINER_MAX];

		rp_container_find(cases[i].cgroups, name);
		cr_expect_str_eq(name, cases[i].name, "%s: %s", cases[i].cgroups, name);
	}
}

Test(container, a_long_name_is_cut)
{
	char cgroups[300] = "0::/lxc.payload.", name[RP_CONTAINER_MAX];

	memset(cgroups + strlen(cgroups), 'n', 200);
	rp_container_find(cgroups, name);
	cr_expect_eq(strlen(name), RP_CONTAINER_MAX - 1);
}
