#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module in Debian's HAProxy: what HAProxy logs and counts equals what the trace holds."""
import collections
import contextlib
import csv
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
# pylint: disable=wrong-import-position
from servers import BUILD, CALLER, PATIENCE, RINGPIPE, TRACE_ID, drive, free_port  # noqa: E402
from servers import install, of_name, processes, read, recording, wait_for_session  # noqa: E402

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
frontend web
	log-format "ringpipe {http}"
	bind 127.0.0.1:{web}
	bind 127.0.0.1:{h2} proto h2
	http-request deny deny_status 403 if {{ path /denied }}
	http-request return status 200 content-type text/plain string here if {{ path /here }}
	use_backend closed if {{ path /closed }}
	use_backend slow if {{ path /slow }}
	use_backend empty if {{ path /empty }}
	default_backend app
backend app
	server first 127.0.0.1:{inner}
backend slow
	server late 127.0.0.1:{late} maxconn 1
backend closed
	server none 127.0.0.1:{closed}
backend empty
frontend inner
	log-format "ringpipe {http}"
	bind 127.0.0.1:{inner}
	http-request return status 404 if {{ path /missing }}
	http-request return status 200 content-type text/plain lf-string "%[req.hdr(traceparent)]"
frontend late
	no log
	bind 127.0.0.1:{late}
	http-request lua.late
	http-request return status 200 content-type text/plain string late
listen relay
	mode tcp
	log-format "session {tcp}"
	bind 127.0.0.1:{relay}
	server first 127.0.0.1:{late}
"""
LATE = 'core.register_action("late", {"http-req"}, function() core.msleep(30) end)'
MODULE = None


def format_of(fields):
    return " ".join(fields.values())


def row_of(text):
    """Return the values of a line of the log, with the types and the names of the event."""
    values = ("" if value == "<NOSRV>" else value for value in text.split())
    return tuple(int(value) if re.fullmatch("-?[0-9]+", value) else value for value in values)


class Haproxy:
    """A running HAProxy with the module, and the lines of its log."""

    def __init__(self, folder, options="", arguments=(), module=None):
        self.folder, self.arguments = folder, arguments
        names = ("web", "h2", "inner", "late", "closed", "relay")
        self.ports = {name: free_port() for name in names}
        self.path = os.path.join(folder, "haproxy.cfg")
        with open(self.path, "w", encoding="ascii") as file:
            file.write(CONFIGURATION.format(folder=folder, options=options,
                                            module=module or MODULE, http=format_of(LOGGED),
                                            tcp=format_of(SESSION_LOGGED), **self.ports))
        with open(os.path.join(folder, "late.lua"), "w", encoding="ascii") as file:
            file.write(LATE)
        self.process = None
        self.log, self.errors = os.path.join(folder, "log"), os.path.join(folder, "errors")

    def start(self):
        with open(self.errors, "wb") as errors, open(self.log, "wb") as log:
            self.process = subprocess.Popen(["haproxy", "-f", self.path, *self.arguments],
                                            stdout=log, stderr=errors)
        drive.wait_for(self.is_listening, "HAProxy", [self.process])

    def is_listening(self):
        with contextlib.suppress(OSError):
            return "ringpipe" not in self.command("show version") and bool(self.pid())
        return False

    def command(self, text):
        """Send a command to the statistics socket. Return the answer."""
        with socket.socket(socket.AF_UNIX) as admin:
            admin.settimeout(PATIENCE)
            admin.connect(os.path.join(self.folder, "stats"))
            admin.sendall(text.encode() + b"\n")
            answer = b""
            while piece := admin.recv(65536):
                answer += piece
        return answer.decode()

    def pid(self):
        """The process that serves, which is a child of the master if there is one."""
        return int(re.search("^Pid: ([0-9]+)", self.command("show info"), re.M).group(1))

    def statistics(self):
        rows = csv.DictReader(io.StringIO(self.command("show stat").lstrip("# ")))
        return {(row["pxname"], row["svname"]): row for row in rows}

    def get(self, path, headers=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports['web']}{path}",
                                         headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return str(error.code)

    def send(self, data, port="web"):
        """Send bytes and return what comes back until HAProxy closes."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.ports[port]), PATIENCE) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while piece := connection.recv(65536):
                    answer += piece
        return answer.decode()

    def logged(self, kind):
        """The rows of the log."""
        with open(self.log, encoding="utf-8") as log:
            return [row_of(line.removeprefix(kind)) for line in log
                    if line.startswith(kind + " ")]

    def settle(self):
        """Wait until all streams have ended: HAProxy logs a request after the last answer."""
        def is_idle():
            rows = self.statistics()
            return all(int(row["scur"] or 0) == 0 for (proxy, _), row in rows.items()
                       if proxy in ("web", "inner", "late", "relay")) and \
                not re.search("proto=(tcpv4|tcpv6)", self.command("show sess"))
        drive.wait_for(is_idle, "the end of all streams", [self.process])

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE)


class HaproxyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o755)
        self.trace = os.path.join(self.folder, "t.nettrace")

    def serve(self, *arguments, **options):
        haproxy = Haproxy(self.folder, arguments=arguments, **options)
        self.addCleanup(haproxy.stop)
        haproxy.start()
        return haproxy

    def record(self, haproxy, work, *options):
        with recording(haproxy.pid(), "haproxy", self.trace, *options):
            work()
            haproxy.settle()
        return read(self.trace)

    def assert_equals_log(self, haproxy, events, name, fields):
        spans = [tuple(stop[field] for field in fields) for stop in of_name(events, name)]
        kind = "ringpipe" if name == "requestStop" else "session"
        rows = [row for row in haproxy.logged(kind)]
        if name == "requestStop":
            spans = [span for span in spans if span[0] != "late"]
        spans_only = collections.Counter(spans) - collections.Counter(rows)
        rows_only = collections.Counter(rows) - collections.Counter(spans)
        self.assertEqual(spans_only, rows_only)
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


def build_module(folder):
    """Build the module, with the source of HAProxy in the build directory. Return its folder."""
    source = os.environ.get("HAPROXY_SOURCE", os.path.join(BUILD, "haproxy-source"))
    environment = install(folder)
    done = subprocess.run([os.path.join(HERE, "build"), folder + "/module", source],
                          check=False, env=environment, stderr=subprocess.PIPE, text=True,
                          timeout=10 * PATIENCE)
    if done.returncode == 77:
        print("SKIP:", done.stderr.strip())
        sys.exit(77)
    assert done.returncode == 0, done.stderr
    library = subprocess.run(["find", folder + "/root", "-name", "libringpipe.so"], check=True,
                             text=True, stdout=subprocess.PIPE).stdout.strip()
    os.environ["LD_LIBRARY_PATH"] = os.path.dirname(library)
    return folder + "/module"


def main():
    global MODULE
    for program in ("haproxy", "wrk", "cc", "make", "pkg-config", "dpkg-source"):
        if not shutil.which(program):
            print(f"SKIP: no {program}")
            sys.exit(77)
    if not os.path.exists("/usr/include/lua5.3"):
        print("SKIP: no liblua5.3-dev")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        MODULE = build_module(folder)
        unittest.main()


if __name__ == "__main__":
    main()
