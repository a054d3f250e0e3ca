# SPDX-License-Identifier: MIT
"""The parts of bench/servers.py for nginx: a page of 615 bytes, from a file or an upstream server,
and a line in access_log for each request."""

import contextlib
import http.client
import os
import shutil
import socket
import subprocess
import threading
import urllib.request

import callgrind
import servers
from nginx_server import FOLDERS, PATIENCE, Nginx, build_module as prepare, drive
from nginx_server import why_not as nginx_why_not

__all__ = ['prepare']
UNIT, UNITS = 'request', 'requests'
WAYS = servers.ways('nginx:2', 'nginx,nginx-log')
CONNECTIONS = 16
PAGE = 'page\n' * 123
# Kinds of requests, and their paths. For the index page, nginx searches for a location twice.
PATHS = {'index page': '/', 'file': '/index.html', 'proxied': '/proxied'}
KINDS = list(PATHS)
# The settings of Debian's /etc/nginx/nginx.conf, with one worker.
CONFIGURATION = """
{load_module}
daemon off;
master_process {master};
worker_processes 1;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{ worker_connections 768; }}
http {{
	sendfile on;
	tcp_nopush on;
	types_hash_max_size 2048;
	default_type text/html;
	access_log {folder}/access.log;
	gzip on;
""" + FOLDERS + """
	keepalive_requests 1000000000;
	server {{
		listen 127.0.0.1:{front};
		root {folder};
		location / {{ try_files $uri $uri/ =404; }}
		location = /status {{ stub_status; access_log off; }}
		location = /proxied {{ proxy_pass http://127.0.0.1:{back}; }}
	}}
}}
"""


def why_not():
    return nginx_why_not() or (None if shutil.which('wrk') else 'no wrk')


def configure(module, folder, ringpipe, master):
    with open(os.path.join(folder, 'index.html'), 'w', encoding='ascii') as page:
        page.write(PAGE)
    return Nginx(ringpipe, folder, CONFIGURATION, ('front', 'back'), master=master,
                 load_module=f'load_module {module};' if module else '')


class Load:
    """nginx with one worker, under wrk's load."""

    def __init__(self, module, folder, ringpipe):
        self.nginx = configure(module, folder, ringpipe, 'on')
        self.nginx.start(False)
        self.url = f"http://127.0.0.1:{self.nginx.ports['front']}"
        self.stack = contextlib.ExitStack()
        self.stack.callback(self.nginx.stop)
        # A worker that answers has a socket. A tool that looked for it would start a thread.
        self.count()
        wrk = self.stack.enter_context(drive.running(
            ['wrk', '-t1', f'-c{CONNECTIONS}', '-d3600s', self.url], stdout=subprocess.DEVNULL))
        self.pids = [self.nginx.process.pid, wrk.pid]
        self.traced = self.nginx.pids()

    def count(self):
        with urllib.request.urlopen(self.url + '/status', timeout=PATIENCE) as answer:
            return int(answer.read().split()[9])

    def close(self):
        self.stack.close()


def serve(listening):
    """Answer each connection with the page, in one part, until the socket is shut down."""
    answer = f'HTTP/1.0 200 OK\r\nContent-Length: {len(PAGE)}\r\n\r\n{PAGE}'.encode('ascii')
    while True:
        try:
            client = listening.accept()[0]
        except OSError:
            return
        with client, contextlib.suppress(OSError):
            client.recv(65536)
            client.sendall(answer)
            # nginx closes the connection when it has the page.
            client.recv(1)


def instructions(module, folder, ringpipe, count, kind):
    nginx = configure(module, folder, ringpipe, 'off')

    def work():
        client = http.client.HTTPConnection('127.0.0.1', nginx.ports['front'], timeout=PATIENCE)
        with contextlib.closing(client):
            for _ in range(count):
                # A port in the header has four or five digits: up to 45 instructions.
                client.request('GET', PATHS[kind], headers={'Host': 'localhost'})
                assert len(client.getresponse().read()) == len(PAGE)

    with socket.create_server(('127.0.0.1', nginx.ports['back'])) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        try:
            return callgrind.server_instructions(nginx, work)
        finally:
            listening.shutdown(socket.SHUT_RDWR)
