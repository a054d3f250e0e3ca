#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Processes in separate namespaces, found from outside by the clients' rules.

usage: apart_test.py HOST RINGPIPE [unittest arguments]

HOST prints its pid, then writes numbered events of provider Ipc-Host until its standard input ends.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from ipc_host import PATIENCE, eventually, socket_path, start_ticks

HOST = RINGPIPE = None
DOTNET_TRACE = None

# The program has a private $FOLDER. The tree and the build remain visible if they are in it.
HIDE = """
set -e
mount --make-rprivate /
mount --bind "$TREE" /mnt
mount -t tmpfs -o mode=1777 own "$FOLDER"
mkdir -p "$TREE"
mount --bind /mnt "$TREE"
exec "$@"
"""


def three_up(path):
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(path))))


TREE = three_up(__file__)


class Apart(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="rp-apart-")
        self.addCleanup(shutil.rmtree, self.directory)
        for name in ("inner", "outer"):
            os.mkdir(self.path(name))
        self.environment = dict(os.environ, TMPDIR=self.path("outer"))

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, *command, groups=None, **variables):
        environment = dict(self.environment, **variables)
        for name in [name for name, value in environment.items() if value is None]:
            del environment[name]
        process = subprocess.Popen(list(map(str, command)), env=environment, extra_groups=groups,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def end():
            process.stdin.close()
            process.stdout.read()
            process.stdout.close()
            process.wait()
        self.addCleanup(end)
        inner = int(process.stdout.readline())
        return self.innermost(process.pid), inner

    def innermost(self, pid):
        """unshare --fork, and the shell, wait for the processes that they started."""
        while True:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                children = file.read().split()
            if not children:
                return pid
            pid = int(children[0])

    def hide(self, *options, folder=None, program=None, **variables):
        folder = folder or self.path("inner")
        return self.start("unshare", "--mount", *options, "sh", "-c", HIDE, "sh",
                          *(program or [HOST]), FOLDER=folder,
                          TREE=TREE if HOST.startswith(TREE + "/") else three_up(HOST),
                          **variables)

    def tool(self, *arguments, status=0):
        done = subprocess.run([RINGPIPE, *map(str, arguments)], env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
                              stderr=subprocess.PIPE, timeout=PATIENCE, cwd=self.directory)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def row(self, pid):
        rows = [row for row in json.loads(self.tool("ps", "--format=json").stdout)
                if row["process_id"] == pid]
        return rows[0] if rows and rows[0]["runtime"] else None

    def assert_traced(self, pid, name):
        """All commands that connect to the process reach it."""
        row = eventually(lambda: self.row(pid), "a process apart")
        self.assertTrue(row["runtime"].startswith("ringpipe "), row)
        self.assertTrue(row["socket"].startswith(f"/proc/{pid}/"), row)
        self.assertEqual(os.path.basename(row["socket"]), name)
        self.assertIn("Ipc-Host", self.tool("list", pid).stdout)
        trace = self.path(f"trace-{pid}")

        def collected():
            self.tool("collect", "-p", pid, "--providers", "Ipc-Host", "--duration", 1, "--force",
                      "-o", trace)
            events = self.tool("report", trace, "events", "--format=json").stdout.splitlines()
            return "tick" in {json.loads(event)["event"] for event in events}

        eventually(collected, "an event in a second")

    def counted(self, pid):
        self.tool("counters", "collect", "--format=csv", "-p", pid, "--duration", 2, "--force",
                  "--counters", "ringpipe[threads]", "-o", self.path("counters"))
        with open(self.path("counters"), encoding="utf-8") as file:
            return ",ringpipe,threads" in file.read()

    def name(self, pid, inner):
        return socket_path("", inner, start_ticks(pid))

    def test_own_tmp_as_systemd_makes_it(self):
        pid, inner = self.hide(folder="/tmp", TMPDIR=None)
        self.assertEqual(pid, inner)
        self.assert_traced(pid, self.name(pid, inner))

    def test_own_pids_and_own_tmp_as_containers_have_them(self):
        pid, inner = self.hide("--pid", "--fork", "--mount-proc", TMPDIR=self.path("inner") + "/")
        self.assertNotEqual(pid, inner)
        self.assert_traced(pid, self.name(pid, inner))
        eventually(lambda: self.counted(pid), "its counters")

    def test_own_pids_in_the_same_folder(self):
        pid, inner = self.start("unshare", "--pid", "--fork", "--mount-proc", HOST)
        self.assertNotEqual(pid, inner)
        self.assertEqual(os.listdir(self.path("outer")), [self.name(pid, inner)])
        self.assert_traced(pid, self.name(pid, inner))

    def test_own_pids_of_a_process_in_many_groups(self):
        """Its groups come before its pids in /proc/PID/status."""
        pid, inner = self.start("unshare", "--pid", "--fork", "--mount-proc", HOST,
                                groups=range(1000000, 1002000))
        self.assert_traced(pid, self.name(pid, inner))

    def test_own_time_is_another_key(self):
        pid, inner = self.start("unshare", "--time", "--boottime", 100000, "--pid", "--fork",
                                "--mount-proc", HOST)
        name, = os.listdir(self.path("outer"))
        self.assertNotEqual(name, self.name(pid, inner))
        # The client uses the newest socket of that pid.
        stale = os.path.join(self.path("outer"), f"dotnet-diagnostic-{inner}-1-socket")
        os.mknod(stale, 0o140600)
        os.utime(stale, (1, 1))
        self.assert_traced(pid, name)

    def test_long_folders_are_reached(self):
        long = self.path("outer") + "/" + "x" * (60 - len(self.path("outer")))
        os.mkdir(long)
        pid, inner = self.start("unshare", "--pid", "--fork", "--mount-proc", HOST, TMPDIR=long)
        self.assert_traced(pid, self.name(pid, inner))

    def test_another_process_in_its_place_is_not_asked(self):
        """Another process of the same container listens under that name."""
        pid, inner = self.start("unshare", "--pid", "--fork", "--mount-proc", HOST)
        name, = os.listdir(self.path("outer"))
        os.unlink(os.path.join(self.path("outer"), name))
        listens = ("import os, socket, sys\n"
                   "own = socket.socket(socket.AF_UNIX)\n"
                   "own.bind(sys.argv[1])\n"
                   "own.listen()\n"
                   "print(os.getpid(), flush=True)\n"
                   "sys.stdin.read()\n"
                   "own.setblocking(False)\n"
                   "assert own.accept()[0].recv(1) == b'', 'it was asked'\n")
        self.start(sys.executable, "-c", listens, os.path.join(self.path("outer"), name))
        self.assertIn("no access", self.tool("list", pid, status=1).stderr)

    def test_dumps_lie_where_the_process_sees_them(self):
        pid, _ = self.hide("--pid", "--fork", "--mount-proc", TMPDIR=self.path("inner"))
        core = self.path("inner") + "/core"
        self.assertIn(f"/proc/{pid}/root{core}", self.tool("dump", pid, "-o", core).stderr)
        self.assertFalse(os.path.exists(core))
        with open(f"/proc/{pid}/root{core}", "rb") as file:
            self.assertEqual(file.read(4), b"\x7fELF")

    @unittest.skipUnless(shutil.which("dotnet"), "the .NET SDK is not installed")
    def test_dotnet_trace_finds_it(self):
        pid, inner = self.hide("--pid", "--fork", "--mount-proc", TMPDIR=self.path("inner"))
        self.assertNotEqual(pid, inner)

        def collected():
            done = subprocess.run([DOTNET_TRACE, "collect", "-p", str(pid), "--providers",
                                   "Ipc-Host:1:5", "--duration", "00:00:01", "-o",
                                   self.path("n")], env=self.environment, check=False, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stdout)
            return '"tick"' in self.tool("report",
                                         self.path("n"), "events", "--format=json").stdout

        eventually(collected, "an event in a second")


def namespaces():
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "mount",
                           "-t", "tmpfs", "own", "/mnt"], check=False, stderr=subprocess.PIPE)
    return done.returncode == 0


if __name__ == "__main__":
    if os.geteuid() != 0 or not namespaces():
        print("namespaces of mounts and pids need root")
        sys.exit(77)
    HOST, RINGPIPE = map(os.path.abspath, sys.argv[1:3])
    del sys.argv[1:3]
    if shutil.which("dotnet"):
        from clients import dotnet_trace_command
        DOTNET_TRACE = dotnet_trace_command()
    unittest.main()
