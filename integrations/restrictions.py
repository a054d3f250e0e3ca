# SPDX-License-Identifier: MIT
"""Restrictions of servers for the tests of modules, as the units of systemd state them."""
import ctypes
import os
import re
import shutil
import subprocess

from integrations.servers import PATIENCE

PR_SET_NO_NEW_PRIVS, PR_SET_MDWE = 38, 65


def deny_write_execute():
    """Apply what MemoryDenyWriteExecute and NoNewPrivileges of systemd mean."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_MDWE, 1, 0, 0, 0) or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def can_deny_write_execute():
    return subprocess.run(["true"], check=False, preexec_fn=lambda: ctypes.CDLL(None).prctl(
        PR_SET_MDWE, 1, 0, 0, 0) == 0 or os._exit(1)).returncode == 0


def read_only_root(writable, visible):
    """Return the beginning of a command that can write to one folder only, as ProtectSystem=strict
    and ReadWritePaths mean. `visible` may be below another mount."""
    script = "mount --bind $0 $0 && mount --bind $1 $1 && mount --bind / / && " \
        "mount -o remount,ro,bind / && mount -o remount,rw,bind $0 && shift && exec \"$@\""
    return ["unshare", "--mount", "sh", "-c", script, writable, visible]


def can_check_units():
    return bool(shutil.which("systemd-analyze"))


def errors_of_unit(path):
    """Return the errors that systemd finds in a unit."""
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], check=False,
                          stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    return [line for line in done.stderr.splitlines() if os.path.basename(path) in line]


def calls_of(*groups):
    """Return the system calls of groups such as @system-service."""
    listed = subprocess.run(["systemd-analyze", "syscall-filter"], check=True, text=True,
                            stdout=subprocess.PIPE, timeout=PATIENCE).stdout
    contents = {text.split()[0]: text.split()[1:] for text in re.split(r"\n(?=@)", listed)
                if text.startswith("@")}

    def calls(group):
        for word in (word for word in contents[group] if not word.startswith("#")):
            yield from calls(word) if word.startswith("@") else [word]

    return {call for group in groups for call in calls(group)}


def calls_in(path):
    """Return the system calls in a file that `strace -f -o` wrote."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return set(re.findall(r"^\d+ +(\w+)\(", file.read(), re.M))
