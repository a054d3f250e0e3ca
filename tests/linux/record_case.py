# SPDX-License-Identifier: MIT
"""The base of the tests of ringpipe record."""
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

for folder in "interop", "cli":
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
import clients  # noqa: E402
from clients import drive  # noqa: E402

TOOL = os.environ["RINGPIPE"]
HOST = os.environ["HOST"]
WAITS_HOST = os.environ["WAITS_HOST"]
BRIEF_HOST = os.environ["BRIEF_HOST"]
SHOP = os.environ["SHOP"]
PLAIN = {**os.environ, "RINGPIPE_LTTNG": "0"}
# No search for leaks, and a library may be preloaded before the sanitizer's. The other options
# stay, such as the file for reports.
WITHOUT_LEAKS = {**os.environ,
                 "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") +
                 ":detect_leaks=0:verify_asan_link_order=0"}
RATE = 99
OWN_EVENTS = ("Loss", "Machine", "ClockReading", "Suspend", "Groups")	# of the recorder itself
KERNEL_START = 0xffff800000000000
PATIENCE = 120
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}


def lacks_bpf(errors):
    """Return whether the messages of a recording say that the kernel refused BPF programs."""
    return any(text in errors for text in ("no waits are recorded", "the kernel's stack alone",
                                           "interrupts are recorded", "come from tracepoints"))


def events_of(path, mode="--stacks"):
    """Return the events with their stacks, and TraceEvent's summary of a trace."""
    done = subprocess.run([*clients.trace_read_command(), mode, path], text=True,
                          stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return rows[:-1], rows[-1]


def stacks_of(path):
    """Return the samples and TraceEvent's summary of a trace."""
    events, summary = events_of(path)
    return [event for event in events if event["event"] == "cpu"], summary


def functions(sample):
    return [frame["method"] for frame in sample["stack"]]


def below_interrupts(sample):
    """Return the functions of the program, which an interrupt may have stopped."""
    names = functions(sample)
    return names[names.index("innermost"):]


def ask(shop, requests):
    """Send requests of two kinds, one after another."""
    for _ in range(requests):
        for path in "/", "/buy":
            with urllib.request.urlopen(shop.url + path, timeout=PATIENCE) as answer:
                answer.read()


def children_of(pid):
    """Return the ids of the children of a process."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return [int(child) for child in children.read().split()]


def descendants_of(pid):
    """Return the ids of a process and of all processes below it."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            found += children_of(each)
    return found


def run_tree(command, **options):
    """Run a command as subprocess.run() does. If it does not end, kill it and all below it, so that
    nothing that they use remains busy."""
    with subprocess.Popen(command, **options) as process:
        try:
            output, errors = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            below = descendants_of(process.pid)
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            drive.wait_for(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in below),
                           "the end of the killed processes")
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def stolen_seconds():
    """Return for how long a hypervisor has taken the processors away."""
    with open("/proc/stat", encoding="ascii") as stat:
        return int(stat.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def arguments_below(pid):
    """Return the arguments of the children of a process."""
    found = b""
    for child in children_of(pid):
        with contextlib.suppress(OSError), open(f"/proc/{child}/cmdline", "rb") as line:
            found += line.read()
    return found


class Busy(unittest.SkipTest):
    """Other programs load the machine too much for a test, which may succeed later."""


# A record that is missing is a failure, whatever a test does with it.
FAILURES = AssertionError, LookupError, StopIteration, ValueError, drive.Failure


@contextlib.contextmanager
def failing_sub_test(message=None, **parameters):
    """Stand in for TestCase.subTest(), which keeps a failure from its caller."""
    try:
        yield
    except FAILURES as failure:
        raise AssertionError(f"{message or ''} {parameters or ''}: {failure}") from failure


def in_one_of_three(test):
    """Run the test again, twice at most, if it fails or finds the machine busy: other programs may
    load the machine so that the kernel drops records, which the trace reports, or may preempt a
    thread that is about to sleep. A failure within a subtest repeats the whole test, too."""
    @functools.wraps(test)
    def repeated(self):
        for _ in range(2):
            self.subTest = failing_sub_test
            try:
                return test(self)
            except (*FAILURES, Busy) as failure:
                print(f"again: {failure}", file=sys.stderr)
                self.prepare_again()
            finally:
                del self.subTest
        return test(self)
    return repeated


def without_losses(case, record):
    """Record up to three times, until the trace of the case lost nothing. Other programs may load
    the machine so that the kernel drops records. Return what `record` returned."""
    for _ in range(3):
        result = record()
        done = subprocess.run([TOOL, "report", "--format", "json", case.trace],
                              stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
        if json.loads(done.stdout)["lost"] == 0:
            break
        print("the trace lost records", file=sys.stderr)
    return result


def record_shop(case, shop, megabytes, work):
    """Record all of a shop and its children while `work` runs, with the recorder as its argument,
    and end both. Return the messages of the recorder."""
    command = [TOOL, "record", "-f", "-o", case.trace, "--profile", "all", "--off-cpu", "0",
               "--buffer", str(megabytes), "-p", str(shop.pid)]
    with drive.running(command, stderr=subprocess.PIPE, text=True) as recorder:
        shop.wait_for_sessions(1, [recorder])
        work(recorder)
        status = drive.interrupt(recorder)
        with recorder.stderr:
            errors = recorder.stderr.read()
    case.assertEqual(drive.interrupt(shop.process), 0)
    if lacks_bpf(errors):
        raise unittest.SkipTest("the kernel loads no BPF programs")
    case.assertEqual(status, 0, errors)
    return errors


def explain_all(path):
    """Return the explanations of all requests of the shop."""
    done = subprocess.run([TOOL, "explain", path, "--span", "Shop-Http/request", "--slowest",
                           "100000", "--format", "json"], stdout=subprocess.PIPE, check=True,
                          timeout=10 * PATIENCE)
    return json.loads(done.stdout)


def disk_of(path):
    """Return the numbers of the disk that has a file, as control groups name it; or None."""
    device = os.stat(path).st_dev
    folder = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if os.path.exists(os.path.join(folder, "partition")):
        folder = os.path.join(os.path.realpath(folder), "..")
    with contextlib.suppress(OSError), open(os.path.join(folder, "dev"), encoding="ascii") as file:
        return file.read().strip()
    return None


def scratch_folder():
    """Return the folder for temporary files, or another one if that is on no disk."""
    usual = tempfile.gettempdir()
    return next((folder for folder in (usual, "/var/tmp", os.getcwd()) if disk_of(folder)), usual)


class Case(unittest.TestCase):
    prefix = ()  # of the recorder's command

    def prepare_again(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.trace)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=scratch_folder())
        self.addCleanup(folder.cleanup)
        self.trace = os.path.join(folder.name, "t.nettrace")

    def record(self, *command, **options):
        done = subprocess.run([*self.prefix, TOOL, "record", "-o", self.trace, *command],
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=PATIENCE, check=False, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def record_host(self, *arguments):
        """Record the host alone. Return its CPU time in seconds, its samples, and the summary."""
        done = self.record("--", HOST, *map(str, arguments))
        samples, summary = stacks_of(self.trace)
        name = os.path.basename(HOST)
        return (int(done.stdout) / 1e9,
                [sample for sample in samples if sample["process_name"] == name],
                {**summary, "stderr": done.stderr})


def require_recorder():
    """Skip the tests if this machine or build cannot record."""
    if not os.environ["RECORD"]:
        clients.skip("ringpipe-record was not built: elfutils is missing")
    if os.geteuid() != 0:
        clients.skip("recording all processes requires root")


def main():
    """Run tests that need TraceEvent if this machine can."""
    require_recorder()
    clients.main(clients.trace_read_command)
