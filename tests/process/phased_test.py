#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The system calls that ringpipe makes, by phase: the table in doc/security.md.

usage: phased_test.py SUPERVISE PHASED KEYED RINGPIPE LIBRARY PAGE [--write] [unittest arguments]

PHASED executes its phases under SUPERVISE, which records its calls and may refuse one of them from
a phase on. The table lists the recorded calls. Calls in parentheses depend on the machine or on
timing and may be absent. --write writes the table instead, and lists new calls without parentheses.
"""
import concurrent.futures
import errno
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import port  # noqa: E402

SUPERVISE = PHASED = KEYED = RINGPIPE = LIBRARY = PAGE = None
NOBODY, PATIENCE = 65534, 120  # seconds; longest wait for an event that must happen
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
    """PHASED under SUPERVISE, in a separate directory. `refused`: (phase, number, error)."""

    def __init__(self, program=None, refused=None, supervised=True, **more):
        self.directory = tempfile.mkdtemp(prefix="rp-phased-")
        self.report = os.path.join(self.directory, "calls")
        self.environment = {**os.environ, "TMPDIR": self.directory, "RINGPIPE_LTTNG": "0", **more}
        self.option = ["-r", *map(str, refused)] if refused else []
        self.process = subprocess.Popen(
            ([SUPERVISE, *self.option, self.report] if supervised else []) + [program or PHASED],
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
        done = subprocess.run([RINGPIPE, *arguments], env=self.environment, cwd=self.directory,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE, check=False)
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
    while subprocess.run([RINGPIPE, "report", path], stdout=subprocess.DEVNULL, check=False,
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


# The table's rows besides the phases of a session to a file: program, environment, scenario, and
# the phase whose calls the row lists.
PREPARE, PORT = "`rp_prepare()`", "diagnostics port: `ps`, `list`"
OPTIONS = {
    PREPARE: (None, {}, option("prepare"), OPTION),
    "`recover_path`": (None, {}, session("recovery"), OPTION),
    "`roll_bytes`": (None, {}, session("roll"), OPTION),
    "`RP_SESSION_STACKS`": (None, {}, session("stacks"), OPTION),
    "`RP_SESSION_CAUSAL`": (None, {}, session("causal"), OPTION),
    "`RP_SESSION_COARSE`": (None, {}, session("coarse"), OPTION),
    "`rp_sessions_flush()`": (None, {}, session("file", "flush"), OPTION),
    "`block_ms`": (None, {}, session("block"), OPTION),
    "`RP_SESSION_OVERWRITE`, snapshots": (None, {}, session("recorder", "snapshot"), OPTION),
    "snapshots at a signal": (None, {}, at_a_signal, OPTION),
    "triggers": (None, {}, session("triggers"), OPTION),
    "samples": (None, {}, session("samples"), OPTION),
    "counters": (None, {}, session("counters"), OPTION),
    "listeners": (None, {}, option("start pull", "work", "stop", "start push", "work", "stop"),
                  OPTION),
    "`rp_tracers_watch()`": (None, {}, option("tracers"), OPTION),
    "`rp_process_context_publish()`": (None, {}, option("context"), OPTION),
    "static keys": ("keyed", {"RINGPIPE_STATIC_KEYS": "1"}, session("file"), OPTION),
    PORT: (None, {}, client("list {pid}"), OPTION),
    "… `collect`": (None, {}, client("collect -p {pid} -d 1 -o collected.nettrace"), OPTION),
    "… `flight`": (None, {}, client(
        "flight start -p {pid}", "flight snapshot -p {pid} -o snapshot.nettrace",
        "flight stop -p {pid}"), OPTION),
    "… `counters`": (None, {}, client(
        "counters collect -p {pid} -d 2 --format=csv -o counters.csv"), OPTION),
    "… `stacks`": (None, {}, client("stacks {pid}"), OPTION),
    "… `bpf`": (None, {}, batches, OPTION),
    "… `dump`": (None, {}, client("dump -p {pid} -o dumped.core"), OPTION),
    "… the program that writes the dump": (None, {}, client("dump -p {pid} -o dumped.core"),
                                           HELPER),
    "… perf maps": (None, {}, perf_map, OPTION),
    "LTTng, its own library included": (None, {"RINGPIPE_LTTNG": "1"}, option(), LOAD),
    "user_events": (None, {"RINGPIPE_USER_EVENTS": "1"}, session("file"), LOAD),
}
BASE = {"load": LOAD, "start of a session": START, "running": RUNNING, "stop": STOP, "exit": EXIT}


def trace(scenario, program=None, **environment):
    with Host(KEYED if program == "keyed" else None, **environment) as host:
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
        others = {row: pool.submit(trace_for_table, row == PORT or row[0] == "…", scenario, program,
                                   **environment)
                  for row, (program, environment, scenario, _) in OPTIONS.items()}
    found = {row: base.result().get(phase, set()) - anywhere for row, phase in BASE.items()}
    session_calls = set().union(*(found[row] for row in ("start of a session", "running", "stop")))
    for row, (_, _, _, phase) in OPTIONS.items():
        known = {HELPER: set(), LOAD: found["load"]}.get(phase, session_calls)
        if row == PREPARE:
            known = set()
        elif row.startswith("…"):
            known = known | found[PORT]
        found[row] = others[row].result().get(phase, set()) - known - anywhere
    return found


def read_table():
    """Returns for each row: (calls that are always made, calls that may be made)."""
    with open(PAGE, encoding="utf-8") as file:
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
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    text = text.split(BEGIN)[0] + BEGIN + "\n" + "\n".join(lines) + "\n" + END + \
        text.split(END)[1]
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)


class Table(unittest.TestCase):
    def test_page_lists_each_system_call_by_phase(self):
        rows = read_table()
        self.assertEqual(sorted(set(INSTEAD) - rows[INSTEAD_ROW][1]), [], "made, and not listed")
        for row, calls in seen_calls(rows[ANY][0]).items():
            with self.subTest(row=row):
                always, sometimes = rows.get(row, (set(), set()))
                self.assertEqual(sorted(calls - always - sometimes), [], "made, and not listed")
                self.assertEqual(sorted(always - calls), [], "listed, and not made")

    def test_page_lists_each_system_call_that_the_library_imports(self):
        """Includes calls of error paths and of other machines, which no phase makes here."""
        imports = subprocess.run(["nm", "-D", "--undefined-only", LIBRARY], check=True, text=True,
                                 stdout=subprocess.PIPE).stdout
        names = {name.split("@")[0] for name in re.findall(r" U (\w+(?:@\w+)?)", imports)}
        known, listed = set(call_names().values()), set()
        for always, sometimes in read_table().values():
            listed |= always | sometimes
        wrapped = {name for name in names | {name.removesuffix("64") for name in names}
                   if name in known}
        self.assertGreater(len(wrapped), 30)
        self.assertEqual(sorted(wrapped - listed), [])


# If one of these fails, libc ends the process, or ignores the failure.
NEEDED = {"brk", "exit", "exit_group", "futex", "getpid", "gettid", "rseq", "rt_sigreturn"}
# Calls whose name differs from that of their libc function, and calls that libc makes by itself.
FUNCTIONS = {
    "pthread_create": {"clone3", "clone", "mmap", "mprotect"},
    "open": {"openat"}, "opendir": {"openat", "newfstatat", "fstat"},
    "fstat": {"newfstatat", "fstat"},
}
# libc's allocator turns every refusal into ENOMEM, and pthread_create(3) turns it into EAGAIN.
MEMORY = {"mmap", "mprotect", "brk", "munmap", "mremap"}


class Refusals(unittest.TestCase):
    """Sessions in which one call fails from a phase on."""

    kinds = {"file": ()}
    phases = START, RUNNING, STOP
    program, environment, warning = None, {}, ""
    maxDiff = None

    def steps(self, host, kind):
        """Returns the last phase and its answer. A session may end early, a process may not."""
        more = [(RUNNING, line) for line in self.kinds.get(kind, ())]
        for phase, line in ((START, "start " + kind), (RUNNING, "work"), *more, (STOP, "stop")):
            host.phase(phase)
            answer = host.say(line)
            if phase == START and answer:
                break
        return phase, answer

    def attempt(self, kind, phase, call, number, error):
        with Host(self.program and KEYED, (phase, number, error), **self.environment) as host:
            where = f"{kind}: {call} refused with {errno.errorcode[error]} from phase {phase} on"
            try:
                ended, answer = self.steps(host, kind)
                host.phase(EXIT)
            except Ended as end:
                return f"{where}: {end}"
            status, said = host.end()
            if status != 0 or (said and not re.fullmatch(self.warning, said)):
                return f"{where}: it ended with {status}: {said}"
            if not answer:
                return None
            failed, named = answer
            if call in MEMORY and failed in (errno.ENOMEM, errno.EAGAIN):
                return None
            if failed != error or (ended == START and call not in FUNCTIONS.get(named, {named})):
                return f"{where}: the answer is {errno.errorcode.get(failed)} of {named}"
        return None

    def test_call_refused_from_a_phase_on_is_named_or_not_needed(self):
        numbers = {name: number for number, name in call_names().items()}
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            attempts = []
            common = trace(lambda host: self.steps(host, "file"), self.program,
                           **self.environment)
            for kind in self.kinds:
                seen = trace(lambda host, kind=kind: self.steps(host, kind), self.program,
                             **self.environment)
                if kind != "file":
                    seen = {phase: calls - (common[phase] if phase != START else set())
                            for phase, calls in seen.items() if phase in common}
                attempts += [pool.submit(self.attempt, kind, phase, call, numbers[call], error)
                             for phase in self.phases
                             for call in sorted(seen.get(phase, set()) - NEEDED)
                             for error in (errno.EPERM, errno.ENOSYS)]
            self.assertGreater(len(attempts), 20)
            wrong = [attempt.result() for attempt in attempts]
        self.assertEqual("\n".join(what for what in wrong if what), "")

    def test_client_is_reported_which_call_was_refused(self):
        numbers = {name: number for number, name in call_names().items()}
        with Host(refused=(OPTION, numbers["madvise"], errno.EPERM)) as host:
            host.phase(OPTION)
            with self.assertRaisesRegex(Ended, "the system call madvise failed there"):
                host.run("collect", "-p", str(host.pid), "-d", "1", "-o", "collected.nettrace")


class RefusalsOfOptions(Refusals):
    test_client_is_reported_which_call_was_refused = None
    kinds = {"recovery": (), "roll": (), "stacks": (), "samples": (), "recorder": ("snapshot",),
             "triggers": (), "pull": (), "push": (), "block": (), "counters": ()}


class RefusalsOfKeys(Refusals):
    """Sites that cannot be changed stay jumps, and the library reports that to the program."""

    test_client_is_reported_which_call_was_refused = None
    program, environment = "keyed", {"RINGPIPE_STATIC_KEYS": "1"}
    warning = r"ringpipe: cannot change code, with RINGPIPE_STATIC_KEYS \"1\": .*"


class RefusalsOfDumps(unittest.TestCase):
    """A dump is complete, or the client gets an error. The process continues."""

    def attempt(self, call, number, error):
        where = f"{call} refused with {errno.errorcode[error]}"
        with Host(refused=(OPTION, number, error)) as host:
            path = os.path.join(host.directory, "dumped.core")
            try:
                host.phase(OPTION)
                done = subprocess.run([RINGPIPE, "dump", "-p", str(host.pid), "-o", path],
                                      env=host.environment, stdout=subprocess.PIPE, text=True,
                                      stderr=subprocess.STDOUT, timeout=PATIENCE,
                                      check=False)
                host.phase(EXIT)
                answer = host.say("start file")
                if answer and call not in FUNCTIONS.get(answer[1], {answer[1]}):
                    return f"{where}: no session afterwards: {answer}"
                if not answer and (host.say("work") or host.say("stop")):
                    return f"{where}: a session that did not end"
            except (Ended, subprocess.TimeoutExpired) as end:
                return f"{where}: {end}"
            if done.returncode == 0 and not os.path.exists(path):
                return f"{where}: no file, and no error"
            if done.returncode != 0 and (not done.stdout or os.path.exists(path)):
                return f"{where}: {done.returncode}, and says {done.stdout!r}"
            status = host.end()
        return None if status == (0, "") else f"{where}: it ended with {status}"

    def test_refused_call_spoils_the_dump_alone(self):
        numbers = {name: number for number, name in call_names().items()}
        seen = trace(client("dump -p {pid} -o dumped.core"))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            attempts = [pool.submit(self.attempt, call, numbers[call], error)
                        for call in sorted(seen[OPTION] - NEEDED)
                        for error in (errno.EPERM, errno.ENOSYS)]
            self.assertGreater(len(attempts), 20)
            wrong = [attempt.result() for attempt in attempts]
        self.assertEqual("\n".join(what for what in wrong if what), "")


class Prepared(unittest.TestCase):
    """A program calls rp_prepare(), restricts itself, and then starts sessions."""

    # Rows of earlier phases, and of other programs.
    before = {"load", PREPARE, "… `dump`", "… the program that writes the dump",
              "LTTng, its own library included"}
    threads = {"clone", "clone3", "fork", "vfork", "rseq", "set_robust_list"}
    own = {"pselect6", "read", "sched_setscheduler", "write"}

    def allowed(self, without):
        rows = read_table()
        calls = set().union(self.own, *(always | sometimes for row, (always, sometimes) in
                                        rows.items() if row not in self.before)) - without
        self.assertNotIn("flock", calls)
        self.assertNotIn("execve", calls)
        numbers = {name: number for number, name in call_names().items()}
        return ",".join(str(numbers[name]) for name in calls if name in numbers)

    def restrict(self, host, without, moves):
        allowed = self.allowed(without)
        self.assertEqual(host.say("prepare"), 0)
        if moves:
            os.chmod(host.directory, 0o777)
            self.assertEqual(host.say(f"move {NOBODY} {host.directory}"), 0)
        self.assertEqual(host.say("allow " + allowed), 0)

    def sessions(self, host, *kinds):
        for kind in kinds:
            for line in ("start " + kind, "work", "stop"):
                self.assertEqual(host.say(line), 0, f"{kind}: {line}")
            if kind not in ("pull", "push", "recorder", "roll"):
                self.check_trace(host, "trace.nettrace")
                os.unlink(os.path.join(host.directory, "trace.nettrace"))

    def check_trace(self, host, name):
        done = subprocess.run([RINGPIPE, "report", name, "events", "--format=json"],
                              cwd=host.directory,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")
        self.assertGreater(done.stdout.count('"Test-Phased"'), 0, name)
        self.assertNotIn("libringpipe-symbols.so: cannot", done.stdout, "its note of the names")

    def expect_end(self, host):
        host.end()
        self.assertEqual(host.process.returncode, 0)

    def test_prepared_program_starts_sessions_without_a_new_thread(self):
        with Host() as host:
            self.restrict(host, self.threads, moves=False)
            self.sessions(host, "file", "coarse", "recovery", "roll", "counters",
                          "recorder", "pull")
            self.expect_end(host)

    def test_threads_run_when_rp_prepare_returns(self):
        # Not supervised: while a thread waits for SUPERVISE, the new thread would run.
        with Host(supervised=False) as host:
            answer = host.say("confine " + self.allowed(self.threads))
            if answer != 0 and answer[0] == errno.EPERM:
                self.skipTest("SCHED_FIFO is not permitted here")
            self.assertEqual(answer, 0)
            self.sessions(host, "file", "counters")
            self.expect_end(host)

    def test_sizes_and_bits_that_are_unknown_are_refused(self):
        with Host() as host:
            for size, what in ((0, 0), (7, 0), (8, 32), (8, 1 << 31)):
                self.assertEqual(host.say(f"prepare {size} {what}"), (errno.EINVAL, "-"))
            for what in (0, 1, 2, 4, 8, 16, 31):
                self.assertEqual(host.say(f"prepare 8 {what}"), 0)

    def test_prepared_program_is_traced_from_outside_under_a_filter(self):
        with Host() as host:
            self.restrict(host, set(), moves=False)
            self.trace_from_outside(host)
            host.run("stacks", str(host.pid))
            self.sessions(host, "stacks", "samples", "push", "triggers")
            self.expect_end(host)

    def test_prepared_program_is_traced_in_another_root_as_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("chroot(2) is for root")
        with Host() as host:
            self.restrict(host, set(), moves=True)
            self.sessions(host, "file", "coarse", "stacks", "counters", "recorder", "push", "pull")
            self.trace_from_outside(host)
            self.expect_end(host)

    def trace_from_outside(self, host):
        pid = str(host.pid)
        host.run("collect", "-p", pid, "-d", "1", "--stacks", "-o", "collected.nettrace")
        self.check_trace(host, "collected.nettrace")
        host.run("flight", "start", "-p", pid)
        host.run("flight", "snapshot", "-p", pid, "-o", "snapshot.nettrace")
        host.run("flight", "stop", "-p", pid)
        self.check_trace(host, "snapshot.nettrace")
        host.run("counters", "collect", "--format=csv", "-p", pid, "-d", "2", "-o", "counters.csv")


def main():
    global SUPERVISE, PHASED, KEYED, RINGPIPE, LIBRARY, PAGE
    if not os.path.exists(HEADER):
        print("no " + HEADER)
        sys.exit(77)
    SUPERVISE, PHASED, KEYED, RINGPIPE, LIBRARY, PAGE = map(os.path.abspath, sys.argv[1:7])
    del sys.argv[1:7]
    tried = subprocess.run([SUPERVISE, "/dev/null", "/bin/true"], check=False)
    if tried.returncode == 77:
        print("filters of system calls that notify cannot be installed here")
        sys.exit(77)
    if "--write" in sys.argv:
        write_table(seen_calls(read_table()[ANY][0]))
    else:
        unittest.main()


if __name__ == "__main__":
    main()
