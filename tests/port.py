# SPDX-License-Identifier: MIT
"""Finds a process's default diagnostic port. Its pid alone does not identify the port: another
process, which had that pid before and was killed, may have left a socket in the same folder."""
import os


def start_ticks(pid):
    """When it started, in clock ticks since boot: the second number in the socket's name."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
        return int(stat.read().rpartition(")")[2].split()[19])


def socket_path(directory, pid, key=None):
    key = start_ticks(pid) if key is None else key
    return os.path.join(directory, f"dotnet-diagnostic-{pid}-{key}-socket")
