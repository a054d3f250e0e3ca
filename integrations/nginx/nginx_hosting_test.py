#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module where nginx has no libringpipe, few rights, another root, Lua or a full disk."""
import contextlib
import glob
import os
import shutil
import signal
import subprocess
import unittest

import nginx_server
from nginx_server import HERE, PATIENCE, drive, restrictions, servers

RINGPIPE = servers.RINGPIPE
# Unpacked by the test, because to install them would remove Debian's luajit.
LUA_PACKAGES = ("libnginx-mod-http-lua", "libnginx-mod-http-ndk", "libluajit2-5.1-2",
                "lua-resty-core", "lua-resty-lrucache")
LUA = """
load_module {root}/usr/lib/nginx/modules/ndk_http_module.so;
load_module {root}/usr/lib/nginx/modules/ngx_http_lua_module.so;
"""
LUA_SERVER = """
	lua_package_path "{root}/usr/share/lua/5.1/?.lua;;";
	server {{
		listen unix:{folder}/lua;
		rewrite_by_lua_block {{ ngx.sleep(0) }}
		access_by_lua_block {{ ngx.sleep(0) }}
	}}
"""
CONFIGURATION = """
load_module {module};
{extra}
daemon {daemon};
master_process {master};
worker_processes 1;
error_log {folder}/error.log info;
pid {folder}/nginx.pid;
events {{ worker_connections 64; }}
http {{
	access_log off;
	{http}
""" + nginx_server.FOLDERS + """
	server {{
		listen 127.0.0.1:{front};
		root {folder};
		location / {{ {inner} return 200 "trace $ringpipe_trace_id"; }}
		location /file {{ {inner} alias {folder}/file; }}
	}}
}}
"""


class HostingTest(restrictions.UnitTests, nginx_server.NginxCase):
    unit = os.path.join(HERE, "nginx.service")

    def setUp(self):
        super().setUp()
        self.visible = self.build
        with open(self.folder + "/file", "w", encoding="ascii") as file:
            file.write("file\n")

    def configure(self, module=None, master="on", daemon="off", extra="", inner="", http=""):
        return nginx_server.Nginx(RINGPIPE, self.folder, CONFIGURATION, ("front",),
                                  module=module or self.module, master=master, daemon=daemon,
                                  extra=extra, inner=inner, http=http)

    def serve(self, is_traced=True, **options):
        popen = {name: options.pop(name) for name in ("env", "wrapper", "preexec_fn")
                 if name in options}
        nginx = self.configure(**options)
        self.addCleanup(nginx.stop)
        nginx.start(is_traced, **popen)
        return nginx

    def error_log(self):
        with open(self.folder + "/error.log", encoding="utf-8") as log:
            return log.read()

    def check_events(self, nginx, path="/", expected="trace "):
        """Trace one request of a worker."""
        trace = self.folder + "/t.nettrace"
        [pid] = nginx.pids()
        with servers.recording(pid, "nginx", trace, "--providers", "nginx"):
            self.assertTrue(nginx.get(path).startswith(expected))
            nginx.get("/settled")
        starts = servers.of_name(servers.read(trace), "requestStart")
        self.assertIn(path, [start["path"] for start in starts])

    def test_without_the_library_nginx_serves_and_logs_the_reason(self):
        for case, folder in (("no file of the module", self.folder), ("no library", None)):
            module = self.module
            environment = {**os.environ, "LD_LIBRARY_PATH": ""}
            if folder:
                module = shutil.copy(self.module, folder)
            with self.subTest(case):
                nginx = self.serve(False, module=module, env=environment)
                self.assertEqual(nginx.get("/"), "trace ")
                nginx.stop()
                missing = "ngx_ringpipe_trace.so" if folder else "libringpipe.so.1"
                self.assertRegex(self.error_log() + self.said(nginx, environment),
                                 f"ringpipe traces nothing: {missing}|{missing}: cannot open")

    def said(self, nginx, environment):
        """Return what `nginx -t` prints."""
        done = subprocess.run([*nginx.command, "-t"], check=False, stderr=subprocess.PIPE,
                              text=True, env=environment, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_with_an_older_library_nginx_serves_and_logs_the_missing_function(self):
        old = self.folder + "/libringpipe.so.1"
        subprocess.run(["cc", "-shared", "-Wl,-soname,libringpipe.so.1", "-o", old, "-x", "c",
                        "/dev/null"], check=True, timeout=PATIENCE)
        environment = {**os.environ, "LD_LIBRARY_PATH": self.folder}
        nginx = self.serve(False, env=environment)
        self.assertEqual(nginx.get("/"), "trace ")
        self.assertRegex(self.said(nginx, environment),
                         "ringpipe traces nothing: .*(undefined symbol|version)")

    def test_a_file_of_another_version_is_refused_and_nginx_serves(self):
        shutil.copy(self.module, self.folder)
        code = "struct { unsigned long size; } ringpipe_hooks = { 1 };"
        subprocess.run(["cc", "-shared", "-o", self.folder + "/ngx_ringpipe_trace.so", "-x", "c",
                        "-"], check=True, input=code.encode(), timeout=PATIENCE)
        nginx = self.serve(False, module=self.folder + "/ngx_http_ringpipe_module.so")
        self.assertEqual(nginx.get("/"), "trace ")
        self.assertIn("another version", self.said(nginx, os.environ))

    def master_of_file(self):
        """Return the master that the file of the pid names, or None."""
        with contextlib.suppress(OSError, ValueError):
            with open(self.folder + "/nginx.pid", encoding="ascii") as file:
                return int(file.read())
        return None

    def start_daemon(self):
        # The binary of an upgrade gets no other variables of the environment.
        nginx = self.configure(daemon="on", extra="env LD_LIBRARY_PATH;")
        # nginx executes this path again for an upgrade.
        nginx.command[0] = shutil.which("nginx")
        subprocess.run(nginx.command, check=True, timeout=PATIENCE)
        drive.wait_for(self.master_of_file, "the pid")
        master = self.master_of_file()
        self.addCleanup(subprocess.run, [*nginx.command, "-s", "stop"], check=True)
        nginx.pids = lambda: nginx_server.worker_pids(master)
        drive.wait_for(lambda: nginx.has_workers(1), "a worker")
        return nginx, master

    def test_a_daemon_is_traced(self):
        nginx, _ = self.start_daemon()
        self.check_events(nginx)

    def test_workers_of_an_upgraded_binary_are_traced(self):
        nginx, old = self.start_daemon()
        os.kill(old, signal.SIGUSR2)
        drive.wait_for(lambda: self.master_of_file() not in (None, old), "the new binary")
        new = self.master_of_file()
        nginx.pids = lambda: nginx_server.worker_pids(new)
        drive.wait_for(lambda: nginx.has_workers(1), "a worker of the new binary")
        os.kill(old, signal.SIGQUIT)
        drive.wait_for(lambda: not os.path.exists(f"/proc/{old}"), "the end of the old binary")
        self.check_events(nginx)

    def test_a_worker_has_one_thread_and_its_own_socket_until_a_tool_connects(self):
        sockets = self.folder + "/sockets"
        os.mkdir(sockets)
        os.chmod(sockets, 0o1777)

        def threads():
            nginx = self.serve(False, env={**os.environ, "TMPDIR": sockets})
            [pid] = nginx.pids()
            drive.wait_for(lambda: os.listdir(sockets), "a socket", [nginx.process])
            count = len(os.listdir(f"/proc/{pid}/task"))
            [name] = os.listdir(sockets)
            self.assertIn(f"-{pid}-", name)
            self.assertEqual(os.stat(f"{sockets}/{name}").st_uid, os.stat(f"/proc/{pid}").st_uid)
            self.assertEqual(len(os.listdir(f"/proc/{nginx.process.pid}/task")), 1)
            nginx.stop()
            return count

        # Another `ringpipe ps` of the machine may connect to a worker.
        self.assertIn(1, (threads() for _ in range(5)))

    def test_requests_that_a_thread_pool_serves_are_traced(self):
        nginx = self.serve(extra="thread_pool own threads=2;", inner="aio threads=own;")
        self.check_events(nginx, "/file", "file\n")

    def unpack_lua(self):
        """Return a folder with nginx's module for Lua and what it needs."""
        done = subprocess.run(["apt-get", "-q", "download", *LUA_PACKAGES], cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=PATIENCE, check=False)
        if done.returncode != 0:
            self.skipTest(f"the packages of Lua cannot be downloaded: {done.stdout}")
        root = self.folder + "/unpacked"
        for package in glob.glob(self.folder + "/*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        return root

    @unittest.skipUnless(shutil.which("apt-get"), "this is not a Debian system")
    def test_handlers_that_move_within_their_phase_are_traced(self):
        """The handlers of Lua move to the ends of their phases when they first run."""
        root = self.unpack_lua()
        [library] = glob.glob(root + "/usr/lib/*/libluajit-5.1.so.2")
        nginx = self.serve(extra=LUA.format(root=root),
                           http=LUA_SERVER.format(root=root, folder=self.folder),
                           env={**os.environ, "LD_LIBRARY_PATH": ":".join(
                               [os.path.dirname(library), os.environ["LD_LIBRARY_PATH"]])})
        for _ in range(3):
            self.check_events(nginx)

    @unittest.skipUnless(os.getuid() == 0, "another root requires root")
    def test_nginx_in_another_root_is_traced(self):
        # Workers, which have another user, create their sockets in this root's /tmp.
        nginx = self.serve(wrapper=restrictions.other_root(self.folder + "/root", self.folder,
                                                           self.build),
                           env={**os.environ, "TMPDIR": "/tmp"})
        self.check_events(nginx)

    def trace_restricted(self, wrapper, sockets, preexec_fn):
        nginx = self.serve(wrapper=wrapper, env={**os.environ, "TMPDIR": sockets},
                           preexec_fn=preexec_fn)
        self.check_events(nginx)
        return nginx.pids()[0]

    def trace_and_end(self, wrapper):
        nginx = self.configure(master="off")
        nginx.start(False, wrapper)
        self.addCleanup(nginx.process.kill)
        [pid] = servers.children(nginx.process.pid)
        nginx.pids = lambda: [pid]
        drive.wait_for(lambda: nginx.has_workers(1), "a socket", [nginx.process])
        self.check_events(nginx)
        os.kill(pid, signal.SIGQUIT)
        nginx.process.wait(PATIENCE)

    def test_a_full_disk_ends_the_trace_and_not_the_requests(self):
        nginx = self.serve()
        [pid] = nginx.pids()
        done = subprocess.Popen([RINGPIPE, "collect", "-f", "-o", "/dev/full", "-p", str(pid)],
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        with done:
            drive.wait_for(lambda: nginx.get("/").startswith("trace ") and
                           done.poll() is not None, "the end of the trace")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("No space left", done.stderr.read())
        self.assertTrue(nginx.get("/").startswith("trace "))
        self.check_events(nginx)


if __name__ == "__main__":
    servers.skip_if(nginx_server.why_not())
    unittest.main()
