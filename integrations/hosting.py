# SPDX-License-Identifier: MIT
"""Environments with few rights, as units of systemd make them, for the tests of all modules."""
import ctypes
import os
import re
import subprocess

PATIENCE = 60
PR_SET_NO_NEW_PRIVS, PR_SET_MDWE = 38, 65


def deny_write_execute():
    """Apply what MemoryDenyWriteExecute and NoNewPrivileges of systemd mean."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_MDWE, 1, 0, 0, 0) or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def can_deny_write_execute():
    return subprocess.run(["true"], check=False, preexec_fn=lambda: ctypes.CDLL(None).prctl(
        PR_SET_MDWE, 1, 0, 0, 0) == 0 or os._exit(1)).returncode == 0


def read_only_except(folder):
    """Return the beginning of a command whose root is read-only, as by ProtectSystem, except for
    the folder."""
    script = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind / && " \
        "mount -o remount,rw,bind \"$0\" && exec \"$@\""
    return ["unshare", "--mount", "sh", "-c", script, folder]


def complaints(unit):
    """Return what systemd-analyze says of a unit."""
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], check=False,
                          stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    return [line for line in done.stderr.splitlines() if os.path.basename(unit) in line]


def system_calls(group):
    """Return the system calls of a group of systemd, such as @system-service."""
    listed = subprocess.run(["systemd-analyze", "syscall-filter"], check=True, text=True,
                            stdout=subprocess.PIPE, timeout=PATIENCE).stdout
    groups = {text.split()[0]: text.split()[1:] for text in re.split(r"\n(?=@)", listed)
              if text.startswith("@")}

    def members(name):
        for word in (word for word in groups[name] if not word.startswith("#")):
            yield from members(word) if word.startswith("@") else [word]
    return set(members(group))


def used_system_calls(log):
    """Return the system calls in a log of strace -f."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return set(re.findall(r"^\d+ +(\w+)\(", file.read(), re.M))
