#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module in Debian's HAProxy: what HAProxy logs and counts equals what the trace holds."""
import collections
import os
import re
import shutil
import socket
import struct
import subprocess
import unittest
import unittest.mock

import haproxy_server
from haproxy_server import PATIENCE, drive, servers

RINGPIPE, CALLER, TRACE_ID = servers.RINGPIPE, servers.CALLER, servers.TRACE_ID
of_name, read = servers.of_name, servers.read
PORTS = ("web", "h2", "inner", "late", "closed", "relay")
# The fields of the stop event, as HAProxy's own log format states them.
LOGGED = {
    "frontend": "%f", "backend": "%b", "server": "%s", "status": "%ST", "bytes_received": "%U",
    "bytes_sent": "%B", "termination": "%ts", "retries": "%rc", "request_ms": "%TR",
    "queue_ms": "%Tw", "connect_ms": "%Tc", "response_ms": "%Tr", "data_ms": "%Td",
    "active_ms": "%Ta",
}
SESSION_LOGGED = {name: LOGGED[name] for name in (
    "frontend", "backend", "server", "bytes_received", "bytes_sent", "termination", "retries",
    "queue_ms", "connect_ms")}
CONFIGURATION = """
global
	log stdout format raw local0
	stats socket {folder}/stats level admin
	{options}
	lua-load {module}/ringpipe.lua
	lua-load {folder}/late.lua
	nbthread 2
defaults
	mode http
	timeout client 20s
	timeout server 20s
	timeout connect 20s
	timeout queue 20s
	retries 1
	log global
	# settle() waits until all connections are closed.
	default-server pool-purge-delay 100ms
frontend web
	log-format "ringpipe {http}"
	bind 127.0.0.1:{web}
	bind 127.0.0.1:{h2} proto h2
	http-request deny deny_status 403 if {{ path /denied }}
	http-request return status 200 content-type text/plain string here if {{ path /here }}
	use_backend closed if {{ path /closed }}
	use_backend slow if {{ path /slow /aborted }}
	use_backend empty if {{ path /empty }}
	use_backend moved if {{ path /moved }}
	default_backend app
backend app
	server first 127.0.0.1:{inner}
backend slow
	server late 127.0.0.1:{late} maxconn 1
backend closed
	# HAProxy waits so long before it tries again.
	timeout connect 100ms
	server none 127.0.0.1:{closed}
backend moved
	timeout connect 100ms
	option redispatch 1
	server none 127.0.0.1:{closed}
	server first 127.0.0.1:{inner}
backend empty
frontend inner
	log-format "ringpipe {http}"
	bind 127.0.0.1:{inner}
	http-request return status 404 if {{ path /missing }}
	http-request return status 200 content-type text/plain \
		lf-string "%[req.fhdr(traceparent)],%[req.fhdr(tracestate)]" if {{ path /state }}
	http-request return status 200 content-type text/plain lf-string "%[req.hdr(traceparent)]"
frontend late
	no log
	bind 127.0.0.1:{late}
	http-request lua.late if !{{ path /aborted }}
	http-request lua.very_late if {{ path /aborted }}
	http-request return status 200 content-type text/plain string late
listen relay
	mode tcp
	log-format "session {tcp}"
	bind 127.0.0.1:{relay}
	server first 127.0.0.1:{late}
"""
LATE = """
core.register_action("late", {"http-req"}, function() core.msleep(30) end)
core.register_action("very_late", {"http-req"}, function() core.msleep(2000) end)
"""


def format_of(fields):
    return " ".join(fields.values())


def row_of(text):
    """Return the values of a line of the log, with the types and the names of the event."""
    values = ("" if value == "<NOSRV>" else value for value in text.split())
    return tuple(int(value) if re.fullmatch("[+-]?[0-9]+", value) else value for value in values)


class Haproxy(haproxy_server.Haproxy):
    """The server of the tests."""

    def __init__(self, folder, module, arguments=(), options=""):
        with open(os.path.join(folder, "late.lua"), "w", encoding="ascii") as file:
            file.write(LATE)
        super().__init__(folder, CONFIGURATION, PORTS, arguments, module=module, options=options,
                         http=format_of(LOGGED), tcp=format_of(SESSION_LOGGED))

    def logged(self, kind):
        """The rows of the log."""
        with open(self.log, encoding="utf-8") as log:
            return [row_of(line.removeprefix(kind)) for line in log
                    if line.startswith(kind + " ")]


class HaproxyTest(haproxy_server.HaproxyCase):
    def serve(self, *arguments, **options):
        return self.started(Haproxy(self.folder, self.module, arguments, **options))

    def assert_equals_log(self, haproxy, events, name, fields):
        spans = [tuple(stop[field] for field in fields) for stop in of_name(events, name)]
        kind = "ringpipe" if name == "requestStop" else "session"
        rows = [row for row in haproxy.logged(kind)]
        if name == "requestStop":
            spans = [span for span in spans if span[0] != "late"]
        spans_only = collections.Counter(spans) - collections.Counter(rows)
        rows_only = collections.Counter(rows) - collections.Counter(spans)
        self.assertEqual(rows_only, collections.Counter())
        # HAProxy drops a line while another thread writes one, and counts it.
        self.assertLessEqual(spans_only.total(), int(haproxy.information("DroppedLogs")))
        return spans

    def test_every_request_has_a_span_that_equals_its_line_of_the_log(self):
        haproxy = self.serve()

        def work():
            for path in ("/", "/missing", "/here", "/denied", "/closed", "/slow", "/empty"):
                for _ in range(3):
                    haproxy.get(path)

        events = self.record(haproxy, work)
        spans = self.assert_equals_log(haproxy, events, "requestStop", LOGGED)
        self.assertEqual(len(spans), 27)
        self.assertEqual(len(of_name(events, "requestStart")), 30)
        late = [stop for stop in of_name(events, "requestStop") if stop["backend"] == "slow"]
        self.assertEqual([stop["server"] for stop in late], ["late"] * 3)
        for stop in late:
            self.assertGreaterEqual(stop["response_ms"], 29)
            self.assertGreaterEqual(stop["duration_ns"], 29000000)
        closed = [stop for stop in of_name(events, "requestStop") if stop["backend"] == "closed"]
        self.assertEqual([(stop["termination"], stop["retries"]) for stop in closed],
                         [("SC", 1)] * 3)

    def test_a_span_has_the_address_and_the_port_of_its_client(self):
        haproxy, clients = self.serve(), []

        def work():
            for address in ("127.0.0.1", "127.10.200.255"):
                with socket.create_connection(("127.0.0.1", haproxy.ports["web"]), PATIENCE,
                                              (address, 0)) as client:
                    clients.append(f"{address}:{client.getsockname()[1]}")
                    client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    while client.recv(4096):
                        pass

        events = self.record(haproxy, work)
        self.assertEqual([start["client_address"] for start in of_name(events, "requestStart")
                          if start["client_address"] in clients], clients)

    def test_the_ids_of_the_caller_go_on_to_the_server(self):
        haproxy = self.serve()
        answers = []

        def work():
            answers.append(haproxy.get("/", {"traceparent": CALLER}))
            answers.append(haproxy.get("/", {"traceparent": "damaged"}))
            answers.append(haproxy.get("/"))

        events = self.record(haproxy, work)
        self.assertEqual(answers[0].split("-")[:2], ["00", TRACE_ID])
        self.assertNotEqual(answers[0], CALLER)
        for answer in answers[1:]:
            self.assertRegex(answer, "^00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]$")
            self.assertNotIn(TRACE_ID, answer)
        # The related id of the inner request begins with the span of the outer one.
        for answer in answers:
            trace, span = answer.split("-")[1:3]
            ours = [event for event in events if event["event"] == "requestStart" and
                    event["activity"].replace("-", "") == trace]
            self.assertEqual([event["fields"]["frontend"] for event in ours], ["web", "inner"])
            related = [event["related_activity"].replace("-", "") for event in ours]
            self.assertEqual((related[0][16:], related[1][:16]), (related[1][:16], related[0][16:]))
            self.assertEqual(related[1][16:], span)

    def test_the_state_of_a_trace_goes_on_with_valid_ids_only(self):
        haproxy = self.serve()
        header = f"traceparent: {CALLER}"
        other = header.replace("0af7", "1af7")
        cases = {header: True, header.replace("00-", "cc-", 1) + "-more": True,
                 header.replace("00-", "ff-", 1): False, header + "-more": False,
                 header.upper(): False, header.replace(TRACE_ID, "0" * 32): False,
                 header[:-1]: False, "traceparent:": False, "x: y": False,
                 f"{header}\r\n{other}": False, f"{header}, {CALLER}": False}
        answers = {}

        def work():
            for caller in cases:
                lines = ("GET /state HTTP/1.0", "tracestate: a=1", caller, "tracestate: b=2", "")
                answers[caller] = haproxy.send("\r\n".join((*lines, "")).encode())

        self.record(haproxy, work)
        for caller, is_valid in cases.items():
            traceparent, state = answers[caller].split("\r\n\r\n")[1].split(",")
            self.assertRegex(traceparent, "^00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]$", caller)
            self.assertEqual(TRACE_ID in traceparent, is_valid, caller)
            self.assertNotIn(TRACE_ID.replace("0af7", "1af7"), traceparent, caller)
            self.assertEqual(state, "b=2" if is_valid else "", caller)

    def test_under_load_the_spans_equal_the_statistics(self):
        haproxy = self.serve()

        def work():
            subprocess.run(["wrk", "-t1", "-c8", "-d1s",
                            f"http://127.0.0.1:{haproxy.ports['web']}/"], check=True,
                           stdout=subprocess.DEVNULL, timeout=PATIENCE)

        events = self.record(haproxy, work, "--buffer", "256")
        rows = haproxy.statistics()
        stops = collections.Counter(stop["frontend"] for stop in of_name(events, "requestStop"))
        starts = collections.Counter(start["frontend"]
                                     for start in of_name(events, "requestStart"))
        for name in ("web", "inner"):
            row = rows[name, "FRONTEND"]
            # wrk tries a connection first. HAProxy counts it as a request with an error.
            requests = int(row["req_tot"]) - int(row["ereq"])
            self.assertGreater(requests, 100)
            self.assertEqual((starts[name], stops[name]), (requests, requests))
        print(f"# figure: {len(events)} events under load, all requests have a span")

    def test_the_counters_equal_the_statistics(self):
        haproxy = self.serve()
        rows = os.path.join(self.folder, "counters.json")
        command = [RINGPIPE, "counters", "collect", "--format", "json", "-f", "-o", rows,
                   "--refresh", "1", "--counters", "haproxy", "-p", str(haproxy.pid())]
        names = {"frontend_requests": "req_tot", "frontend_bytes_received": "bin",
                 "frontend_bytes_sent": "bout", "frontend_sessions": "stot"}

        def counted(name, tags):
            with open(rows, encoding="utf-8") as file:
                return sum(float(value) for value in re.findall(
                    f'"name":"[^"]*{name}[^"]*","tags":"{tags}"[^}}]*"value":([0-9.]+)',
                    file.read()))

        with drive.running(command, stderr=subprocess.DEVNULL) as collector:
            drive.wait_for(lambda: os.path.exists(rows) and os.path.getsize(rows) > 2000,
                           "counters", [collector])
            before = haproxy.statistics()
            for path in ["/"] * 6 + ["/denied"] * 4:
                haproxy.get(path)
            haproxy.settle()
            after = haproxy.statistics()

            def growth(column):
                return int(after["web", "FRONTEND"][column]) - \
                    int(before["web", "FRONTEND"][column])

            def equal():
                return all(counted(name, "frontend=web") == growth(column)
                           for name, column in names.items())
            drive.wait_for(equal, "the numbers of HAProxy", [collector])
            drive.interrupt(collector)
        self.assertEqual(counted("frontend_responses", "frontend=web,status=4xx"), 4)
        self.assertEqual(counted("frontend_denied", "frontend=web"), 4)

    def test_a_redispatched_and_an_aborted_request_have_the_spans_of_their_lines(self):
        haproxy = self.serve()

        def work():
            for _ in range(3):
                haproxy.get("/moved")
            with socket.create_connection(("127.0.0.1", haproxy.ports["web"]), PATIENCE) as client:
                client.sendall(b"GET /aborted HTTP/1.1\r\nHost: x\r\n\r\n")
                drive.wait_for(lambda: haproxy.statistics()["slow", "BACKEND"]["scur"] == "1",
                               "the request", [haproxy.process])
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        events = self.record(haproxy, work)
        self.assert_equals_log(haproxy, events, "requestStop", LOGGED)
        stops = of_name(events, "requestStop")
        moved = [stop for stop in stops if stop["backend"] == "moved"]
        self.assertEqual({(stop["server"], stop["termination"]) for stop in moved},
                         {("first", "--")})
        # The log marks a redispatched request by the sign of its retries.
        self.assertIn(1, [stop["retries"] for stop in moved])
        self.assertEqual([stop["termination"][0] for stop in stops if stop["backend"] == "slow"],
                         ["C"])

    def test_a_session_of_mode_tcp_has_a_span_that_equals_the_log(self):
        haproxy = self.serve()
        request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        events = self.record(haproxy, lambda: [haproxy.send(request, "relay") for _ in range(5)])
        spans = self.assert_equals_log(haproxy, events, "sessionStop", SESSION_LOGGED)
        self.assertEqual(len(spans), 5)
        for stop in of_name(events, "sessionStop"):
            self.assertGreaterEqual(stop["active_ms"], 29)

    def test_hostile_requests_leave_the_spans_equal_to_the_log(self):
        haproxy = self.serve()
        get = b"GET /%s HTTP/1.1\r\nHost: x\r\n%s\r\n"
        two = f"traceparent: {CALLER}\r\n".encode() * 2

        def work():
            for data in (
                    get % (b"two", two), get % (b"empty-value", b"traceparent:\r\n"),
                    get % (b"long", b"traceparent: " + b"0" * 9000 + b"\r\n"),
                    # The headers leave no space for another one.
                    get % (b"full", b"x: " + b"y" * 15290 + b"\r\n"),
                    get % (b"piped", b"") * 5, get % (b"?" + b"z" * 5000, b""),
                    b"GET http://host/absolute?secret HTTP/1.1\r\nHost: host\r\n\r\n",
                    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n",
                    b"\x00\xff", b"GET /incomplete HTTP/1.1\r\nHo", b"GET  / /\r\n\r\n",
                    b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\nshort"):
                haproxy.send(data)
            if shutil.which("curl"):
                subprocess.run(["curl", "-s", "--http2-prior-knowledge", "-H",
                                f"traceparent: {CALLER}",
                                f"http://127.0.0.1:{haproxy.ports['h2']}/h2"], check=False,
                               timeout=PATIENCE, stdout=subprocess.DEVNULL)

        events = self.record(haproxy, work)
        stops = of_name(events, "requestStop")
        self.assertEqual(len(of_name(events, "requestStart")), len(stops))
        # The status of a request without an answer is -1.
        self.assertLess(max(stop["status"] for stop in stops), 600)
        spans = collections.Counter(tuple(stop[field] for field in LOGGED) for stop in stops)
        rows = collections.Counter(haproxy.logged("ringpipe"))
        self.assertLessEqual((spans - rows).total(), int(haproxy.information("DroppedLogs")))
        # What HAProxy refuses before it has a stream has a line without a backend.
        self.assertEqual({row[2:4] for row in rows - spans}, {("", 400)})
        paths = [start["path"] for start in of_name(events, "requestStart")]
        self.assertIn("/absolute", paths)
        self.assertFalse([path for path in paths if "secret" in path or "zz" in path])

    def test_one_in_ten_requests_has_a_span_and_the_header_of_the_caller_stays(self):
        haproxy = self.serve(options="setenv RINGPIPE_HAPROXY_SAMPLE 10\n\t"
                                     "setenv RINGPIPE_HAPROXY_TRACE_CONTEXT off")
        answers = set()

        def work():
            for _ in range(30):
                haproxy.get("/here")
                answers.add(haproxy.get("/", {"traceparent": CALLER}))

        events = self.record(haproxy, work)
        self.assertEqual(len(of_name(events, "requestStart")), 9)
        self.assertEqual(answers, {CALLER})

    def test_the_commands_of_the_readme_work(self):
        haproxy = self.serve()
        listed, _, report = servers.run_readme(
            haproxy_server.HERE, self.folder, haproxy.pid(), "haproxy",
            lambda: [haproxy.get("/") for _ in range(10)], {"WORKER": str(haproxy.pid())})
        self.assertRegex(listed, rf"(?m)^ *{haproxy.pid()}\b.*haproxy")
        self.assertRegex(report, "haproxy/request +[1-9]")

    def test_wrong_options_are_refused(self):
        for name, value in (("SAMPLE", "0"), ("SAMPLE", "-1"), ("SAMPLE", "1x"),
                            ("SAMPLE", "99999999999999999999999"), ("TRACE_CONTEXT", "maybe")):
            haproxy = Haproxy(self.folder, self.module,
                              options=f"setenv RINGPIPE_HAPROXY_{name} {value}")
            done = subprocess.run(["haproxy", "-c", "-f", haproxy.path], check=False, text=True,
                                  stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                  timeout=PATIENCE)
            self.assertEqual(done.returncode, 1, value)
            self.assertIn(f"RINGPIPE_HAPROXY_{name} is n", done.stderr)

    def test_the_worker_of_each_reload_can_be_traced(self):
        haproxy = self.serve("-W")
        for _ in range(3):
            events = self.record(haproxy, lambda: haproxy.get("/here"))
            self.assertEqual(len(of_name(events, "requestStop")), 1)
            haproxy.reload()
        self.assertEqual(haproxy.get("/here"), "here")

    @unittest.skipUnless(os.getuid() == 0, "recording all processes requires root")
    def test_record_follows_the_workers_that_a_reload_starts(self):
        haproxy = self.serve("-W")
        command = [RINGPIPE, "record", "-f", "-o", self.trace, "--providers", "haproxy", "-p",
                   str(haproxy.process.pid)]
        pids = []
        with drive.running(command, stderr=subprocess.DEVNULL) as recorder:
            for _ in range(2):
                pids.append(haproxy.pid())
                servers.wait_for_session(pids[-1], "haproxy", recorder)
                haproxy.get("/here")
                if len(pids) == 1:
                    haproxy.reload()
            self.assertEqual(drive.interrupt(recorder), 0)
        starts = [event for event in read(self.trace) if event["event"] == "requestStart"]
        self.assertEqual([start["process_id"] for start in starts], pids)


if __name__ == "__main__":
    haproxy_server.main()
