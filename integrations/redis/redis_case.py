# SPDX-License-Identifier: MIT
"""A redis or Valkey with the module, and recordings of it, for the tests."""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", ".."))
from integrations import servers  # noqa: E402 pylint: disable=wrong-import-position

drive = servers.drive

RINGPIPE, BUILD = servers.RINGPIPE, servers.BUILD
PATIENCE, TRACE_ID, CALLER = servers.PATIENCE, servers.TRACE_ID, servers.CALLER
ACTIVITY = "0af76519-16cd-43dd-8448-eb211c80319c"


def why_not():
    """Return what this machine lacks to build the module and to run redis, or None."""
    for program in ("redis-server", "redis-cli", "redis-benchmark", "cc", "pkg-config"):
        if not shutil.which(program):
            return f"no {program}"
    return None


def build_module(build, folder):
    """Install ringpipe of a build into the folder, and build the module there. Return the folders
    of the module and of the library."""
    environment = servers.install(folder, build)
    done = subprocess.run([os.path.join(HERE, "build"), folder + "/module"], check=False,
                          text=True, env=environment, stderr=subprocess.PIPE, timeout=PATIENCE)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return folder + "/module", environment["LD_LIBRARY_PATH"]


class Server:
    """A running server with the module, in a folder of its own."""

    def __init__(self, module, folder, *options, program="redis-server", arguments=(), **popen):
        self.folder = folder
        self.port = servers.free_port()
        self.log_path = os.path.join(folder, "log")
        self.command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder,
                        "--save", "", "--logfile", self.log_path, *options]
        if module:
            self.command += ["--loadmodule", os.path.join(module, "ringpipe.so"), *arguments]
        self.popen = popen
        self.process = None

    def start(self, _is_traced=False, wrapper=(), env=None, is_daemon=False):
        options = {**self.popen, "env": env} if env else self.popen
        self.process = subprocess.Popen([*wrapper, *self.command], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        **options)
        drive.wait_for(self.is_ready, "an answer to PING", [] if is_daemon else [self.process])
        return self

    def is_ready(self):
        with contextlib.suppress(OSError):
            return self.run("ping") == ["PONG"]
        return False

    def run(self, *arguments, text=None):
        """The lines that redis-cli prints for a command, or for those in `text`."""
        done = subprocess.run(["redis-cli", "-p", str(self.port), *map(str, arguments)],
                              input=text, stdin=None if text else subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                              timeout=PATIENCE)
        return done.stdout.splitlines()

    def connect(self):
        return Connection(self.port)

    def info(self, section):
        return dict(line.split(":", 1) for line in self.run("info", section) if ":" in line)

    def command_stats(self, column="calls"):
        """The server's own count of each command; subcommands count as their command."""
        counts = {}
        for name, values in self.info("commandstats").items():
            name = name[len("cmdstat_"):].split("|")[0]
            value = int(re.search(rf"\b{column}=([0-9]+)", values).group(1))
            counts[name] = counts.get(name, 0) + value
        return {name: count for name, count in counts.items() if count}

    def log(self):
        with open(self.log_path, encoding="utf-8") as log:
            return log.read()

    def stop(self, by=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(by)
            self.process.wait(PATIENCE)


class Connection:
    """A client of its own, which sends commands and reads one line of each reply."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.replies = self.socket.makefile("rb")

    def send(self, *arguments):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in arguments]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word) for word in words))

    def read(self):
        line = self.replies.readline().rstrip(b"\r\n")
        if line.startswith(b"$") and line != b"$-1":
            line += b" " + self.replies.read(int(line[1:]) + 2).rstrip(b"\r\n")
        return line.decode(errors="replace")

    def run(self, *arguments):
        self.send(*arguments)
        return self.read()

    def close(self):
        self.replies.close()
        self.socket.close()


class RedisCase(unittest.TestCase):
    program = "redis-server"

    @classmethod
    def setUpClass(cls):
        cls.build = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.build)
        cls.module, cls.library = build_module(BUILD, cls.build)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def serve(self, *options, wrapper=(), is_daemon=False, **settings):
        folder = tempfile.mkdtemp(dir=self.folder)
        environment = dict(os.environ, LD_LIBRARY_PATH=self.library)
        server = Server(self.module, folder, *options, program=self.program,
                        **{"env": environment, **settings})
        self.addCleanup(server.stop)
        return server.start(wrapper=wrapper, is_daemon=is_daemon)

    @contextlib.contextmanager
    def recording(self, server, *options):
        """
        Record the server while the block runs. The list that the block gets has the events in the
        end.
        """
        trace = os.path.join(self.folder, "t.nettrace")
        events = []
        command = [RINGPIPE, "collect", "--quiet", "-f", "-o", trace, *options, "-p",
                   str(server.process.pid)]
        with drive.running(command, stderr=subprocess.PIPE, text=True) as recorder:
            self.wait_for_session(server, recorder)
            # The module learns of a session after the tools.
            drive.wait_for(lambda: server.info("ringpipe")["ringpipe_session"] == "1",
                           "the module's events", [recorder])
            yield events
            # When this reply arrives, all earlier commands have ended.
            server.run("ping")
            server.run("ping")
            status = drive.interrupt(recorder)
            with recorder.stderr:
                self.assertEqual(status, 0, recorder.stderr.read())
        read = self.read(trace)
        # Without the INFO that found the session. Those before it have no spans.
        first = next((event for event in read if event["event"] == "commandStart"), None)
        if first and first["fields"]["command"] == "info":
            read = [event for event in read if event.get("activity") != first["activity"]]
        events += read

    def wait_for_session(self, server, recorder):
        servers.wait_for_session(server.process.pid, "redis", recorder)

    read = staticmethod(servers.read)
    of_name = staticmethod(servers.of_name)

    def check_ends(self, events):
        """Check that each span has a start and an end."""
        starts, stops = (sorted(event["activity"] for event in events if event["event"] == name)
                         for name in ("commandStart", "commandStop"))
        self.assertEqual(starts, stops)

    def counts(self, events):
        counts = {}
        for fields in self.of_name(events, "commandStart"):
            counts[fields["command"]] = counts.get(fields["command"], 0) + 1
        return counts


def main(run=lambda: unittest.main("__main__")):
    servers.skip_if(why_not())
    run()
