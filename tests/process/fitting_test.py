#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library in Debian's programs, in every environment where they may run.

usage: fitting_test.py LIBRARY RINGPIPE HOST [unittest arguments]

HOST is linked to the library. It prints its pid, then writes numbered events of provider Ipc-Host
until its standard input ends.
"""
import csv
import glob
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from eventually import PATIENCE_S as PATIENCE, eventually
from port import socket_path

LIBRARY = RINGPIPE = HOST = None
NOBODY = 65534
PYTHON = "/usr/bin/python3"
# The library is preloaded, so Python 3.12 warns about fork(2) in a process with threads.
QUIET = "-Wignore::DeprecationWarning"

# Executes `step`, then does the same as cat(1).
STEPS = """
import os, sys
def fork():
    if os.fork():
        os._exit(0)
%s
print(os.getpid(), flush=True)
sys.stdin.read()
"""


class Fitting(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="rp-fitting-")
        os.chmod(self.directory, 0o755)
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def environment(self, **variables):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("RINGPIPE_", "DOTNET_", "COMPlus_", "LD_"))}
        kept.update({"TMPDIR": self.directory, "RINGPIPE_LTTNG": "0"}, **variables)
        return {name: value for name, value in kept.items() if value is not None}

    def start(self, *command, preload=None, prefix=(), **variables):
        variables["LD_PRELOAD"] = LIBRARY if preload is None else preload
        setting = [f"{name}={value}" for name, value in variables.items() if value is not None]
        unset = [f"--unset={name}" for name, value in variables.items() if value is None]
        log = open(self.path("log"), "w+", encoding="utf-8")
        # The commands before the program run without the preloaded library.
        process = subprocess.Popen([*prefix, "env", *unset, *setting, *command],
                                   env=self.environment(), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=log, text=True, cwd="/")

        def end():
            process.stdin.close()
            process.stdout.read()
            process.stdout.close()
            process.wait()
            log.close()
        self.addCleanup(end)
        return process

    def cat(self, **options):
        """Runs cat(1) with the library, and checks that it works."""
        process = self.start("cat", **options)
        process.stdin.write("word\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "word\n")
        return process

    def python(self, steps, **options):
        process = self.start(PYTHON, QUIET, "-c", STEPS % steps, **options)
        return int(process.stdout.readline())

    def said(self):
        with open(self.path("log"), encoding="utf-8") as log:
            return log.read()

    def sockets(self):
        return glob.glob(self.path("dotnet-diagnostic-*"))

    def tool(self, *arguments, prefix=()):
        return subprocess.run([*prefix, RINGPIPE, *map(str, arguments)], check=False, text=True,
                              env=self.environment(), stdin=subprocess.DEVNULL, cwd="/",
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)

    def assert_reached(self, pid):
        """Waits for the port, because a forked child opens its port a little later."""
        end = time.monotonic() + PATIENCE
        while (done := self.tool("list", pid)).returncode != 0:
            self.assertLess(time.monotonic(), end, done.stderr)
            time.sleep(0.01)
        self.assertIn("PROVIDER", done.stdout)


class Loaded(Fitting):
    def answers(self, tool, command_set, command, payload):
        """The process connects to the tool. Returns whether it answers the request."""
        with tool.accept()[0] as connection:
            connection.settimeout(PATIENCE)
            connection.recv(34, socket.MSG_WAITALL)     # its id and its cookie
            connection.sendall(struct.pack("<14sHBBH", b"DOTNET_IPC_V1", 20 + len(payload),
                                           command_set, command, 0) + payload)
            return len(connection.recv(20, socket.MSG_WAITALL)) == 20

    def test_a_dump_needs_no_lock_of_a_dlopen_that_waits_for_the_client(self):
        """dlopen(3) holds the loader's lock until the client lets the program continue."""
        path = self.path("core") + "\0"
        dump = struct.pack("<I", len(path)) + path.encode("utf-16-le") + struct.pack("<II", 1, 0)
        with socket.socket(socket.AF_UNIX) as tool:
            tool.settimeout(PATIENCE)
            tool.bind(self.path("tool"))
            tool.listen()
            process = self.start(PYTHON, "-c", f"import ctypes; ctypes.CDLL('{LIBRARY}')",
                                 preload="", RINGPIPE_PORTS=self.path("tool"))
            self.addCleanup(process.kill)
            self.assertTrue(self.answers(tool, 0x01, 0x03, dump), "a dump")
            self.assertTrue(self.answers(tool, 0x04, 0x01, b""), "the end of its start")
            self.assertEqual(process.wait(PATIENCE), 0)


class Folder(Fitting):
    def test_the_folder_is_tmpdir_or_tmp(self):
        for value, where in ((self.directory, self.directory), (self.directory + "//",
                             self.directory), ("", "/tmp"), (None, "/tmp")):
            with self.subTest(value=value):
                process = self.cat(TMPDIR=value)
                path = socket_path(where, process.pid)
                self.assertTrue(os.path.exists(path))
                self.assert_reached(process.pid)
                process.stdin.close()
                self.assertEqual(process.wait(PATIENCE), 0)
                self.assertFalse(os.path.exists(path))

    def test_a_relative_folder_is_that_of_the_start(self):
        os.mkdir(self.path("folder"))
        process = self.start(PYTHON, "-c", STEPS % "sys.stdin.readline(); os.chdir('/')",
                             prefix=("sh", "-c", 'cd "$0" && exec "$@"', self.directory),
                             TMPDIR="folder")
        eventually(lambda: os.path.exists(socket_path(self.path("folder"), process.pid)),
                   "the socket")
        self.assert_reached(process.pid)
        process.stdin.write("go\n")
        process.stdin.flush()
        self.assertEqual(int(process.stdout.readline()), process.pid)
        # The folder's path now means another folder; the kernel knows the whole path.
        self.assertEqual(self.tool("list", process.pid).returncode, 0)
        self.assertEqual(self.tool("list", process.pid, prefix=(
            "env", "TMPDIR=" + self.path("folder"))).returncode, 0)
        process.stdin.close()
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(os.listdir(self.path("folder")), [])

    def test_a_relative_folder_may_be_too_long(self):
        process = self.start("sh", "-c", "exec cat", prefix=(
            "sh", "-c", 'cd "$0" && exec "$@"', self.directory), TMPDIR="./" * 50,
            RINGPIPE_DIAGNOSTICS="1")
        process.stdin.write("word\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "word\n")
        self.assertRegex(self.said(), r'cannot open the diagnostic port "[^"\n]*": File name too')

    def expect_none(self, folder, **options):
        """The program runs without output, and reports one line if the port was requested."""
        process = self.cat(TMPDIR=folder, **options)
        self.assertEqual(self.said(), "")
        reported = self.tool("list", process.pid)
        self.assertEqual(reported.returncode, 1)
        self.assertIn("has no diagnostics socket", reported.stderr)
        for name in ("RINGPIPE_DIAGNOSTICS", "DOTNET_DefaultDiagnosticPortSuspend"):
            self.cat(TMPDIR=folder, **{name: "1"}, **options)
            self.assertRegex(self.said(), r"\Aringpipe: cannot open the diagnostic port "
                             r'"[^"\n]*": [^\n]*\n\Z')

    def test_folders_that_do_not_go(self):
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        long = self.path("x" * 100)
        os.mkdir(long)
        for folder in (self.path("missing"), self.path("file"), long):
            with self.subTest(folder=folder):
                self.expect_none(folder)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_folders_that_may_not_be_written(self):
        os.mkdir(self.path("closed"), 0o555)
        # An unprivileged user may have no access to the build tree.
        shutil.copy(LIBRARY, self.path("copy.so"))
        self.expect_none(self.path("closed"), preload=self.path("copy.so"),
                         prefix=("setpriv", f"--reuid={NOBODY}", "--clear-groups"))
        remount = 'mount --make-rprivate / && mount -o bind "$0" "$0" && ' \
            'mount -o remount,bind,ro "$0" && exec "$@"'
        prefix = ("unshare", "--mount", "sh", "-c", remount, self.path("closed"))
        if subprocess.run([*prefix, "true"], check=False).returncode:
            self.skipTest("cannot mount")
        self.expect_none(self.path("closed"), prefix=prefix)


class Programs(Fitting):
    def test_a_program_that_becomes_a_daemon(self):
        for steps in ("fork(); os.setsid(); os.chdir('/')",
                      "fork(); os.setsid(); fork(); os.chdir('/')"):
            self.assert_reached(self.python(steps))

    def test_a_program_that_becomes_another(self):
        process = self.start("sh", "-c", "exec cat")
        process.stdin.write("word\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "word\n")
        self.assert_reached(process.pid)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_after_setuid_its_port_is_for_root(self):
        pid = self.python(f"os.setuid({NOBODY})")
        self.assert_reached(pid)
        path = socket_path(self.directory, pid)
        self.assertEqual((os.stat(path).st_uid, os.stat(path).st_mode & 0o777), (0, 0o600))
        reported = self.tool("list", pid, prefix=("setpriv", f"--reuid={NOBODY}", "--clear-groups"))
        self.assertEqual(reported.returncode, 1)
        self.assertIn("no access", reported.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_after_chroot_it_is_reached_from_outside(self):
        os.makedirs(self.path("root/tmp"))
        self.assert_reached(self.python(f"os.chroot('{self.path('root')}'); os.chdir('/')"))


class Foreign(Fitting):
    """Programs that were not built for the library have the features of every process."""

    def assert_sampled(self, pid, mapped):
        """Checks that stacks of running threads reach deep into the program's own code."""
        trace = self.path("trace")
        end = time.monotonic() + PATIENCE
        depth = 0
        while depth <= 3:
            self.assertLess(time.monotonic(), end, "no stack")
            done = self.tool("collect", "-p", pid, "--providers",
                             "Microsoft-DotNETCore-SampleProfiler:0:5", "--duration", "1",
                             "--force", "-o", trace)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = map(json.loads, self.tool("report",
                                             trace, "events", "--format=json").stdout.splitlines())
            depth = max((len(row.get("stack", ())) for row in rows
                         if row["event"] == "ThreadSample"), default=0)
        # The trace contains this text only as UTF-8.
        with open(trace, "rb") as file:
            self.assertIn(b"/" + mapped.encode(), file.read(), "where its code is")

    def assert_asleep(self, pid, *words):
        """Waits until the program sleeps, and checks where; a loaded machine may be slow."""
        end = time.monotonic() + PATIENCE
        said = ""
        while not all(word in said for word in words):
            self.assertLess(time.monotonic(), end, said)
            done = self.tool("stacks", pid)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = done.stdout

    def assert_counted(self, pid, busy=False):
        """Waits until all of these counters have a value."""
        wanted = {("System.Runtime", name) for name in ("cpu-usage", "working-set")} | \
            {("ringpipe", name) for name in ("threads", "context-switches", "events-delivered",
                                             "events-lost", "session-memory", "drain-lag")}
        end = time.monotonic() + PATIENCE
        values = {}
        while not wanted <= values.keys() or \
                (busy and values["System.Runtime", "cpu-usage"] == 0):
            self.assertLess(time.monotonic(), end, (wanted - values.keys(), values))
            done = self.tool("counters", "collect", "--format=csv", "-p", pid, "--duration", "2",
                             "--force", "-o", self.path("counters"))
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(self.path("counters"), encoding="utf-8", newline="") as file:
                values = {(row["Provider"], row["Counter Name"].split(" ")[0]):
                          float(row["Mean/Increment"]) for row in csv.DictReader(file)}
        self.assertGreater(values["System.Runtime", "working-set"], 0.1)
        self.assertGreater(values["ringpipe", "threads"], 1)

    def test_sleep(self):
        process = self.start("sleep", str(2 * PATIENCE))
        self.addCleanup(process.kill)
        self.assert_reached(process.pid)
        self.assert_asleep(process.pid, "sleep, sleeping", "nanosleep", "(sleep)")
        self.assert_counted(process.pid)

    def test_python(self):
        pid = self.python("import threading\ndef spin():\n    while True:\n        sum(range(99))\n"
                          "threading.Thread(target=spin, daemon=True).start()")
        self.assert_sampled(pid, os.path.basename(os.path.realpath(PYTHON)))
        self.assert_counted(pid, busy=True)

    @unittest.skipUnless(shutil.which("sqlite3"), "no sqlite3")
    def test_sqlite(self):
        process = self.start("sqlite3", ":memory:")
        self.addCleanup(process.kill)
        process.stdin.write("select 'begins';\nwith recursive n(i) as (select 1 union all select "
                            "i + 1 from n) select count(*) from n;\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "begins\n")
        self.assert_sampled(process.pid, "sqlite3")
        self.assert_counted(process.pid)

    @unittest.skipUnless(shutil.which("redis-server"), "no redis-server")
    def test_redis(self):
        process = self.start("redis-server", "--port", "0", "--unixsocket", self.path("redis"),
                             "--save", "", "--dir", self.directory)
        self.addCleanup(process.kill)
        end = time.monotonic() + PATIENCE
        with socket.socket(socket.AF_UNIX) as client:
            while client.connect_ex(self.path("redis")):
                self.assertLess(time.monotonic(), end, "no redis")
                time.sleep(0.01)
            self.assert_asleep(process.pid, "redis-server, sleeping", "epoll_wait")
            client.sendall(b'EVAL "while true do end" 0\r\n')
            self.assert_sampled(process.pid, os.path.basename(
                os.path.realpath(shutil.which("redis-server"))))
            self.assert_counted(process.pid)


class Copies(Fitting):
    def test_two_copies_have_one_port(self):
        shutil.copy(LIBRARY, self.path("second.so"))
        process = self.cat(preload=f"{LIBRARY}:{self.path('second.so')}",
                           RINGPIPE_DIAGNOSTICS="1")
        with open(f"/proc/{process.pid}/maps", encoding="ascii") as maps:
            self.assertIn("/second.so", maps.read())
        self.assertRegex(self.said(), r"\Aringpipe: another process has the diagnostic port "
                         r"[^\n]*\n\Z")
        self.assertEqual(self.sockets(), [socket_path(self.directory, process.pid)])
        self.assert_reached(process.pid)
        process.stdin.close()
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(self.sockets(), [])

    def assert_one_of_two(self, process):
        """One port, one complete file, and one complaint about the file from the second copy."""
        self.assertEqual(self.sockets(), [socket_path(self.directory, process.pid)])
        self.assert_reached(process.pid)
        process.stdin.close()
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(self.sockets(), [])
        trace = self.path(f"trace-{process.pid}")
        self.assertRegex(self.said(), rf'\Aringpipe: another process writes to "{trace}": '
                         r'[^\n]*\n\Z')
        self.assertEqual(self.traces(), [trace])
        done = self.tool("report", "--format=json", trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["complete"])

    def traces(self):
        return glob.glob(self.path("trace-*"))

    def variables(self):
        return {"RINGPIPE_CONFIG": "*", "RINGPIPE_OUTPUT": self.path("trace-{pid}")}

    def test_a_preloaded_copy_comes_before_that_of_the_program(self):
        process = self.start(HOST, **self.variables())
        self.assertEqual(int(process.stdout.readline()), process.pid)
        with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
            self.assertIn("/libringpipe.so", maps.read())
        self.assert_one_of_two(process)

    def test_a_copy_in_a_namespace_of_its_own_comes_second(self):
        process = self.start(PYTHON, "-c", STEPS % self.dlmopen(), **self.variables())
        self.assertEqual(int(process.stdout.readline()), process.pid)
        self.assert_one_of_two(process)

    @staticmethod
    def dlmopen():
        return ("import ctypes\n"
                "libc = ctypes.CDLL(None)\n"
                "libc.dlmopen.restype = ctypes.c_void_p\n"
                f"assert libc.dlmopen(ctypes.c_long(-1), b'{LIBRARY}', os.RTLD_NOW)")

    def test_a_copy_that_detects_no_fork_leaves_its_parents_alone(self):
        """fork(2) of another libc runs no handler of the library; exit(3) ends all copies."""
        process = self.start(PYTHON, QUIET, "-c", STEPS % (
            self.dlmopen() + "\nchild = os.fork()\nif child == 0:\n    sys.exit(0)\n"
            "assert os.waitpid(child, 0)[1] == 0"), preload="", **self.variables())
        self.assertEqual(int(process.stdout.readline()), process.pid)
        self.assert_reached(process.pid)
        process.stdin.close()
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(self.said(), "")
        trace, = self.traces()
        self.assertTrue(json.loads(self.tool("report", "--format=json", trace).stdout)["complete"])

    def test_the_port_of_a_runtime_in_the_process_is_left_to_it(self):
        """The runtime already listens there, under the same name."""
        listens = ("import os, socket, sys\n"
                   "with open('/proc/self/stat') as stat:\n"
                   "    key = stat.read().rpartition(')')[2].split()[19]\n"
                   "own = socket.socket(socket.AF_UNIX)\n"
                   "own.bind('%s/dotnet-diagnostic-%d-%s-socket' % (sys.argv[1], os.getpid(), "
                   "key))\n"
                   "own.listen()\n"
                   "os.set_inheritable(own.fileno(), True)\n"
                   "os.execvp(sys.argv[2], sys.argv[2:])\n")
        process = self.cat(prefix=(PYTHON, "-c", listens, self.directory))
        before = [socket_path(self.directory, process.pid)]
        self.assertEqual(self.sockets(), before)
        self.assertEqual(self.said(), "")
        process.stdin.close()
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(self.sockets(), before)
        os.unlink(before[0])

    def test_unrelated_file_in_the_place_of_the_socket_is_kept(self):
        process = self.cat()
        path = socket_path(self.directory, process.pid)
        os.unlink(path)
        with open(path, "w", encoding="ascii") as file:
            file.write("another's")
        process.stdin.close()
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertTrue(os.path.exists(path))


if __name__ == "__main__":
    if not os.path.exists(PYTHON):
        print("no " + PYTHON)
        sys.exit(77)
    LIBRARY, RINGPIPE, HOST = map(os.path.abspath, sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main()
