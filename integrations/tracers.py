# SPDX-License-Identifier: MIT
"""Other tracers that record a server with a module, for the tests."""
import contextlib
import os
import re
import shutil
import subprocess
import tempfile

from integrations.servers import BUILD, HERE, PATIENCE, drive, sessions

PROGRAMS = ("bpftrace", "lttng", "babeltrace2", "unshare", "nsenter")


def missing():
    """Return the first program of bpftrace and LTTng that this machine lacks, or None."""
    return next((name for name in PROGRAMS if not shutil.which(name)), None)


@contextlib.contextmanager
def bpftrace(pid, library, probe, condition=""):
    """Count the calls of a probe in a process, or in all processes if `pid` is None. Yield the
    function that ends the count and returns it."""
    script = f"usdt:{library}:{probe} {condition} {{ @calls = count(); }} " \
        'BEGIN { printf("ready\\n"); }'
    command = ["bpftrace", *(["-p", str(pid)] if pid else []), "-e", script]
    with drive.running(command, text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL) as tracer:
        while "ready" not in tracer.stdout.readline():
            if tracer.poll() is not None:
                raise drive.Failure(f"bpftrace ended with {tracer.returncode}")

        def count():
            drive.interrupt(tracer)
            found = re.search(r"@calls: ([0-9]+)", tracer.stdout.read())
            return int(found.group(1)) if found else 0
        yield count


class Lttng:
    """A session daemon of its own. The daemons of root share one folder, hence a namespace of
    mounts. A server uses it that starts with `environment` and the command `inside`."""

    def __init__(self, folder):
        self.home = tempfile.mkdtemp(dir=folder)
        self.environment = dict(os.environ, LTTNG_HOME=self.home, RINGPIPE_LTTNG="1",
                                LTTNG_UST_REGISTER_TIMEOUT="60000")
        self.stack = contextlib.ExitStack()
        script = "mkdir -p /run/lttng && mount -t tmpfs tmpfs /run/lttng && " \
            "exec lttng-sessiond --no-kernel"
        daemon = self.stack.enter_context(drive.running(
            ["unshare", "--mount", "sh", "-c", script], env=self.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        self.inside = ["nsenter", "--mount", "-t", str(daemon.pid)]

        def is_mounted():
            with open(f"/proc/{daemon.pid}/comm", encoding="ascii") as file:
                return file.read() == "lttng-sessiond\n"
        drive.wait_for(is_mounted, "the session daemon", [daemon])
        drive.wait_for(lambda: self.run("list"), "the session daemon", [daemon])

    def run(self, *command):
        """Run a command of lttng. Return whether it succeeded."""
        return subprocess.run([*self.inside, "lttng", "--no-sessiond", *command],
                              env=self.environment, check=False, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=PATIENCE).returncode == 0

    @contextlib.contextmanager
    def session(self, event, pids, text=""):
        """Record an event. Yield the function that ends the session, and returns the number of
        events with the text. The processes have the session when the block begins: each looks
        twenty times a second for what LTTng wants."""
        def has_session(pid):
            return "lttng" in sessions(pid, event.split(":")[0])

        output = tempfile.mkdtemp(dir=self.home)
        for command in (("create", "session", "--output", output),
                        ("enable-channel", "-u", "--subbuf-size=4M", "--num-subbuf=4", "all"),
                        ("enable-event", "-u", "-c", "all", event), ("start",)):
            if not self.run(*command):
                raise drive.Failure(f"lttng {' '.join(command)} failed")
        drive.wait_for(lambda: all(map(has_session, pids)), "the session of LTTng", [])

        def count():
            if not self.run("stop") or not self.run("destroy"):
                raise drive.Failure("lttng cannot end the session")
            drive.wait_for(lambda: not any(map(has_session, pids)), "its end", [])
            done = subprocess.run(["babeltrace2", output], check=True, text=True,
                                  stdout=subprocess.PIPE, timeout=PATIENCE)
            return sum(f" {event}: " in line and text in line
                       for line in done.stdout.splitlines())
        yield count

    def close(self):
        self.stack.close()


def install_dotnet_trace():
    """Return the path of dotnet-trace, which the build has or gets."""
    done = subprocess.run([os.path.join(HERE, "../scripts/setup-dotnet"), BUILD], check=True,
                          stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                          timeout=5 * PATIENCE)
    return done.stdout.split()[-1]


@contextlib.contextmanager
def dotnet_trace(program, pid, providers, trace):
    """Record a process with dotnet-trace. Yield the process of dotnet-trace, which records."""
    command = [program, "collect", "-p", str(pid), "-o", trace, "--providers", providers]
    with drive.running(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True) as recorder:
        said = ""
        while "Output File" not in said:
            said += recorder.stdout.readline()
            if recorder.poll() is not None:
                raise drive.Failure(f"dotnet-trace ended:\n{said}")
        yield recorder
