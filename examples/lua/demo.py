#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the service under load, and show its requests and its profile.

usage: demo.py BUILD [REQUESTS]

BUILD is the build directory. The trace remains in the current directory as lua.nettrace.
"""
import http.client
import os
import subprocess
import sys
import threading

PROVIDERS = "Lua-Service,Lua-Runtime,Microsoft-DotNETCore-SampleProfiler"
PAGES = ("/primes/3000", "/sorted/3000", "/text/500", "/missing")
CLIENTS = 4
PATIENCE_S = 120


class Service:
    """The service, with a trace from its start to its end if `trace` is a path."""

    def __init__(self, build, trace=None, lua="lua5.4"):
        here = os.path.dirname(os.path.abspath(__file__))
        environment = dict(os.environ,
                           LUA_CPATH=os.path.join(build, "src", "modules", "lua", "?.so") + ";;")
        if trace:
            environment.update(RINGPIPE_CONFIG=PROVIDERS, RINGPIPE_OUTPUT=trace,
                               RINGPIPE_STACKS="1")
        self.process = subprocess.Popen([lua, os.path.join(here, "server.lua")], env=environment,
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def quit(self):
        """End the service. Return the number of requests that it counted."""
        ask(self.connect(), "/quit")
        output, _ = self.process.communicate(timeout=PATIENCE_S)
        if self.process.returncode != 0:
            raise RuntimeError(f"the service ended with {self.process.returncode}")
        return int(output.split()[1])


def ask(connection, path):
    """Return the status and the body of the reply."""
    connection.request("GET", path)
    reply = connection.getresponse()
    return reply.status, reply.read().decode()


def load(service, requests):
    """Send requests by several clients, each with one connection."""
    def send():
        connection = service.connect()
        for number in range(requests // CLIENTS):
            ask(connection, PAGES[number % len(PAGES)])
        connection.close()

    clients = [threading.Thread(target=send) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()


def main():
    build, requests = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 2000
    service = Service(build, "lua.nettrace")
    load(service, requests)
    print(f"the service counted {service.quit()} requests", flush=True)
    ringpipe = os.path.join(build, "src", "tools", "ringpipe", "ringpipe")
    for report in (["spans"], ["cpu"]):
        print(flush=True)
        subprocess.run([ringpipe, "report", "lua.nettrace", *report], check=True)


if __name__ == "__main__":
    main()
