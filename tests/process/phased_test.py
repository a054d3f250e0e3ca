#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The system calls that ringpipe makes, by phase: the table in doc/security.md.

usage: phased_test.py SUPERVISE PHASED KEYED ON_DEMAND POLLED RINGPIPE LIBRARY PAGE [--write]
       [unittest arguments]

PHASED executes its phases under SUPERVISE, which records its calls and may refuse one of them from
a phase on. The table lists the recorded calls. Calls in parentheses depend on the machine or on
timing and may be absent. --write writes the table instead, and lists new calls without parentheses.
"""
import concurrent.futures
import errno
import os
import re
import subprocess
import sys
import time
import unittest

from phased_calls import (ANY, CHILD, CLOSED, CONNECTS, DEMAND, EXIT, HEADER, INSTEAD, INSTEAD_ROW,
                          LISTENS, OPTION, PATHS, PATIENCE, POLLED, PORT, PREPARE, RUNNING, START,
                          STOP, TOOL, Ended, Host, call_names, client, read_table, seen_calls,
                          trace, use_port, write_table)

NOBODY = 65534


class Table(unittest.TestCase):
    def test_page_lists_each_system_call_by_phase(self):
        rows = read_table()
        # While a session runs, a writer that does not get the processor causes these.
        rare = rows["running"][1]
        self.assertEqual(sorted(set(INSTEAD) - rows[INSTEAD_ROW][1]), [], "made, and not listed")
        for row, calls in seen_calls(rows[ANY][0]).items():
            with self.subTest(row=row):
                always, sometimes = rows.get(row, (set(), set()))
                self.assertEqual(sorted(calls - always - sometimes - rare), [],
                                 "made, and not listed")
                self.assertEqual(sorted(always - calls), [], "listed, and not made")

    def test_page_lists_each_system_call_that_the_library_imports(self):
        """Includes calls of error paths and of other machines, which no phase makes here."""
        imports = subprocess.run(["nm", "-D", "--undefined-only", PATHS.library], check=True,
                                 text=True, stdout=subprocess.PIPE).stdout
        names = {name.split("@")[0] for name in re.findall(r" U (\w+(?:@\w+)?)", imports)}
        known, listed = set(call_names().values()), set()
        for always, sometimes in read_table().values():
            listed |= always | sometimes
        wrapped = {name for name in names | {name.removesuffix("64") for name in names}
                   if name in known}
        self.assertGreater(len(wrapped), 30)
        self.assertEqual(sorted(wrapped - listed), [])


# If one of these fails, libc ends the process, or ignores the failure: brk(3) then takes the error
# for an address, and malloc(3) writes there.
NEEDED = {"brk", "exit", "exit_group", "futex", "rseq", "rt_sigreturn"}
# Calls whose name differs from that of their libc function, and calls that libc makes by itself.
FUNCTIONS = {
    "pthread_create": {"clone3", "clone", "mmap", "mprotect"},
    "open": {"openat"}, "opendir": {"openat", "newfstatat", "fstat"},
    "fstat": {"newfstatat", "fstat"},
}
# Refused in each phase, as an allocation may need them at any time.
MEMORY = {"madvise", "mmap", "mprotect", "mremap", "munmap"}


def is_named(call, error, answer):
    """Whether the answer to a refused call is its error and name, or those of libc's function."""
    failed, named = answer
    # Without memory for a stack, pthread_create(3) always returns EAGAIN.
    return call in FUNCTIONS.get(named, {named}) and \
        failed in (error, errno.EAGAIN if named == "pthread_create" else error)


class Refusals(unittest.TestCase):
    """Sessions in which one call fails from a phase on."""

    kinds = {"file": ()}
    phases = START, RUNNING, STOP
    program, environment, warning = "phased", {}, ""
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
        with Host(self.program, (phase, number, error), **self.environment) as host:
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
            if not is_named(call, error, answer) if ended == START else failed != error:
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
                             for call in sorted((seen.get(phase, set()) | MEMORY) - NEEDED)
                             for error in (errno.EPERM, errno.ENOSYS)]
            self.assertGreater(len(attempts), 20)
            wrong = [attempt.result() for attempt in attempts]
        self.assertEqual("\n".join(what for what in wrong if what), "")

    def test_client_is_reported_which_call_was_refused(self):
        numbers = {name: number for number, name in call_names().items()}
        for call in sorted(MEMORY | {"clone3", "fcntl"}):
            with self.subTest(call=call), \
                    Host(refused=(OPTION, numbers[call], errno.EPERM)) as host:
                host.phase(OPTION)
                try:
                    host.run("collect", "-p", str(host.pid), "-d", "1", "-o", "collected.nettrace")
                    self.assertNotIn(call, ("madvise", "fcntl"))
                except Ended as end:
                    named = re.search(r"the system call (\w+) failed there", str(end))
                    if call == "mmap" and not named:
                        # The port itself may lack the memory for its answer.
                        self.assertIn("closed the connection without an answer", str(end))
                        continue
                    self.assertIsNotNone(named, end)
                    self.assertIn(call, FUNCTIONS.get(named[1], {named[1]}))

    def attempt_at_port(self, call, number):
        with Host(refused=(OPTION, number, errno.EPERM)) as host:
            host.phase(OPTION)
            try:
                host.run("collect", "-p", str(host.pid), "-d", "1", "-o", "collected.nettrace")
                return f"{call}: no error"
            except Ended as end:
                if "cannot trace process" not in str(end):
                    return f"{call}: {end}"
            answers = [host.say(line) for line in ("start file", "work", "stop")]
            host.phase(EXIT)
            status = host.end()
        return None if status == (0, "") and not any(answers) else \
            f"{call}: {answers}, {status}"

    def test_port_that_cannot_answer_harms_no_session(self):
        numbers = {name: number for number, name in call_names().items()}
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            wrong = pool.map(lambda call: self.attempt_at_port(call, numbers[call]),
                             ("accept4", "epoll_ctl", "epoll_wait", "getsockopt", "recvfrom",
                              "sendto"))
        self.assertEqual("\n".join(what for what in wrong if what), "")


class RefusalsOfOptions(Refusals):
    test_client_is_reported_which_call_was_refused = None
    test_port_that_cannot_answer_harms_no_session = None
    kinds = {"recovery": (), "roll": (), "stacks": (), "samples": (), "recorder": ("snapshot",),
             "triggers": (), "pull": (), "push": (), "block": (), "counters": ()}


class RefusalsOfKeys(Refusals):
    """Sites that cannot be changed stay jumps, and the library reports that to the program."""

    test_client_is_reported_which_call_was_refused = None
    test_port_that_cannot_answer_harms_no_session = None
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
                done = subprocess.run([PATHS.ringpipe, "dump", "-p", str(host.pid), "-o", path],
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

    # Rows of earlier phases, of other programs, and of what few of these programs do.
    before = {"load", PREPARE, "… `dump`", "… the program that writes the dump",
              "LTTng, its own library included", CHILD, DEMAND, POLLED, CLOSED, LISTENS, CONNECTS}
    threads = {"clone", "clone3", "fork", "vfork", "rseq", "set_robust_list"}
    own = {"pselect6", "read", "sched_setscheduler", "waitid", "write"}
    session = {ANY, "start of a session", "running", "stop", "exit"}

    def allowed(self, without, wanted=None):
        rows = read_table()
        wanted = wanted or set(rows) - self.before
        self.assertLessEqual(wanted, set(rows))
        calls = self.own.union(*(always | sometimes for row, (always, sometimes) in rows.items()
                                 if row in wanted)) - without
        self.assertNotIn("flock", calls)
        self.assertNotIn("execve", calls)
        numbers = {name: number for number, name in call_names().items()}
        return ",".join(str(numbers[name]) for name in calls if name in numbers)

    def restrict(self, host, without, moves, wanted=None):
        allowed = self.allowed(without, wanted)
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
        done = subprocess.run([PATHS.ringpipe, "report", name, "events", "--format=json"],
                              cwd=host.directory,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")
        self.assertGreater(done.stdout.count('"Test-Phased"'), 0, name)
        self.assertNotIn("libringpipe-symbols.so: cannot", done.stdout, "its note of the names")
        return done.stdout

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
            self.sessions(host, "file", "coarse", "stacks", "counters", "recorder", "push", "pull",
                          "triggers")
            self.trace_from_outside(host)
            self.expect_end(host)

    def test_samples_recovery_and_rolling_files_need_proc_in_another_root(self):
        if os.geteuid() != 0:
            self.skipTest("chroot(2) is for root")
        for moves in (False, True):
            with self.subTest(moves=moves), Host() as host:
                self.restrict(host, set(), moves)
                self.assertEqual(host.say("start samples"), 0)
                time.sleep(0.5)     # The sampler would write 50 samples of each thread.
                self.assertEqual(host.say("stop"), 0)
                samples = self.check_trace(host, "trace.nettrace").count("SampleProfiler")
                self.assertEqual(samples == 0, moves, samples)
                if moves:
                    self.assertEqual(host.say("start recovery"), (errno.ENOENT, "readlink"))
                    self.assertEqual(host.say("start roll"), (errno.ENOENT, "linkat"))
                    self.assertEqual(os.listdir(os.path.join(host.directory, "rings")), [])
                self.expect_end(host)

    def test_prepared_program_forks_and_connects_to_a_tool_under_a_filter(self):
        with Host(RINGPIPE_PORTS=TOOL) as host:
            self.restrict(host, set(), False, self.session | {CHILD, CONNECTS, PORT})
            use_port(host)
            child = host.fork()
            host.wait_for_server(child)
            host.run("list", str(child))
            self.sessions(host, "file")
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
    if not os.path.exists(HEADER):
        print("no " + HEADER)
        sys.exit(77)
    names = "supervise phased keyed on_demand polled ringpipe library page".split()
    for name, path in zip(names, sys.argv[1:]):
        setattr(PATHS, name, os.path.abspath(path))
    del sys.argv[1:1 + len(names)]
    tried = subprocess.run([PATHS.supervise, "/dev/null", "/bin/true"], check=False)
    if tried.returncode == 77:
        print("filters of system calls that notify cannot be installed here")
        sys.exit(77)
    if "--write" in sys.argv:
        write_table(seen_calls(read_table()[ANY][0]))
    else:
        unittest.main()


if __name__ == "__main__":
    main()
