#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe recover` on what processes left: whole, damaged, hostile. HOST writes and is killed."""
import json
import os
import signal
import subprocess
import unittest

from tool import PATIENCE, ToolTest

HOST = os.environ["HOST"]
EVENTS = 100


class Recover(ToolTest):
    def setUp(self):
        super().setUp()
        self.environment.update(RINGPIPE_CONFIG="Test-Host", RINGPIPE_RECOVER=self.path("keep"),
                                RINGPIPE_OUTPUT=self.path("t.nettrace"), RINGPIPE_BUFFER_MB="1",
                                RINGPIPE_DIAGNOSTICS="0")

    def start_host(self):
        """A host that has written its events and waits."""
        host = subprocess.Popen([HOST], stdout=subprocess.PIPE, stdin=subprocess.PIPE,
                                env=self.environment, cwd=self.directory)
        self.addCleanup(self.reap, host)
        return host

    def wait_for_host(self, host):
        self.assertEqual(host.stdout.readline(), b"written\n")
        return host

    def kept(self):
        names = os.listdir(self.path("keep"))
        self.assertEqual(len(names), 1, names)
        return os.path.join(self.path("keep"), names[0])

    def leave(self):
        host = self.wait_for_host(self.start_host())
        host.kill()
        host.wait(PATIENCE)
        return self.kept()

    def count(self, trace):
        summary = json.loads(self.run_tool("report", trace, "--json")[0])
        self.assertTrue(summary["complete"])
        return sum(kind["events"] for provider in summary["providers"]
                   for kind in provider["kinds"] if provider["name"] == "Test-Host")

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

    def test_list_tells_and_prune_removes(self):
        name = os.path.basename(self.leave())
        out, _ = self.run_tool("recover", "--list", "keep")
        self.assertRegex(out, rf"{name} +{name.split('-')[0]}  environment  killed  20")
        os.mkdir(self.path("keep/123-abc"))
        os.mkdir(self.path("keep/other"))
        out, _ = self.run_tool("recover", "--prune", "keep")
        self.assertEqual(sorted(out.splitlines()),
                         sorted([f"removed {name} (killed)", "removed 123-abc (empty)"]))
        self.assertEqual(os.listdir(self.path("keep")), ["other"])

    def test_nothing_is_listed_where_nothing_is(self):
        self.assertEqual(self.run_tool("recover", "--prune", "none"), ("", ""))
        os.mkdir(self.path("none"))
        self.assertEqual(len(self.run_tool("recover", "--list", "none")[0].splitlines()), 1)

    def test_a_folder_that_is_to_be_listed_and_is_not_there_is_told(self):
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
        self.assertTrue(err == "" or "is not there any more" in err, err)

    def test_the_sessions_own_output_is_never_overwritten(self):
        kept = self.leave()
        before = self.read("t.nettrace")
        _, err = self.run_tool("recover", kept, "-o", "t.nettrace", "--force", status=1)
        self.assertIn("is what the session wrote itself", err)
        self.assertEqual(self.read("t.nettrace"), before)

    def test_what_is_no_regular_file_is_told_and_not_written_to(self):
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
        for make in (lambda path: (os.mkdir(path), os.chmod(path, 0o777)),
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

    def test_wrong_usage_is_told(self):
        for arguments in ((), ("--list", "--prune"), ("--list", "-o", "x")):
            self.assertIn("recover: ", self.run_tool("recover", *arguments, status=2)[1])


if __name__ == "__main__":
    unittest.main()
