# SPDX-License-Identifier: MIT
"""Runs the real clients of the interop tests: dotnet-trace; TraceEvent through TraceRead; and
Microsoft.Diagnostics.NETCore.Client through ClientCalls."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ["INTEROP_BUILD"]
SKIPPED = 77

sys.path[:0] = [os.path.join(ROOT, "examples", "shop"), os.path.join(ROOT, "tests", "cli")]
import drive  # noqa: E402
from tool import run_tests  # noqa: E402


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(SKIPPED)


def need(command, reason):
    if not shutil.which(command):
        skip(reason)


def _made_by(script, *arguments):
    done = subprocess.run([os.path.join(ROOT, script), BUILD, *arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == SKIPPED:
        skip(f"{script}: the .NET SDK is not installed")
    if done.returncode != 0:
        sys.exit(f"{script} failed")
    return done.stdout.strip().splitlines()[-1]


def trace_read_command():
    return ["dotnet", _made_by("tests/interop/build_dotnet.sh")]


def client_calls_command():
    return ["dotnet", _made_by("tests/interop/build_dotnet.sh", "ClientCalls")]


def counters_command():
    return ["dotnet", _made_by("tests/interop/build_dotnet.sh", "Counters")]


def beside_command():
    """Return the program that shares its process; `dotnet` runs it, or it runs alone without
    .dll."""
    return _made_by("tests/interop/build_dotnet.sh", "Beside")


def dotnet_trace_command():
    return _made_by("scripts/setup-dotnet")


def dotnet_stack_command():
    return _made_by("scripts/setup-dotnet", "dotnet-stack")


def dotnet_trace_ps(environment=None):
    """Return what `dotnet-trace ps` lists. It fails with an exception if a process ends
    meanwhile."""
    def ask():
        done = subprocess.run([dotnet_trace_command(), "ps"], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              env=environment, timeout=drive.DEADLINE_S)
        return done.stdout if done.returncode == 0 else None
    return drive.wait_for(ask, "a list of processes")


def main(*makers):
    """Run the tests once everything they need is built, or skip them with the reason."""
    need("dotnet", "the .NET SDK is not installed")
    for maker in makers:
        maker()
    run_tests()


class Refused(Exception):
    """TraceEvent's reason for rejecting a file."""


class TraceRead:
    """Runs TraceEvent on files."""

    def __init__(self):
        self.command = trace_read_command()

    def lines(self, path, *options):
        """Yield the rows of --dump or --stacks, the summary last."""
        with subprocess.Popen([*self.command, *options, path], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            for line in process.stdout:
                yield json.loads(line)
            reason = process.stderr.read().decode()
        if process.returncode != 0:
            raise Refused(reason)

    def summary(self, path):
        return list(self.lines(path))[-1]

    def events(self, path, *options):
        """Return the rows as one list, and the summary."""
        *rows, summary = self.lines(path, *(options or ["--dump"]))
        return rows, summary


class Collection:
    """`dotnet-trace collect`, attached to a process."""

    def __init__(self, pid, trace, providers, *options):
        self.command = [dotnet_trace_command(), "collect", "-p", str(pid), "-o", trace,
                        "--providers", providers, *options]

    def __enter__(self):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log)
        return self

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def stop(self):
        """Send Ctrl-C once it can handle that: before, it would end and leave no file."""
        drive.wait_for(lambda: "Output File" in self.said(), "dotnet-trace's recording",
                       [self.process])
        status = drive.interrupt(self.process)
        if status != 0:
            raise drive.Failure(f"dotnet-trace ended with {status}:\n{self.said()}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


def counts(summary, providers):
    """Return (provider, id) -> count."""
    return {(kind["provider"], kind["id"]): kind["count"] for kind in summary["kinds"]
            if kind["provider"] in providers}


def reported_losses(rows):
    """Return the sum of the EventsLost events of provider `ringpipe`."""
    return sum(row["fields"]["count"] for row in rows
               if row["provider"] == "ringpipe" and row["event"] == "EventsLost")


class Scratch(unittest.TestCase):
    """A test with a separate directory."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ringpipe-interop-")
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)
