#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The extension in Debian's PostgreSQL: what the server says of its work equals what the traces
hold. With the argument `slow`, the longer tests run."""
import collections
import contextlib
import glob
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "shop"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "linux"))
import drive  # noqa: E402 pylint: disable=wrong-import-position
from probes import Tracer  # noqa: E402 pylint: disable=wrong-import-position

RINGPIPE, BUILD = os.environ["RINGPIPE"], os.environ["BUILD"]
SYSTEM = "/usr/lib/postgresql/15"
PATIENCE = 60
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE_ID}-b7ad6b7169203331-01"
ALL = "postgresql,postgresql-nodes,postgresql-log"
SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
shared_preload_libraries = '{preload}'
shared_buffers = 16MB
fsync = off
autovacuum = off
"""


def run(command, **options):
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, timeout=PATIENCE, **options).stdout


def install(root):
    """Install ringpipe below `root`, and a copy of PostgreSQL with the extension. PostgreSQL finds
    its files relative to its program, so the copy needs nothing else. Return both folders."""
    run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"],
        env=dict(os.environ, DESTDIR=root))
    package = run(["find", root, "-name", "ringpipe.pc"]).strip()
    done = subprocess.run([os.path.join(HERE, "build"), root], check=False, text=True,
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=PATIENCE,
                          env=dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(package),
                                   PKG_CONFIG_SYSROOT_DIR=root))
    assert done.returncode == 0, done.stderr
    for folder in (SYSTEM, "/usr/share/postgresql/15"):
        shutil.copytree(folder, root + folder, dirs_exist_ok=True)
    return root + SYSTEM + "/bin", os.path.dirname(os.path.dirname(package))


class Server:
    """A cluster of its own, whose processes run as an ordinary user."""

    def __init__(self, programs, libraries, folder):
        self.programs, self.folder, self.data = programs, folder, folder + "/data"
        self.log = folder + "/log"
        self.environment = dict(os.environ, TMPDIR=folder, LD_LIBRARY_PATH=libraries,
                                PGHOST=folder, PGUSER="admin", PGDATABASE="postgres")
        self.as_user = []
        if os.getuid() == 0:
            user = pwd.getpwnam("nobody")
            os.chown(folder, user.pw_uid, user.pw_gid)
            self.as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}",
                            "--clear-groups"]
        self.call("initdb", "-D", self.data, "-A", "trust", "-U", "admin", "--no-sync",
                  "--no-instructions")

    def call(self, program, *arguments):
        return run([*self.as_user, f"{self.programs}/{program}", *arguments],
                   env=self.environment, cwd=self.folder, stderr=subprocess.STDOUT)

    def start(self, preload="ringpipe", **settings):
        text = SETTINGS.format(folder=self.folder, preload=preload)
        text += "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        with open(self.data + "/postgresql.auto.conf", "w", encoding="ascii") as file:
            file.write(text.replace("ringpipe_", "ringpipe."))
        # A pipe to the postmaster would not end.
        subprocess.run([*self.as_user, self.programs + "/pg_ctl", "-D", self.data, "-w", "-l",
                        self.log, "start"], check=True, env=self.environment, cwd=self.folder,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=PATIENCE)

    def stop(self, mode="fast"):
        if os.path.exists(self.data + "/postmaster.pid"):
            self.call("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def sql(self, *statements, user="admin", check=True):
        """Execute statements in one backend. Return the rows of the last one as lists of text, or
        with check=False, the error."""
        command = [self.programs + "/psql", "-qXAt", "-U", user, "-v", "ON_ERROR_STOP=1"]
        for statement in statements:
            command += ["-c", statement]
        done = subprocess.run(command, env=self.environment, check=False, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=PATIENCE)
        if not check:
            return done.stderr
        assert done.returncode == 0, done.stderr
        return [line.split("|") for line in done.stdout.splitlines()]

    def bench(self, *arguments):
        return run([self.programs + "/pgbench", *arguments], env=self.environment,
                   stderr=subprocess.STDOUT)

    def pids(self):
        """The processes of the server by their titles."""
        with open(self.data + "/postmaster.pid", encoding="ascii") as file:
            master = file.readline().strip()
        found = {"postmaster": int(master)}
        done = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", master], check=False,
                              stdout=subprocess.PIPE, text=True)
        for line in done.stdout.splitlines():
            pid, _, title = line.strip().partition(" ")
            found[title.strip().removeprefix("postgres: ").strip()] = int(pid)
        return found


class PostgresqlTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.root)
        os.chmod(cls.root, 0o755)
        cls.programs, cls.libraries = install(cls.root + "/root")
        cls.server = Server(cls.programs, cls.libraries, tempfile.mkdtemp(dir=cls.root))
        cls.server.start()
        cls.server.sql("CREATE EXTENSION ringpipe")
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        self.traces = tempfile.mkdtemp(dir=self.server.folder)
        os.chmod(self.traces, 0o777)

    def begin(self, providers=ALL):
        [[number]] = self.server.sql(f"SELECT ringpipe_start('{providers}', '{self.traces}')")
        return int(number)

    def end(self, number):
        self.assertEqual(self.server.sql(f"SELECT ringpipe_stop({number})"), [["t"]])

        def has_ended():
            rows = self.server.sql("SELECT processes, failed, lost FROM ringpipe_sessions() "
                                   f"WHERE id = {number}")
            return rows if rows[0][0] == "0" else None
        self.assertEqual(drive.wait_for(has_ended, "the end of the sessions"), [["0", "0", "0"]])

    def events(self):
        """Return the events of all traces, by the process that wrote them."""
        events = {}
        for path in glob.glob(self.traces + "/*.nettrace"):
            lines = run([RINGPIPE, "convert", "--quiet", "--to", "jsonl", "-f", "-o", "-", path])
            pid = int(re.search(r"-(\d+)\.nettrace$", path).group(1))
            events[pid] = [json.loads(line) for line in lines.splitlines()]
            self.assertFalse([e for e in events[pid] if "Lost" in e["event"]])
        return events

    def record(self, *statements, providers=ALL, **options):
        """Return the events of one backend that executes the statements."""
        number = self.begin(providers)
        pid = int(self.server.sql(*statements, "SELECT pg_backend_pid()", **options)[-1][0])
        self.end(number)
        return self.events()[pid]

    @staticmethod
    def of_name(events, name):
        return [event["fields"] for event in events if event["event"] == name]

    @contextlib.contextmanager
    def probes(self):
        """Count PostgreSQL's own probes by process: (probe, pid) -> count."""
        names = ("query__start", "query__execute__start", "query__plan__start",
                 "transaction__commit", "transaction__abort")
        program = "BEGIN { printf(\"attached\\n\"); } " + " ".join(
            f"usdt:{self.programs}/postgres:postgresql:{name} {{ @[\"{name}\", pid] = count(); }}"
            for name in names)
        counts = collections.Counter()
        tracer = Tracer(["bpftrace", "-B", "line", "-e", program])
        self.addCleanup(tracer.stop)
        tracer.reported("attached", 1)
        yield counts
        tracer.stop()
        for found in re.finditer(r"@\[(\w+), (\d+)\]: (\d+)", "".join(tracer.lines)):
            counts[found.group(1), int(found.group(2))] = int(found.group(3))

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("bpftrace"), "bpftrace requires root")
    def test_counts_equal_those_of_the_probes_of_postgresql(self):
        self.server.bench("-i", "-q", "postgres")
        number = self.begin("postgresql")
        with self.probes() as probes:
            first = dict(self.server.sql("SELECT * FROM ringpipe_counters()"))
            for mode in ("simple", "prepared"):
                self.server.bench("-n", "-M", mode, "-c", "3", "-t", "200", "postgres")
            self.server.sql("SELECT 1/0", check=False)
            self.server.sql("BEGIN", "SELECT 1", "ROLLBACK")
            last = dict(self.server.sql("SELECT * FROM ringpipe_counters()"))
        self.end(number)
        events = self.events()
        counted = {name: {pid: count for (probe, pid), count in probes.items() if probe == name}
                   for name in {probe for probe, _ in probes}}
        plans = {pid: len(self.of_name(events[pid], "planStart"))
                 for pid in counted["query__plan__start"]}
        self.assertEqual(plans, counted["query__plan__start"])
        # The server executes a statement in a portal, with a probe, and has the same probe for
        # each statement that returns no rows.
        starts = {pid: self.of_name(events[pid], "queryStart")
                  for pid in counted["query__execute__start"]}
        writes = {pid: sum(start["command"] in ("INSERT", "UPDATE") for start in rows)
                  for pid, rows in starts.items()}
        self.assertEqual({pid: len(rows) + writes[pid] for pid, rows in starts.items()},
                         counted["query__execute__start"])
        # The simple protocol has one more probe, for each query. Here a query is one statement.
        simple = {pid: count for pid, count in counted["query__start"].items() if pid in starts}
        self.assertEqual({pid: len(starts[pid]) for pid in simple}, simple)
        self.assertGreaterEqual(sum(simple.values()), 3 * 7 * 200)
        self.assertEqual({pid: len(rows) for pid, rows in starts.items()},
                         {pid: len(self.of_name(events[pid], "queryStop")) for pid in starts})

        def total(probe):
            return sum(count for (name, _), count in probes.items() if name == probe)

        def change(counter):
            return int(last[counter]) - int(first[counter])
        # Only the last reading counts the first one's commit, and neither the last one's. The
        # first one's backend also commits a transaction at its start.
        self.assertEqual(change("statements"),
                         total("query__execute__start") - sum(writes.values()) - 1)
        self.assertEqual(change("plans"), total("query__plan__start") - 1)
        self.assertEqual(change("commits"), total("transaction__commit") - 2)
        self.assertEqual(change("aborts"), total("transaction__abort"))
        self.assertGreaterEqual(change("aborts"), 2)


if __name__ == "__main__":
    for program in ("cc", "make", "pkg-config", SYSTEM + "/bin/pgbench"):
        if not shutil.which(program):
            print(f"SKIP: no {program}")
            sys.exit(77)
    if not os.path.exists("/usr/include/postgresql/15/server/postgres.h"):
        print("SKIP: no postgresql-server-dev-15")
        sys.exit(77)
    unittest.main()
