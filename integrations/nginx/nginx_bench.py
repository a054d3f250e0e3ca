# SPDX-License-Identifier: MIT
"""What bench/servers.py needs to measure nginx: a page of 615 bytes, with a line in access_log."""

import contextlib
import http.client
import os
import shutil
import subprocess
import urllib.request

import callgrind
import servers
from nginx_server import FOLDERS, PATIENCE, Nginx, build_module as prepare, drive
from nginx_server import why_not as nginx_why_not

__all__ = ['prepare']
UNIT, UNITS = 'request', 'requests'
WAYS = servers.ways('nginx:2', 'nginx,nginx-log')
CONNECTIONS = 16
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
	}}
}}
"""


def why_not():
    return nginx_why_not() or (None if shutil.which('wrk') else 'no wrk')


def configure(module, folder, ringpipe, master):
    with open(os.path.join(folder, 'index.html'), 'w', encoding='ascii') as page:
        page.write('page\n' * 123)
    return Nginx(ringpipe, folder, CONFIGURATION, ('front',), master=master,
                 load_module=f'load_module {module};' if module else '')


class Load:
    """nginx with one worker, under wrk's load."""

    def __init__(self, module, folder, ringpipe):
        self.nginx = configure(module, folder, ringpipe, 'on')
        self.nginx.start(module is not None)
        self.url = f"http://127.0.0.1:{self.nginx.ports['front']}"
        self.stack = contextlib.ExitStack()
        self.stack.callback(self.nginx.stop)
        wrk = self.stack.enter_context(drive.running(
            ['wrk', '-t1', f'-c{CONNECTIONS}', '-d3600s', self.url], stdout=subprocess.DEVNULL))
        self.pids = [self.nginx.process.pid, wrk.pid]
        self.traced = self.nginx.pids()

    def count(self):
        with urllib.request.urlopen(self.url + '/status', timeout=PATIENCE) as answer:
            return int(answer.read().split()[9])

    def close(self):
        self.stack.close()


def instructions(module, folder, ringpipe, count):
    nginx = configure(module, folder, ringpipe, 'off')

    def work():
        client = http.client.HTTPConnection('127.0.0.1', nginx.ports['front'], timeout=PATIENCE)
        with contextlib.closing(client):
            for _ in range(count):
                client.request('GET', '/')
                client.getresponse().read()

    return callgrind.server_instructions(nginx, work)
