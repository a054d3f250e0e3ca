# SPDX-License-Identifier: MIT
"""Builds the extension and starts servers with it, for the tests and the benchmark."""
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# The benchmark has another module that is called servers.
sys.path.insert(0, os.path.join(HERE, "..", ".."))
from integrations import servers  # noqa: E402 pylint: disable=wrong-import-position

drive = servers.drive
SYSTEM = "/usr/lib/postgresql/15"
PATIENCE = 120
SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
shared_preload_libraries = '{preload}'
shared_buffers = 16MB
fsync = off
autovacuum = off
checkpoint_timeout = 1d
{more}
"""


def why_not():
    """Return what this machine lacks, or None."""
    for program in ("cc", "make", "pkg-config", "setpriv", SYSTEM + "/bin/pgbench"):
        if not shutil.which(program):
            return f"no {program}"
    if not os.path.exists("/usr/include/postgresql/15/server/postgres.h"):
        return "no postgresql-server-dev-15"
    return None


def run(command, **options):
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, timeout=PATIENCE, **options).stdout


def install(folder, build):
    """Install ringpipe below `folder`, and a copy of PostgreSQL with the extension. Return the
    folder of the programs."""
    environment, root = servers.install(folder, build), folder + "/root"
    done = subprocess.run([os.path.join(HERE, "build"), root], check=False, text=True,
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=PATIENCE,
                          env=environment)
    assert done.returncode == 0, done.stderr
    return copy_programs(root)


def copy_programs(root):
    """Copy PostgreSQL to below `root`, where the extension is installed. PostgreSQL finds its files
    relative to its program. Return the folder of the programs."""
    for copied in (SYSTEM, "/usr/share/postgresql/15"):
        shutil.copytree(copied, root + copied, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("bitcode", "pgxs", "man"))
    return root + SYSTEM + "/bin"


class Server:
    """A cluster of its own, whose processes run as an ordinary user and end with this process.
    `original` is a stopped server of which the cluster is a copy, because initdb takes long. `more`
    are settings."""

    def __init__(self, programs, folder, original=None, more=""):
        self.programs, self.folder, self.data = programs, folder, folder + "/data"
        self.more = more
        self.log, self.process = folder + "/log", None
        self.environment = dict(os.environ, TMPDIR=folder, PGHOST=folder, PGUSER="admin",
                                PGDATABASE="postgres")
        # An immediate shutdown.
        self.as_user = ["setpriv", "--pdeathsig=QUIT"]
        if os.getuid() == 0:
            user = pwd.getpwnam("nobody")
            os.chown(folder, user.pw_uid, user.pw_gid)
            self.as_user += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        create = ["cp", "-r", "--reflink=auto", original.data, self.data] if original else \
            [programs + "/initdb", "-D", self.data, "-A", "trust", "-U", "admin", "--no-sync",
             "--no-instructions"]
        self.run(*create)

    def run(self, *command):
        """Run a program as the user of the server."""
        run([*self.as_user, *command], env=self.environment, cwd=self.folder,
            stderr=subprocess.STDOUT)

    def configure(self, preload="ringpipe"):
        with open(self.data + "/postgresql.auto.conf", "w", encoding="ascii") as file:
            file.write(SETTINGS.format(folder=self.folder, preload=preload, more=self.more))

    def start(self, preload="ringpipe", wrapper=(), environment=None, **popen):
        """Start the server. A program `wrapper` may run it, to measure it."""
        self.configure(preload)
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [*self.as_user, *wrapper, self.programs + "/postgres", "-D", self.data],
                env={**self.environment, **(environment or {})}, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, **popen)
        drive.wait_for(self.is_ready, "the server", [self.process])

    def is_ready(self):
        """Without a connection, which would cost instructions."""
        with contextlib.suppress(OSError), open(self.data + "/postmaster.pid",
                                                encoding="ascii") as file:
            # A server that was killed leaves its file.
            text = file.read()
            return text.startswith(f"{self.process.pid}\n") and "ready" in text
        return False

    def stop(self):
        if not self.process:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process = None

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def sql(self, *statements, user="admin", check=True, options=""):
        """Execute statements in one backend. Return the rows of the last one as lists of text, or
        with check=False, the error."""
        command = [self.programs + "/psql", "-qXAt", "-U", user, "-v", "ON_ERROR_STOP=1"]
        for statement in statements:
            command += ["-c", statement]
        done = subprocess.run(command, env=dict(self.environment, PGOPTIONS=options), text=True,
                              check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=PATIENCE)
        if not check:
            return done.stderr
        assert done.returncode == 0, done.stderr
        return [line.split("|") for line in done.stdout.splitlines()]

    def bench(self, *arguments):
        return run([self.programs + "/pgbench", *arguments], env=self.environment,
                   stderr=subprocess.STDOUT)

    def children(self):
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]

    def pids(self):
        """The processes of the server by their titles."""
        found = {"postmaster": self.process.pid}
        done = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(self.process.pid)],
                              check=False, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
        for line in done.stdout.splitlines():
            pid, _, title = line.strip().partition(" ")
            found[title.strip().removeprefix("postgres: ").strip()] = int(pid)
        return found
