# SPDX-License-Identifier: MIT
"""ringpipe record of the shop under full load, with samples and all switches, loses nothing and
needs at most 128 MB.

The memory is the sum of what the recorder's processes have mapped, with the rings of perf_events
whole, and of what the kernel charges for their BPF maps. SECONDS: the length of the recording.

A recording that keeps the promise passes, whatever else runs. One that breaks it while other
programs use processors is repeated, twice at most. If each of them was disturbed, the test is
skipped, which CI counts as a failure.
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

import record_case
from record_case import (PATIENCE, PLAIN, SHOP, TOOL, Busy, Case, clients, drive, in_one_of_three,
                         lacks_bpf)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *2 * [os.pardir],
                                "bench"))
import record_cost  # noqa: E402

SECONDS = int(os.environ.get("SECONDS", "5"))
MEMORY_MB = 128
CALM_CPUS = 0.2		# other programs may use so much


class Minute(Case):
    def watch(self, recorder, *load):
        """Return the most memory in bytes that the recorder has until it ends, and how many
        processors the programs used that are neither the recorder nor the load."""
        peak, points = 0, []
        while recorder.poll() is None:
            with contextlib.suppress(OSError):
                peak = max(peak, record_cost.memory_bytes(recorder.pid))
                own = [record_cost.cpu_ns(process.pid) for process in (recorder, *load)]
                points.append((time.monotonic_ns(), record_cost.machine_ns() -
                               sum(ns for times in own for ns in times.values())))
            with contextlib.suppress(subprocess.TimeoutExpired):
                recorder.wait(0.2)
        if not points:
            return peak, 0
        # The last point may lack processes of the recorder that have ended.
        (begin, before), (end, after) = points[0], points[len(points) // 2]
        return peak, (after - before) / max(1, end - begin)

    @in_one_of_three
    def test_a_recording_under_full_load_loses_nothing_and_needs_little_memory(self):
        command = [TOOL, "record", "-f", "-q", "-o", self.trace, "--off-cpu", "0", "-d",
                   str(SECONDS), *record_cost.events_of(*drive.PROVIDERS)]
        log = f"{self.trace}.log"
        with drive.shop(SHOP, env=PLAIN) as shop, open(log, "wb") as errors, \
             drive.running(drive.load_command(shop.url, 3600), stdout=subprocess.DEVNULL) as wrk, \
             drive.running(command, stderr=errors) as recorder:
            shop.wait_for_sessions(1, [recorder])
            begin = time.monotonic()
            peak, others = self.watch(recorder, shop.process, wrk)
            took = time.monotonic() - begin
        with open(log, encoding="utf-8") as file:
            said = file.read()
        self.assertEqual(recorder.returncode, 0, said)
        if lacks_bpf(said):
            self.skipTest(said)
        report = json.loads(subprocess.run([TOOL, "report", "--format", "json", self.trace],
                                           stdout=subprocess.PIPE, check=True,
                                           timeout=4 * PATIENCE).stdout)
        events = {(provider["provider"], kind["event"]): kind["events"]
                  for provider in report["providers"] for kind in provider["kinds"]}
        waits = events["Ringpipe-Machine", "Wait"]
        shops = sum(count for (provider, _), count in events.items()
                    if provider in drive.PROVIDERS)
        print(f"# figure: record: {shops / took:.0f} events of the shop and "
              f"{waits / took:.0f} waits a second for {SECONDS} s, {report['lost']} lost")
        print(f"# figure: record: at most {peak / 1e6:.1f} MB of memory")
        if others > CALM_CPUS and (report["lost"] > 0 or peak > MEMORY_MB * 1e6):
            raise Busy(f"other programs used {others:.1f} processors: {report['lost']} lost, "
                       f"{peak / 1e6:.1f} MB of memory")
        self.assertGreater(shops, 0)
        self.assertGreater(waits, 0)
        self.assertEqual(report["lost"], 0, said)
        self.assertLessEqual(peak, MEMORY_MB * 1e6)


if __name__ == "__main__":
    if not shutil.which("wrk"):
        clients.skip("wrk is not installed")
    if os.environ["SANITIZERS"] != "none":
        clients.skip("the recorder is measured as users have it")
    record_case.require_recorder()
    record_case.unittest.main()
