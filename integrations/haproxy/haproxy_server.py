# SPDX-License-Identifier: MIT
"""Builds the module and runs Debian's HAProxy with it, for the tests and the benchmark."""
import contextlib
import csv
import fcntl
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
# The benchmark has another module that is called servers.
sys.path.insert(0, os.path.join(HERE, "..", ".."))
# pylint: disable=wrong-import-position
from integrations import restrictions, servers, tracers  # noqa: E402
# pylint: enable=wrong-import-position

__all__ = ["restrictions", "tracers"]
drive, PATIENCE = servers.drive, servers.PATIENCE
NO_SOURCE = 77


class NoSource(drive.Failure):
    """The source of HAProxy cannot be downloaded."""


def why_not():
    """Return what this machine lacks to build the module and to run HAProxy, or None."""
    for program in ("haproxy", "wrk", "cc", "make", "pkg-config", "dpkg-source"):
        if not shutil.which(program):
            return f"no {program}"
    return None if os.path.exists("/usr/include/lua5.3") else "no liblua5.3-dev"


def source_of(build):
    """Return the folder of HAProxy's source, which each build downloads once."""
    return os.environ.get("HAPROXY_SOURCE", os.path.join(build, "haproxy-source"))


def compile_module(module, source, environment):
    return subprocess.run([os.path.join(HERE, "build"), module, source], check=False,
                          env=environment, stderr=subprocess.PIPE, text=True,
                          timeout=10 * PATIENCE)


def build_module(build, folder):
    """Install ringpipe of a build into the folder, and build the module there. Return the folder
    of the module and the environment of its build."""
    environment = servers.install(folder, build)
    # Two tests may download the source simultaneously.
    with open(source_of(build) + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = compile_module(folder + "/module", source_of(build), environment)
    if done.returncode == NO_SOURCE:
        raise NoSource(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return folder + "/module", environment


class Haproxy:
    """
    A HAProxy in a folder of its own, and the lines of its log. The configuration is a text with
    {names}: `ports` become free ports, `folder` is the folder, and `values` are the rest. It binds
    the port `web` and the socket {folder}/stats.
    """

    def __init__(self, folder, configuration, ports, arguments=(), **values):
        self.folder = folder
        self.ports = {name: servers.free_port() for name in ports}
        os.chmod(folder, 0o755)
        self.path = os.path.join(folder, "haproxy.cfg")
        with open(self.path, "w", encoding="ascii") as file:
            file.write(configuration.format(folder=folder, **values, **self.ports))
        self.main_path = os.path.join(folder, "pid")
        self.command_line = ["haproxy", "-f", self.path, "-p", self.main_path, *arguments]
        self.process = None
        self.log, self.errors = os.path.join(folder, "log"), os.path.join(folder, "errors")

    def start(self, _is_traced=False, wrapper=(), env=None, **popen):
        with open(self.errors, "wb") as errors, open(self.log, "wb") as log:
            self.process = subprocess.Popen([*wrapper, *self.command_line], env=env, stdout=log,
                                            stderr=errors, **popen)
        drive.wait_for(self.is_listening, "HAProxy", [self.process])

    def is_listening(self):
        with contextlib.suppress(OSError, AttributeError):
            return self.pid() != 0
        return False

    def command(self, text):
        """Send a command to the statistics socket. Return the answer."""
        with socket.socket(socket.AF_UNIX) as admin:
            admin.settimeout(PATIENCE)
            admin.connect(os.path.join(self.folder, "stats"))
            admin.sendall(text.encode() + b"\n")
            answer = b""
            while piece := admin.recv(65536):
                answer += piece
        return answer.decode()

    def information(self, name):
        return re.search(f"^{name}: (.*)", self.command("show info"), re.M).group(1)

    def pid(self):
        """The process that serves, which is a child of the master if there is one."""
        return int(self.information("Pid"))

    def has_socket(self):
        """Whether the process that serves can be traced."""
        with contextlib.suppress(OSError, AttributeError):
            return self.pid() in servers.processes()
        return False

    def statistics(self):
        rows = csv.DictReader(io.StringIO(self.command("show stat").lstrip("# ")))
        return {(row["pxname"], row["svname"]): row for row in rows}

    def get(self, path, headers=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports['web']}{path}",
                                         headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return str(error.code)

    def send(self, data, port="web"):
        """Send bytes and return what comes back until HAProxy closes."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.ports[port]), PATIENCE) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while piece := connection.recv(65536):
                    answer += piece
        return answer.decode()

    def settle(self):
        """Wait until all streams have ended: HAProxy logs a request after the last answer."""
        def is_idle():
            rows = self.statistics()
            return all(int(row["scur"] or 0) == 0 for (_, name), row in rows.items()
                       if name == "FRONTEND") and \
                not re.search("proto=(tcpv4|tcpv6)", self.command("show sess"))
        drive.wait_for(is_idle, "the end of all streams", [self.process] if self.process else [])

    def reload(self):
        """Make the master start a new worker, and wait until it can be traced."""
        before = self.pid()
        self.process.send_signal(signal.SIGUSR2)

        def is_new():
            with contextlib.suppress(OSError, AttributeError):
                return self.pid() != before and self.has_socket()
            return False
        drive.wait_for(is_new, "a new worker", [self.process])

    def end(self):
        """End a HAProxy that is no child of the test."""
        serving = self.pid()
        with open(self.main_path, encoding="ascii") as file:
            os.kill(int(file.readline()), signal.SIGTERM)
        drive.wait_for(lambda: not os.path.exists(f"/proc/{serving}"), "the end of HAProxy")

    def stop(self, by=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(by)
            self.process.wait(PATIENCE)


class HaproxyCase(unittest.TestCase):
    """A test with the module and a folder of its own."""
    module = environment = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o755)
        self.trace = os.path.join(self.folder, "t.nettrace")

    def started(self, haproxy, is_traced=True, **popen):
        """Start a HAProxy that ends with the test."""
        self.addCleanup(haproxy.stop)
        haproxy.start(**popen)
        if is_traced:
            drive.wait_for(haproxy.has_socket, "the socket of ringpipe", [haproxy.process])
        return haproxy

    def record(self, haproxy, work, *options):
        with servers.recording(haproxy.pid(), "haproxy", self.trace, *options):
            work()
            haproxy.settle()
        return servers.read(self.trace)


def main():
    servers.skip_if(why_not())
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        try:
            HaproxyCase.module, HaproxyCase.environment = build_module(servers.BUILD, folder)
        except NoSource as no_source:
            unittest.main(argv=[*sys.argv[:1], "--verbose"],
                          module=source_case(str(no_source)))
        unittest.main("__main__")


def source_case(reason):
    """Return a module with one test, which is skipped for the reason."""
    class SourceTest(unittest.TestCase):
        @unittest.skip(reason)
        def test_the_source_of_haproxy_can_be_downloaded(self):
            pass

    return type("module", (), {"SourceTest": SourceTest})
