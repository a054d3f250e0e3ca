# SPDX-License-Identifier: MIT
"""Servers under load: how long, which tools record them, and what they use."""
import contextlib
import os
import shutil
import subprocess
import time

from integrations import servers, tracers

drive, RINGPIPE = servers.drive, servers.RINGPIPE
TOOLS = ("collect", "record", "bpftrace", "lttng", "dotnet-trace")
# `scripts/soak servers` asks for more.
SECONDS = float(os.environ.get("LOAD_SECONDS", "1"))
ROUNDS = int(os.environ.get("LOAD_ROUNDS", "2"))
FEWEST = 5  # rounds that show a growth
RELOADS = int(os.environ.get("LOAD_RELOADS", "10"))


def why_not():
    """Return what this machine lacks for all tools, or None."""
    if os.getuid() != 0:
        return "bpftrace and record require root"
    if tracers.missing():
        return f"no {tracers.missing()}"
    return None if shutil.which("dotnet") else "no .NET SDK"


@contextlib.contextmanager
def session(command, pid, provider):
    """Run a recorder of the process, which has a session when the block begins."""
    with drive.running(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as recorder:
        servers.wait_for_session(pid, provider, recorder)
        yield recorder


def end(recorder):
    if drive.interrupt(recorder) != 0:
        raise drive.Failure(f"{recorder.args} ended with {recorder.returncode}")


def command_of(tool, trace, pid, providers, root=None):
    """Return the command of a recorder of a process; `record` records all children of `root`."""
    if tool == "collect":
        return [RINGPIPE, "collect", "--quiet", "-f", "-o", trace, "--providers", providers,
                "-p", str(pid)]
    if tool == "record":
        return [RINGPIPE, "record", "-f", "-o", trace, "--providers", providers, "-p",
                str(root or pid)]
    return [tracers.install_dotnet_trace(), "collect", "-p", str(pid), "-o", trace, "--providers",
            f"{providers}:5"]


def used(pid):
    """Return the descriptors, the threads and the private resident memory (in KB) of a process.

    Without shared memory, whose pages count as resident as soon as the process has used them.
    """
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        status = dict(line.split(":", 1) for line in file if ":" in line)
    return (len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"]),
            int(status["RssAnon"].split()[0]))


def check_growth(case, uses):
    """Fail if the last rounds used more than the first ones."""
    third = max(1, len(uses) // 3)
    first, last = uses[1:1 + third], uses[-third:]
    # Connections come and go. In a round, each of two sessions might leave something behind.
    for index, name, changing in ((0, "descriptors", 4), (1, "threads", 2)):
        case.assertLessEqual(min(use[index] for use in last),
                             max(use[index] for use in first) + changing, (name, uses))
    # Memory grows until all buffers are in use.
    if len(uses) >= 30:
        case.assertLess(min(use[2] for use in last), 1.1 * max(use[2] for use in first) + 1024,
                        "memory in KB")


def soak(case, master, serving, reload, provider, trace):
    """Start and end sessions in a server under load for SECONDS, and reload it in every tenth
    round. Fail if the master and its worker use more and more.

    `serving` returns the process that serves when it can be traced, else None. Each session has
    ended before the next round.
    """
    begun, uses = time.monotonic(), []
    while len(uses) < FEWEST or time.monotonic() < begun + SECONDS:
        if len(uses) % 10 == FEWEST - 1:
            reload()
        pid = drive.wait_for(serving, "a socket", [master])
        for tool in ("collect", "record"):
            with session(command_of(tool, trace, pid, provider, master.pid), pid,
                         provider) as recorder:
                end(recorder)
        drive.wait_for(lambda pid=pid: not servers.sessions(pid, provider), "the end of sessions",
                       [master])
        uses.append([sum(numbers) for numbers in zip(used(master.pid), used(pid))])
        print("# descriptors, threads, KB:", *uses[-1], flush=True)
    check_growth(case, uses)
    print(f"# figure: {len(uses)} rounds of sessions in {provider} under load, in "
          f"{time.monotonic() - begun:.0f} s")
