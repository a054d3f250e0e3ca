#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module in Debian's nginx: what nginx says of its requests equals what the trace holds."""
import collections
import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest

import nginx_server
from nginx_server import PATIENCE, drive, servers, worker_pids

RINGPIPE = servers.RINGPIPE
PHASES = "post_read server_rewrite rewrite preaccess access precontent content log".split()
CALLER, TRACE_ID = servers.CALLER, servers.TRACE_ID
PORTS = ("front", "back", "tls", "closed", "dns", "refused", "slow")
CONFIGURATION = """
load_module {module};
daemon off;
master_process {master};
worker_processes {workers};
error_log {folder}/error.log info;
pid {folder}/nginx.pid;
events {{ worker_connections 512; }}
http {{
	log_format ids '$status $request_uri $ringpipe_trace_id $ringpipe_span_id '
			'$request_time';
	access_log {folder}/access.log ids;
""" + nginx_server.FOLDERS + """
	proxy_cache_path {folder}/cache keys_zone=cache:1m;
	upstream back {{ server 127.0.0.1:{back}; keepalive 4; }}
	upstream half {{ server 127.0.0.1:{closed}; server 127.0.0.1:{back}; }}
	server {{
		listen 127.0.0.1:{front};
		listen 127.0.0.1:{tls} ssl http2;
		ssl_certificate {folder}/certificate.pem;
		ssl_certificate_key {folder}/key.pem;
		root {folder};
		rewrite ^/old /page.txt;
		if ($arg_denied) {{ return 403; }}
		error_page 403 413 @refused;
		error_page 418 =200 @found;
		location @refused {{ proxy_pass http://back; }}
		location @found {{ return 200 "found"; }}
		location /lost {{ return 418; }}
		location /away {{ proxy_pass http://unix:{folder}/away; }}
		location /debugged {{ error_log {folder}/debug.log debug; return 200; }}
		location /small {{ client_max_body_size 1; proxy_pass http://back; }}
		location /slow {{ proxy_pass http://127.0.0.1:{slow}; }}
		location /back {{ proxy_pass http://back; }}
		location /half {{ proxy_pass http://half; }}
		location /state {{ proxy_pass http://back; }}
		location /cached {{
			proxy_pass http://back;
			proxy_cache cache;
			proxy_cache_valid 1m;
		}}
		location /chosen {{ proxy_pass http://127.0.0.1:$arg_port; }}
		location /named {{
			resolver 127.0.0.1:{dns} ipv6=off;
			proxy_pass http://$arg_name:{back};
		}}
		location /unknown {{ ringpipe_trace_context off; proxy_pass http://back; }}
		location /quiet {{ ringpipe_spans off; return 200 "quiet"; }}
		location /checked {{ auth_request /quiet; try_files /page.txt =404; }}
		location /few {{ ringpipe_sample 10; return 200 "few"; }}
		location /only {{ ringpipe_spans request; return 200 "only"; }}
		location /moved {{ rewrite ^ /page.txt last; }}
		location /failed {{ return 503; }}
	}}
	server {{
		listen 127.0.0.1:{refused};
		return 403;
	}}
	server {{
		listen 127.0.0.1:{back};
		ringpipe_spans off;
		location / {{ return 200 "$http_traceparent"; }}
		location /state {{ return 200 "$http_traceparent,$http_tracestate"; }}
	}}
}}
"""


class Nginx(nginx_server.Nginx):
    """The server of the tests."""

    def __init__(self, module, folder, workers=1, master="on"):
        with open(os.path.join(folder, "page.txt"), "w", encoding="ascii") as page:
            page.write("page\n")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-keyout", folder + "/key.pem",
                        "-out", folder + "/certificate.pem"], check=True, timeout=PATIENCE,
                       stderr=subprocess.DEVNULL)
        super().__init__(RINGPIPE, folder, CONFIGURATION, PORTS, module=module, workers=workers,
                         master=master)

    def log(self):
        with open(os.path.join(self.folder, "access.log"), encoding="ascii") as log:
            return [line.split() for line in log]


class NginxTest(nginx_server.NginxCase):
    def serve(self, **options):
        nginx = Nginx(self.module, self.folder, **options)
        self.addCleanup(nginx.stop)
        nginx.start()
        return nginx

    def record(self, nginx, work, *options):
        """Record the worker of nginx while `work` runs. Return the events."""
        trace = os.path.join(self.folder, "t.nettrace")
        [pid] = nginx.pids()
        with servers.recording(pid, "nginx", trace, *options):
            work()
            # A client has its answer before the end of the request; one worker serves in order.
            nginx.get("/settled", port="back")
        return servers.read(trace)

    def be_late(self, nginx):
        """Send a request in two parts: its time begins with its first byte."""
        with socket.create_connection(("127.0.0.1", nginx.ports["front"]), PATIENCE) as client:
            client.sendall(b"GET /page.txt HTTP/1.0\r\n")
            begun = time.monotonic()
            nginx.get("/page.txt")
            drive.wait_for(lambda: time.monotonic() > begun + 0.05, "some milliseconds", [])
            client.sendall(b"\r\n")
            while client.recv(1024):
                pass

    def test_every_request_has_a_span_that_agrees_with_the_access_log(self):
        nginx = self.serve()

        def work():
            for path in ("/page.txt", "/back", "/missing", "/failed", "/moved", "/only"):
                for _ in range(5):
                    nginx.get(path)
            nginx.get("/page.txt", port="tls")

        events = self.record(nginx, work)
        logged = collections.Counter(line[0] for line in nginx.log() if line[1] != "/settled")
        stops = servers.of_name(events, "requestStop")
        starts = servers.of_name(events, "requestStart")
        # The server behind answers /back too, without spans.
        logged["200"] -= 5
        self.assertEqual(collections.Counter(str(stop["status"]) for stop in stops), logged)
        self.assertEqual(len(starts), len(stops))
        self.assertEqual(len(servers.of_name(events, "upstreamStop")), 5)
        self.assertEqual(len(servers.of_name(events, "tls_handshakeStop")), 1)
        phases = collections.Counter(event["event"] for event in events
                                     if "_phase" in event["event"])
        for name in PHASES:
            self.assertEqual(phases[f"{name}_phaseStart"], phases[f"{name}_phaseStop"], name)
        # /only has no phases. A missing page passes the phases once, /moved rewrites twice.
        self.assertEqual(phases["precontent_phaseStart"], 21)
        self.assertEqual(phases["content_phaseStart"], 21)
        self.assertEqual(phases["log_phaseStart"], 26)
        self.assertEqual(phases["rewrite_phaseStart"], 31)
        # The server decides on the first phases, also on those of /only.
        self.assertEqual(phases["post_read_phaseStart"], 31)
        self.assertEqual(phases["server_rewrite_phaseStart"], 31)

    def test_a_request_that_ends_before_its_location_is_known_has_a_span(self):
        nginx = self.serve()

        def work():
            nginx.get("/old")
            nginx.get("/", port="refused")
            self.assertEqual(nginx.post("/small", b"some bytes"), 413)
            with socket.create_connection(("127.0.0.1", nginx.ports["front"]), PATIENCE) as client:
                client.sendall(b"no request\r\n\r\n")
                while client.recv(1024):
                    pass

        events = self.record(nginx, work)
        starts = servers.of_name(events, "requestStart")
        self.assertEqual([stop["status"] for stop in servers.of_name(events, "requestStop")],
                         [200, 403, 413, 400])
        self.assertEqual([start["path"] for start in starts], ["/page.txt", "/", "/small", ""])

    def test_a_named_location_repeats_the_phases_also_before_a_location_is_known(self):
        nginx = self.serve()

        def work():
            nginx.get("/lost")
            nginx.get("/page.txt?denied=1")
            self.assertEqual(nginx.post("/small", b"some bytes"), 413)

        events = self.record(nginx, work)
        begun = [event["event"].partition("_phase")[0] for event in events
                 if event["event"].endswith("_phaseStart")]
        self.assertEqual(begun, [*PHASES[:3], "rewrite", "log", *PHASES, *PHASES])
        for providers in ("nginx", "nginx:2"):
            events = self.record(nginx, work, "--providers", providers)
            self.assertEqual([stop["status"] for stop in servers.of_name(events, "requestStop")],
                             [200, 403, 413])
        self.assertEqual(len(servers.of_name(events, "requestStart")), 3)

    def test_a_request_whose_client_leaves_has_a_span_that_says_so(self):
        nginx = self.serve()
        slow = socket.create_server(("127.0.0.1", nginx.ports["slow"]))
        self.addCleanup(slow.close)
        slow.settimeout(PATIENCE)

        def work():
            with socket.create_connection(("127.0.0.1", nginx.ports["front"])) as client:
                client.sendall(b"GET /slow HTTP/1.0\r\n\r\n")
                server, _ = slow.accept()
            drive.wait_for(lambda: any(line[0] == "499" for line in nginx.log()),
                           "the end of the request", [nginx.process])
            server.close()

        events = self.record(nginx, work)
        self.assertEqual([stop["status"] for stop in servers.of_name(events, "requestStop")],
                         [499])
        self.assertEqual(len(servers.of_name(events, "upstreamStop")), 1)
        self.assertEqual(len(servers.of_name(events, "content_phaseStop")), 1)

    @unittest.skipUnless(shutil.which("curl"), "no curl")
    def test_requests_of_one_connection_by_http_2_have_spans_of_their_own(self):
        nginx = self.serve()
        address = f"https://127.0.0.1:{nginx.ports['tls']}/"

        def work():
            done = subprocess.run(
                ["curl", "-sSk", "--http2", "-w", "%{http_version} ", "-H",
                 f"traceparent: {CALLER}", address + "page.txt", address + "back",
                 address + "missing", "-o", "/dev/null", "-o", "/dev/null", "-o", "/dev/null"],
                check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
            self.assertEqual(done.stdout.split(), ["2"] * 3)

        events = self.record(nginx, work)
        starts = [event for event in events if event["event"] == "requestStart"]
        self.assertEqual([start["fields"]["path"] for start in starts],
                         ["/page.txt", "/back", "/missing"])
        self.assertEqual({start["activity"].replace("-", "") for start in starts}, {TRACE_ID})
        self.assertEqual(len({start["fields"]["connection"] for start in starts}), 1)
        self.assertEqual(len(servers.of_name(events, "tls_handshakeStop")), 1)

    def test_repeated_headers_of_ids_begin_a_new_trace_and_one_header_goes_on(self):
        nginx = self.serve()
        answers = []

        def work():
            client = http.client.HTTPConnection("127.0.0.1", nginx.ports["front"],
                                                timeout=PATIENCE)
            with contextlib.closing(client):
                client.putrequest("GET", "/back")
                client.putheader("traceparent", CALLER)
                for number in range(300):
                    client.putheader("Traceparent", CALLER.replace("0af7", f"{number:04x}"))
                client.endheaders()
                answers.append(client.getresponse().read().decode())

        self.record(nginx, work)
        self.assertRegex(answers[0], "^00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]$")
        self.assertNotIn(TRACE_ID[4:], answers[0])

    def test_the_state_of_a_trace_goes_on_with_valid_ids_only(self):
        nginx = self.serve()
        cases = {CALLER: True, CALLER.replace("00-", "cc-", 1) + "-more": True,
                 CALLER.replace("00-", "ff-", 1): False, CALLER + "-more": False,
                 CALLER.upper(): False, f"00-{'0' * 32}-b7ad6b7169203331-01": False,
                 f"00-{TRACE_ID}-{'0' * 16}-01": False, CALLER[:-1]: False, "": False}
        answers = {}

        def work():
            for caller in cases:
                headers = {"traceparent": caller, "tracestate": "vendor=1"}
                answers[caller] = nginx.get("/state", headers).split(",")

        self.record(nginx, work)
        for caller, is_valid in cases.items():
            traceparent, state = answers[caller]
            self.assertRegex(traceparent, "^00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]$", caller)
            self.assertEqual(TRACE_ID in traceparent, is_valid, caller)
            self.assertEqual(state, "vendor=1" if is_valid else "", caller)

    def test_the_time_of_a_request_is_that_of_the_access_log(self):
        nginx = self.serve()

        def work():
            nginx.get("/back")
            self.be_late(nginx)

        events = self.record(nginx, work)
        times = [stop["request_time_ms"] for stop in servers.of_name(events, "requestStop")]
        # The server behind answers /back too, without a span.
        logged = [int(line[4].replace(".", "")) for line in nginx.log()
                  if line[1] != "/settled"][1:]
        self.assertEqual(times, logged)
        self.assertGreater(times[-1], 0)

    def test_a_connection_has_a_span_until_its_end(self):
        nginx = self.serve()
        events = self.record(nginx, lambda: nginx.get("/page.txt"), "--providers", "nginx:3")
        [start] = servers.of_name(events, "requestStart")
        begun = [connection for connection in servers.of_name(events, "connectionStart")
                 if connection["connection"] == start["connection"]]
        self.assertEqual([connection["client_address"] for connection in begun], ["127.0.0.1"])
        ids = [event["activity"] for event in events if event["event"] == "connectionStart"]
        self.assertEqual(len(set(ids)), len(ids))
        self.assertGreaterEqual(len(servers.of_name(events, "connectionStop")), 1)

    def test_a_handler_that_waits_does_not_begin_its_phase_again(self):
        nginx = self.serve()
        events = self.record(nginx, lambda: [nginx.get("/checked") for _ in range(3)])
        self.assertEqual(len(servers.of_name(events, "access_phaseStart")), 3)
        self.assertEqual(len(servers.of_name(events, "content_phaseStart")), 3)

    def test_phases_that_a_session_wants_within_a_connection_are_traced(self):
        """The first request of a connection precedes the session."""
        nginx = self.serve()
        client = http.client.HTTPConnection("127.0.0.1", nginx.ports["front"], timeout=PATIENCE)
        self.addCleanup(client.close)

        def request():
            client.request("GET", "/page.txt")
            self.assertEqual(client.getresponse().read(), b"page\n")
        for _ in range(2):
            request()
            events = self.record(nginx, request)
            for name in PHASES:
                self.assertEqual(len(servers.of_name(events, f"{name}_phaseStart")), 1, name)

    def test_the_ids_of_the_caller_go_on_to_the_upstream_server(self):
        nginx = self.serve()
        answers = []

        def work():
            answers.append(nginx.get("/back", {"traceparent": CALLER}))
            answers.append(nginx.get("/unknown", {"traceparent": CALLER}))
            answers.append(nginx.get("/back", {"traceparent": "damaged"}))
            answers.append(nginx.get("/back"))

        self.record(nginx, work)
        ids = [line[2:4] for line in nginx.log() if line[1] != "/unknown"]
        log = [line for line in nginx.log()]
        self.assertEqual(answers[0].split("-")[:2], ["00", TRACE_ID])
        self.assertIn([TRACE_ID, answers[0].split("-")[2]], ids)
        self.assertEqual(answers[1], CALLER)
        for answer in answers[2:]:
            self.assertRegex(answer, "^00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]$")
            self.assertNotIn(TRACE_ID, answer)
            self.assertIn(answer.split("-")[1:3], [line[2:4] for line in log])

    def test_an_upstream_server_that_fails_is_an_error_and_the_next_one_follows(self):
        nginx = self.serve()
        events = self.record(nginx, lambda: [nginx.get("/half") for _ in range(4)])
        stops = servers.of_name(events, "upstreamStop")
        failed = [stop for stop in stops if stop["error"]]
        self.assertEqual(len(stops) - len(failed), 4, (stops, nginx.log()))
        self.assertGreaterEqual(len(failed), 1)
        for stop in failed:
            self.assertEqual(stop["peer"], f"127.0.0.1:{nginx.ports['closed']}")

    def test_an_upstream_server_that_variables_choose_has_a_span(self):
        nginx = self.serve()
        dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(dns.close)
        dns.bind(("127.0.0.1", nginx.ports["dns"]))

        def answer():
            """Answer that each name is 127.0.0.1."""
            with contextlib.suppress(OSError):
                while True:
                    query, client = dns.recvfrom(512)
                    dns.sendto(query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + query[12:] +
                               b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1", client)
        threading.Thread(target=answer, daemon=True).start()
        back = nginx.ports["back"]

        def work():
            nginx.get(f"/chosen?port={back}", {"traceparent": CALLER})
            nginx.get(f"/chosen?port={nginx.ports['closed']}")
            nginx.get("/named?name=some.test")
            self.assertEqual(nginx.post(f"/chosen?port={back}", b"x" * 100000), 200)

        events = self.record(nginx, work)
        # The closed port may refuse immediately or later.
        starts, stops = ([fields for fields in servers.of_name(events, name)
                          if fields["peer"] == f"127.0.0.1:{back}"]
                         for name in ("upstreamStart", "upstreamStop"))
        self.assertEqual([start["upstream"] for start in starts],
                         ["127.0.0.1", "some.test", "127.0.0.1"])
        self.assertEqual([(stop["status"], stop["error"]) for stop in stops], [(200, False)] * 3)
        self.assertEqual(len(servers.of_name(events, "requestStop")), 4)

    def test_the_status_of_the_cache_is_a_field(self):
        nginx = self.serve()
        events = self.record(nginx, lambda: [nginx.get("/cached") for _ in range(3)])
        self.assertEqual([stop["cache"] for stop in servers.of_name(events, "requestStop")],
                         ["MISS", "HIT", "HIT"])

    def test_locations_choose_their_spans_and_their_sample(self):
        nginx = self.serve()

        def work():
            for _ in range(20):
                nginx.get("/quiet")
                nginx.get("/few")

        starts = servers.of_name(self.record(nginx, work), "requestStart")
        self.assertEqual([start["path"] for start in starts], ["/few"] * 2)

    def test_lines_of_the_log_are_events_with_their_connection(self):
        nginx = self.serve()
        events = self.record(nginx, lambda: nginx.get("/missing"))
        [line] = [event for event in events if event["provider"] == "nginx-log"
                  and "missing" in event["fields"]["text"]]
        [start] = servers.of_name(events, "requestStart")
        self.assertEqual(line["event"], "error")
        self.assertEqual(line["fields"]["connection"], start["connection"])
        self.assertTrue(line["fields"]["text"].startswith("open() "))

    def test_levels_of_the_log_are_events_also_after_it_was_reopened(self):
        nginx = self.serve()
        log = os.path.join(self.folder, "error.log")

        def work():
            self.assertEqual(nginx.post("/back", b"x" * 100000), 200)
            os.rename(log, log + ".1")
            nginx.process.send_signal(signal.SIGUSR1)
            drive.wait_for(lambda: os.path.exists(log), "the new log", [nginx.process])
            context = ssl.create_default_context()
            with socket.create_connection(("127.0.0.1", nginx.ports["tls"]), PATIENCE) as client:
                with self.assertRaises(ssl.SSLError):
                    context.wrap_socket(client, server_hostname="localhost")
            for path in ("/missing", "/away", "/debugged"):
                nginx.get(path)

        events = self.record(nginx, work)
        lines = [(event["event"], event["fields"]["text"]) for event in events
                 if event["provider"] == "nginx-log"]
        for level, text in (("warning", "buffered to a temporary file"), ("notice", "reopening"),
                            ("notice", "SSL_do_handshake"), ("error", "missing"),
                            ("critical", "connect() to unix:"), ("debug", "http finalize")):
            self.assertTrue([line for line in lines if line[0] == level and text in line[1]],
                            (level, text, lines))
        [handshake] = servers.of_name(events, "tls_handshakeStop")
        self.assertTrue(handshake["error"])

    def test_each_worker_is_a_process_of_its_own_through_reloads(self):
        nginx = self.serve(workers=2)
        for _ in range(5):
            before = set(worker_pids(nginx.process.pid))
            nginx.process.send_signal(signal.SIGHUP)
            drive.wait_for(lambda: not before & set(worker_pids(nginx.process.pid)) and
                           nginx.has_workers(2), "two new workers", [nginx.process])
            self.assertEqual(nginx.get("/page.txt"), "page\n")

    def test_a_worker_that_starts_after_a_failed_reload_uses_upstreams(self):
        nginx = self.serve()
        [before] = nginx.pids()
        with open(nginx.path, "a", encoding="ascii") as file:
            file.write("nonsense;\n")
        nginx.process.send_signal(signal.SIGHUP)
        log = os.path.join(self.folder, "error.log")

        def is_refused():
            with open(log, encoding="utf-8") as file:
                return "nonsense" in file.read()
        drive.wait_for(is_refused, "the refusal", [nginx.process])
        os.kill(before, signal.SIGKILL)
        drive.wait_for(lambda: before not in nginx.pids() and nginx.has_workers(1), "a new worker",
                       [nginx.process])
        self.assertTrue(nginx.get("/back", {"traceparent": CALLER}))

    @unittest.skipUnless(os.getuid() == 0, "recording all processes requires root")
    def test_record_follows_the_workers_that_a_reload_starts(self):
        nginx = self.serve()
        trace = os.path.join(self.folder, "t.nettrace")
        command = [RINGPIPE, "record", "-f", "-o", trace, "--providers", "nginx", "-p",
                   str(nginx.process.pid)]
        with drive.running(command, stderr=subprocess.DEVNULL) as recorder:
            [first] = worker_pids(nginx.process.pid)
            servers.wait_for_session(first, "nginx", recorder)
            nginx.get("/page.txt")
            nginx.process.send_signal(signal.SIGHUP)
            drive.wait_for(lambda: worker_pids(nginx.process.pid) not in ([], [first]) and
                           nginx.has_workers(1), "a new worker", [nginx.process])
            second = worker_pids(nginx.process.pid)[-1]
            servers.wait_for_session(second, "nginx", recorder)
            drive.wait_for(lambda: worker_pids(nginx.process.pid) == [second],
                           "the end of the old worker", [nginx.process])
            nginx.get("/page.txt")
            self.assertEqual(drive.interrupt(recorder), 0)
        starts = [event for event in servers.read(trace) if event["event"] == "requestStart"]
        self.assertEqual([start["process_id"] for start in starts], [first, second])

    def test_collect_with_tree_records_the_requests_of_all_workers(self):
        nginx = self.serve(workers=2)
        drive.wait_for(lambda: nginx.has_workers(2), "two workers", [nginx.process])
        self.assertNotIn(nginx.process.pid, servers.processes())
        trace = os.path.join(self.folder, "t.nettrace")
        command = [RINGPIPE, "collect", "--tree", "-f", "-o", trace, "--providers", "nginx:2",
                   "-p", str(nginx.process.pid)]
        with drive.running(command, stderr=subprocess.DEVNULL) as recorder:
            for pid in nginx.pids():
                servers.wait_for_session(pid, "nginx", recorder)
            for _ in range(40):
                nginx.get("/page.txt")
            self.assertEqual(drive.interrupt(recorder), 0)
        starts = [event for event in servers.read(trace) if event["event"] == "requestStart"]
        self.assertLessEqual({start["process_id"] for start in starts}, set(nginx.pids()))
        self.assertEqual(len(starts), 40)

    def test_one_process_without_a_master_is_traced(self):
        nginx = self.serve(master="off")
        events = self.record(nginx, lambda: nginx.get("/page.txt"))
        self.assertEqual(len(servers.of_name(events, "requestStop")), 1)

    def test_the_counters_equal_the_requests_and_their_time(self):
        nginx = self.serve()
        rows = os.path.join(self.folder, "counters.json")
        [pid] = worker_pids(nginx.process.pid)
        command = [RINGPIPE, "counters", "collect", "--format", "json", "-f", "-o", rows,
                   "--refresh", "1", "--counters", "nginx", "-p", str(pid)]

        def values(tags):
            """Return the values of the rows that have these tags."""
            with open(rows, encoding="utf-8") as file:
                return [float(value) for value in re.findall(
                    rf'"{tags}","counterType":"[^}}]*"value":([0-9.]+)', file.read())]

        with drive.running(command, stderr=subprocess.DEVNULL) as collector:
            drive.wait_for(lambda: os.path.exists(rows) and os.path.getsize(rows) > 200,
                           "counters", [collector])
            for _ in range(7):
                nginx.get("/missing")
            for _ in range(5):
                nginx.get("/back")
            for _ in range(3):
                nginx.get("/half")
            self.be_late(nginx)
            drive.wait_for(lambda: sum(values("status=4xx")) >= 7 and
                           sum(values("status=2xx")) >= 18 and
                           sum(values("upstream=half")) >= 3 and
                           any(values("upstream=back,Percentile=50")), "requests", [collector])
            drive.interrupt(collector)
        self.assertEqual(sum(values("status=4xx")), 7)
        # The server behind counts /back and /half too.
        self.assertEqual(sum(values("status=2xx")), 18)
        self.assertEqual(sum(values("upstream=back")), 5)
        self.assertEqual(sum(values("upstream=half")), 3)
        longest = max(float(line[4]) * 1000 for line in nginx.log())
        [counted] = {max(values("[^\"]*Percentile=99"))}
        self.assertAlmostEqual(counted, longest, delta=longest / 20)

    def test_the_commands_of_the_readme_work(self):
        nginx = self.serve()
        [pid] = nginx.pids()
        listed, _, report = servers.run_readme(
            nginx_server.HERE, self.folder, pid, "nginx",
            lambda: [nginx.get("/page.txt") for _ in range(10)], {"WORKER": str(pid)})
        self.assertRegex(listed, rf"(?m)^ *{pid}\b.*nginx")
        self.assertRegex(report, "nginx/request +[1-9]")

    def test_wrong_directives_are_refused_with_their_place(self):
        nginx = Nginx(self.module, self.folder)
        for wrong, text in (("ringpipe_sample 0;", "must be"), ("ringpipe_spans some;", "some"),
                            ("ringpipe_trace_context 3;", "3")):
            with open(nginx.path, encoding="ascii") as file:
                configuration = file.read()
            path = nginx.path + ".wrong"
            with open(path, "w", encoding="ascii") as file:
                file.write(configuration.replace("ringpipe_sample 10;", wrong))
            done = subprocess.run(["nginx", "-t", "-c", path, "-p", self.folder], check=False,
                                  stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, re.escape(text) + ".*nginx.conf.wrong:[0-9]+")


if __name__ == "__main__":
    servers.skip_if(nginx_server.why_not())
    unittest.main()
