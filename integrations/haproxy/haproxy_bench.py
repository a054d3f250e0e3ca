# SPDX-License-Identifier: MIT
"""The parts of bench/servers.py for HAProxy: a proxy with a line in the log, in front of a
server that answers with a page of 615 bytes."""

import contextlib
import http.client
import os
import shutil
import subprocess

import callgrind
import servers
from haproxy_server import PATIENCE, Haproxy, build_module, drive
from haproxy_server import why_not as haproxy_why_not

UNIT, UNITS = 'request', 'requests'
WAYS = servers.ways('haproxy:1', 'haproxy')
CONNECTIONS = 16
PAGE = 'page\n' * 123
# The settings of Debian's /etc/haproxy/haproxy.cfg, with one thread.
CONFIGURATION = """
global
	log stdout format raw local0
	stats socket {folder}/stats level admin
	nbthread 1
	{load}
defaults
	log global
	mode http
	option httplog
	option dontlognull
	timeout connect 5000
	timeout client 50000
	timeout server 50000
frontend web
	bind 127.0.0.1:{web}
	default_backend app
backend app
	server first 127.0.0.1:{origin}
"""
# The server behind the proxy, which is another HAProxy.
ORIGIN = """
global
	stats socket {folder}/stats level admin
	nbthread 1
defaults
	mode http
	timeout connect 5000
	timeout client 50000
	timeout server 50000
frontend web
	bind 127.0.0.1:{web}
	http-request return status 200 content-type text/html file {folder}/page
"""


def why_not():
    return haproxy_why_not() or (None if shutil.which('wrk') else 'no wrk')


def prepare(build, folder):
    return build_module(build, folder)[0]


@contextlib.contextmanager
def servers_of(module, folder):
    """Start the server behind the proxy. Return the proxy, which is not started."""
    behind = os.path.join(folder, 'origin')
    os.mkdir(behind)
    with open(os.path.join(behind, 'page'), 'w', encoding='ascii') as page:
        page.write(PAGE)
    origin = Haproxy(behind, ORIGIN, ('web',))
    origin.start()
    try:
        yield Haproxy(folder, CONFIGURATION, ('web',), origin=origin.ports['web'],
                      load=f'lua-load {module}/ringpipe.lua' if module else '')
    finally:
        origin.stop()


class Load:
    """HAProxy with one thread, under wrk's load."""

    def __init__(self, module, folder, _ringpipe):
        self.stack = contextlib.ExitStack()
        self.haproxy = self.stack.enter_context(servers_of(module, folder))
        self.haproxy.start()
        self.stack.callback(self.haproxy.stop)
        wrk = self.stack.enter_context(drive.running(
            ['wrk', '-t1', f'-c{CONNECTIONS}', '-d3600s',
             f"http://127.0.0.1:{self.haproxy.ports['web']}"], stdout=subprocess.DEVNULL))
        self.pids = [self.haproxy.process.pid, wrk.pid]
        self.traced = [self.haproxy.process.pid]

    def count(self):
        return int(self.haproxy.statistics()['web', 'FRONTEND']['req_tot'])

    def close(self):
        self.stack.close()


def instructions(module, folder, _ringpipe, count):
    with servers_of(module, folder) as haproxy:
        def work():
            client = http.client.HTTPConnection('127.0.0.1', haproxy.ports['web'],
                                                timeout=PATIENCE)
            with contextlib.closing(client):
                for _ in range(count):
                    client.request('GET', '/')
                    client.getresponse().read()

        return callgrind.server_instructions(haproxy, work)
