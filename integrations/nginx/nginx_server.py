# SPDX-License-Identifier: MIT
"""Builds the module and runs Debian's nginx with it, for the tests and the benchmark."""

import contextlib
import http.client
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
# The benchmark has another module that is called servers.
sys.path.insert(0, os.path.join(HERE, "..", ".."))
from integrations import restrictions, servers  # noqa: E402 pylint: disable=wrong-import-position

drive, PATIENCE = servers.drive, servers.PATIENCE
# nginx must not write into the folders of the package.
FOLDERS = """
	client_body_temp_path {folder}/body;
	proxy_temp_path {folder}/proxy;
	fastcgi_temp_path {folder}/fastcgi;
	uwsgi_temp_path {folder}/uwsgi;
	scgi_temp_path {folder}/scgi;
"""


def why_not():
    """Return what this machine lacks to build the module and to run nginx, or None."""
    for program in ("nginx", "openssl", "cc", "pkg-config"):
        if not shutil.which(program):
            return f"no {program}"
    if not os.path.exists("/usr/share/nginx/src/conf_flags"):
        return "no nginx-dev"
    return None


def build_module(build, folder):
    """Install ringpipe of a build into the folder, and build the module there. Return its path."""
    done = subprocess.run([os.path.join(HERE, "build"), folder + "/module"], check=False,
                          env=servers.install(folder, build), stderr=subprocess.PIPE, text=True,
                          timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return folder + "/module/ngx_http_ringpipe_module.so"


class NginxCase(unittest.TestCase):
    """A test with the module and a folder of its own."""
    @classmethod
    def setUpClass(cls):
        cls.build = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.build)
        cls.module = build_module(servers.BUILD, cls.build)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


def worker_pids(master):
    done = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(master)], check=False,
                          stdout=subprocess.PIPE, text=True)
    return [int(line.split()[0]) for line in done.stdout.splitlines()
            if "worker process" in line and "shutting down" not in line]


class Nginx:
    """
    An nginx in a folder of its own. The configuration is a text with {names}: `ports` become free
    ports, `folder` is the folder, and `values` are the rest.
    """

    def __init__(self, ringpipe, folder, configuration, ports, **values):
        self.ringpipe, self.folder = ringpipe, folder
        self.ports = {name: servers.free_port() for name in ports}
        os.chmod(folder, 0o755)
        self.path = os.path.join(folder, "nginx.conf")
        with open(self.path, "w", encoding="ascii") as file:
            file.write(configuration.format(folder=folder, **values, **self.ports))
        self.has_master = values.get("master", "on") == "on"
        self.command = ["nginx", "-c", self.path, "-p", folder]
        self.process = None

    def start(self, is_traced=True, wrapper=(), env=None, **popen):
        """Start nginx, and wait for a worker that serves and, if `is_traced`, has a socket."""
        self.process = subprocess.Popen([*wrapper, *self.command], env=env, **popen)
        drive.wait_for(lambda: self.pids() and self.is_listening() and
                       (not is_traced or self.has_workers(1)), "a worker", [self.process])

    def pids(self):
        """The processes that serve requests: the master has a socket before any worker."""
        return worker_pids(self.process.pid) if self.has_master else [self.process.pid]

    def has_workers(self, count):
        pids = self.pids()
        return len(pids) >= count and set(pids) <= servers.processes(self.ringpipe)

    def is_listening(self):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.ports["front"]), PATIENCE).close()
            return True
        return False

    def get(self, path, headers=None, port="front"):
        context = ssl._create_unverified_context() if port == "tls" else None
        scheme = "https" if port == "tls" else "http"
        request = urllib.request.Request(f"{scheme}://127.0.0.1:{self.ports[port]}{path}",
                                         headers=headers or {})
        with contextlib.suppress(urllib.error.HTTPError):
            with urllib.request.urlopen(request, timeout=PATIENCE, context=context) as answer:
                return answer.read().decode()
        return ""

    def post(self, path, body):
        """Send a body in a second part. Return the status of the answer."""
        client = http.client.HTTPConnection("127.0.0.1", self.ports["front"], timeout=PATIENCE)
        with contextlib.closing(client):
            client.putrequest("POST", path)
            client.putheader("Content-Length", str(len(body)))
            client.endheaders()
            client.send(body)
            return client.getresponse().status

    def stop(self):
        if self.process and self.process.poll() is None:
            # nginx may look at its flag and then wait for events, so that it misses a signal.
            for _ in range(PATIENCE):
                self.process.send_signal(signal.SIGQUIT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(1)
                    return
            self.process.kill()
            self.process.wait()
            raise TimeoutError("nginx does not stop")
