#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every command of README.md, doc/*.md, other pages and the manual pages, as a reader would.

usage: docs_test.py [--long] SOURCE BUILD MESON

sh runs each line of a `sh` block, and each `.Dl` of a manual page, and each must succeed. Each page
has a directory, and the build is installed and on the paths. A page's program in C (or README's) is
in the directory under the name in the `cc` command; `./shop` is examples/shop. A page's program in
Python gets the name in the `python3` command. A few lines need more, which RULES defines; any other
line that cannot run fails. Prints TAP, a line for each command. Environment: SHOP, INTEROP_BUILD,
and SANITIZE, the build's sanitizers.

The commands that build take minutes: they are run with --long, in a copy of the tree.
"""
import atexit
import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "lint"), os.path.join(ROOT, "examples", "shop")]
import docs  # noqa: E402
import drive  # noqa: E402

ORDERS = 10
PATIENCE_S = 120
UPROBES = "/sys/kernel/tracing/uprobe_events"
BUILD_S = 1800
# A reader has port 8080 free and waits a minute; the test does neither.
PLACES = ((r"\b8080\b", "0"), (r"-d 1m\b", "-d 2s"))


class Skipped(Exception):
    """The reason why a command cannot run here."""


class Page:
    """A page's commands, and the directory in which they run."""

    def __init__(self, name, commands, programs, scripts=()):
        self.name = name
        self.commands = commands  # (line, command)
        self.programs = programs  # C programs of the page, the last one first
        self.scripts = scripts  # programs in Python


def commands_of(block):
    """Yield (offset, command) of a block of shell."""
    found, pending, start = [], "", 0
    for offset, line in enumerate(block.split("\n")):
        if not pending:
            start = offset
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        command = re.sub(r"\s+#.*", "", pending).strip()
        if command and not command.startswith("#"):
            found.append((start, command))
        pending = ""
    return found


def markdown_page(name, text):
    commands, programs, scripts = [], [], []
    for line, language, code in docs.blocks(text):
        if language == ["sh"]:
            commands += [(line + 1 + offset, command) for offset, command in commands_of(code)]
        elif language == ["c"] and "int main(" in code:
            programs.insert(0, code)
        elif language == ["python"]:
            scripts.append(code)
    return Page(name, commands, programs, scripts)


def manual_page(name, text):
    plain = docs.roff_text(text).split("\n")
    return Page(name, [(number, line[len(".Dl "):]) for number, line in enumerate(plain, 1)
                       if line.startswith(".Dl ")], [])


def pages_of(root):
    def read(path):
        with open(path, encoding="utf-8") as file:
            return os.path.relpath(path, root), file.read()
    marked = [os.path.join(root, name) for name in
              ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")]
    marked += sorted(glob.glob(os.path.join(root, "doc/*.md")))
    return [markdown_page(*read(path)) for path in marked] + \
           [manual_page(*read(path)) for path in sorted(glob.glob(root + "/man/*.[1-8]"))]


class Reader:
    """A reader who follows the pages: has the installation, and runs the commands."""

    def __init__(self, build, meson, work):
        self.build, self.meson, self.work = build, meson, work
        self.environment = dict(os.environ, LC_ALL="C.UTF-8", TMPDIR=os.path.join(work, "tmp"))
        self.readme_program = None
        self.probes = None  # the kernel's file of them, locked
        os.mkdir(self.environment["TMPDIR"])

    def install(self):
        root = os.path.join(self.work, "root")
        subprocess.run([self.meson, "install", "-C", self.build, "--no-rebuild", "--destdir", root],
                       check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        library, = glob.glob(root + "/**/libringpipe.so", recursive=True)
        tool, = glob.glob(root + "/**/bin/ringpipe", recursive=True)
        self.environment.update(
            PKG_CONFIG_PATH=os.path.join(os.path.dirname(library), "pkgconfig"),
            PKG_CONFIG_SYSROOT_DIR=root, LD_LIBRARY_PATH=os.path.dirname(library),
            PATH=os.path.dirname(tool) + ":" + os.environ["PATH"])
        modules = glob.glob(root + "/**/ringpipe/_ringpipe.abi3.so", recursive=True)
        if modules:
            self.environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(modules[0]))
        if os.environ["SANITIZE"] != "none":
            self.sanitize("cc", "c++")

    def sanitize(self, *compilers):
        """A program with a sanitized library needs the sanitizer from its start."""
        folder = os.path.join(self.work, "compilers")
        os.mkdir(folder)
        for compiler in compilers:
            path = os.path.join(folder, compiler)
            with open(path, "w", encoding="utf-8") as script:
                script.write(f"#!/bin/sh\nexec {shutil.which(compiler)} "
                             f"-fsanitize={os.environ['SANITIZE']} \"$@\"\n")
            os.chmod(path, 0o755)
        self.environment["PATH"] = folder + ":" + self.environment["PATH"]

    def directory(self, page):
        path = os.path.join(self.work, "pages", page.name)
        os.makedirs(path)
        shutil.copy(os.environ["SHOP"], os.path.join(path, "shop"))
        return path

    def popen(self, command, cwd, **options):
        return subprocess.Popen(["sh", "-c", command], cwd=cwd, env=self.environment,
                                stdin=subprocess.DEVNULL, start_new_session=True, **options)

    def run(self, command, cwd, patience=PATIENCE_S):
        """Return the command's output; raise Failure with that output if it fails."""
        with tempfile.TemporaryFile() as log, \
                in_session(self.popen(command, cwd, stdout=log, stderr=log)) as process:
            finish(process, log, patience)
            return said(log)

    def write_program(self, page, command, cwd):
        """Return the C file that a compiler command names."""
        for name in re.findall(r"\s(\w+\.c)\b", command):
            path = os.path.join(cwd, name)
            if not os.path.exists(path):
                with open(path, "w", encoding="utf-8") as file:
                    file.write((page.programs or [self.readme_program])[0])

    def find_dotnet_trace(self):
        done = subprocess.run([os.path.join(ROOT, "scripts/setup-dotnet"),
                               os.environ["INTEROP_BUILD"]], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode == 77:
            raise Skipped("the .NET SDK is not installed")
        if done.returncode:
            raise drive.Failure("dotnet-trace could not be installed")
        folder = os.path.dirname(done.stdout.strip().splitlines()[-1])
        if folder not in self.environment["PATH"].split(":"):
            self.environment["PATH"] += ":" + folder


@contextlib.contextmanager
def in_session(process):
    """Kill the rest of the process and everything that it started."""
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def said(log):
    log.seek(0)
    return log.read().decode(errors="replace")


def finish(process, log, patience=PATIENCE_S):
    try:
        status = process.wait(patience)
    except subprocess.TimeoutExpired:
        raise drive.Failure(f"no end after {patience} s:\n{said(log)}") from None
    if status:
        raise drive.Failure(f"exit status {status}:\n{said(log)}")


def place_orders(url):
    for _ in range(ORDERS):
        with urllib.request.urlopen(url + "/buy", timeout=drive.DEADLINE_S) as answer:
            answer.read()


def check_trace(reader, command, cwd):
    """The file of `-o` has the orders."""
    found = re.search(r"\s-o (\S+)", command)
    if not found:
        return
    trace = os.path.join(cwd, found[1])
    tool = shutil.which("ringpipe", path=reader.environment["PATH"])
    providers = drive.report(tool, trace)["providers"]
    events = {provider["provider"]: sum(kind["events"] for kind in provider["kinds"])
              for provider in providers}
    if events.get("Shop-Orders", 0) < ORDERS:
        raise drive.Failure(f"{ORDERS} orders were placed, the trace holds {events}")


def plain(reader, page, command, cwd):
    reader.run(command, cwd)


def compiled(reader, page, command, cwd):
    reader.write_program(page, command, cwd)
    reader.run(command, cwd)


def analysed(reader, page, command, cwd):
    """Run the page's program in Python, which the command names."""
    if "PYTHONPATH" not in reader.environment:
        raise Skipped("the build has no Python module")
    if os.environ["SANITIZE"] != "none":
        raise Skipped("the module needs its sanitizer from the start of Python")
    script, = page.scripts
    with open(os.path.join(cwd, re.search(r"\w+\.py", command)[0]), "w",
              encoding="utf-8") as file:
        file.write(script)
    reader.run(command, cwd)


def stopped(reader, command, cwd, shop_url):
    """Run a command until Ctrl-C, which is sent after some orders.

    shop_url(log) is the shop's address once the command works, or None."""
    with tempfile.TemporaryFile() as log, \
            in_session(reader.popen(f"trap : INT; {command}", cwd, stdout=log,
                                    stderr=log)) as process:
        try:
            place_orders(drive.wait_for(lambda: shop_url(log), "a session", [process]))
        except drive.Failure as failure:
            raise drive.Failure(f"{failure}:\n{said(log)}") from None
        os.killpg(process.pid, signal.SIGINT)
        finish(process, log)
    check_trace(reader, command, cwd)


def attached(reader, page, command, cwd):
    """Run on a running shop: PID is its process id."""
    dotnet = command.startswith("dotnet-trace")
    if dotnet:
        reader.find_dotnet_trace()
    with drive.shop(os.environ["SHOP"], env=reader.environment) as shop:
        def shop_url(log):
            # dotnet-trace handles Ctrl-C only after it has printed the name of its file.
            return any(shop.stats()["sessions"].values()) and \
                (not dotnet or "Output File" in said(log)) and shop.url
        stopped(reader, command.replace("PID", str(shop.pid)), cwd, shop_url)


def bridged(reader, page, command, cwd):
    """Run with BPF, which needs permission."""
    try:
        attached(reader, page, command, cwd)
    except drive.Failure as failure:
        for reason in ("no permission to load BPF programs", "no permission to attach",
                       "this kernel has no BPF", "ringpipe was built without libbpf"):
            if reason in str(failure):
                raise Skipped(reason) from None
        raise


def end_bpftrace(process):
    def ended():
        # Repeatedly: bpftrace 0.17 loses a signal that arrives outside its epoll_wait().
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        return process.poll() is not None
    drive.wait_for(ended, "the end of bpftrace")


def traced(reader, page, command, cwd):
    """Run bpftrace on a running shop until it has shown an order, or until it ends."""
    if os.geteuid() != 0 or not shutil.which("bpftrace"):
        raise Skipped("bpftrace is not here, or needs root")
    if "PID" not in command:
        reader.run(command, cwd)
        return
    command = "exec " + command.replace("bpftrace", "bpftrace -B line", 1)
    with drive.shop(os.environ["SHOP"], env=reader.environment) as shop, \
            tempfile.TemporaryFile() as log, \
            in_session(reader.popen(command.replace("PID", str(shop.pid)), cwd, stdout=log,
                                    stderr=log)) as process:
        def shown():
            place_orders(shop.url)
            return re.search(r"(?m)^\d+ \S+$", said(log))

        try:
            drive.wait_for(shown, "an order", [process])
        except drive.Failure as failure:
            raise drive.Failure(f"{failure}:\n{said(log)}") from None
        end_bpftrace(process)


def batched(reader, page, command, cwd):
    """Run bpftrace next to `ringpipe bpf`: both count the same, and no order is missing."""
    if os.geteuid() != 0 or not shutil.which("bpftrace"):
        raise Skipped("bpftrace is not here, or needs root")
    command = command.replace("/usr/lib", reader.environment["LD_LIBRARY_PATH"])
    command = "exec " + command.replace("-e '", "-B line -e 'BEGIN { printf(\"ready\\n\"); } ", 1)
    with drive.shop(os.environ["SHOP"], env=reader.environment) as shop, \
            tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as stats, \
            in_session(reader.popen(command.replace("PID", str(shop.pid)), cwd, stdout=log,
                                    stderr=log)) as tracer:
        drive.wait_for(lambda: "ready" in said(log), "bpftrace at work", [tracer])
        bridge = f"exec ringpipe bpf count -p {shop.pid} --format json"
        with in_session(reader.popen(bridge, cwd, stdout=stats,
                                     stderr=subprocess.DEVNULL)) as process:
            drive.wait_for(lambda: any(shop.stats()["sessions"].values()), "a session", [process])
            place_orders(shop.url)
            os.killpg(process.pid, signal.SIGINT)
            finish(process, stats)
        end_bpftrace(tracer)
        seen = json.loads(said(stats))["stats"]["seen"]
        found = re.search(r"(?m)^@events: (\d+)$", said(log))
        if not found or int(found[1]) != seen or seen < ORDERS:
            raise drive.Failure(f"{seen} events were seen, not:\n{said(log)}")


def take_probes_back():
    for probe in ("sdt_shop_orders/order_placed", "shop/placed"):
        with contextlib.suppress(OSError), open(UPROBES, "ab", buffering=0) as probes:
            probes.write(f"-:{probe}\n".encode())


def begin_probes(reader):
    """Lock the machine's set of probe names until the end."""
    if os.geteuid() != 0 or not shutil.which("perf"):
        raise Skipped("perf is not here, or needs root")
    if not os.path.exists(UPROBES):
        subprocess.run(["mount", "-t", "tracefs", "nodev", os.path.dirname(UPROBES)], check=False,
                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not os.access(UPROBES, os.W_OK):
        raise Skipped("no tracefs with uprobes")
    if reader.probes is None:
        reader.probes = open(UPROBES, encoding="utf-8")
        fcntl.flock(reader.probes, fcntl.LOCK_EX)
        take_probes_back()
        atexit.register(take_probes_back)


def profiled(reader, page, command, cwd):
    """Run perf on a shop that sells while it records."""
    begin_probes(reader)
    if re.search(r"perf archive|\.bz2", command) and not shutil.which("bzip2"):
        raise Skipped("no bzip2, which perf archive packs with")
    ready, done = os.path.join(cwd, "ready"), os.path.join(cwd, "done")
    command = f'export HOME="$PWD"; {command}'  # where perf stores its data about programs
    if " PID " not in command:
        output = reader.run(command, cwd)
        if re.search(r"perf (--\S+ \S+ )?script", command) and \
                len(re.findall(r"\) arg1=\d+ .*arg4=", output)) != ORDERS:
            raise drive.Failure(f"{ORDERS} orders were placed:\n{output}")
        return
    with drive.shop(os.path.join(cwd, "shop"), env=reader.environment) as shop, \
            tempfile.TemporaryFile() as log:
        # Until `done`: perf runs the command once it has attached.
        waits = "sh -c 'touch ready; until test -e done; do sleep 0.1; done'"
        command = command.replace("PID", str(shop.pid)).replace("sleep 10", waits)
        with in_session(reader.popen(command, cwd, stdout=log, stderr=log)) as process:
            drive.wait_for(lambda: os.path.exists(ready), "perf at work", [process])
            place_orders(shop.url)
            with open(done, "x", encoding="utf-8"):
                pass
            finish(process, log)
    os.remove(ready)
    os.remove(done)


def looked_at(reader, page, command, cwd):
    """Run a command that ends by itself on a running shop."""
    with drive.shop(os.environ["SHOP"], env=reader.environment) as shop:
        reader.run(command.replace("PID", str(shop.pid)), cwd)


def flown(reader, page, command, cwd):
    """Run on a running shop whose recorder has some orders."""
    with drive.shop(os.environ["SHOP"], env=reader.environment) as shop:
        def run(text):
            text = re.sub(r"-n shop\b", "-p PID", text)  # there may be other shops
            reader.run(text.replace("PID", str(shop.pid)), cwd)
        if not re.match(r"ringpipe flight start ", command):
            run("ringpipe flight start -p PID")
            place_orders(shop.url)
        run(command)
        check_trace(reader, command, cwd)


def started(reader, page, command, cwd):
    """The shop is a child of the command."""
    def shop_url(log):
        found = re.search(r"http://\S+", said(log))
        return found and found[0]
    stopped(reader, command, cwd, shop_url)


def of_recording(reader, page, command, cwd):
    """Record a running shop, or read such a trace, which only root has."""
    if os.geteuid() != 0 and not os.path.exists(os.path.join(cwd, "slow.nettrace")):
        raise Skipped("needs root")
    if " view " in command and not os.path.isdir(f"{ROOT}/src/tools/view/page/node_modules"):
        raise Skipped("the build has no page")
    run = attached if "PID" in command else plain
    run(reader, page, command.replace("sudo ", ""), cwd)


def elsewhere(reader, page, command, cwd):
    """Skipped, since `scripts/test` runs this test."""
    with open(os.path.join(ROOT, ".ci", "run"), encoding="utf-8") as ci:
        if f"run {command}\n" not in ci.read():
            raise drive.Failure(".ci/run does not run it")


def by_root(reader, page, command, cwd):
    if os.geteuid() != 0:
        raise Skipped("needs root")
    reader.run(command, cwd)


def as_root(reader, page, command, cwd):
    """Run without sudo, and without sessions in the programs of other tests."""
    alone = "ringpipe record --providers none"
    by_root(reader, page, command.replace("sudo ringpipe record", alone), cwd)


def in_kernel(reader, page, command, cwd):
    """Skipped: tests/linux/qemu/page.sh runs it with the kernel's user_events."""
    with open(os.path.join(ROOT, "tests/linux/qemu/meson.build"), encoding="utf-8") as test:
        if "'doc' / '" + os.path.basename(page.name) + "'" not in test.read():
            raise drive.Failure("tests/linux/qemu does not run it")


def recorded(reader, page, command, cwd):
    """Skipped: tests/linux/lttng_test.py runs the page's commands with separate LTTng daemons."""
    with open(os.path.join(ROOT, "tests", "linux", "lttng_test.py"), encoding="utf-8") as test:
        if "'" + page.name + "'" not in test.read():
            raise drive.Failure("tests/linux/lttng_test.py does not run it")


# The first rule that matches a command runs it.
RULES = (
    (r"(lttng|babeltrace2) |\./hello &", recorded),
    (r"\./scripts/test\b", elsewhere),
    (r"(cc|c\+\+) ", compiled),
    (r"python3 \w+\.py ", analysed),
    (r"(ringpipe|dotnet-trace) collect .*-- \./shop", started),
    (r"(ringpipe|dotnet-trace) collect .*-(p PID|n shop)\b", attached),
    (r"ringpipe (report|explain|convert|view) .*\b(machine|slow)\.nettrace", of_recording),
    (r"ringpipe bpf ", bridged),
    (r"ringpipe flight ", flown),
    (r"(.*&& )?perf |.*\bperf\.data\b|.*/uprobe_events", profiled),
    (r"RINGPIPE_USER_EVENTS=|.*/sys/kernel/tracing/", in_kernel),
    (r"ldconfig", by_root),
    (r"sudo ringpipe record .*-p PID\b", of_recording),
    (r"sudo ringpipe record ", as_root),
    (r"bpftrace .*:ringpipe:batch ", batched),
    (r"bpftrace ", traced),
    (r".*(\bPID|-n shop)\b", looked_at),
    (r"", plain),
)
# Commands that build run in a copy of the tree, some of them in a shorter form, not optimized.
FAST = "CFLAGS=-O0 CXXFLAGS=-O0 "
BUILDING = (
    (r"\./scripts/bench$", FAST + "./scripts/bench disabled"),  # others need an idle machine
    # Its other part would open sessions in other tests' programs.
    (r"\./scripts/demo$", FAST + "./scripts/demo shop && test -s build/demo/shop.nettrace"),
    (r"(meson .*|\./scripts/setup build)", r"\1"),
)


def in_place_of(command):
    """Return the command to run in a copy of the tree, or None if it needs none."""
    for pattern, other in BUILDING:
        if re.match(pattern, command):
            return re.sub(pattern, other, command)
    return None


def follow(reader, page, command, cwd):
    for pattern, replacement in PLACES:
        command = re.sub(pattern, replacement, command)
    rule = next(rule for pattern, rule in RULES if re.match(pattern, command))
    rule(reader, page, command, cwd)


class Tap:
    def __init__(self):
        self.number = self.failed = 0
        print("TAP version 13")

    def check(self, name, act):
        self.number += 1
        name = f"{self.number} - {name.replace('#', '')}"
        try:
            act()
        except Skipped as reason:
            print(f"ok {name} # SKIP {reason}", flush=True)
        except (drive.Failure, OSError, ValueError) as failure:
            self.failed += 1
            print(f"not ok {name}\n# " + "\n# ".join(str(failure).split("\n")), flush=True)
        else:
            print(f"ok {name}", flush=True)

    def end(self):
        print(f"1..{self.number}")
        return 1 if self.failed else 0


# Pages that must fail, with the expected messages.
BAD = (
    ("a command that is not there", "frobnicate x", "not found"),
    ("a subcommand that is not there", "ringpipe fly", "exit status 2"),
    ("a program that does not compile", "cc -Dmain=0 wrong.c -o wrong", "exit status 1"),
    ("a trace without the orders",
     "ringpipe collect -p PID --providers Shop-Http -o x.nettrace", "10 orders were placed"),
    ("a test run that nobody runs", "./scripts/test --some", ".ci/run does not run it"),
)


def must_fail(reader, name, command, wanted):
    page = markdown_page(name, f"```sh\n{command}\n```\n")
    cwd = reader.directory(page)
    for _, line in page.commands:
        try:
            follow(reader, page, line, cwd)
        except drive.Failure as failure:
            if wanted in str(failure):
                continue
            raise
        raise drive.Failure(f"`{line}` passed")


def quick(tap, reader, pages):
    reader.install()
    reader.readme_program = pages[0].programs[0]
    for page in pages:
        cwd = reader.directory(page)
        for line, command in page.commands:
            if not in_place_of(command):
                tap.check(f"{page.name}:{line}: {command}",
                          lambda page=page, command=command, cwd=cwd:
                          follow(reader, page, command, cwd))
    for name, command, wanted in BAD:
        tap.check(f"{name} is a failure",
                  lambda name=name, command=command, wanted=wanted:
                  must_fail(reader, name, command, wanted))


def long(tap, reader, pages):
    tree = os.path.join(reader.work, "tree")
    shutil.copytree(ROOT, tree, symlinks=True,
                    ignore=lambda folder, names: [name for name in names if folder == ROOT and
                                                  name.startswith(("build", ".git"))])
    reader.environment["DESTDIR"] = os.path.join(reader.work, "installed")
    for page in pages:
        for line, command in page.commands:
            other = in_place_of(command)
            if other:
                tap.check(f"{page.name}:{line}: {command}",
                          lambda other=other: reader.run(other, tree, BUILD_S))


def main():
    act = long if sys.argv[1] == "--long" else quick
    source, build, meson = sys.argv[-3:]
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="ringpipe-docs-") as work:
        act(tap, Reader(build, meson, work), pages_of(source))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
