#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module where HAProxy lacks libringpipe, or has few rights, another root, threads, other
filters or a full disk."""
import collections
import concurrent.futures
import gzip
import os
import shutil
import subprocess
import unittest
import urllib.request

import haproxy_server
from haproxy_server import HERE, PATIENCE, drive, restrictions, servers

RINGPIPE, of_name = servers.RINGPIPE, servers.of_name
LIBRARY = "ringpipe_haproxy.so"
CONFIGURATION = """
global
	stats socket {folder}/stats level admin
	nbthread {threads}
	{options}
	lua-load {module}/ringpipe.lua
defaults
	mode http
	timeout client 20s
	timeout server 20s
	timeout connect 20s
	default-server pool-purge-delay 100ms
frontend web
	bind 127.0.0.1:{web}
	{rules}
	default_backend app
backend app
	server first 127.0.0.1:{inner}
listen inner
	bind 127.0.0.1:{inner}
	http-request return status 200 content-type text/plain lf-string "%[req.hdr(traceparent)]"
"""


class HostingTest(restrictions.UnitTests, haproxy_server.HaproxyCase):
    unit = os.path.join(HERE, "haproxy.service")

    def setUp(self):
        super().setUp()
        self.visible = os.path.dirname(self.module)

    def configure(self, *arguments, module=None, threads=1, options="", rules=""):
        return haproxy_server.Haproxy(self.folder, CONFIGURATION, ("web", "inner"), arguments,
                                      module=module or self.module, threads=threads,
                                      options=options, rules=rules)

    def check_spans(self, haproxy, count=3):
        """Trace requests, each of which passes two frontends."""
        events = self.record(haproxy, lambda: [haproxy.get("/") for _ in range(count)])
        self.assertEqual(len(of_name(events, "requestStart")), 2 * count)
        self.assertEqual(len(of_name(events, "requestStop")), 2 * count)

    def assert_serves_without_module(self, module, reason, environment=None):
        haproxy = self.started(self.configure(module=module), is_traced=False,
                               env={**os.environ, **(environment or {})})
        self.assertEqual(haproxy.get("/"), "")
        if haproxy.has_socket():
            # The library is loaded, but HAProxy does not use it.
            events = self.record(haproxy, lambda: haproxy.get("/"))
            self.assertEqual(of_name(events, "requestStart"), [])
        with open(haproxy.errors, encoding="utf-8") as errors:
            self.assertRegex(errors.read(), "ringpipe is not loaded: .*" + reason)
        haproxy.stop()

    def test_without_its_library_haproxy_serves_and_reports_the_reason(self):
        self.assert_serves_without_module(self.module, "libringpipe.so", {"LD_LIBRARY_PATH": ""})
        lone = os.path.join(self.folder, "lone")
        os.mkdir(lone)
        shutil.copy(os.path.join(self.module, "ringpipe.lua"), lone)
        self.assert_serves_without_module(lone, LIBRARY)

    def test_with_an_older_library_haproxy_serves_and_reports_the_missing_function(self):
        old = os.path.join(self.folder, "libringpipe.so.1")
        subprocess.run(["cc", "-shared", "-Wl,-soname,libringpipe.so.1", "-o", old, "-x", "c",
                        "/dev/null"], check=True, timeout=PATIENCE)
        self.assert_serves_without_module(self.module, "(undefined symbol|version)",
                                          {"LD_LIBRARY_PATH": self.folder})

    def test_a_damaged_module_is_not_loaded(self):
        other = os.path.join(self.folder, "other")
        shutil.copytree(self.module, other)
        os.truncate(os.path.join(other, LIBRARY), 100)
        self.assert_serves_without_module(other, LIBRARY)

    def test_a_module_for_another_haproxy_is_not_loaded(self):
        source, module = (os.path.join(self.folder, name) for name in ("source", "module"))
        origin = haproxy_server.source_of(servers.BUILD)
        shutil.copytree(os.path.join(origin, "include"), os.path.join(source, "include"))
        shutil.copy(os.path.join(origin, "Makefile"), source)
        with open(os.path.join(source, "VERSION"), "w", encoding="ascii") as file:
            file.write("2.6.1\n")
        done = haproxy_server.compile_module(module, source, self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_serves_without_module(module, "built for HAProxy 2.6.1")
        other = os.path.join(self.folder, "other")
        shutil.copytree(self.module, other)
        with open(os.path.join(other, LIBRARY), "r+b") as file:
            library = file.read()
            self.assertIn(b"+LUA ", library)
            file.seek(0)
            file.write(library.replace(b"+LUA ", b"-LUA "))
        self.assert_serves_without_module(other, "other features")

    def start_daemon(self, *arguments):
        """Start a HAProxy that leaves its parent, and end it with the test."""
        haproxy = self.configure(*arguments, "-D")
        subprocess.run(haproxy.command_line, check=True, timeout=PATIENCE)
        drive.wait_for(haproxy.has_socket, "the socket of ringpipe")
        self.addCleanup(haproxy.end)
        return haproxy

    def test_a_daemon_is_traced(self):
        for arguments in (), ("-W",):
            with self.subTest(arguments=arguments):
                haproxy = self.start_daemon(*arguments)
                self.check_spans(haproxy)
                self.doCleanups()
                self.setUp()

    def test_requests_of_one_thread_and_of_many_have_spans(self):
        for threads in 1, 4:
            with self.subTest(threads=threads):
                haproxy = self.started(self.configure(threads=threads))

                def work(haproxy=haproxy):
                    with concurrent.futures.ThreadPoolExecutor(8) as pool:
                        list(pool.map(haproxy.get, ["/"] * 400))

                events = self.record(haproxy, work)
                for name in ("requestStart", "requestStop"):
                    counts = collections.Counter(
                        fields["frontend"] for fields in of_name(events, name))
                    self.assertEqual(counts, {"web": 400, "inner": 400})
                haproxy.stop()

    def test_other_filters_work_as_without_a_span(self):
        haproxy = self.started(self.configure(rules="\n\t".join((
            "filter compression", "compression algo gzip", "compression type text/plain",
            "filter trace name other"))))
        request = urllib.request.Request(f"http://127.0.0.1:{haproxy.ports['web']}/",
                                         headers={"Accept-Encoding": "gzip",
                                                  "traceparent": servers.CALLER})
        answers = []

        def get():
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                self.assertEqual(answer.headers["Content-Encoding"], "gzip")
                answers.append(gzip.decompress(answer.read()).decode())

        get()
        events = self.record(haproxy, get)
        self.assertEqual(answers[0], servers.CALLER)
        self.assertEqual(answers[1].split("-")[1], servers.TRACE_ID)
        self.assertNotEqual(answers[1], servers.CALLER)
        self.assertEqual(len(of_name(events, "requestStop")), 2)

    @unittest.skipUnless(os.getuid() == 0, "chroot(2) requires root")
    def test_a_worker_in_a_chroot_with_another_user_is_traced(self):
        empty = os.path.join(self.folder, "empty")
        os.mkdir(empty, 0o755)
        haproxy = self.started(self.configure("-W", options=f"chroot {empty}\n\tuser nobody"))
        self.check_spans(haproxy)
        self.assertEqual(os.readlink(f"/proc/{haproxy.pid()}/root"), empty)

    def trace_restricted(self, wrapper, sockets, preexec_fn):
        haproxy = self.started(self.configure("-W"), wrapper=wrapper, preexec_fn=preexec_fn,
                               env={**os.environ, "TMPDIR": sockets})
        self.check_spans(haproxy)
        haproxy.reload()
        self.check_spans(haproxy)
        return haproxy.pid()

    def trace_and_end(self, wrapper):
        haproxy = self.started(self.configure("-W"), wrapper=wrapper)
        self.check_spans(haproxy)
        haproxy.end()
        haproxy.process.wait(PATIENCE)

    def test_a_full_disk_ends_the_trace_and_not_the_requests(self):
        haproxy = self.started(self.configure())
        command = [RINGPIPE, "collect", "-f", "-o", "/dev/full", "-p", str(haproxy.pid())]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as collector:
            def has_ended():
                haproxy.get("/")
                return collector.poll() is not None
            drive.wait_for(has_ended, "the end of the trace")
            self.assertNotEqual(collector.returncode, 0)
            self.assertIn("No space left", collector.stderr.read())
        self.check_spans(haproxy)


if __name__ == "__main__":
    haproxy_server.main()
