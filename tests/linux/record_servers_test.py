#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe record of Debian's redis, nginx and PostgreSQL, which have no frame pointers: the stacks
of their main threads reach main."""
import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import unittest

import record_case
from record_case import PATIENCE, TOOL, Case, clients, drive, events_of, functions

POSTGRES = "/usr/lib/postgresql"
SECONDS = "4"
REACHED = {"main", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main",
           "_start"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def require(*programs):
    for program in programs:
        if not shutil.which(program):
            raise unittest.SkipTest(f"{program} is not installed")


class Servers(Case):
    def setUp(self):
        super().setUp()
        self.folder = os.path.dirname(self.trace)

    def start(self, port, *command, **options):
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  **options)
        self.addCleanup(server.wait, PATIENCE)
        self.addCleanup(server.terminate)
        drive.wait_for(lambda: answers(port), "the server's answer")
        return server

    def check(self, name, *load, **options):
        """Record under load. At least 95 % of the samples of main threads reach main."""
        with subprocess.Popen(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              **options) as client:
            done = subprocess.run([TOOL, "record", "-o", self.trace, "--providers", "none",
                                   "--profile", "cpu", "-d", SECONDS], stderr=subprocess.PIPE,
                                  text=True, timeout=PATIENCE, check=False)
            client.kill()
        self.assertEqual(done.returncode, 0, done.stderr)
        samples = [event for event in events_of(self.trace)[0]
                   if event["event"] == "cpu" and event["process_name"].startswith(name) and
                   event["thread"] == event["process"]]
        whole = [sample for sample in samples if REACHED & set(functions(sample)[-3:])]
        print(f"# figure: {name}: {len(whole)} of {len(samples)} stacks reach main")
        self.assertGreater(len(samples), 50)
        self.assertGreaterEqual(len(whole), 0.95 * len(samples),
                                [functions(sample) for sample in samples
                                 if sample not in whole][:5])

    def test_redis(self):
        require("redis-server", "redis-benchmark")
        port = free_port()
        self.start(port, "redis-server", "--port", str(port), "--save", "", "--dir", self.folder)
        self.check("redis-server", "redis-benchmark", "-p", str(port), "-l", "-q", "-t",
                   "set,get,lpush,zadd")

    def test_nginx(self):
        require("nginx", "wrk")
        port = free_port()
        config = os.path.join(self.folder, "nginx.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"daemon off; master_process off; pid {self.folder}/pid;\n"
                       f"error_log {self.folder}/error.log;\n"
                       "events {}\n"
                       f"http {{ access_log {self.folder}/access.log;\n"
                       f"server {{ listen 127.0.0.1:{port};\n"
                       "location / { return 200 'hello'; } } }\n")
        self.start(port, "nginx", "-c", config, "-p", self.folder)
        self.check("nginx", "wrk", "-t1", "-c8", "-d60s", f"http://127.0.0.1:{port}/")

    def test_postgresql(self):
        versions = sorted(os.listdir(POSTGRES)) if os.path.isdir(POSTGRES) else []
        if not versions:
            self.skipTest("PostgreSQL is not installed")
        programs = os.path.join(POSTGRES, versions[-1], "bin")
        user = pwd.getpwnam("postgres")
        port, data = free_port(), os.path.join(self.folder, "data")
        os.mkdir(data)
        os.chown(data, user.pw_uid, user.pw_gid)
        os.chmod(self.folder, 0o755)
        own = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": data}
        subprocess.run([f"{programs}/initdb", "-D", data, "--no-sync"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE,
                       **own)
        self.start(port, f"{programs}/postgres", "-D", data, "-p", str(port), "-k", data, **own)
        connect = ["-h", data, "-p", str(port), "-U", "postgres", "postgres"]
        ready = [f"{programs}/pg_isready", "-q", "-h", data, "-p", str(port)]
        drive.wait_for(lambda: subprocess.run(ready, check=False, **own).returncode == 0,
                       "the database")
        subprocess.run([f"{programs}/pgbench", "-i", "-q", *connect], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE,
                       **own)
        self.check("postgres", f"{programs}/pgbench", "-S", "-c", "4", "-T", "60", *connect, **own)


if __name__ == "__main__":
    if not any(shutil.which(name) for name in ("redis-server", "nginx")):
        clients.skip("no server is installed")
    record_case.main()
