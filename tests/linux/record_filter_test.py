# SPDX-License-Identifier: MIT
"""ringpipe record of the processes of a user or a cgroup."""
import contextlib
import os
import subprocess

import record_case
from record_case import HOST, NOBODY, PATIENCE, PLAIN, SHOP, TOOL, Case, ask, drive, events_of

PROVIDERS = ",".join(drive.PROVIDERS)


@contextlib.contextmanager
def cgroup(folder):
    """Make a cgroup. Yield its folder."""
    path = os.path.join(folder, f"ringpipe-test-{os.getpid()}")
    os.mkdir(path)
    try:
        yield path
    finally:
        drive.wait_for(lambda: not members(path), "the end of the cgroup's processes")
        os.rmdir(path)


def members(path):
    with open(os.path.join(path, "cgroup.procs"), encoding="ascii") as procs:
        return procs.read().split()


def enter(path):
    with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as procs:
        procs.write("0")


class Filters(Case):
    def record_two(self, option, **inside):
        """Record two hosts and two shops, of which one each starts with the options `inside`.
        Return the wanted processes, those in the trace, and those with events of the shop."""
        with drive.shop(SHOP, env=PLAIN) as other, \
             drive.shop(SHOP, env=PLAIN, **inside) as wanted:
            recorder = subprocess.Popen([TOOL, "record", "-o", self.trace, *option,
                                         "--providers", PROVIDERS], stderr=subprocess.PIPE)
            self.addCleanup(recorder.stderr.close)
            self.addCleanup(recorder.kill)
            wanted.wait_for_sessions(1)
            hosts = [subprocess.Popen([HOST, "300"], stdout=subprocess.DEVNULL, **options)
                     for options in ({}, inside)]
            for shop in other, wanted:
                ask(shop, 20)
            for host in hosts:
                host.wait(PATIENCE)
            wanted.wait_until_quiet()
            self.assertEqual(drive.interrupt(recorder), 0)
        events, _ = events_of(self.trace)
        machine = {event["process"] for event in events
                   if event["provider"] in ("Universal.Events", "Ringpipe-Machine")
                   and event["event"] != "Loss"}
        shops = {event["process"] for event in events if event["provider"] in drive.PROVIDERS}
        self.assertEqual(shops, {wanted.pid})
        self.assertNotIn(hosts[0].pid, machine)
        self.assertIn(hosts[1].pid, machine)
        return {wanted.pid, hosts[1].pid}, machine

    def test_only_the_processes_of_a_user_are_in_the_trace(self):
        for name in "nobody", "65534":
            with self.subTest(user=name):
                wanted, machine = self.record_two(["--user", name], **NOBODY)
                self.assertEqual(machine - wanted, set())
                self.prepare_again()

    def test_only_the_processes_of_a_cgroup_are_in_the_trace(self):
        # Of version 1 and 2 of cgroups.
        folders = [path for path in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified",
                                     "/sys/fs/cgroup")
                   if os.path.exists(os.path.join(path, "cgroup.procs"))]
        if not folders:
            self.skipTest("no hierarchy of cgroups is mounted")
        for folder in folders:
            with self.subTest(folder=folder), cgroup(folder) as path:
                option = ["--cgroup", "/" + os.path.basename(path)]
                wanted, machine = self.record_two(option, preexec_fn=lambda: enter(path))
                self.assertEqual(machine - wanted, set())
                self.prepare_again()

    def test_an_unknown_user_is_refused(self):
        for option in ["--user", "no such user"], ["--cgroup", "relative"]:
            done = subprocess.run([TOOL, "record", "-o", self.trace, *option], text=True,
                                  stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(option[0], done.stderr)


if __name__ == "__main__":
    record_case.main()
