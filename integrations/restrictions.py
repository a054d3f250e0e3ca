# SPDX-License-Identifier: MIT
"""Restrictions of servers, as the units of systemd state them, and the tests of a unit."""
import ctypes
import os
import re
import shutil
import subprocess
import unittest

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


def other_root(root, *visible):
    """Return the beginning of a command whose root directory is `root`, which has a /tmp of its
    own. `visible` are folders below /tmp that the command needs."""
    script = "root=$1 && shift && mkdir $root && mount --rbind / $root && " \
        "mount -t tmpfs tmpfs $root/tmp && while [ $1 != -- ]; do mkdir -p $root$1 && " \
        "mount --bind $1 $root$1 && shift || exit; done; shift && exec chroot $root \"$@\""
    return ["unshare", "--mount", "sh", "-c", script, "sh", root, *visible, "--"]


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


class UnitTests:
    """The tests of a unit, for a case with these members:

    unit            the path of the unit
    visible         a folder that the server reads, which may be below another mount
    trace_restricted(wrapper, sockets, preexec_fn)
                    start the server by the wrapper with `sockets` as TMPDIR, check that its events
                    arrive in a trace, and return the id of a process of the server
    trace_and_end(wrapper)
                    the same with strace as the wrapper; end the server
    """

    @unittest.skipUnless(os.getuid() == 0, "a read-only root requires root")
    @unittest.skipUnless(can_deny_write_execute(), "the kernel lacks PR_SET_MDWE")
    def test_a_server_with_the_rights_of_the_unit_is_traced(self):
        # As /tmp: a process may change its user before it creates its socket.
        sockets = os.path.join(self.folder, "sockets")
        os.mkdir(sockets)
        os.chmod(sockets, 0o1777)
        pid = self.trace_restricted(read_only_root(self.folder, self.visible), sockets,
                                    deny_write_execute)
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as file:
            options = [line.split()[5] for line in file if line.split()[4] == "/"]
        self.assertTrue(options[0].startswith("ro,"), options)

    @unittest.skipUnless(can_check_units(), "no systemd-analyze")
    def test_systemd_accepts_the_unit(self):
        self.assertEqual(errors_of_unit(self.unit), [])

    @unittest.skipUnless(can_check_units() and shutil.which("strace"),
                         "no systemd-analyze, or no strace")
    def test_the_unit_permits_every_system_call(self):
        log = os.path.join(self.folder, "calls")
        self.trace_and_end(["strace", "-f", "-qq", "-o", log])
        used = calls_in(log)
        self.assertIn("membarrier", used)
        self.assertEqual(used - calls_of("@system-service", "@default"), set())
