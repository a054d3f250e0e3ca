#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stands for a program that uses the library: runtime.py SAMPLE [SCRIPT [cut|refusing]]

Connects to the port of its environment, sends the file SAMPLE as its trace, waits to be resumed,
then runs the shell script, at whose end the trace ends. With `cut`, the trace lacks its last byte.
With `refusing`, it refuses to be resumed, with a reason, and continues. It writes the request to
the file `request` and its port to the file `port`. With RUNTIME_UID it first becomes that user.
"""
import os
import signal
import socket
import struct
import subprocess
import sys
import threading

from server import FAIL, Request, UNKNOWN_COMMAND, error, ok

SESSION = struct.pack("<Q", 0x1122334455667788)
COLLECT, STOP, RESUME = (2, 5), (2, 1), (4, 1)


class Runtime:
    def __init__(self, path, sample, manner):
        self.path, self.sample, self.manner = path, sample, manner
        self.resumed = threading.Event()
        self.ended = threading.Event()
        self.stream = None
        self.lock = threading.Lock()

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.path)
        connection.sendall(b"ADVR_V1\0" + struct.pack("<QQQH", os.getpid(), 7, os.getpid(), 0))
        return connection

    def end_stream(self):
        with self.lock:
            if self.stream:
                self.stream.sendall(b"" if self.manner == "cut" else self.sample[-1:])
                self.stream.close()
            self.stream = None
        self.ended.set()

    def serve(self):
        while True:
            connection = self.connect()
            request = Request(connection)
            if request.command == COLLECT:
                with open("request", "wb") as file:
                    file.write(request.payload)
                self.stream = connection
                connection.sendall(ok(SESSION) + self.sample[:-1])
                continue
            if request.command == STOP:
                self.end_stream()
            known = request.command in (STOP, RESUME)
            if request.command == RESUME and self.manner == "refusing":
                connection.sendall(error(FAIL, "not now"))
            else:
                connection.sendall(ok(request.payload) if known else error(UNKNOWN_COMMAND))
            connection.close()
            if request.command == RESUME:
                self.resumed.set()

    def run(self):
        try:
            self.serve()
        except OSError:
            pass


def main():
    if "RUNTIME_UID" in os.environ:
        os.setuid(int(os.environ["RUNTIME_UID"]))
    with open(sys.argv[1], "rb") as file:
        sample = file.read()
    path = os.environ["DOTNET_DiagnosticPorts"]
    with open("port", "w", encoding="utf-8") as file:
        file.write(path)
    runtime = Runtime(path, sample, sys.argv[3] if len(sys.argv) > 3 else None)
    threading.Thread(target=runtime.run, daemon=True).start()
    runtime.resumed.wait()
    status = 0
    if len(sys.argv) > 2:
        # Signals go to the script, also while it starts, as if it were this process. Handlers are
        # used, because a child inherits ignored signals.
        script, early = None, []
        keeps = os.environ.get("RUNTIME_KEEPS_SIGNALS")

        def pass_on(number, _frame):
            if not keeps and script:
                script.send_signal(number)
            elif not keeps:
                early.append(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, pass_on)
        script = subprocess.Popen(["sh", "-c", sys.argv[2]])
        for number in early:
            script.send_signal(number)
        status = script.wait()
    runtime.end_stream()
    sys.stdout.flush()
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
