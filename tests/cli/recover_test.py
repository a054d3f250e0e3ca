#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe recover` on complete, damaged and hostile files. HOST writes them and is killed."""
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import unittest

from tool import PATIENCE, TOOL, VERSION, ToolTest

HOST = os.environ["HOST"]
EVENTS = 100


class Recover(ToolTest):
    def setUp(self):
        super().setUp()
        self.environment.update(RINGPIPE_CONFIG="Test-Host", RINGPIPE_RECOVER=self.path("keep"),
                                RINGPIPE_OUTPUT=self.path("t.nettrace"), RINGPIPE_BUFFER_MB="1",
                                RINGPIPE_DIAGNOSTICS="0")

    def start_host(self, *arguments):
        """Start a host that has written its events and waits."""
        host = subprocess.Popen([HOST, *arguments], stdout=subprocess.PIPE, stdin=subprocess.PIPE,
                                env=self.environment, cwd=self.directory)
        self.addCleanup(self.reap, host)
        return host

    def record(self):
        """Use a flight recorder without an output instead."""
        del self.environment["RINGPIPE_OUTPUT"]
        self.environment.update(RINGPIPE_RECORDER="1", RINGPIPE_BUFFER_MB="8")

    def wait_for_host(self, host):
        self.assertEqual(host.stdout.readline(), b"written\n")
        return host

    def kept(self):
        names = os.listdir(self.path("keep"))
        self.assertEqual(len(names), 1, names)
        return os.path.join(self.path("keep"), names[0])

    def leave(self, *arguments):
        host = self.wait_for_host(self.start_host(*arguments))
        host.kill()
        host.wait(PATIENCE)
        return self.kept()

    def count(self, trace):
        summary = json.loads(self.run_tool("report", trace, "--format=json")[0])
        self.assertTrue(summary["complete"])
        found = self.strict(trace, "--recovered", "--serials", "Test-Host/mark:number")
        self.assertEqual(found["missing"], 0)
        self.assertEqual(found["lost_in_points"], summary["lost"])
        return sum(kind["events"] for provider in summary["providers"]
                   for kind in provider["kinds"] if provider["provider"] == "Test-Host")

    def test_what_a_killed_process_left_becomes_a_trace(self):
        kept = self.leave()
        out, err = self.run_tool("recover", kept, "-o", "r.nettrace")
        self.assertTrue(out.startswith(f"r.nettrace: {EVENTS} events, "), out)
        self.assertEqual(err, "")
        self.assertEqual(self.count("r.nettrace"), EVENTS)

    def test_an_abort_leaves_as_much(self):
        host = self.wait_for_host(self.start_host())
        host.send_signal(signal.SIGABRT)
        host.wait(PATIENCE)
        self.run_tool("recover", self.kept(), "-o", "r.nettrace")
        self.assertEqual(self.count("r.nettrace"), EVENTS)

    def test_a_running_process_is_left_alone(self):
        self.wait_for_host(self.start_host())
        kept = self.kept()
        self.assertIn("still runs", self.run_tool("recover", kept, status=1)[1])
        self.assertRegex(self.run_tool("recover", "--list", "keep")[0], r"environment  running")
        self.assertEqual(self.run_tool("recover", "--prune", "keep")[0], "")
        self.assertTrue(os.path.exists(os.path.join(kept, "session")))

    def test_a_session_that_ends_leaves_nothing(self):
        host = self.wait_for_host(self.start_host())
        host.communicate(b"\n", PATIENCE)
        self.assertEqual(host.returncode, 0)
        self.assertEqual(os.listdir(self.path("keep")), [])
        self.assertEqual(self.count("t.nettrace"), EVENTS)

    def test_list_reports_and_prune_removes(self):
        name = os.path.basename(self.leave())
        out, _ = self.run_tool("recover", "--list", "keep")
        self.assertRegex(out, rf"{name} +{name.split('-')[0]}  environment  killed  20")
        os.mkdir(self.path("keep/123-abc"))
        os.mkdir(self.path("keep/other"))
        out, _ = self.run_tool("recover", "--prune", "keep")
        self.assertEqual(sorted(out.splitlines()),
                         sorted([f"removed {name} (killed)", "removed 123-abc (empty)"]))
        self.assertEqual(os.listdir(self.path("keep")), ["other"])

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"),
                         "only root can drop the capability to take leases")
    def test_prune_leaves_alone_what_it_cannot_ask_the_kernel_about(self):
        kept = self.leave()
        os.chown(os.path.join(kept, "session"), 65534, 65534)
        for action in ("--list", "--prune"):
            done = subprocess.run(["setpriv", "--bounding-set=-lease", TOOL, "recover", action,
                                   "keep"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=self.environment, cwd=self.directory, check=False,
                                  timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertEqual(b"Permission denied" in done.stdout, action == "--list")
        self.assertEqual(self.kept(), kept)
        self.assertIn("ring-0", os.listdir(kept))
        self.assertIn("removed", self.run_tool("recover", "--prune", "keep")[0])

    def test_rings_beyond_the_file_size_limit_are_refused_and_the_host_lives(self):
        host = subprocess.run([HOST], input=b"\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=self.environment, cwd=self.directory, check=False,
                              timeout=PATIENCE, preexec_fn=lambda: resource.setrlimit(
                                  resource.RLIMIT_FSIZE, (60000, 60000)))
        self.assertEqual((host.returncode, host.stdout), (0, b"written\n"), host.stderr)
        self.assertIn(b"cannot start a session", host.stderr)
        self.assertIn(b"File too large", host.stderr)
        self.assertEqual(os.listdir(self.path("keep")), [])

    def test_a_definition_that_could_not_be_kept_spoils_no_other(self):
        self.record()
        self.environment["RINGPIPE_CONFIG"] = "*"
        kept = self.leave("define")
        # The next definition takes the place of the missing one.
        self.assertNotIn(bytes(32), self.read(os.path.join(kept, "events")))
        out, _ = self.run_tool("recover", kept, "-o", "r.nettrace")
        kinds = self.strict("r.nettrace", "--recovered")["kinds"]
        self.assertEqual(kinds["Test-Host/mark"], EVENTS)
        self.assertEqual(kinds["Test-Dynamic/defined"], 7)
        self.assertNotIn("Test-Dynamic/undefined", kinds)
        self.assertTrue(out.startswith(f"r.nettrace: {EVENTS + 7} events, "), out)

    def test_a_damaged_definition_spoils_no_other(self):
        self.record()
        self.environment["RINGPIPE_CONFIG"] = "*"
        kept = self.leave("define")
        path = os.path.join(kept, "events")
        data = bytearray(self.read(path))
        name = b"Test-Dynamic\0defined\0"
        data[data.index(name) + len(name) + 2] = 200  # the type of its first field
        with open(path, "r+b") as file:
            file.write(data)
        out, err = self.run_tool("recover", kept, "-o", "r.nettrace")
        kinds = self.strict("r.nettrace", "--recovered")["kinds"]
        self.assertEqual(kinds["Test-Host/mark"], EVENTS)
        self.assertNotIn("Test-Dynamic/defined", kinds)
        self.assertTrue(out.startswith(f"r.nettrace: {EVENTS} events, "), out)
        self.assertIn("left out 14 events", err)  # and those without a definition

    def check_traced(self):
        self.run_tool("recover", self.leave("traced"), "-o", "r.nettrace")
        out, _ = self.run_tool("report", "r.nettrace", "events", "--format=json")
        rows = [row for row in map(json.loads, out.splitlines()) if row["event"] == "mark"]
        self.assertEqual(len(rows), EVENTS + 6)
        ids = [(row.get("trace_id"), row.get("span_id")) for row in rows]
        span = ids[EVENTS][1]
        self.assertRegex(span, "^[0-9a-f]{16}$")
        self.assertEqual(ids[EVENTS:EVENTS + 3],
                         [("4bf92f3577b34da6a3ce929d0e0e4736", span)] * 3)
        self.assertEqual(ids[:EVENTS] + ids[EVENTS + 3:], [(None, None)] * (EVENTS + 3))
        self.assertTrue(all(row["activity"] for row in rows[EVENTS:]))

    @unittest.skipUnless(VERSION == "6", "version 4 has no trace ids")
    def test_recovered_events_keep_the_ids_of_their_traces(self):
        self.record()
        self.check_traced()

    @unittest.skipUnless(VERSION == "6", "version 4 has no trace ids")
    def test_events_after_the_output_keep_the_ids_of_their_traces(self):
        self.check_traced()

    def record_of_losses(self):
        """Return how many records the session has committed, and the losses of the last one that no
        ring counts (src/lib/recover/recovery_format.h)."""
        head = self.read(os.path.join(self.kept(), "session"))
        generation, tails = struct.unpack_from("<QI", head, 8)
        record = 4280 + (generation & 1) * (72 + 8 * tails)
        return generation, struct.unpack_from("<Q", head, record + 32)[0]

    def losses_in_output(self, reason):
        """Return the sum of the counts of the events EventsLost, behind the name of the reason."""
        name = (reason + "\0").encode("utf-16-le")
        counts = re.findall(re.escape(name) + b"(.{8})", self.read("t.nettrace"), re.S)
        return sum(int.from_bytes(count, "little") for count in counts)

    def test_losses_that_no_ring_counts_are_recovered(self):
        for reason in ("too-big", "busy", "damaged", "blocked"):
            for recorder in (False, True)[:1 if reason == "blocked" else 2]:
                with self.subTest(reason=reason, recorder=recorder):
                    self.setUp()
                    # One buffer for each fallback lock; otherwise the reason would be
                    # full-fallback.
                    self.environment["RINGPIPE_BUFFER_MB"] = "64"
                    if reason == "blocked":
                        self.environment["RINGPIPE_BLOCK_MS"] = str(1000 * PATIENCE)
                    if recorder:
                        self.record()
                    host = self.wait_for_host(self.start_host(reason))
                    self.wait_until(lambda: self.record_of_losses()[1] == 3)
                    if not recorder:
                        self.wait_until(lambda: self.losses_in_output(reason) == 3)
                    host.kill()
                    host.wait(PATIENCE)
                    out, _ = self.run_tool("recover", self.kept(), "-o", "r.nettrace")
                    self.assertIn("; 3 lost", out)
                    found = self.strict("r.nettrace", "--recovered")
                    self.assertEqual(found["kinds"]["Test-Host/mark"], EVENTS)
                    self.assertEqual(found["lost_in_points"], 3)
                    self.assertEqual(found["lost_by"][reason], 0 if recorder else 3)

    def test_nothing_is_listed_where_nothing_is(self):
        self.assertEqual(self.run_tool("recover", "--prune", "none"), ("", ""))
        os.mkdir(self.path("none"))
        self.assertEqual(len(self.run_tool("recover", "--list", "none")[0].splitlines()), 1)

    def test_a_folder_that_is_to_be_listed_and_is_not_there_is_reported(self):
        out, err = self.run_tool("recover", "--list", "none", status=1)
        self.assertEqual(out, "")
        self.assertIn("cannot read none: No such file", err)

    def test_without_its_output_the_rings_are_recovered(self):
        kept = self.leave()
        os.unlink(self.path("t.nettrace"))
        _, err = self.run_tool("recover", kept, "-o", "r.nettrace")
        self.assertLessEqual(self.count("r.nettrace"), EVENTS)
        out, _ = self.run_tool("recover", "--list", "keep")
        self.assertIn("t.nettrace", out)
        self.assertTrue(err == "" or "is missing, or the session did not write it" in err, err)

    def test_the_sessions_own_output_is_never_overwritten(self):
        kept = self.leave()
        before = self.read("t.nettrace")
        _, err = self.run_tool("recover", kept, "-o", "t.nettrace", "--force", status=1)
        self.assertIn("is the session's own output", err)
        self.assertEqual(self.read("t.nettrace"), before)

    def test_what_is_no_regular_file_is_reported_and_not_written_to(self):
        kept = self.leave()
        os.mkfifo(self.path("fifo"))
        reader = os.open(self.path("fifo"), os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        _, err = self.run_tool("recover", kept, "-o", "fifo", status=1)
        self.assertIn("cannot recover into fifo: it is not a regular file", err)
        self.assertEqual(os.read(reader, 1), b"")

    def test_files_cut_anywhere_never_kill_it(self):
        kept = self.leave()
        for name in sorted(os.listdir(kept)):
            path = os.path.join(kept, name)
            with open(path, "rb") as file:
                whole = file.read()
            for size in {0, 1, 8, 63, 64, 4095, 4096, len(whole) // 2, len(whole) - 1}:
                with self.subTest(name=name, size=size):
                    os.truncate(path, min(size, len(whole)))
                    process = self.start("recover", kept, "-o", "r.nettrace", "--force")
                    process.communicate(timeout=PATIENCE)
                    self.assertIn(process.returncode, (0, 1))
                    with open(path, "wb") as file:
                        file.write(whole)

    def test_links_in_the_place_of_files_are_not_followed(self):
        kept = self.leave()
        secret = self.write("secret", b"x" * 8192)
        for name in ("session", "events", "ring-0"):
            path = os.path.join(kept, name)
            os.rename(path, path + ".aside")
            os.symlink(secret, path)
            self.run_tool("recover", kept, "-o", "r.nettrace", status=1)
            os.unlink(path)
            os.rename(path + ".aside", path)
        os.symlink(kept, self.path("keep/1-1"))
        self.run_tool("recover", "keep/1-1", status=1)
        self.assertNotIn("1-1 ", self.run_tool("recover", "--list", "keep")[0])

    def test_a_directory_of_others_is_refused(self):
        for make in (lambda path: (os.mkdir(path), os.chmod(path, 0o720)),
                     lambda path: (os.mkdir(path), os.chmod(path, 0o702)),
                     lambda path: os.symlink(self.directory, path),
                     lambda path: os.close(os.open(path, os.O_CREAT, 0o600))):
            make(self.path("keep"))
            done = subprocess.run([HOST], input=b"\n", stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=self.environment,
                                  cwd=self.directory, check=False, timeout=PATIENCE)
            self.assertIn(b"cannot start a session", done.stderr)
            if os.path.islink(self.path("keep")) or os.path.isfile(self.path("keep")):
                os.unlink(self.path("keep"))
            else:
                self.assertEqual(os.listdir(self.path("keep")), [])
                os.rmdir(self.path("keep"))

    def test_without_proc_the_error_names_the_call_and_no_directory_is_left(self):
        hide = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /proc && exec $0"]
        if subprocess.run(hide + ["true"], check=False, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("cannot hide /proc")
        done = subprocess.run(hide + [HOST], input=b"\n", stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=self.environment,
                              cwd=self.directory, check=False, timeout=PATIENCE)
        self.assertIn(b"No such file or directory from readlink\n", done.stderr)
        self.assertEqual(os.listdir(self.path("keep")), [])

    def test_modes_are_the_owners_alone(self):
        kept = self.leave()
        self.assertEqual(os.stat(self.path("keep")).st_mode & 0o777, 0o700)
        self.assertEqual(os.stat(kept).st_mode & 0o777, 0o700)
        for name in os.listdir(kept):
            self.assertEqual(os.stat(os.path.join(kept, name)).st_mode & 0o777, 0o600, name)

    def test_an_output_that_is_no_file_is_refused(self):
        os.mkfifo(self.path("fifo"))
        reader = os.open(self.path("fifo"), os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        self.environment["RINGPIPE_OUTPUT"] = self.path("fifo")
        done = subprocess.run([HOST], input=b"\n", stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=self.environment, check=False,
                              timeout=PATIENCE)
        self.assertIn(b"Invalid argument", done.stderr)

    def test_wrong_usage_is_reported(self):
        for arguments in ((), ("--list", "--prune"), ("--list", "-o", "x")):
            self.assertIn("recover: ", self.run_tool("recover", *arguments, status=2)[1])


if __name__ == "__main__":
    unittest.main()
