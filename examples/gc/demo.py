#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the server with its collector under load, and show its collections.

usage: demo.py BUILD [REQUESTS]

BUILD is the build directory. The trace remains in the current directory as gc.nettrace.
"""
import http.client
import os
import re
import subprocess
import sys

PROVIDERS = "Microsoft-Windows-DotNETRuntime:1:4,Microsoft-Windows-DotNETRuntimePrivate:1:4"
PATIENCE_S = 60


class Server:
    """The server, with a trace from its start to its end if `trace` is a path."""

    def __init__(self, build, trace):
        folder = os.path.join(build, "examples", "gc")
        environment = dict(os.environ)
        if trace:
            environment.update(RINGPIPE_CONFIG=PROVIDERS, RINGPIPE_OUTPUT=trace)
        self.process = subprocess.Popen(
            [os.path.join(folder, "gc_server"), os.path.join(folder, "gc_collector.so")],
            env=environment, stdout=subprocess.PIPE, text=True)
        self.port = int(re.match(r"port (\d+),", self.process.stdout.readline())[1])

    def ask(self, path):
        """Return the status of the reply."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", path)
        status = connection.getresponse().status
        connection.close()
        return status

    def quit(self):
        """End the server. Return the number of collections that libgc counted."""
        self.ask("/quit")
        output, _ = self.process.communicate(timeout=PATIENCE_S)
        if self.process.returncode != 0:
            raise RuntimeError(f"the server ended with {self.process.returncode}")
        return int(re.search(r"collections (\d+)", output)[1])


def load(server, requests, induced):
    """Send requests, and request a collection `induced` times between them."""
    for number in range(requests):
        server.ask(f"/document{number}")
        if number % (requests // induced) == 0:
            server.ask("/collect")


def main():
    build, requests = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    server = Server(build, "gc.nettrace")
    load(server, requests, 4)
    print(f"libgc counted {server.quit()} collections", flush=True)
    ringpipe = os.path.join(build, "src", "tools", "ringpipe", "ringpipe")
    for report in (["gc"], []):
        print(flush=True)
        subprocess.run([ringpipe, "report", "gc.nettrace", *report], check=True)


if __name__ == "__main__":
    main()
