# SPDX-License-Identifier: MIT
"""Starts nginx, an application, PostgreSQL and Valkey, records them under load and explains the
slowest request.

usage: stack.py BUILD OUT

BUILD is the build directory. The trace remains as OUT/stack.nettrace. The exit status is 77 if this
machine lacks something.
"""
import collections
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(FOLDER))
MODULES = os.path.join(ROOT, "integrations")
SETUP_VALKEY = os.path.join(ROOT, "scripts", "setup-valkey")
sys.path[:0] = [ROOT, os.path.join(MODULES, "postgresql")]
# pylint: disable=wrong-import-position
import postgresql_server  # noqa: E402
from integrations import servers  # noqa: E402

drive = servers.drive
PATIENCE = 120
CUSTOMERS, ORDERS = 2000, 100000
PROVIDERS = ("nginx", "Stack-App", "redis", "postgresql")
NGINX = """
load_module {module};
daemon off;
worker_processes 1;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{ worker_connections 512; }}
http {{
	access_log off;
	client_body_temp_path {folder}/body;
	proxy_temp_path {folder}/proxy;
	fastcgi_temp_path {folder}/fastcgi;
	uwsgi_temp_path {folder}/uwsgi;
	scgi_temp_path {folder}/scgi;
	upstream application {{ server {application}; keepalive 8; }}
	server {{
		listen 127.0.0.1:{port};
		location / {{
			proxy_pass http://application;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
		}}
	}}
}}
"""
LOAD = """
local number = 0
request = function()
	number = number + 1
	return wrk.format("GET", "/order/" .. number %% %d)
end
"""
TABLE = f"""
CREATE TABLE orders AS SELECT n, n % {CUSTOMERS} AS customer, n * 3 % 997 AS total
FROM generate_series(1, {ORDERS}) AS n;
ANALYZE orders;
GRANT SELECT ON orders TO PUBLIC;
"""


def missing():
    """Return what this machine lacks, or None."""
    for program in ("nginx", "redis-server", "wrk"):
        if not shutil.which(program):
            return f"no {program}"
    if not os.path.exists("/usr/share/nginx/src/conf_flags"):
        return "no nginx-dev"
    if os.getuid() != 0:
        return "recording all processes requires root"
    return postgresql_server.why_not()


def run(command, **options):
    options = {"timeout": PATIENCE, **options}
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    # Also after success: an explanation states there what the recording lacks.
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        raise drive.Failure(f"{command[0]} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Stack:
    """The servers, each with its module if this source has it, in a folder of their own."""

    def __init__(self, build, folder, exits):
        self.build, self.folder, self.exits = build, folder, exits
        self.root = os.path.join(folder, "root")
        os.chmod(folder, 0o755)
        self.environment = servers.install(folder, build)
        self.traced = ["nginx", "Stack-App"]
        self.pids = []  # of the servers that have sessions before the load

    def module(self, server, *arguments):
        """Build the module of a server. Return whether this source has one."""
        program = os.path.join(MODULES, server, "build")
        if not os.path.exists(program):
            print(f"  {server} runs without a module", flush=True)
            return False
        run([program, *arguments], env=self.environment, timeout=10 * PATIENCE)
        if server not in self.traced:
            self.traced.append(server)
        return True

    def start(self, command, **options):
        """Start a server. At the end it gets SIGINT, so that it ends its own processes too."""
        process = self.exits.enter_context(drive.running(command, env=self.environment, **options))
        self.exits.callback(drive.interrupt, process)
        return process

    def redis_program(self):
        """Return the server of Debian's Valkey, or of redis where Valkey cannot be had."""
        done = subprocess.run([SETUP_VALKEY, self.build], check=False, stdin=subprocess.DEVNULL,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=2 * PATIENCE)
        if done.returncode == 0:
            return done.stdout.strip()
        print(f"  redis runs instead of Valkey: {done.stderr.strip()}", flush=True)
        return "redis-server"

    def start_redis(self):
        path = os.path.join(self.folder, "redis.sock")
        modules = os.path.join(self.folder, "redis")
        command = [self.redis_program(), "--port", "0", "--unixsocket", path, "--save", "", "--dir",
                   self.folder]
        if self.module("redis", modules):
            command += ["--loadmodule", os.path.join(modules, "ringpipe.so")]
        process = self.start(command, stdout=subprocess.DEVNULL)
        drive.wait_for(lambda: os.path.exists(path), "redis", [process])
        if "redis" in self.traced:
            self.pids.append(process.pid)
        return path

    def start_postgresql(self):
        preload = "ringpipe" if self.module("postgresql", self.root) else ""
        programs = postgresql_server.copy_programs(self.root)
        folder = os.path.join(self.folder, "postgresql")
        os.mkdir(folder)
        server = postgresql_server.Server(programs, folder,
                                          more="max_parallel_workers_per_gather = 0")
        server.environment["TMPDIR"] = tempfile.gettempdir()
        self.exits.callback(server.stop)
        server.start(preload)
        server.sql(TABLE)
        return f"host={folder} user=admin dbname=postgres"

    def start_application(self, redis, postgresql):
        program = os.path.join(self.build, "examples", "stack", "stack-app")
        process = self.exits.enter_context(
            subprocess.Popen([program, redis, postgresql], env=self.environment, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        self.exits.callback(process.kill)
        self.pids.append(process.pid)
        address = process.stdout.readline().strip()
        if not address:
            raise drive.Failure("the application did not start")
        return address.removeprefix("http://")

    def start_nginx(self, application):
        folder = os.path.join(self.folder, "nginx")
        self.module("nginx", folder)
        port = servers.free_port()
        path = os.path.join(folder, "nginx.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(NGINX.format(module=folder + "/ngx_http_ringpipe_module.so", folder=folder,
                                    application=application, port=port))
        process = self.start(["nginx", "-c", path, "-p", folder])
        drive.wait_for(lambda: os.path.exists(folder + "/nginx.pid"), "nginx", [process])
        self.nginx = process.pid
        return f"http://127.0.0.1:{port}/order/1"

    def start_all(self):
        redis, postgresql = self.start_redis(), self.start_postgresql()
        return self.start_nginx(self.start_application(redis, postgresql))


def wait_for_workers(tool, stack, recorder):
    """Wait until the recording includes all servers, because it finds them one by one."""
    def is_recorded(pid):
        # A worker has no socket yet when it begins.
        done = subprocess.run([tool, "list", "--format", "json", "-p", str(pid)], check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=PATIENCE)
        return done.returncode == 0 and any(row["kind"] == "session"
                                            for row in json.loads(done.stdout))

    def is_complete():
        with open(f"/proc/{stack.nginx}/task/{stack.nginx}/children", encoding="ascii") as file:
            workers = file.read().split()
        return workers and all(map(is_recorded, (*workers, *stack.pids)))
    drive.wait_for(is_complete, "the servers", [recorder])


def record(tool, stack, url, trace, seconds):
    options = ["--profile", "all", "--off-cpu", "0", "--providers", ",".join(stack.traced)]
    # The servers are children of this process.
    command = [tool, "record", "--force", "-o", trace, *options, "-p", str(os.getpid())]
    script = os.path.join(stack.folder, "load.lua")
    with open(script, "w", encoding="ascii") as file:
        file.write(LOAD % CUSTOMERS)
    with open(trace + ".log", "w+", encoding="utf-8") as log, \
            drive.running(command, stderr=log) as recorder:
        drive.wait_for(lambda: os.path.exists(trace), "the recording", [recorder])
        wait_for_workers(tool, stack, recorder)
        print(run(["wrk", "-t1", "-c2", f"-d{seconds}s", "-s", script, url]), flush=True)
        status = drive.interrupt(recorder)
        log.seek(0)
        if status != 0:
            raise drive.Failure(f"ringpipe record failed:\n{log.read()}")


def servers_by_trace(tool, trace):
    """Return the providers of each trace id."""
    found = collections.defaultdict(set)
    text = run([tool, "convert", "--quiet", "--to", "jsonl", "-f", "-o", "-", trace])
    for line in text.splitlines():
        if '"activity"' in line:
            event = json.loads(line)
            if event["provider"] in PROVIDERS:
                found[event["activity"]].add(event["provider"])
    return found


def explain_slowest(tool, trace):
    """Explain the spans of the slowest request in all servers. Return their providers."""
    explain = [tool, "explain", trace]
    slowest, = json.loads(run([*explain, "--format", "json", "--span", "nginx/request"]))
    explain += ["--id", slowest["trace_id"], "--slowest", "100"]
    print(run(explain), flush=True)
    return {row["provider"] for row in json.loads(run([*explain, "--format", "json"]))}


def main(build, out, seconds=3):
    tool = os.path.join(build, "src", "tools", "ringpipe", "ringpipe")
    trace = os.path.join(out, "stack.nettrace")
    os.makedirs(out, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(trace)
    with contextlib.ExitStack() as exits:
        folder = exits.enter_context(tempfile.TemporaryDirectory())
        print("nginx, an application, PostgreSQL and Valkey start …", flush=True)
        stack = Stack(build, folder, exits)
        record(tool, stack, stack.start_all(), trace, seconds)
    counts = collections.Counter(len(servers)
                                 for servers in servers_by_trace(tool, trace).values())
    print(f"{counts[len(stack.traced)]:,} traces cross {', '.join(stack.traced)}", flush=True)
    return counts[len(stack.traced)], explain_slowest(tool, trace)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print("usage: stack.py BUILD OUT", file=sys.stderr)
        sys.exit(2)
    reason = missing()
    if reason:
        print(f"stack.py: {reason}", file=sys.stderr)
        sys.exit(77)
    main(*map(os.path.abspath, sys.argv[1:]))
