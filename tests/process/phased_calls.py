# SPDX-License-Identifier: MIT
"""Runs the program `phased` under `supervise`, and generates the table of system calls from it.

Each row of OPTIONS has a program, variables of the environment, a scenario, and the phases whose
calls the row lists. phased_test.py compares the rows with the table in doc/security.md.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import port  # noqa: E402

PATHS = types.SimpleNamespace()     # of programs and the page, from the command line
PATIENCE = 120  # seconds; longest wait for an event that must happen
HEADER = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
BEGIN, END = "<!-- calls, by tests/process/phased_test.py --write -->", "<!-- end of calls -->"

LOAD, START, RUNNING, STOP, EXIT, OPTION, BEFORE, HELPER = 0, 1, 2, 3, 4, 5, 6, 63
ANY = "any phase"
# Calls that later versions of glibc make instead of the calls in the table.
TABLE_GLIBC = (2, 36)
GLIBC = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))
INSTEAD = {"fstat": "newfstatat", "readlinkat": "readlink"} if GLIBC > TABLE_GLIBC else {}
INSTEAD_ROW = "in place of others, by versions of glibc and Linux"


def call_names():
    with open(HEADER, encoding="ascii") as file:
        return {int(number): name for name, number in
                re.findall(r"#define __NR_(\w+) (\d+)", file.read())}


class Ended(Exception):
    pass


class Host:
    """A supervised program in a separate directory. `refused`: (phase, number, error)."""

    def __init__(self, program="phased", refused=None, supervised=True, **more):
        self.directory = tempfile.mkdtemp(prefix="rp-phased-")
        self.report = os.path.join(self.directory, "calls")
        self.environment = {**os.environ, "TMPDIR": self.directory, "RINGPIPE_LTTNG": "0", **more}
        if "RINGPIPE_PORTS" in more:
            with socket.socket(socket.AF_UNIX) as server:   # whose file stays, as after a crash
                server.bind(os.path.join(self.directory, "stale"))
        self.option = ["-r", *map(str, refused)] if refused else []
        self.process = subprocess.Popen(
            ([PATHS.supervise, *self.option, self.report] if supervised else []) +
            [getattr(PATHS, program)],
            cwd=self.directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, bufsize=1, env=self.environment)
        line = self.process.stdout.readline().split()
        self.pid = int(line[1]) if line else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        shutil.rmtree(self.directory)

    def say(self, line):
        """Sends a command. Returns the program's answer: 0, or (error, call)."""
        try:
            self.process.stdin.write(line + "\n")
            answer = self.process.stdout.readline().split()
        except BrokenPipeError:
            answer = []
        if not answer:
            raise Ended(f"it ended at '{line}' with {self.end()}")
        if answer[0] == "ok":
            return 0
        return int(answer[1]), " ".join(answer[2:])

    def phase(self, number):
        # The sampler's thread deletes its timers after the end of the session, unless it may not.
        timers = pathlib.Path(f"/proc/{self.pid}/timers")
        while number == EXIT and not self.option and timers.read_bytes():
            time.sleep(0.01)
        return self.say(f"phase {number}")

    def fork(self):
        """The program forks. Returns the pid of its child, which gets the further commands."""
        pid, _ = self.say("fork")
        self.process.stdout.readline()
        return pid

    def wait_for_server(self, pid=None):
        """Waits until the thread that serves clients has opened all it needs."""
        process = pathlib.Path(f"/proc/{pid or self.pid}")
        end = time.monotonic() + PATIENCE
        while not is_serving(process):
            if not process.exists() or time.monotonic() > end:
                raise Ended(f"it serves no clients: {process}")
            time.sleep(0.01)

    def end(self):
        """Ends the program. Returns its exit status and its standard error."""
        if self.process.stdin and not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        self.process.stdin = None
        _, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, err.strip()

    def calls(self):
        names, found = call_names(), {}
        with open(self.report, encoding="ascii") as file:
            for line in file:
                phase, number = map(int, line.split())
                found.setdefault(phase, set()).add(names[number])
        return found

    def run(self, *arguments):
        done = subprocess.run([PATHS.ringpipe, *arguments], env=self.environment,
                              cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise Ended(f"{arguments}: {done.stderr}")

    def ask(self, command_set, command, payload=b"", go_on=lambda client: client.recv(4096)):
        """Sends one request to the program's diagnostics port; `go_on` gets the connection."""
        request = struct.pack("<14sHBBH", b"DOTNET_IPC_V1", 20 + len(payload), command_set,
                              command, 0) + payload
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(port.socket_path(self.directory, self.pid))
            client.sendall(request)
            client.settimeout(PATIENCE)
            go_on(client)


def is_serving(process):
    """Whether the thread waits in poll(2), which was the last call to be new, for its epoll set."""
    numbers = {name: number for number, name in call_names().items()}
    try:
        sets = [info.read_text() for info in (process / "fdinfo").iterdir()]
        waits = [(thread / "syscall").read_text() for thread in (process / "task").iterdir()
                 if (thread / "comm").read_text() == "ringpipe-diag\n"]
    except OSError:     # ended or closed meanwhile
        return False
    return any(info.count("tfd:") >= 2 for info in sets) and \
        any(call.startswith(f"{numbers['poll']} ") for call in waits)


def whole_session(host, kind):
    """Runs the phases of a session to a file."""
    result = 0
    for phase, line in ((START, "start " + kind), (RUNNING, "work"), (STOP, "stop")):
        host.phase(phase)
        result = host.say(line)
        if result:
            break
    host.phase(EXIT)
    return result


def option(*lines):
    def scenario(host):
        host.phase(OPTION)
        for line in lines:
            if host.say(line):
                raise Ended(line)
        host.phase(EXIT)
    return scenario


def session(kind, *more):
    return option("start " + kind, "work", *more, "stop")


def at_a_signal(host):
    host.say("start recorder")
    host.say("work")
    host.phase(OPTION)
    host.say("watch")
    os.kill(host.pid, signal.SIGUSR2)
    path = os.path.join(host.directory, "signal.000001.nettrace")
    while subprocess.run([PATHS.ringpipe, "report", path], stdout=subprocess.DEVNULL, check=False,
                         stderr=subprocess.DEVNULL).returncode:
        pass
    host.phase(EXIT)
    host.say("stop")


def client(*commands):
    def scenario(host):
        host.phase(OPTION)
        for command in commands:
            host.run(*(word.format(pid=host.pid) for word in command.split()))
        host.ask(0x04, 0x00)    # answered when the earlier connections are closed
        host.phase(EXIT)
    return scenario


def perf_map(host):
    host.phase(OPTION)
    host.ask(0x04, 0x05, struct.pack("<I", 1))
    host.ask(0x04, 0x06)
    host.ask(0x04, 0x00)
    host.phase(EXIT)


def answer_batches(client):
    """Answers each definition, until some stats have come."""
    stream, stats = client.makefile("rb"), 0
    stream.read(36)     # the OK, the session's id, the probe
    while stats < 3:
        kind, count = struct.unpack("<II", stream.read(8))
        stream.read(count)
        stats += kind == 2
        if kind == 1:
            client.sendall(b".")


def batches(host):
    """The session of `ringpipe bpf`: events go to a probe, definitions and stats to this socket."""
    every = struct.pack("<QII4sI", 2**64 - 1, 5, 2, "*\0".encode("utf-16-le"), 0)
    host.phase(OPTION)
    host.ask(0x52, 0x05, struct.pack("<IIQBI", 4, 1, 0, 0, 1) + every, answer_batches)
    host.ask(0x04, 0x00)
    host.phase(EXIT)


def forked_child(host):
    host.phase(OPTION)
    host.wait_for_server(host.fork())
    host.phase(EXIT)


def closed_descriptors(host):
    """The library opens what the program has closed, when it notices."""
    host.phase(OPTION)
    host.say("close")
    host.wait_for_server()
    host.phase(EXIT)


def on_demand(host):
    host.phase(OPTION)
    for line in ("open", "dispatch"):
        if host.say(line):
            raise Ended(line)
    host.wait_for_server()
    host.phase(EXIT)


def polled(host):
    """The program serves a client, which first connects and later sends its request."""
    def dispatch_until(is_done, client):
        while not is_done(client):
            if host.say("open") or host.say("dispatch"):
                raise Ended("dispatch")

    def is_accepted(_):
        timers = [info.read_text() for info in
                  pathlib.Path(f"/proc/{host.pid}/fdinfo").iterdir()]
        return any("it_value: (0, 0)" not in info for info in timers if "it_value" in info)

    host.phase(OPTION)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(port.socket_path(host.directory, host.pid))
        dispatch_until(is_accepted, client)
        client.sendall(struct.pack("<14sHBBH", b"DOTNET_IPC_V1", 20, 4, 0, 0))
        dispatch_until(lambda client: select.select([client], [], [], 0)[0], client)
    host.phase(EXIT)


def use_port(host):
    """A tool listens at the port, sends one request, and ends when the process has reconnected."""
    with socket.socket(socket.AF_UNIX) as tool:
        tool.settimeout(PATIENCE)
        tool.bind(os.path.join(host.directory, "tool"))
        tool.listen()
        with tool.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(struct.pack("<14sHBBH", b"DOTNET_IPC_V1", 20, 4, 0, 0))
            connection.recv(4096)
        tool.accept()[0].close()


def connecting(host):
    host.phase(OPTION)
    use_port(host)
    host.phase(EXIT)


# The table's rows besides the phases of a session to a file: program, environment, scenario, and
# the phases whose calls the row lists.
PREPARE, PORT = "`rp_prepare()`", "diagnostics port: `ps`, `list`"
CHILD, DEMAND = "forked child, its port included", "`RP_DIAGNOSTICS_ON_DEMAND`: port and thread"
POLLED, CLOSED = "`RP_DIAGNOSTICS_POLL`", "reopening what the program has closed"
LISTENS, CONNECTS = "`RINGPIPE_PORTS`: `listen`", "`RINGPIPE_PORTS`: `connect`"
TOOL = "tool,connect,nosuspend"
# These rows do not depend on a session, so they omit no call of a session.
WITHOUT_SESSION = {PREPARE, CHILD, DEMAND, CLOSED, CONNECTS, PORT}
OPTIONS = {
    PREPARE: ("phased", {}, option("prepare"), OPTION),
    CHILD: ("phased", {}, forked_child, OPTION, EXIT),
    DEMAND: ("on_demand", {}, on_demand, OPTION, EXIT),
    POLLED: ("polled", {}, polled, LOAD, OPTION, EXIT),
    CLOSED: ("phased", {}, closed_descriptors, OPTION, EXIT),
    LISTENS: ("phased", {"RINGPIPE_PORTS": "stale,listen,nosuspend"}, option(), LOAD, EXIT),
    CONNECTS: ("phased", {"RINGPIPE_PORTS": TOOL}, connecting, LOAD, OPTION,
               EXIT),
    "`recover_path`": ("phased", {}, session("recovery"), OPTION),
    "`roll_bytes`": ("phased", {}, session("roll"), OPTION),
    "`RP_SESSION_STACKS`": ("phased", {}, session("stacks"), OPTION),
    "`RP_SESSION_CAUSAL`": ("phased", {}, session("causal"), OPTION),
    "`RP_SESSION_COARSE`": ("phased", {}, session("coarse"), OPTION),
    "`rp_sessions_flush()`": ("phased", {}, session("file", "flush"), OPTION),
    "`block_ms`": ("phased", {}, session("block"), OPTION),
    "`RP_SESSION_OVERWRITE`, snapshots": ("phased", {}, session("recorder", "snapshot"), OPTION),
    "snapshots at a signal": ("phased", {}, at_a_signal, OPTION),
    "triggers": ("phased", {}, session("triggers"), OPTION),
    "samples": ("phased", {}, session("samples"), OPTION),
    "counters": ("phased", {}, session("counters"), OPTION),
    "listeners": ("phased", {}, option("start pull", "work", "stop", "start push", "work", "stop"),
                  OPTION),
    "`rp_tracers_watch()`": ("phased", {}, option("tracers"), OPTION),
    "`rp_process_context_publish()`": ("phased", {}, option("context"), OPTION),
    "static keys": ("keyed", {"RINGPIPE_STATIC_KEYS": "1"}, session("file"), OPTION),
    PORT: ("phased", {}, client("list {pid}"), OPTION),
    "… `collect`": ("phased", {}, client("collect -p {pid} -d 1 -o collected.nettrace"), OPTION),
    "… `flight`": ("phased", {}, client(
        "flight start -p {pid}", "flight snapshot -p {pid} -o snapshot.nettrace",
        "flight stop -p {pid}"), OPTION),
    "… `counters`": ("phased", {}, client(
        "counters collect -p {pid} -d 2 --format=csv -o counters.csv"), OPTION),
    "… `stacks`": ("phased", {}, client("stacks {pid}"), OPTION),
    "… `bpf`": ("phased", {}, batches, OPTION),
    "… `dump`": ("phased", {}, client("dump -p {pid} -o dumped.core"), OPTION),
    "… the program that writes the dump": ("phased", {}, client("dump -p {pid} -o dumped.core"),
                                           HELPER),
    "… perf maps": ("phased", {}, perf_map, OPTION),
    "LTTng, its own library included": ("phased", {"RINGPIPE_LTTNG": "1"}, option(), LOAD),
    "user_events": ("phased", {"RINGPIPE_USER_EVENTS": "1"}, session("file"), LOAD),
}
BASE = {"load": LOAD, "start of a session": START, "running": RUNNING, "stop": STOP, "exit": EXIT}


def trace(scenario, program="phased", **environment):
    with Host(program, **environment) as host:
        scenario(host)
        status = host.end()
        if status[0] != 0:
            raise Ended(f"it ended with {status}")
        return host.calls()


def trace_for_table(has_client, *options, **environment):
    """Records the calls; again if another test's client (`ringpipe ps`) connected meanwhile."""
    for _ in range(20):
        found = {phase: {INSTEAD.get(call, call) for call in calls}
                 for phase, calls in trace(*options, **environment).items()}
        if has_client or "accept4" not in set().union(*found.values()):
            break
    return found


def seen_calls(anywhere):
    """Returns the recorded calls of each row, without those of rows above that also apply."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        base = pool.submit(trace_for_table, False, lambda host: whole_session(host, "file"))
        others = {row: pool.submit(trace_for_table, row in (PORT, POLLED) or row[0] == "…",
                                   scenario, program, **environment)
                  for row, (program, environment, scenario, *_) in OPTIONS.items()}
    found = {row: base.result().get(phase, set()) - anywhere for row, phase in BASE.items()}
    session_calls = set().union(*(found[row] for row in ("start of a session", "running", "stop")))
    for row in (PORT, *OPTIONS):
        known = {HELPER: set(), LOAD: found["load"], EXIT: found["exit"], OPTION: session_calls}
        if row in WITHOUT_SESSION:
            known[OPTION] = set()
        elif row.startswith("…") or row == POLLED:
            known[OPTION] = session_calls | found[PORT]
        calls = others[row].result()
        found[row] = set().union(*(calls.get(phase, set()) - known[phase]
                                   for phase in OPTIONS[row][3:])) - anywhere
    return found


def read_table():
    """Returns for each row: (calls that are always made, calls that may be made)."""
    with open(PATHS.page, encoding="utf-8") as file:
        table = file.read().split(BEGIN)[1].split(END)[0]
    rows = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if len(cells) != 2 or cells[0] in ("phase", "---"):
            continue
        always, _, sometimes = cells[1].partition("(")
        rows[cells[0]] = (set(re.findall(r"`(\w+)`", always)),
                          set(re.findall(r"`(\w+)`", sometimes)))
    return rows


def write_table(found):
    before = read_table()
    rows = [row for row in before if row not in found] + list(found)
    rows.sort(key=lambda row: list(before).index(row) if row in before else len(before))
    lines = ["| phase | calls |", "| --- | --- |"]
    for row in rows:
        sometimes = before.get(row, (set(), set()))[1]
        always = found[row] - sometimes if row in found else before[row][0]
        cell = " ".join(f"`{call}`" for call in sorted(always))
        if sometimes:
            cell += " (" + " ".join(f"`{call}`" for call in sorted(sometimes)) + ")"
        lines.append(f"| {row} | {cell.strip()} |")
    with open(PATHS.page, encoding="utf-8") as file:
        text = file.read()
    text = text.split(BEGIN)[0] + BEGIN + "\n" + "\n".join(lines) + "\n" + END + \
        text.split(END)[1]
    with open(PATHS.page, "w", encoding="utf-8") as file:
        file.write(text)
