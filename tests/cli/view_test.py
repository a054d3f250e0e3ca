#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe view` on handmade traces: its answers are those of `ringpipe report`, and a
request without the token gets none."""
import contextlib
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import unittest
import urllib.error
import urllib.parse
import urllib.request

import nettrace
import nettrace6 as v6
from profile_test import SYSTEM, Machine
from tool import TOOL, ToolTest

HOSTILE = "</script><script>alert(1)</script>\u2028<!--"


def spans_trace(count=40):
    """A trace of spans; the i-th takes 10 + i us."""
    trace = nettrace.Trace()
    trace.define(1, "Shop" + HOSTILE, "RequestStart", 1, [("order", nettrace.U64)])
    trace.define(2, "Shop" + HOSTILE, "RequestStop", 2, [("order", nettrace.U64)])
    trace.define(3, "Shop", "Note", 3, [(HOSTILE, nettrace.STRING)])
    for i in range(count):
        start = 1_000_000 + i * 100_000
        trace.events(1, [struct.pack("<Q", i)], ns=start, thread=7 + i % 2)
        trace.events(2, [struct.pack("<Q", i)], ns=start + 10_000 + i * 1000, thread=7 + i % 2)
    trace.events(3, [nettrace.utf16z(HOSTILE)], ns=9_000_000)
    trace.events(3, [b"\x00\xd8<\x00\x00\x00"], ns=9_100_000)  # a lone surrogate
    return trace.end()


def stacks_trace():
    machine = Machine()
    machine.name(10, "shop" + HOSTILE)
    for i in range(30):
        machine.sample(10, 11 + i % 2, [0x401000 + 16 * (i % 3), 0x400500])
        machine.wait(10, 11, 300 + i, [0x402000, 0x400500], waker=(10, 12), runnable=100)
    return machine.end()


class ViewTest(ToolTest):
    def open(self, *data):
        """Serve traces, and return the address of the page."""
        return self.serve(*(self.write(f"{i}.nettrace", trace) for i, trace in enumerate(data)))

    def serve(self, *paths):
        self.view = view = subprocess.Popen([TOOL, "view", *paths], stdout=subprocess.PIPE,
                                            text=True, env=self.environment)

        def stop():
            view.terminate()
            self.assertEqual(view.wait(60), 0)
            self.assertEqual(view.stdout.read(), "")
            view.stdout.close()
        self.addCleanup(stop)
        self.url = view.stdout.readline().strip()
        self.assertRegex(self.url, r"^http://127\.0\.0\.1:\d+/[0-9a-f]{32}/$")
        return self.url

    def get(self, path, status=200, url=None, **request):
        request = urllib.request.Request((url or self.url) + path, **request)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                code, body, self.headers = answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                code, body, self.headers = error.code, error.read(), error.headers
        self.status = code
        self.assertIn(status, (code, None), body)
        return body.decode()

    def ask(self, what, status=200, **parameters):
        query = urllib.parse.urlencode(parameters)
        text = self.get(f"api/{what}?{query}", status)
        self.assertNotIn("<", text)
        return json.loads(text)

    def report(self, name, what):
        run = subprocess.run([TOOL, "report", self.path(name), what, "--format", "json"],
                             capture_output=True, env=self.environment, check=False)
        return json.loads(run.stdout)

    def test_events_of_the_machine_have_the_fields_that_their_trace_does_not_describe(self):
        machine = Machine().name(7, "shop").event(SYSTEM + nettrace.MAPPING, 7, 7,
                                                  nettrace.mapping(1, 16, 32, "libshop.so"))
        self.open(machine.sample(7, 7, []).end())
        fields = [{"NamespaceId": 1, "Name": "shop", "NamespaceName": ""},
                  {"Id": 1, "StartAddress": 16, "EndAddress": 32, "FileOffset": 0,
                   "FileName": "libshop.so", "MetadataId": 0}, {"Value": 1_000_000}]
        where = 'provider ~ "^Universal"'
        self.assertEqual([event["fields"] for event in self.ask("events", where=where)["events"]],
                         fields)
        for expression, expected in ((where, fields), ('FileName == "libshop.so"', fields[1:2]),
                                     ('EndAddress > 31 and Id == 1', fields[1:2])):
            lines = self.run_tool("report", self.path("0.nettrace"), "events", "--format=json",
                                  "--where", expression)[0].splitlines()
            self.assertEqual([json.loads(line)["fields"] for line in lines], expected)

    def test_the_process_of_the_recorder_has_its_name(self):
        machine = Machine().name(10, "shop").sample(10, 11, [])
        machine.trace.define(90, "Ringpipe-Machine", "Machine", 8,
                             [("host", v6.STRING16), ("boot_id", v6.STRING16)])
        self.open(machine.event(90, 5, 5, nettrace.utf16z("one") + nettrace.utf16z("")).end())
        about, = self.ask("traces")["traces"]
        self.assertEqual({process["pid"]: process["name"] for process in about["processes"]},
                         {5: "ringpipe-record", 10: "shop"})

    def test_spans_belong_to_their_processes_in_both_versions(self):
        for path in self.write_versions(v6.two_processes()):
            self.serve(path)
            for process in (71, 72):
                span, = self.ask("instances", name="request", pid=process)["instances"]
                self.assertEqual(span["tid"], process + 430)
                event, _ = self.ask("events", where=f"process == {process}")["events"]
                self.assertEqual(event["pid"], process)

    def test_spans_of_a_thread_id_that_passes_on_belong_to_their_processes(self):
        for path in self.write_versions(v6.two_processes((501, 501))):
            self.serve(path)
            for process in (71, 72):
                span, = self.ask("instances", name="request", pid=process)["instances"]
                self.assertEqual(span["start_ns"], 1100 if process == 71 else 2200)

    def test_the_members_of_json_events_are_fields(self):
        trace = nettrace.Trace()
        trace.define(1, "Shop", "json_error", 1, [("source", nettrace.STRING),
                                                  ("json", nettrace.STRING)])
        trace.events(1, [nettrace.utf16z("s") + nettrace.utf16z(text)
                         for text in ('{"user":{"name":"x"}}', '{"user":"x"}')])
        self.open(trace.end())
        event, = self.ask("events", where='user.name == "x"')["events"]
        self.assertEqual(event["fields"], {"source": "s", "user": {"name": "x"}})
        self.assertEqual(len(self.ask("events")["events"]), 2)

    def test_an_answer_needs_the_token_the_host_and_get(self):
        url = self.open(spans_trace())
        port = re.search(r":(\d+)/", url).group(1)
        self.assertIn("<!doctype html>", self.get("").lower())
        self.assertIn("frame-ancestors 'none'", self.headers["Content-Security-Policy"])
        self.assertIn("default-src 'none'", self.headers["Content-Security-Policy"])
        self.assertEqual(self.headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(self.headers["Referrer-Policy"], "no-referrer")
        self.assertEqual(self.headers["Cache-Control"], "no-store")
        self.get("", url=f"http://localhost:{port}/{url.split('/')[3]}/")
        for path in ("", "/", "/" + "0" * 32 + "/", "/" + url.split("/")[3]):
            self.get(path, 404, url=f"http://127.0.0.1:{port}")
        self.get("", 403, headers={"Host": "evil.example"})
        self.get("", 403, headers={"Host": f"evil.example:{port}"})
        self.get("", 405, data=b"x", method="POST")
        self.get("other", 404)
        self.get("api/other", 404)

    def open_in_browser(self, script, **variables):
        """Start `view --open` with a fake xdg-open; return the process and its address."""
        os.mkdir(self.path("bin"))
        if script:
            self.write("bin/xdg-open", script.encode())
            os.chmod(self.path("bin/xdg-open"), 0o700)
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"):
            self.environment.pop(name, None)
        self.environment.update(variables, PATH=self.path("bin"))
        process = self.start("view", "--open", self.write("0.nettrace", spans_trace()))
        return process, process.stdout.readline().decode().strip()

    def test_open_leads_the_browser_to_the_address_by_a_private_file(self):
        process, url = self.open_in_browser("#!/bin/sh\nprintf %s \"$*\" >opened.new\n"
                                            "/bin/mv opened.new opened\n", DISPLAY=":9")
        self.wait_until(lambda: os.path.exists(self.path("opened")))
        path = self.read("opened").decode()
        # All users see the arguments, and the address has a secret.
        self.assertNotIn(url.split("/")[3], path)
        self.assertEqual(os.path.dirname(path), self.directory)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertIn(f'content="0;url={url}"', self.read(path).decode())
        # The browser's end does not end the command.
        self.get("api/traces", url=url)
        process.terminate()
        self.assertEqual(self.finish(process, 0), ("", ""))
        self.assertFalse(os.path.exists(path))

    def test_open_without_a_display_or_a_browser_serves_the_page_all_the_same(self):
        for variables, message in (({}, "neither DISPLAY nor WAYLAND_DISPLAY is set"),
                                   ({"WAYLAND_DISPLAY": "w"}, "needs xdg-open, which is not")):
            process, url = self.open_in_browser(None, **variables)
            self.assertIn(message, process.stderr.readline().decode())
            self.get("api/traces", url=url)
            process.terminate()
            self.finish(process, 0)
            self.assertEqual([name for name in os.listdir(self.directory) if "html" in name], [])
            os.rmdir(self.path("bin"))

    def test_open_is_refused_with_html(self):
        error = self.run_tool("view", "--open", "--html", "x.html", "x", status=2)[1]
        self.assertIn("open the file of --html", error)

    def test_a_wrong_parameter_is_refused(self):
        self.open(spans_trace())
        for path in ("timeline?bins=5000", "timeline?from=x", "timeline?nothing=1",
                     "spans?from=5&to=5", "flame?kind=x", "spans?tid=-1", "search?q="):
            self.assertIn("error", json.loads(self.get("api/" + path, 400)))
        self.get("api/timeline?trace=1", 404)
        self.get("api/explain?key=1-2-3-4", 404)
        wrong = self.ask("events", 400, where="order ==")
        self.assertEqual(wrong["position"], 8)

    def test_hostile_queries_get_an_error_and_harm_nothing(self):
        self.open(spans_trace())
        whole = self.ask("timeline")
        for what in ("timeline", "spans", "instances", "flame", "functions", "counters", "events",
                     "explain", "search", "traces"):
            for query in ("from=nan", "from=inf", "to=1e400", "from=0x10", "from=1&from=-",
                          "tid=-1", "trace=-1",
                          "trace=4294967296", "bins=1e3", "bins=4097", "limit=100001",
                          "tid=18446744073709551616", "min_ns=%00", "kind=%00", "=", "from", "%",
                          "from=" + "1" * 41, "points=999999999999", "where=" + "(" * 66000):
                answer = self.get(f"api/{what}?{query}", None)
                self.assertIn(self.status, (200, 400, 404, 414, 431), (what, query))
                if self.status < 410:
                    self.assertEqual("error" in json.loads(answer), self.status != 200)
        for query in ("from=-1e18&to=1e18", "from=-9223372036854775808&to=9223372036854775807",
                      "from=-0.5&to=1e17", "bins=0", "bins=1", "limit=0", "points=0"):
            self.assertEqual(json.loads(self.get("api/timeline?" + query, 200))["to"], whole["to"])
        self.get("api/timeline?from=5&to=-5", 400)
        for key in ("", "-", "1-2-3-4-5", "9" * 40 + "-1-1-1", "%s%n", "\0"):
            self.ask("explain", 404, key=key)
        for where in ("(" * 4000, "a" * 5000, "\udcff"):
            self.get("api/events?where=" + urllib.parse.quote(where, errors="replace"), 400)
        self.assertEqual(self.ask("timeline"), whole)

    def test_idle_connections_and_broken_requests_are_bounded(self):
        url = urllib.parse.urlsplit(self.open(spans_trace()))
        address = (url.hostname, url.port)

        def descriptors():
            return len(os.listdir(f"/proc/{self.view.pid}/fd"))

        before, idle = descriptors(), []
        for number in range(400):
            connection = socket.create_connection(address, timeout=60)
            with contextlib.suppress(OSError):
                connection.sendall((b"", b"GET / HTTP/1.1\r\nHost: ", b"\0\xff\r\n\r\n",
                                    b"GET /" + b"x" * 40000)[number % 4])
            idle.append(connection)
            self.assertLessEqual(descriptors(), before + 80)
        for connection in idle:
            connection.close()

        def is_answered():
            # The server resets a connection until it has seen that the others are closed.
            with contextlib.suppress(OSError):
                return "traces" in self.ask("traces")

        self.wait_until(is_answered)

    def test_idle_clients_do_not_keep_the_command_from_ending(self):
        url = urllib.parse.urlsplit(self.open(spans_trace()))
        for _ in range(100):
            connection = socket.create_connection((url.hostname, url.port), timeout=60)
            self.addCleanup(connection.close)
            connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
        self.view.terminate()
        self.assertEqual(self.view.wait(60), 0)

    def test_requests_with_errors_at_the_end_do_no_harm(self):
        for _ in range(20):
            url = urllib.parse.urlsplit(self.open(spans_trace()))
            connections = []
            for _ in range(400):
                connection = socket.create_connection((url.hostname, url.port), timeout=60)
                with contextlib.suppress(OSError):
                    connection.sendall(b"GET /" + b"x" * 40000)
                connections.append(connection)
            for connection in connections:
                connection.close()
            self.view.terminate()
            self.assertEqual(self.view.wait(60), 0)

    def test_a_pipe_is_refused(self):
        self.assertIn("requires a file", self.run_tool("view", "-", status=2)[1])

    def test_spans_equal_those_of_report(self):
        self.open(spans_trace())
        wanted = self.report("0.nettrace", "spans")
        found = self.ask("spans")["spans"]
        self.assertEqual(len(found), len(wanted))
        for row, other in zip(found, wanted):
            self.assertEqual(row["rate"], other["per_second"])
            self.assertEqual(row["name"], other["span"])
            for key in ("provider", "count", "errors", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns",
                        "p99_99_ns", "max_ns", "total_ns"):
                self.assertEqual(row[key], other[key], key)
            self.assertEqual(sum(bar[2] for bar in row["histogram"]), row["count"])
        self.assertEqual([span["duration_ns"] for span in found[0]["slowest"]],
                         [10_000 + i * 1000 for i in range(39, 29, -1)])

    def test_a_range_has_the_spans_that_start_in_it(self):
        self.open(spans_trace())
        part = self.ask("spans", **{"from": 1_500_000, "to": 2_000_000})["spans"]
        self.assertEqual([(row["count"], row["max_ns"]) for row in part], [(5, 19_000)])
        some = self.ask("instances", min_ns=45_000, limit=2)
        self.assertEqual((some["total"], [span["duration_ns"] for span in some["instances"]]),
                         (5, [49_000, 48_000]))

    def test_the_timeline_counts_each_event_in_its_bin(self):
        self.open(spans_trace())
        end = self.ask("traces")["traces"][0]["duration_ns"]
        timeline = self.ask("timeline", bins=64)
        times = {7: [], 8: []}
        for i in range(40):
            start = 1_000_000 + i * 100_000
            times[7 + i % 2] += [start, start + 10_000 + i * 1000]
        times[7] += [9_000_000, 9_100_000]
        self.assertEqual(timeline["to"], end)
        for thread in timeline["threads"]:
            wanted = [0] * len(thread["events"])
            for time in times.pop(thread["tid"]):
                wanted[time // timeline["bin_ns"]] += 1
            self.assertEqual(thread["events"], wanted)
        self.assertEqual(times, {})
        close = self.ask("timeline", bins=100, **{"from": 1_000_000, "to": 1_100_000})
        self.assertEqual([span[:2] for thread in close["threads"]
                          for span in thread.get("spans", [])], [[1_000_000, 1_010_000]])

    def test_thinning_keeps_the_longest_spans_and_counts_the_others(self):
        trace, choice, rows, durations = nettrace.Trace(), random.Random(1), [], []
        trace.define(1, "Shop", "RequestStart", 1, []).define(2, "Shop", "RequestStop", 2, [])
        for thread in range(32):
            for i in range(800):
                durations.append(choice.randrange(1, 100_000))
                start = i * 100_000
                rows += [(1, b"", thread + 1, start, 0),
                         (2, b"", thread + 1, start + durations[-1], 0)]
        self.open(trace.threads(sorted(rows, key=lambda row: row[3])).end())
        for bins, part in ((4096, {}), (64, {}), (300, {"from": 20_000_000, "to": 30_000_000})):
            timeline = self.ask("timeline", bins=bins, **part)
            threads = timeline["threads"]
            sent = [span[1] - span[0] for thread in threads for span in thread.get("spans", [])
                    if span[0] >= timeline["from"]]
            counted = sum(sum(thread.get("span_bins", [])) for thread in threads)
            wanted = sorted((duration for number, duration in enumerate(durations)
                             if timeline["from"] <= number % 800 * 100_000 < timeline["to"]),
                            reverse=True)
            self.assertEqual(len(sent) + counted, len(wanted), bins)
            # The answer has the longest spans; it only counts those shorter than a bin.
            long = [duration for duration in wanted if duration >= timeline["bin_ns"]]
            self.assertLessEqual(len(sent), 20_000)
            self.assertEqual(sorted(sent, reverse=True), long[:len(sent)])
            self.assertTrue(len(sent) == len(long) or len(sent) > 19_000)
            self.assertEqual(sum(sum(thread["events"]) for thread in threads), sum(
                timeline["from"] <= row[3] < timeline["to"] for row in rows))

    def test_functions_equal_those_of_report(self):
        self.open(stacks_trace())
        for kind, unit in (("cpu", "samples"), ("offcpu", "ns")):
            wanted = [(row[f"exclusive_{unit}"], row[f"inclusive_{unit}"], row["function"],
                       row["file"]) for row in self.report("0.nettrace", kind)]
            answer = self.ask("functions", kind=kind)
            found = [(row["exclusive"], row["inclusive"], row["name"], row["file"])
                     for row in answer["functions"]]
            self.assertEqual(found[:len(wanted)], wanted)
            flame = self.ask("flame", kind=kind)
            self.assertEqual(flame["total"], answer["total"])
            self.assertEqual(sum(node[2] for node in flame["nodes"]) + flame["left_out"],
                             flame["total"])
        halves = [self.ask("flame", tid=tid)["total"] for tid in (11, 12)]
        self.assertEqual(halves, [15, 15])

    def test_events_come_in_pages_and_match_the_expression(self):
        self.open(spans_trace())
        found, after = [], None
        while after is not None or not found:
            page = self.ask("events", limit=30, **({"after": after} if after else {}))
            found, after = found + page["events"], page["next"]
        self.assertEqual(len(found), 82)
        self.assertEqual(found[-2]["fields"], {HOSTILE: HOSTILE})
        some = self.ask("events", where="order >= 38")["events"]
        self.assertEqual([event["fields"]["order"] for event in some], [38, 38, 39, 39])

    def test_an_explanation_has_the_words_of_explain(self):
        self.open(spans_trace())
        key = self.ask("spans")["spans"][0]["slowest"][0]["key"]
        words = subprocess.run([TOOL, "explain", self.path("0.nettrace")], capture_output=True,
                               text=True, env=self.environment, check=False).stdout
        answer = self.ask("explain", key=key)
        clean = [line.replace("\u2028", "") for line in words.split("\n")[:-1]]
        self.assertEqual([line.replace("\u2028", "") for line in answer["words"]], clean)
        self.assertEqual(sum(part["ns"] for part in answer["parts"]), 49_000)
        self.assertEqual(self.ask("explain", tid=7, **{"from": 0, "to": 5})["instance"], None)

    def test_an_explanation_reads_only_the_blocks_of_its_time(self):
        trace = nettrace.Trace()
        trace.define(1, "Shop", "RequestStart", 1, []).define(2, "Shop", "RequestStop", 2, [])
        trace.define(3, "Shop", "Note", 3, [("text", nettrace.STRING)])
        trace.define(4, "Ringpipe-Machine", "Wait", 1, [
            ("duration_ns", nettrace.U64), ("runnable_ns", nettrace.U64),
            ("state", nettrace.U32)])
        for number in range(200):
            ns = 1_000_000 + number * 100_000_000
            trace.events(1, [b""], ns=ns).events(2, [b""], ns=ns + 9_000)
            trace.events(4, [struct.pack("<QQI", 3_000, 0, 1)], ns=ns + 5_000)
            trace.events(3, [nettrace.utf16z("x" * 10_000)] * 2, ns=ns + 50_000)
        self.open(trace.end())
        key = self.ask("spans")["spans"][0]["slowest"][0]["key"]

        def bytes_read():
            with open(f"/proc/{self.view.pid}/io", encoding="ascii") as file:
                return int(file.readline().split()[1])
        before = bytes_read()
        answer = self.ask("explain", key=key)
        self.assertEqual({part["part"]: part["ns"] for part in answer["parts"]},
                         {"program": 6_000, "other_wait": 3_000})
        self.assertLess(bytes_read() - before, os.path.getsize(self.path("0.nettrace")) / 4)

    def test_search_finds_spans_events_and_threads(self):
        self.open(spans_trace())
        kinds = {row["kind"] for row in self.ask("search", q="request")["results"]}
        self.assertEqual(kinds, {"span", "event"})

    def test_a_cut_trace_is_shown_up_to_its_end(self):
        self.open(spans_trace()[:-200])
        trace = self.ask("traces")["traces"][0]
        self.assertTrue(trace["warnings"])
        self.assertGreater(trace["events"], 0)

    def test_a_damaged_trace_is_shown_beyond_the_damage_as_report_shows_it(self):
        """Samples of threads do not count where there are those of `ringpipe record`, which come
        after the damage."""
        trace = nettrace.Trace()
        trace.define(1, "Microsoft-DotNETCore-SampleProfiler", "ThreadSample", 0,
                     [("Type", nettrace.U32)])
        trace.define(2, "Universal.Events", "cpu", 1, [])
        trace.define(3, "Shop", "RequestStart", 1, []).define(4, "Shop", "RequestStop", 2, [])
        trace.stacks(1, [[0x1010]])
        for i in range(5):
            trace.events(1, [struct.pack("<I", 2)], ns=1000 * i + 1000, stack=1)
        trace.events(3, [b""], ns=10_000).events(4, [b""], ns=20_000)
        begin = len(trace.bytes)
        trace.events(3, [b""], ns=30_000)
        end = len(trace.bytes)
        trace.point({7: trace.sequence[7]}, ns=31_000).stacks(1, [[0x2010]])
        for i in range(14):
            trace.events(2, [nettrace.uleb(1)], ns=1000 * i + 40_000, stack=1)
        trace.events(3, [b""], ns=60_000).events(4, [b""], ns=80_000)
        data = bytearray(trace.end())
        data[begin + 50:end - 8] = b"\xff" * (end - begin - 58)
        self.open(bytes(data))
        spans, functions = (self.report("0.nettrace", what) for what in ("spans", "cpu"))
        self.assertEqual((spans[0]["count"], sum(row["exclusive_samples"] for row in functions)),
                         (2, 14))
        self.assertEqual(self.ask("spans")["spans"][0]["count"], 2)
        self.assertEqual(self.ask("flame", kind="cpu")["total"], 14)
        warning, = self.ask("traces")["traces"][0]["warnings"]
        self.assertIn("the view has the other events", warning)
        self.assertEqual(len(self.ask("events")["events"]), 23)

    def test_the_process_has_the_name_of_its_program(self):
        trace = nettrace.Trace(pid=42)
        trace.define(1, "Shop", "Note", 1, [])
        trace.define(2, "Microsoft-DotNETCore-EventPipe", "ProcessInfo", 1,
                     [("CommandLine", nettrace.STRING)])
        trace.events(1, [b""]).events(2, [nettrace.utf16z("/usr/bin/shop -p 8080")])
        self.open(trace.end())
        process, = self.ask("traces")["traces"][0]["processes"]
        self.assertEqual((process["pid"], process["name"]), (42, "shop"))

    def test_times_at_the_end_of_the_clock_are_answered(self):
        trace = nettrace.Trace(start_ticks=0)
        trace.define(1, "Shop", "RequestStart", 1, [])
        trace.define(2, "Shop", "RequestStop", 2, [])
        trace.events(1, [b""], ns=1000).events(2, [b""], ns=(1 << 63) - 2_000_000)
        self.open(trace.end())
        self.assertEqual(self.ask("timeline")["to"],
                         self.ask("traces")["traces"][0]["duration_ns"])
        self.assertEqual(self.ask("spans")["spans"][0]["count"], 1)

    def test_a_page_in_a_file_has_the_answers_and_no_markup_of_the_trace(self):
        path = self.write("0.nettrace", spans_trace())
        page = self.path("page.html")
        subprocess.run([TOOL, "view", "--html", page, path], check=True, env=self.environment)
        text = self.read("page.html").decode()
        recorded = re.search(r'<script type="application/json" id="recorded">(.*?)</script>',
                             text, re.S).group(1)
        data = json.loads(recorded)
        self.assertNotIn("<", recorded)
        self.assertEqual(len(data["ranges"]), 31)
        self.open(spans_trace())
        end = self.ask("traces")["traces"][0]["duration_ns"]
        self.assertEqual(data["answers"][f"spans?from=0&to={end}&trace=0"], self.ask("spans"))
        again = subprocess.run([TOOL, "view", "--html", page, path], capture_output=True,
                               env=self.environment, check=False)
        self.assertEqual(again.returncode, 1)
        self.assertEqual(sorted(os.listdir(self.directory)), ["0.nettrace", "page.html"])


def skip_without_page():
    said = subprocess.run([TOOL, "view", "/dev/null"], capture_output=True, text=True,
                          check=False).stderr
    if "has no page" in said:
        print("skipped: this build has no page, which needs npm ci in src/tools/view/page")
        sys.exit(77)


if __name__ == "__main__":
    skip_without_page()
    unittest.main()
