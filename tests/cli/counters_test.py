#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe counters` on HOST, a mill that counts a sack for each line it reads."""
import contextlib
import csv
import io
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import unittest
import urllib.error
import urllib.request

from tool import PATIENCE, ToolTest

HOST = os.environ.get("HOST", "")
SETUP = os.environ.get("SETUP", "")  # the script that installs prometheus, and its target
BUILD = os.environ.get("BUILD", "")
BEFORE = 42  # sacks counted before any client


class Counters(ToolTest):
    def prometheus_command(self, name):
        done = subprocess.run([SETUP, BUILD], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)
        if done.returncode == 77:
            self.skipTest(done.stderr.strip().splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stderr)
        return os.path.join(done.stdout.strip(), name)

    def start_host(self):
        host = subprocess.Popen([HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                env=self.environment, cwd=self.directory)
        self.addCleanup(self.reap, host)
        self.assertEqual(host.stdout.readline(), b"ready\n")
        return host

    def feed(self, host, sacks=1):
        host.stdin.write(b"\n" * sacks)
        host.stdin.flush()

    def weighed(self, host):
        """Return how many weights the host recorded, and their sum."""
        host.stdin.write(b"?\n")
        host.stdin.flush()
        count, total = host.stdout.readline().split()
        return int(count), int(total)

    def start_serve(self, host, *arguments, address=r"127\.0\.0\.1"):
        process = self.start("counters", "serve", "-p", host.pid, "--port", 0, *arguments)
        line = process.stdout.readline().decode()
        if not line and b"libmicrohttpd" in process.stderr.read():
            self.skipTest("built without libmicrohttpd")
        self.assertRegex(line, rf"^http://{address}:\d+/metrics\n$")
        return process, line.strip()

    def page(self, url):
        with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
            self.assertIn("version=0.0.4", reply.headers["Content-Type"])
            return reply.read().decode()

    def page_with(self, url, pattern):
        """Return the page once it matches the pattern."""
        pages = [""]

        def has_it():
            pages.append(self.page(url))
            return re.search(pattern, pages[-1], re.M)

        self.wait_until(has_it)
        return pages[-1]

    def stop(self, process, status=0):
        process.send_signal(signal.SIGINT)
        return self.finish(process, status)

    def read_until(self, process, text):
        """Return what the process printed, up to a line with the text."""
        lines = []
        while not lines or text not in lines[-1]:
            line = process.stdout.readline().decode()
            self.assertTrue(line, "it ended: " + "".join(lines))
            lines.append(line)
        return "".join(lines)

    def test_monitor_shows_every_counter_with_its_unit(self):
        host = self.start_host()
        process = self.start("counters", "monitor", "-p", host.pid)
        text = self.read_until(process, "water")
        # Quantiles are those of the interval.
        self.feed(host)
        text += self.read_until(process, "Percentile=95")
        self.assertIn(f"Process {host.pid} (", text)
        self.assertIn("[Mill-Works]", text)
        self.assertRegex(text, r"sacks \(sacks / 1 sec\) +0\n")
        self.assertRegex(text, r"water \(m\) +2\.5\n")
        self.stop(process)

    def test_monitor_draws_over_itself_on_a_terminal(self):
        host = self.start_host()
        terminal, slave = pty.openpty()
        self.addCleanup(os.close, terminal)
        process = subprocess.Popen([os.environ["RINGPIPE"], "counters", "monitor", "-p",
                                    str(host.pid)], stdout=slave, stderr=slave,
                                   env=self.environment)
        self.addCleanup(self.reap, process)
        os.close(slave)
        shown = b""
        while shown.count(b"\x1b[H\x1b[J") < 2 or b"Ctrl-C ends" not in shown:
            shown += os.read(terminal, 4096)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE), 0)

    def test_collect_counts_every_sack_once(self):
        host = self.start_host()
        process = self.start("counters", "collect", "--format=csv", "-p", host.pid)
        self.read_until(process, "water")
        self.feed(host, 100)
        seen = 0
        while seen < 100:
            line = process.stdout.readline().decode()
            row = next(csv.reader(io.StringIO(line)))
            self.assertEqual(len(row), 5, line)
            if row[2].startswith("sacks"):
                self.assertEqual(row[1], "Mill-Works")
                self.assertEqual(row[3], "Rate")
                # The value is a rate per second, over an interval of about one second.
                seen += round(float(row[4]))
        self.assertLessEqual(seen, 110)
        self.stop(process)

    def test_collect_writes_json_that_is_whole_after_ctrl_c(self):
        host = self.start_host()
        process = self.start("counters", "collect", "-p", host.pid, "--format=json", "-o", "c.json")
        self.wait_until(lambda: os.path.exists(self.path("c.json")) and
                        b"water" in self.read("c.json"))
        self.stop(process)
        reported = json.loads(self.read("c.json"))
        self.assertEqual(reported["TargetProcess"], os.path.basename(HOST))
        row = next(row for row in reported["Events"] if row["name"] == "water (m)")
        self.assertEqual((row["provider"], row["counterType"], row["value"], row["tags"]),
                         ("Mill-Works", "Metric", 2.5, ""))

    def test_only_what_was_asked_for_is_shown(self):
        host = self.start_host()
        process = self.start("counters", "collect", "--format=csv", "-p", host.pid, "--counters",
                             "Mill-Works[water]")
        out = self.read_until(process, "water") + self.read_until(process, "water")
        self.stop(process)
        names = {row[2] for row in list(csv.reader(io.StringIO(out)))[1:]}
        self.assertEqual(names, {"water (m)"})

    def test_the_end_of_the_process_ends_the_file_too(self):
        host = self.start_host()
        process = self.start("counters", "collect", "-p", host.pid, "--format=json")
        self.read_until(process, "water")
        host.stdin.close()
        host.wait(PATIENCE)
        out, err = self.finish(process, 0)
        self.assertTrue(out.rstrip().endswith("}"))
        self.assertIn("ended", err)

    def test_serve_shows_totals_that_go_up(self):
        host = self.start_host()
        process, url = self.start_serve(host)
        text = self.page_with(url, r"^mill_works_weight_kilograms_count ")
        self.assertRegex(text, r"(?m)^# TYPE mill_works_sacks_total counter$")
        self.assertRegex(text, r"(?m)^mill_works_water_meters 2\.5$")
        self.assertRegex(text, r"(?m)^# TYPE mill_works_weight_kilograms summary$")
        self.assertRegex(text, r'(?m)^mill_works_sacks_total\{stone="upper \\"left\\""\} 30$')
        self.assertRegex(text, r"(?m)^mill_works_sacks_total 12$")
        self.feed(host, 5)
        self.page_with(url, r"^mill_works_sacks_total 17$")
        self.stop(process)

    def scrape(self, url):
        """Return count and sum of the weights, or None while the page has no weights."""
        found = re.search(r"^mill_works_weight_kilograms_sum (\S+)\n"
                          r"mill_works_weight_kilograms_count (\d+)$", self.page(url), re.M)
        return found and (int(found[2]), float(found[1]))

    def scrape_up_to(self, url, reported, goal):
        """Read pages continuously until one has the goal; no page may show less than an earlier
        one."""
        def has_it():
            page = self.scrape(url)
            if page:
                self.assertGreaterEqual(page, reported[-1])
                self.assertLessEqual(page, goal)
                reported.append(page)
            return page == goal

        self.wait_until(has_it)

    def test_serve_counts_values_from_before_anybody_looked(self):
        host = self.start_host()
        before = self.weighed(host)
        self.assertEqual(before, (100, 5050))
        process, url = self.start_serve(host)
        reported = []
        self.wait_until(lambda: reported.append(self.scrape(url)) or reported[-1])
        # The first page with weights has all of them.
        self.assertEqual(reported[-1], before)
        self.stop(process)

    def test_serve_counts_what_was_recorded_by_scrapes_faster_than_the_interval(self):
        host = self.start_host()
        process, url = self.start_serve(host)
        reported = [(0, 0)]
        for sacks in (1, 10, 1000):
            self.feed(host, sacks)
            self.scrape_up_to(url, reported, self.weighed(host))
        self.assertEqual(reported[-1], (100 + 1011, 5050 + 50 * 1011))
        # Several pages within one interval are equal.
        self.assertGreater(len(reported), len(set(reported)))
        self.stop(process)

    def test_serve_counts_what_was_recorded_by_scrapes_slower_than_the_interval(self):
        host = self.start_host()
        process, url = self.start_serve(host)
        other = self.start("counters", "collect", "--format=csv", "-p", host.pid)
        reported = [(0, 0)]
        for sacks in (3, 40, 500):
            # Some intervals have values and some have none; each of them is one line of water.
            for _ in range(3):
                self.feed(host, sacks)
                self.read_until(other, "water")
                self.read_until(other, "water")
            self.scrape_up_to(url, reported, self.weighed(host))
        self.assertEqual(reported[-1], (100 + 3 * 543, 5050 + 50 * 3 * 543))
        self.stop(other)
        self.stop(process)

    def test_serve_that_is_started_again_goes_on_where_the_program_is(self):
        host = self.start_host()
        process, url = self.start_serve(host)
        reported = [(0, 0)]
        self.scrape_up_to(url, reported, self.weighed(host))
        self.stop(process)
        # No client is connected while these are recorded.
        self.feed(host, 7)
        self.assertEqual(self.weighed(host), (107, 5400))
        process, url = self.start_serve(host)
        second, second_url = self.start_serve(host)
        self.feed(host, 5)
        self.scrape_up_to(url, reported, self.weighed(host))
        self.scrape_up_to(second_url, [(107, 5400)], self.weighed(host))
        self.stop(second)
        self.stop(process)

    def test_serve_names_units_and_helps_by_the_display_name(self):
        host = self.start_host()
        process, url = self.start_serve(host)
        text = self.page_with(url, r"^mill_works_water_meters 2")
        self.assertIn("# HELP mill_works_water_meters Level of the water\n", text)
        self.assertIn("# HELP mill_works_sacks_total Sacks ground\n", text)
        self.assertIn("# HELP mill_works_weight_kilograms Weight of a sack\n", text)
        self.assertRegex(text, "(?m)^ringpipe_session_memory_bytes ")
        self.assertRegex(text, "(?m)^ringpipe_drain_lag_milliseconds ")
        self.assertRegex(text, "(?m)^ringpipe_threads ")
        self.stop(process)

    def test_serve_listens_where_it_is_reported_to(self):
        host = self.start_host()
        for address, shown in (("127.0.0.2", r"127\.0\.0\.2"), ("::1", r"\[::1\]")):
            try:
                with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
                    probe.bind((address, 0))
            except OSError:
                continue  # no IPv6 here
            process, url = self.start_serve(host, "--listen", address, address=shown)
            self.page(url)
            self.stop(process)
        _, err = self.run_tool("counters", "serve", "-p", host.pid, "--listen", "x", status=1)
        self.assertRegex(err, "--listen requires an address in numbers, not 'x'|libmicrohttpd")

    def test_collect_repeats_no_row_in_its_first_interval(self):
        """A counter is reported as an EventCounter and as an instrument: only one of them is
        shown."""
        host = self.start_host()
        process = self.start("counters", "collect", "--format=csv", "-p", host.pid, "--counters",
                             "Mill-Works")
        out = self.read_until(process, "water") + self.read_until(process, "water")
        self.stop(process)
        rows = [tuple(row[:3]) for row in list(csv.reader(io.StringIO(out)))[1:]]
        self.assertEqual(len(rows), len(set(rows)), out)
        self.assertNotIn("weight (kg)", {row[2] for row in rows})

    def test_promtool_has_no_complaint(self):
        promtool = self.prometheus_command("promtool")
        host = self.start_host()
        process, url = self.start_serve(host)
        text = self.page_with(url, r"^mill_works_weight_kilograms_count ")
        checked = subprocess.run([promtool, "check", "metrics"], input=text, text=True,
                                 capture_output=True, timeout=PATIENCE, check=False)
        # Values are exported in the units of the program, as OpenTelemetry's exporters do.
        complaints = [line for line in (checked.stdout + checked.stderr).splitlines()
                      if "use base unit" not in line]
        self.assertEqual(complaints, [], text)
        self.assertIn(checked.returncode, (0, 3), checked.stderr)
        self.stop(process)

    def test_a_real_prometheus_scrapes_it(self):
        command = self.prometheus_command("prometheus")
        host = self.start_host()
        process, url = self.start_serve(host)
        self.page_with(url, r"^mill_works_sacks_total 12$")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % free.getsockname()[1]
        target = url.split("/")[2]
        config = self.write("prometheus.yml", json.dumps({
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "mill",
                                "static_configs": [{"targets": [target]}]}]}).encode())
        log = open(self.path("prometheus.log"), "wb")
        self.addCleanup(log.close)
        prometheus = subprocess.Popen(
            [command, "--config.file=" + config, "--web.listen-address=" + address,
             "--storage.tsdb.path=" + self.path("tsdb")], stdout=log, stderr=log,
            cwd=self.directory)
        self.addCleanup(self.reap, prometheus)
        found = []

        def has_it():
            self.assertIsNone(prometheus.poll(), self.read("prometheus.log").decode())
            query = f"http://{address}/api/v1/query?query=sum(mill_works_sacks_total)"
            try:
                with urllib.request.urlopen(query, timeout=PATIENCE) as reply:
                    found[:] = json.load(reply)["data"]["result"]
            except (urllib.error.URLError, ConnectionError):
                return False
            return found

        self.wait_until(has_it)
        self.assertEqual(found[0]["value"][1], str(BEFORE))
        self.stop(process)

    def test_other_pages_are_not_there(self):
        host = self.start_host()
        process, url = self.start_serve(host)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.page(url.replace("/metrics", "/other"))
        self.assertEqual(refused.exception.code, 404)
        self.stop(process)

    def test_a_port_that_is_taken_is_said(self):
        host = self.start_host()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            _, err = self.run_tool("counters", "serve", "-p", host.pid, "--port", port, status=1)
        self.assertRegex(err, "cannot listen|libmicrohttpd")

    def test_a_file_that_exists_is_kept(self):
        host = self.start_host()
        self.write("c.csv", b"precious")
        _, err = self.run_tool("counters", "collect", "--format=csv", "-p", host.pid, "-o",
                               "c.csv", status=1)
        self.assertIn("--force", err)
        self.assertEqual(self.read("c.csv"), b"precious")

    def test_the_process_id_is_in_the_name_of_the_file(self):
        host = self.start_host()
        name = f"c-{host.pid}.csv"
        process = self.start("counters", "collect", "--format=csv", "-p", host.pid, "-o",
                             "c-{pid}.csv")
        self.wait_until(lambda: os.path.exists(self.path(name)) and self.read(name))
        self.stop(process)
        self.assertTrue(self.read(name).startswith(b"Timestamp,Provider,"))

    def test_a_dash_is_standard_output(self):
        host = self.start_host()
        process = self.start("counters", "collect", "--format=csv", "-p", host.pid, "-o", "-")
        self.assertTrue(self.read_until(process, "water").startswith("Timestamp,Provider,"))
        self.stop(process)
        self.assertNotIn("-", os.listdir(self.directory))

    def test_a_signal_ends_collect_while_nothing_reads_its_output(self):
        host = self.start_host()
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        self.addCleanup(os.close, write)
        os.set_blocking(write, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write, bytes(select.PIPE_BUF))
        os.set_blocking(write, True)
        process = self.start("counters", "collect", "-p", host.pid, stdout=write)

        def takes_signals():
            with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                return int(re.search(r"SigBlk:\s*(\w+)", status.read())[1], 16) \
                       >> (signal.SIGINT - 1) & 1

        self.wait_until(takes_signals)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE), 1)
        self.assertIn("stopped before all rows were written", process.stderr.read().decode())

    def test_an_output_without_a_reader_is_an_error(self):
        host = self.start_host()
        for view in "collect", "monitor":
            read, write = os.pipe()
            os.close(read)
            # SIGPIPE stays ignored, as in services of systemd.
            process = self.start("counters", view, "-p", host.pid, stdout=write,
                                 restore_signals=False)
            os.close(write)
            self.assertEqual(process.wait(PATIENCE), 1)
            self.assertIn("cannot write standard output: Broken pipe",
                          process.stderr.read().decode())

    def test_a_table_on_a_full_disk_is_an_error(self):
        host = self.start_host()
        with open("/dev/full", "wb") as full:
            process = self.start("counters", "monitor", "-p", host.pid, stdout=full)
        self.assertEqual(process.wait(PATIENCE), 1)
        self.assertIn("No space left", process.stderr.read().decode())

    def test_a_full_disk_is_an_error(self):
        host = self.start_host()
        process = self.start("counters", "collect", "--format=csv", "-p", host.pid, "-o",
                             "/dev/full", "-f", "-d", 3)
        _, err = self.finish(process, 1)
        self.assertIn("No space left", err)

    def test_wrong_usage_is_refused(self):
        for arguments in (["look", "-p", 1], ["monitor"], ["monitor", "-p", 1, "-o", "x"],
                          ["serve", "-p", 1, "-o", "x"], ["monitor", "-p", 1, "--listen", "::"],
                          ["collect", "-p", 1, "--port", 1],
                          ["monitor", "-p", 1, "--counters", "A["],
                          ["monitor", "-p", 1, "--counters", "A[b],,C"],
                          ["monitor", "-p", 1, "--counters", "A[b]c"],
                          ["monitor", "-p", 1, "--refresh", "0"],
                          ["serve", "-p", 1, "--port", "65536"]):
            with self.subTest(arguments=arguments):
                _, err = self.run_tool("counters", *arguments, status=2)
                self.assertTrue(err.startswith("ringpipe: "), err)


if __name__ == "__main__":
    unittest.main()
