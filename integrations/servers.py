# SPDX-License-Identifier: MIT
"""An installation, ports and recordings for the tests of all modules for servers."""
import contextlib
import json
import os
import random
import re
import signal
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


given = set()


def free_port():
    """Return a port that this program was not given before. It is below those of clients: under a
    test's load these run out, and a client could take a port before the server listens there."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as ports:
        ports = range(1024, int(ports.read().split()[0]))
    while True:
        # Without a range below, the kernel chooses.
        port = random.choice(ports) if len(ports) > len(given) + 1000 else 0
        with contextlib.suppress(OSError), socket.socket() as listening:
            listening.bind(("127.0.0.1", port))
            port = listening.getsockname()[1]
            if port not in given:
                given.add(port)
                return port


def skip_if(reason):
    """End the program as a skipped test if there is a reason for that."""
    if reason:
        print(f"SKIP: {reason}")
        sys.exit(77)


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


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def is_descendant(pid, ancestor):
    while pid not in (0, ancestor):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return pid != 0


def sessions(pid, provider, env=None):
    """Return the names of the sessions of the provider in the process."""
    done = subprocess.run([RINGPIPE, "list", "--format", "json", "-p", str(pid)], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PATIENCE,
                          env=env)
    # A process opens its socket a little after its start.
    rows = json.loads(done.stdout) if done.returncode == 0 else []
    return [row["session"] for row in rows
            if (row["kind"], row["provider"]) == ("session", provider)]


def has_session(pid, provider, recorder, env=None):
    """Whether the recorder, or a child of it, has a session of the provider in the process. Other
    programs may record all processes of the machine."""
    clients = [re.match("ipc-([0-9]+)$", name) for name in sessions(pid, provider, env)]
    return any(client and is_descendant(int(client[1]), recorder.pid) for client in clients)


def wait_for_session(pid, provider, recorder, env=None):
    drive.wait_for(lambda: has_session(pid, provider, recorder, env),
                   f"a session of {provider}", [recorder])


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


def run_readme(folder, cwd, pid, provider, work, replaced):
    """Run the commands that the README in a folder calls "Three commands", in another folder.

    A recording ends after `work` instead of after its time. `replaced` has the words that a reader
    replaces, and process ids for names, because the machine may run other servers. Return the
    outputs.
    """
    with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
        section = file.read().split("\n## Three commands\n")[1].split("\n## ")[0]
    commands = [line.split(" #")[0].strip() for line in section.splitlines()
                if line.startswith("    ")]
    assert len(commands) == 3, commands
    environment = dict(os.environ, PATH=os.path.dirname(RINGPIPE) + ":" + os.environ["PATH"])
    outputs = []
    # A process opens its socket a little after its start.
    drive.wait_for(lambda: pid in processes(), f"the socket of process {pid}", [])
    for command in commands:
        for word, replacement in replaced.items():
            command = command.replace(word, replacement)
        is_recording = " -d 10s" in command
        with drive.running(["sh", "-c", "exec " + command.replace(" -d 10s", "")], cwd=cwd,
                           env=environment, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT) as process:
            if is_recording:
                wait_for_session(pid, provider, process)
                work()
                process.send_signal(signal.SIGINT)
            outputs.append(process.communicate(timeout=PATIENCE)[0])
            assert process.returncode == 0, (command, outputs[-1])
    return outputs
