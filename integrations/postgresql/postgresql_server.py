# SPDX-License-Identifier: MIT
"""Builds the extension and starts servers with it, for the tests and the benchmark."""
import os
import pwd
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEM = "/usr/lib/postgresql/15"
PATIENCE = 60
SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
shared_preload_libraries = '{preload}'
shared_buffers = 16MB
fsync = off
autovacuum = off
"""


def why_not():
    """Return what this machine lacks, or None."""
    for program in ("cc", "make", "pkg-config", SYSTEM + "/bin/pgbench"):
        if not shutil.which(program):
            return f"no {program}"
    if not os.path.exists("/usr/include/postgresql/15/server/postgres.h"):
        return "no postgresql-server-dev-15"
    return None


def run(command, **options):
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, timeout=PATIENCE, **options).stdout


def install(build, root):
    """Install ringpipe below `root`, and a copy of PostgreSQL with the extension. PostgreSQL finds
    its files relative to its program, so the copy needs nothing else. Return both folders."""
    run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"],
        env=dict(os.environ, DESTDIR=root))
    package = run(["find", root, "-name", "ringpipe.pc"]).strip()
    done = subprocess.run([os.path.join(HERE, "build"), root], check=False, text=True,
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=PATIENCE,
                          env=dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(package),
                                   PKG_CONFIG_SYSROOT_DIR=root))
    assert done.returncode == 0, done.stderr
    for folder in (SYSTEM, "/usr/share/postgresql/15"):
        shutil.copytree(folder, root + folder, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("bitcode", "pgxs", "man"))
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

    def configure(self, preload):
        with open(self.data + "/postgresql.auto.conf", "w", encoding="ascii") as file:
            file.write(SETTINGS.format(folder=self.folder, preload=preload))

    def start(self, preload="ringpipe"):
        self.configure(preload)
        # A pipe to the postmaster would not end.
        subprocess.run([*self.as_user, self.programs + "/pg_ctl", "-D", self.data, "-w", "-l",
                        self.log, "start"], check=True, env=self.environment, cwd=self.folder,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=PATIENCE)

    def stop(self, mode="fast"):
        if os.path.exists(self.data + "/postmaster.pid"):
            self.call("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

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
