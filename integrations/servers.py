# SPDX-License-Identifier: MIT
"""What the tests of all modules for servers use: an installation, ports, recordings."""
import contextlib
import json
import os
import socket
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "examples", "shop"))
import drive  # noqa: E402 pylint: disable=wrong-import-position

# The benchmark imports this file without them.
RINGPIPE, BUILD = os.environ.get("RINGPIPE"), os.environ.get("BUILD")
PATIENCE = 60
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE_ID}-b7ad6b7169203331-01"


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def processes(ringpipe=None):
    """Return the ids of all processes that can be traced."""
    done = subprocess.run([ringpipe or RINGPIPE, "ps", "--format", "json"], stdout=subprocess.PIPE,
                          check=True, timeout=PATIENCE)
    return {row["process_id"] for row in json.loads(done.stdout)}


def install(folder, build=BUILD):
    """Install the ringpipe of a build below `folder`, where servers find its library.

    Return the environment in which pkg-config finds it.
    """
    root = os.path.join(folder, "root")
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], check=True,
                   env=dict(os.environ, DESTDIR=root), timeout=PATIENCE,
                   stdout=subprocess.DEVNULL)
    found = subprocess.run(["find", root, "-name", "ringpipe.pc"], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.strip()
    folder = os.path.dirname(found)
    os.environ["LD_LIBRARY_PATH"] = os.path.dirname(folder)
    return dict(os.environ, PKG_CONFIG_PATH=folder, PKG_CONFIG_SYSROOT_DIR=root)


def wait_for_session(pid, provider, recorder):
    def is_enabled():
        done = subprocess.run([RINGPIPE, "list", "--format", "json", "-p", str(pid)],
                              stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
        return any((row["kind"], row["provider"]) == ("session", provider)
                   for row in json.loads(done.stdout))
    drive.wait_for(is_enabled, f"a session of {provider}", [recorder])


@contextlib.contextmanager
def recording(pid, provider, trace, *options):
    """Record a process into `trace` while the block runs."""
    command = [RINGPIPE, "collect", "-f", "-o", trace, *options, "-p", str(pid)]
    with drive.running(command, stderr=subprocess.PIPE, text=True) as recorder:
        with recorder.stderr:
            wait_for_session(pid, provider, recorder)
            yield
            status = drive.interrupt(recorder)
            assert status == 0, recorder.stderr.read()


def read(trace):
    """Return the events of a trace, in which nothing may be lost."""
    done = subprocess.run([RINGPIPE, "convert", "--quiet", "--to", "jsonl", "-f", "-o", "-",
                           trace], stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    lost = [event for event in events if "Lost" in event["event"]]
    unittest.TestCase().assertFalse(lost)
    return events


def of_name(events, name):
    return [event["fields"] for event in events if event["event"] == name]
