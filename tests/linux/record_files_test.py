# SPDX-License-Identifier: MIT
"""The files that ringpipe record leaves: archives, and traces of recordings that are interrupted,
killed, or have no space."""
import contextlib
import http.server
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest
import urllib.request
import zipfile

import record_case
from record_case import (BRIEF_HOST, HOST, PATIENCE, SHOP, TOOL, WITHOUT_LEAKS, Case,
                         children_of, drive, events_of, functions, run_tree, stacks_of)

HOT_HOST = os.environ["HOT_HOST"]


def build_id_of(path):
    return subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.partition("Build ID: ")[2].split()[0]


class Archives(Case):
    def archive(self, *options):
        self.path = os.path.join(os.path.dirname(self.trace), "a.zip")
        return subprocess.run([TOOL, "record", "--providers", "none", "--archive", self.path,
                               *options], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE,
                              check=False)

    def test_an_archive_has_the_trace_the_machine_and_the_messages(self):
        done = self.archive("-o", self.trace, "--", HOST, "300")
        self.assertEqual(done.returncode, 0, done.stderr)
        with zipfile.ZipFile(self.path) as archive, open(self.trace, "rb") as trace:
            self.assertIsNone(archive.testzip())
            self.assertEqual(archive.read("machine.nettrace"), trace.read())
            system = json.loads(archive.read("system.json"))
            checks = json.loads(archive.read("checks.json"))
            self.assertIn(archive.read("log.txt").decode(), done.stderr)
            self.assertFalse([name for name in archive.namelist() if "binaries" in name])
        self.assertEqual([system["kernel"], system["host"]],
                         [os.uname().release, os.uname().nodename])
        self.assertIn(HOST, system["command"])
        self.assertIn("perf_events", {check["check"] for check in checks})

    def test_binaries_have_the_names_of_their_build_ids(self):
        done = self.archive("--binaries", "--", HOST, "300")
        self.assertEqual(done.returncode, 0, done.stderr)
        notes = subprocess.run(["readelf", "-n", HOST], stdout=subprocess.PIPE, text=True,
                               check=True).stdout
        build_id = notes.partition("Build ID: ")[2].split()[0]
        with zipfile.ZipFile(self.path) as archive, open(HOST, "rb") as host:
            self.assertEqual(archive.read(f"binaries/.build-id/{build_id[:2]}/{build_id[2:]}"),
                             host.read())
            self.assertEqual(len(set(archive.namelist())), len(archive.namelist()))
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["a.zip"])

    def test_files_without_a_build_id_are_listed(self):
        nameless = os.path.join(os.path.dirname(self.trace), "nameless")
        subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", HOST, nameless],
                       check=True)
        done = self.archive("--binaries", "--", nameless, "300")
        self.assertEqual(done.returncode, 0, done.stderr)
        with zipfile.ZipFile(self.path) as archive:
            self.assertIn(f"{nameless}\tthe file has no build id\n",
                          archive.read("missing.txt").decode())

    def test_names_that_a_stripped_program_lacks_are_added_afterwards(self):
        folder = os.path.dirname(self.trace)
        stripped, named = os.path.join(folder, "stripped"), os.path.join(folder, "n.nettrace")
        shutil.copy(HOST, stripped)
        subprocess.run(["strip", stripped], check=True)
        self.record("--", stripped, "500")

        def hottest(path):
            report = subprocess.run([TOOL, "report", "--format", "json", path], check=True,
                                    stdout=subprocess.PIPE, timeout=PATIENCE).stdout
            return {row["function"] for row in json.loads(report)["hot_functions"]
                    if row["process"] == "stripped"}

        self.assertNotIn("innermost", hottest(self.trace))
        os.mkdir(os.path.join(folder, "symbols"))
        shutil.copy(HOST, os.path.join(folder, "symbols", "stripped"))
        subprocess.run([TOOL, "symbolize", self.trace, "-o", named, "--symbols",
                        os.path.join(folder, "symbols")], check=True, timeout=PATIENCE,
                       stderr=subprocess.DEVNULL)
        self.assertIn("innermost", hottest(named))
        events, summary = events_of(named)
        self.assertTrue([event for event in events if event["event"] == "cpu" and "innermost" in
                         [frame["method"] for frame in event["stack"]]], summary)

    def stripped(self):
        """Make a stripped host. Return its path, its build id, and that of its symbols."""
        folder = os.path.join(os.path.dirname(self.trace), "files")
        os.makedirs(folder)
        path, symbols = os.path.join(folder, "stripped"), os.path.join(folder, "stripped.debug")
        for options, target in (["--strip-all"], path), (["--only-keep-debug"], symbols):
            subprocess.run(["objcopy", *options, HOST, target], check=True)
        return path, symbols

    def server_environment(self, url):
        return {**os.environ, "DEBUGINFOD_URLS": url,
                "DEBUGINFOD_CACHE_PATH": os.path.join(os.path.dirname(self.trace), "cache")}

    def hot_functions(self, process):
        report = subprocess.run([TOOL, "report", "--format", "json", self.trace], check=True,
                                stdout=subprocess.PIPE, timeout=PATIENCE).stdout
        return {row["function"] for row in json.loads(report)["hot_functions"]
                if row["process"] == process}

    def test_names_come_from_servers_after_the_recording(self):
        asked = []
        path, symbols = self.stripped()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                with open(symbols, "rb") as file:
                    content = file.read()
                if build_id not in self.path or not self.path.endswith("/debuginfo"):
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        build_id = build_id_of(HOST)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = self.server_environment(f"http://127.0.0.1:{server.server_port}")
        done = self.record("--providers", "none", "--", path, "500", env=environment)
        if not asked:
            self.skipTest("libdebuginfod is not installed")
        self.assertIn("asks the servers in DEBUGINFOD_URLS", done.stderr)
        self.assertNotIn("no names from servers", done.stderr)
        self.assertIn("innermost", self.hot_functions("stripped"))
        self.assertEqual([name for name in os.listdir(os.path.dirname(self.trace))
                          if "nettrace" in name], [os.path.basename(self.trace)])

    def test_a_server_of_debuginfod_names_the_functions(self):
        if not shutil.which("debuginfod"):
            self.skipTest("debuginfod is not installed")
        path, symbols = self.stripped()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        with drive.running(["debuginfod", "-d", ":memory:", "-p", str(port), "-F",
                            os.path.dirname(symbols)], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL) as server:
            def has_scanned():
                with contextlib.suppress(OSError), urllib.request.urlopen(
                        f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
                    return re.search(r"scanned_files_total\S* [1-9]", answer.read().decode())
            drive.wait_for(has_scanned, "debuginfod", [server])
            self.record("--providers", "none", "--", path, "500",
                        env=self.server_environment(f"http://127.0.0.1:{port}"))
        self.assertIn("innermost", self.hot_functions("stripped"))

    def test_a_server_that_never_answers_costs_names_alone(self):
        path, _ = self.stripped()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            environment = self.server_environment(f"http://127.0.0.1:{silent.getsockname()[1]}")
            with drive.running([TOOL, "record", "-o", self.trace, "--providers", "none", "--",
                                path, "300"], env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True) as recorder:
                silent.settimeout(PATIENCE)
                try:
                    connection = silent.accept()[0]
                except TimeoutError:
                    self.skipTest("libdebuginfod is not installed")
                self.assertEqual(drive.interrupt(recorder), 0)
                connection.close()
                with recorder.stderr:
                    self.assertIn("the trace has no names from servers", recorder.stderr.read())
        self.assertTrue([event for event in events_of(self.trace)[0] if event["event"] == "cpu"])

    def test_an_existing_archive_is_kept_unless_forced(self):
        with open(os.path.join(os.path.dirname(self.trace), "a.zip"), "w",
                  encoding="ascii") as file:
            file.write("precious")
        done = self.archive("-d", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exists; --force overwrites it", done.stderr)
        with open(self.path, encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")
        self.assertEqual(self.archive("--force", "-d", "1").returncode, 0)
        self.assertTrue(zipfile.is_zipfile(self.path))

    def test_options_that_do_not_fit_are_refused(self):
        done = self.archive("-o", "-", "-d", "1")
        self.assertIn("--archive needs the trace in a file", done.stderr)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        done = subprocess.run([TOOL, "record", "--binaries", "-o", self.trace], text=True,
                              stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        self.assertIn("--binaries requires --archive", done.stderr)
        self.assertEqual(done.returncode, 2)
        self.assertFalse(os.path.exists(self.path) or os.path.exists(self.trace))

    def test_a_full_disk_keeps_the_trace(self):
        # libarchive does not free the compressor of a file that it cannot complete.
        done = subprocess.run([TOOL, "record", "--providers", "none", "-d", "1", "-o", self.trace,
                               "--force", "--archive", "/dev/full"], text=True, env=WITHOUT_LEAKS,
                              stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"No space left on device; the trace is in {self.trace}", done.stderr)
        self.assertTrue(os.path.exists("/dev/full"))
        self.assertGreater(events_of(self.trace)[1]["events"], 0)


class Inlines(Case):
    """main() of this host contains run(), which calls the functions that use the processor."""
    FRAME = "run (inlined by main)"

    def frames(self, debug, link=(), **environment):
        """Record a host whose DWARF is in another file. Return the functions in its stacks."""
        path = os.path.join(os.path.dirname(self.trace), "stripped")
        os.makedirs(os.path.dirname(debug), exist_ok=True)
        subprocess.run(["objcopy", "--only-keep-debug", HOT_HOST, debug], check=True)
        subprocess.run(["objcopy", "--strip-debug", *link, HOT_HOST, path], check=True)
        with drive.running([path], stdout=subprocess.DEVNULL) as host:
            done = self.record("--providers", "none", "--profile", "cpu", "--inlines", "-d", "1",
                               "-p", str(host.pid), env={**os.environ, **environment})
        self.assertNotIn("no names", done.stderr)
        return {name for sample in stacks_of(self.trace)[0] for name in functions(sample)}

    def test_a_debug_link_leads_to_the_inlined_functions(self):
        debug = os.path.join(os.path.dirname(self.trace), ".debug", "other.debug")
        self.assertIn(self.FRAME, self.frames(debug, [f"--add-gnu-debuglink={debug}"],
                                              DEBUGINFOD_URLS=""))

    def test_servers_have_the_inlined_functions(self):
        folder = os.path.join(os.path.dirname(self.trace), "server")
        debug = os.path.join(folder, "buildid", build_id_of(HOT_HOST), "debuginfo")
        found = self.frames(debug, DEBUGINFOD_URLS=f"file://{folder}",
                            DEBUGINFOD_CACHE_PATH=os.path.join(folder, "cache"))
        if not os.path.exists(os.path.join(folder, "cache")):
            self.skipTest("libdebuginfod is not installed")
        self.assertIn(self.FRAME, found)

    def test_a_trace_in_no_file_is_refused(self):
        done = subprocess.run([TOOL, "record", "--inlines", "-o", "-", "-d", "1"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              timeout=PATIENCE)
        self.assertIn("--inlines needs the trace in a file", done.stderr)
        self.assertEqual((done.returncode, done.stdout), (2, ""))


class GeneratedCode(Case):
    def test_functions_have_the_names_in_a_jitdump_file_also_after_a_move(self):
        for kind in "jit", "moved":
            with self.subTest(kind=kind):
                _, samples, _ = self.record_host(1000, kind)
                names = [functions(sample)[0] for sample in samples]
                self.assertGreater(names.count("jitted function"), 0.8 * len(names), names)
                self.prepare_again()


class Ending(Case):
    def test_a_terminal_shows_events_losses_size_and_cost(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execl(TOOL, TOOL, "record", "-o", self.trace, "--providers", "Test-Brief", "--",
                     "sh", "-c", f"'{BRIEF_HOST}'; '{HOST}' 5000 >/dev/null")
        shown = b""
        with contextlib.suppress(OSError):
            while data := os.read(terminal, 65536):
                shown += data
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, shown)
        number = r"([\d,.]+)"
        lines = re.findall(rf"{number} samples?, {number} events?, {number} lost, [\d.]+ .?B, "
                           rf"recorder {number}% of a CPU", shown.decode())
        self.assertTrue(lines, shown)
        samples, events, lost, cost = lines[-1]
        self.assertGreater(int(samples.replace(",", "")), 100)
        # Ten of the program, and those that describe it.
        self.assertIn(int(events), range(10, 30))
        self.assertEqual(lost, "0")
        self.assertGreater(float(cost), 0)

    def test_a_terminal_that_ctrl_s_stopped_does_not_stop_the_recording(self):
        after = os.path.join(os.path.dirname(self.trace), "after_ctrl_s")
        shutil.copy(HOST, after)
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        recorder = subprocess.Popen([TOOL, "record", "-o", self.trace, "--providers", "none"],
                                    stdin=slave, stdout=slave, stderr=slave)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        shown = b""
        while b" samples" not in shown:
            shown += os.read(master, 4096)
        os.write(master, b"\x13")
        drive.wait_for(lambda: not select.select([], [slave], [], 0)[1], "the stopped terminal")
        # There is a line each second.
        subprocess.run([HOST, "2500"], stdout=subprocess.DEVNULL, check=True)
        subprocess.run([after, "100"], stdout=subprocess.DEVNULL, check=True)

        def has_program():
            with open(self.trace, "rb") as trace:
                return b"after_ctrl_s" in trace.read()

        drive.wait_for(has_program, "the records of the later program")
        os.write(master, b"\x11")
        recorder.send_signal(signal.SIGINT)
        self.assertEqual(recorder.wait(PATIENCE), 0)

    def until(self, condition, *options):
        """Start a recorder that ends by itself. Return it when it records."""
        recorder = subprocess.Popen([TOOL, "record", "-o", self.trace, "--until", condition,
                                     *options], stderr=subprocess.PIPE, text=True)
        self.addCleanup(recorder.stderr.close)
        self.addCleanup(recorder.kill)
        drive.wait_for(lambda: os.path.exists(self.trace) and os.path.getsize(self.trace) > 0,
                       "the first bytes")
        return recorder

    def test_an_event_with_a_field_condition_ends_the_recording(self):
        recorder = self.until('event == "written" and serial > 7', "--providers", "Test-Brief")
        subprocess.run([BRIEF_HOST], check=True, timeout=PATIENCE)
        _, errors = recorder.communicate(timeout=PATIENCE)
        self.assertEqual(recorder.returncode, 0, errors)
        serials = [event["fields"]["serial"] for event in events_of(self.trace)[0]
                   if event["provider"] == "Test-Brief"]
        self.assertEqual(serials, list(range(10)))

    def test_a_size_ends_the_recording(self):
        for providers in "none", "Test-Brief":
            with self.subTest(providers=providers):
                recorder = self.until("300kB", "--providers", providers, "--profile", "all",
                                      "--allow-missing")
                while recorder.poll() is None:
                    subprocess.run([HOST, "300"], stdout=subprocess.DEVNULL, check=True)
                self.assertEqual(recorder.returncode, 0, recorder.stderr.read())
                self.assertIn(os.path.getsize(self.trace), range(300_000, 20_000_000))
                self.prepare_again()

    def test_a_wrong_condition_is_refused(self):
        for condition, place in ("5", 0), ("a:b:c", 1), ("a == ", 5), ("0MB", 1):
            done = subprocess.run([TOOL, "record", "-o", self.trace, "--until", condition],
                                  text=True, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--until: ", done.stderr)
            self.assertEqual(done.stderr.splitlines()[1:], [f"  {condition}", f"  {'':{place}}^"])
        done = subprocess.run([TOOL, "record", "-o", self.trace, "--providers", "none", "--until",
                               "a == 1"], text=True, stderr=subprocess.PIPE, timeout=PATIENCE,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("needs sessions", done.stderr)
        self.assertFalse(os.path.exists(self.trace))

    def test_interrupting_leaves_a_complete_trace(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            with self.subTest(signal=number.name):
                trace = f"{self.trace}.{number}"
                with subprocess.Popen([TOOL, "record", "-o", trace], stderr=subprocess.PIPE,
                                      text=True) as process:
                    drive.wait_for(lambda: os.path.exists(trace) and
                                           os.path.getsize(trace) > 0, "the first bytes")
                    process.send_signal(number)
                    _, errors = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 0, errors)
                done = subprocess.run([TOOL, "report", trace], text=True, check=False,
                                      stdout=subprocess.PIPE, timeout=PATIENCE)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn("Complete   yes", done.stdout)

    def has_event_of(self, shop):
        urllib.request.urlopen(shop.url, timeout=PATIENCE).close()
        with contextlib.suppress(FileNotFoundError), open(self.trace, "rb") as file:
            trace = file.read()
            return b"Shop-" in trace or "Shop-".encode("utf-16-le") in trace
        return False

    def test_a_second_interrupt_cuts_the_stream_of_a_process_that_does_not_end_it(self):
        with drive.shop(SHOP) as shop, \
                drive.running([TOOL, "record", "-o", self.trace, "-p", str(shop.pid),
                               "--inlines"], stderr=subprocess.PIPE, text=True) as recorder, \
                recorder.stderr:
            drive.wait_for(lambda: self.has_event_of(shop), "an event of the shop", [recorder])
            os.kill(shop.pid, signal.SIGSTOP)
            try:
                recorder.send_signal(signal.SIGINT)
                self.assertIn("Ctrl-C cuts it", recorder.stderr.readline())
                recorder.send_signal(signal.SIGTERM)
                _, errors = recorder.communicate(timeout=PATIENCE)
            finally:
                os.kill(shop.pid, signal.SIGCONT)
            self.assertEqual(recorder.returncode, 130, errors)
            self.assertIn(f"process {shop.pid} did not end its part", errors)
        self.assertNotIn("--inlines needs the trace in a file", errors)
        report = subprocess.run([TOOL, "report", self.trace], text=True, check=True,
                                stdout=subprocess.PIPE, timeout=PATIENCE).stdout
        self.assertIn("Complete   yes", report)

    def test_the_status_is_that_of_the_command(self):
        done = subprocess.run([TOOL, "record", "-o", self.trace, "--", "sh", "-c", "exit 7"],
                              stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 7, done.stderr)

    def test_a_broken_pipe_ends_a_program_of_the_command(self):
        done = subprocess.run([TOOL, "record", "-o", self.trace, "--", "sh", "-c",
                               "(yes; echo $? >&3) 3>&2 | head -1"], text=True, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              timeout=PATIENCE)
        self.assertIn(str(128 + signal.SIGPIPE), done.stderr.split())

    def test_a_killed_recorder_leaves_a_trace_that_can_be_read(self):
        with subprocess.Popen([TOOL, "record", "-o", self.trace], stderr=subprocess.PIPE) as it:
            with subprocess.Popen([HOST, "1000"], stdout=subprocess.DEVNULL):
                drive.wait_for(lambda: os.path.exists(self.trace) and
                                       os.path.getsize(self.trace) > 3000, "some samples")
            it.kill()
        done = subprocess.run([TOOL, "report", "--format", "json", self.trace], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              timeout=PATIENCE)
        self.assertGreater(json.loads(done.stdout)["events"], 10, done.stderr)

    def test_a_small_disk_has_what_was_recorded_until_it_was_full(self):
        folder, megabytes = tempfile.mkdtemp(), 2
        self.addCleanup(os.rmdir, folder)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder],
                          check=False).returncode:
            self.skipTest("no file system can be mounted")
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        trace = os.path.join(folder, "t.nettrace")
        # Each process has records, so the disk is soon full, also on an idle machine.
        with drive.running(["sh", "-c", "while :; do /bin/true; done"]):
            done = run_tree([TOOL, "record", "--kernel", "all", "-o", trace], text=True,
                            stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count(f"{trace}: No space left on device"), 1, done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], rf"^{trace}: .*, [\d,]+ lost")
        # All that was recorded is in the trace, and leaves space for little else.
        self.assertGreater(os.path.getsize(trace), megabytes * 750_000)
        # The trace may stop before its end, which status 1 states.
        report = subprocess.run([TOOL, "report", "--format", "json", trace], check=False,
                                stdout=subprocess.PIPE, timeout=PATIENCE).stdout
        self.assertGreater(json.loads(report)["events"], 1000)

    def test_a_limit_of_files_is_reported_and_the_last_line_is_printed(self):
        kilobytes = 2048  # each of both hosts writes more
        with contextlib.ExitStack() as stack:
            hosts = [stack.enter_context(subprocess.Popen(
                [os.environ["LOSS_HOST"]], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
                for _ in range(2)]
            for host in hosts:   # a host without a session does not end by itself
                stack.callback(host.kill)
            # It ends by itself.
            done = run_tree(["bash", "-c", f'ulimit -f {kilobytes}; exec "$0" "$@"', TOOL, "record",
                             "-o", self.trace, "--profile", "cpu", "--providers", "Test-Loss",
                             *(word for host in hosts for word in ("-p", str(host.pid)))],
                            text=True, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count(f"cannot write {self.trace}: File too large"), 1,
                         done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], rf"^{self.trace}: .*, [\d,]+ lost")
        self.assertEqual(os.path.getsize(self.trace), kilobytes * 1024)

    def test_a_full_disk_is_reported_and_the_last_line_has_the_losses(self):
        for providers in [], ["--providers", "none"]:
            with self.subTest(providers=providers):
                done = subprocess.run([TOOL, "record", "-d", "1", "-f", "-o", "/dev/full",
                                       *providers], text=True, stderr=subprocess.PIPE,
                                      timeout=PATIENCE, check=False)
                self.assertEqual(done.returncode, 1)
                *_, error, last = done.stderr.splitlines()
                self.assertIn("cannot write /dev/full: No space left on device", error)
                self.assertRegex(last, r"^/dev/full: .* samples? .*, [\d,]+ lost")

    def test_losses_that_a_killed_process_did_not_count_are_not_stated(self):
        with drive.shop(SHOP) as stopped:
            os.kill(stopped.pid, signal.SIGSTOP)
            with drive.running([TOOL, "record", "-f", "-o", "/dev/full", "-p", str(stopped.pid)],
                               stderr=subprocess.PIPE, text=True) as process, process.stderr:
                # The failed write ends the recording, and the stopped process delays its end.
                self.assertIn("waiting for a process to end its stream", process.stderr.readline())
                for writer in children_of(process.pid):
                    os.kill(writer, signal.SIGKILL)
                _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn("was killed by signal 9", errors)
        self.assertIn("cannot write /dev/full: No space left on device", errors)
        self.assertNotIn(" lost", errors)


if __name__ == "__main__":
    record_case.main()
