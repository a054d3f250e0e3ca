#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe doctor`: what it reports is what the test sees by other means."""
import csv
import io
import json
import os
import platform
import re
import shutil
import subprocess
import unittest

from tool import PATIENCE, TOOL, ToolTest

TRACING = "/sys/kernel/tracing"
STATES = ("works", "limited", "missing")


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


class Doctor(ToolTest):
    def rows(self, *before, status=0, **settings):
        """Return the rows by check; `before` are the first words of the command line."""
        result = subprocess.run([*before, TOOL, "doctor", "--format=json"], cwd=self.directory,
                                env=dict(self.environment, **settings), capture_output=True,
                                timeout=PATIENCE, check=False)
        self.assertEqual((result.returncode, result.stderr), (status, b""))
        return {row["check"]: row for row in json.loads(result.stdout)}

    def rows_under(self, *before, **settings):
        """As rows(), or skip the test if the first words cannot be run here."""
        if os.geteuid() != 0 or not shutil.which(before[0]):
            self.skipTest(f"needs root and {before[0]}")
        tried = subprocess.run([*before, "true"], capture_output=True, check=False)
        if tried.returncode:
            self.skipTest(f"{before[0]}: {tried.stderr.decode().strip()}")
        return self.rows(*before, **settings)

    def test_each_form_has_the_same_rows(self):
        def without_counts(row):
            """Processes come and go."""
            return dict(row, found=re.sub(r"\d+ of \d+", "some of all", row["found"]))

        rows = {check: without_counts(row) for check, row in self.rows().items()}
        out, _ = self.run_tool("doctor", "--format=csv")
        self.assertEqual([without_counts(row) for row in csv.DictReader(io.StringIO(out))],
                         [{key: value or "" for key, value in row.items()}
                          for row in rows.values()])
        lines = self.run_tool("doctor")[0].splitlines()
        self.assertEqual(lines.pop(), ", ".join(
            f"{sum(row['state'] == state for row in rows.values())} {word}"
            for state, word in zip(STATES, ("work", "limited", "missing"))))
        self.assertEqual([re.sub(r"\d+ of \d+", "some of all", line) for line in lines
                          if not line.startswith(" ")],
                         [f"{row['state']:8}  {row['check']:12}  {row['found']}"
                          for row in rows.values()])
        self.assertEqual([line.strip() for line in lines if "to fix: " in line],
                         [f"to fix: {row['fix']}" for row in rows.values() if row["fix"]])

    def test_what_works_needs_no_fix(self):
        for row in self.rows().values():
            self.assertIn(row["state"], STATES)
            self.assertTrue(row["found"] and row["needed_for"])
            if row["state"] == "works":
                self.assertIsNone(row["fix"], row)

    def test_the_machine_is_described(self):
        rows = self.rows()
        self.assertIn(os.uname().release, rows["kernel"]["found"])
        self.assertIn(platform.libc_ver()[1], rows["libc"]["found"])
        source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        self.assertEqual(rows["clock"]["state"] == "works", source == "tsc")
        self.assertEqual(rows["btf"]["state"] == "works",
                         os.access("/sys/kernel/btf/vmlinux", os.R_OK))
        self.assertEqual(rows["tracefs"]["state"] == "works",
                         os.access(f"{TRACING}/events/sched/sched_switch/id", os.R_OK))
        self.assertEqual(rows["user_events"]["state"] == "works",
                         os.access(f"{TRACING}/user_events_data", os.W_OK))
        self.assertEqual(rows["uprobes"]["state"] == "works",
                         os.access(f"{TRACING}/uprobe_events", os.W_OK))

    def test_rseq_that_glibc_does_not_register_is_reported(self):
        self.assertEqual(self.rows()["rseq"]["state"], "works")
        row = self.rows(GLIBC_TUNABLES="glibc.pthread.rseq=0")["rseq"]
        self.assertEqual(row["state"], "limited")
        self.assertIn("GLIBC_TUNABLES", row["fix"])

    def test_a_directory_that_takes_no_sockets_fails(self):
        row = self.rows(status=1, TMPDIR=self.path("none"))["sockets"]
        self.assertEqual(row["state"], "missing")
        self.assertIn(self.path("none"), row["found"])
        self.assertEqual(self.rows(TMPDIR=self.directory)["sockets"]["found"],
                         f"in {self.directory}")
        self.assertEqual(os.listdir(self.directory), [])

    def test_an_ordinary_user_learns_what_to_ask_for(self):
        rows = self.rows_under("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                               TMPDIR="/tmp")
        paranoid = int(read("/proc/sys/kernel/perf_event_paranoid"))
        if paranoid >= 1:
            self.assertNotEqual(rows["perf_events"]["state"], "works")
            self.assertIn("setcap cap_perfmon,cap_bpf,cap_sys_ptrace,cap_sys_nice+ep",
                          rows["perf_events"]["fix"])
        if int(read("/proc/sys/kernel/unprivileged_bpf_disabled")):
            self.assertEqual(rows["bpf"]["state"], "missing")
            self.assertIn("cap_bpf", rows["bpf"]["fix"])
        self.assertEqual(rows["processes"]["state"], "limited")
        readable, count = map(int, re.match(r"(\d+) of (\d+) can be read",
                                            rows["processes"]["found"]).groups())
        self.assertLess(0, readable)
        self.assertLess(readable, count)

    def test_root_without_capabilities_has_no_bpf(self):
        rows = self.rows_under("setpriv", "--bounding-set=-all", "--inh-caps=-all")
        self.assertEqual(rows["bpf"]["state"], "missing")

    def test_a_container_is_seen(self):
        self.assertEqual(self.rows_under("unshare", "--pid", "--fork", "--mount-proc")
                         ["container"]["state"], "limited")

    def test_a_tracefs_that_is_not_mounted_is_reported(self):
        script = f'mount -t tmpfs none {TRACING} && exec "$@"'
        row = self.rows_under("unshare", "--mount", "sh", "-c", script, "sh")["tracefs"]
        self.assertEqual(row["state"], "missing")
        self.assertEqual(row["fix"], f"mount -t tracefs tracefs {TRACING}")


if __name__ == "__main__":
    unittest.main()
