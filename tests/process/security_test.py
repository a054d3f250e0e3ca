#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The promises of doc/security.md that no other test checks; each test is named after its promise.

usage: security_test.py HOST STATIC_HOST RINGPIPE MODULE [unittest arguments]

As root, the test acts as several users; without root, it skips the tests that need another user.
HOST and STATIC_HOST are security_host.c with the library shared and linked in. MODULE is a shared
object that the loader accepts, with any content. KERNEL in the environment is ringpipe-kernel, if
it was built.
"""
import concurrent.futures
import contextlib
import glob
import os
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from eventually import PATIENCE_S as PATIENCE, eventually
from port import socket_path

HOST = STATIC = RINGPIPE = MODULE = KERNEL = None
OWNER, OTHER_PROCESS = 65534, 1	# users that exist on every system and run nothing
IS_ROOT = os.geteuid() == 0
SANITIZED = bool(os.environ.get("SANITIZERS", "").replace("none", ""))
PYTHON = "/usr/bin/python3"
PROCESS_INFO = b"DOTNET_IPC_V1\0" + struct.pack("<HBBH", 20, 4, 0, 0)
SECRET = b"hunter2"
WIDE = "hunter2".encode("utf-16-le")

needs_root = unittest.skipUnless(IS_ROOT, "only root can be two users")
needs_plain = unittest.skipIf(SANITIZED, "a sanitizer does not go with set-user-ID programs")

# Connects to a socket, sends a request, prints the size of the reply.
ASK = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(60)
connection.connect(sys.argv[1])
try:
    connection.sendall(bytes.fromhex(sys.argv[2]))
    print(len(connection.recv(1000)))
except (BrokenPipeError, ConnectionResetError):
    print(0)
"""

# Creates a file under the name that the socket of this process will have, then executes the host.
SQUAT = """
import os, socket, sys
kind, user, folder, host = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
with open("/proc/self/stat") as stat:
    started = stat.read().rpartition(")")[2].split()[19]
path = f"{folder}/dotnet-diagnostic-{os.getpid()}-{started}-socket"
if kind == "link":
    os.symlink(f"{folder}/victim", path)
elif kind == "file":
    open(path, "x").close()
else:
    squatter = socket.socket(socket.AF_UNIX)
    squatter.bind(path)
if user:
    os.lchown(path, user, user)
os.execv(host, [host])
"""


def user(uid, gid=None):
    return ("setpriv", f"--reuid={uid}", f"--regid={uid if gid is None else gid}",
            "--clear-groups")


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


class Security(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="rp-security-")
        self.addCleanup(shutil.rmtree, self.directory)
        # The same mode as /tmp.
        os.chmod(self.directory, 0o1777)
        self.log = open(self.path("log"), "w+b")
        self.addCleanup(self.log.close)

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def folder(self, name, owner=None):
        os.mkdir(self.path(name))
        if owner is not None:
            os.chown(self.path(name), owner, owner)
        return self.path(name)

    def environment(self, **variables):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("RINGPIPE_", "DOTNET_", "COMPlus_"))}
        kept.update({"TMPDIR": self.directory, "RINGPIPE_LTTNG": "0", "LC_ALL": "C.UTF-8"},
                    **variables)
        # Some of the processes refuse inspection, even by LeakSanitizer.
        if "ASAN_OPTIONS" in kept:
            kept["ASAN_OPTIONS"] += ":detect_leaks=0"
        return kept

    def start(self, *command, prefix=(), executable=None, umask=-1, cwd="/", **variables):
        """Starts a host and waits until it has printed its pid."""
        process = subprocess.Popen([*prefix, *(command or (HOST,))], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=self.log, cwd=cwd, umask=umask,
                                   executable=executable, env=self.environment(**variables))
        self.addCleanup(self.end, process)
        line = process.stdout.readline()
        self.assertTrue(line, self.said())
        self.assertEqual(int(line), process.pid)
        return process

    @staticmethod
    def end(process):
        if process.stdout.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.read()
        process.stdout.close()
        process.wait(PATIENCE)

    def said(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def socket_of(self, process, folder=None):
        path = socket_path(folder or self.directory, process.pid)
        eventually(lambda: os.path.exists(path), "a socket")
        return path

    def ask_as(self, uid, path):
        """Returns the number of bytes that the process answers to a client of that user."""
        prefix = user(uid) if uid else ()
        done = subprocess.run([*prefix, PYTHON, "-c", ASK, path, PROCESS_INFO.hex()], check=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=PATIENCE)
        return int(done.stdout)

    def tool(self, *arguments, prefix=(), **options):
        return subprocess.run([*prefix, RINGPIPE, *map(str, arguments)], check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=self.environment(), timeout=2 * PATIENCE,
                              cwd=self.directory, **options)

    @staticmethod
    def at_once(function, values):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return list(pool.map(function, values))

    def copy(self, program, owner, group, bits):
        with open("/proc/self/status", encoding="ascii") as status:
            if re.search(r"NoNewPrivs:\s*1", status.read()) or \
                    os.statvfs(self.directory).f_flag & os.ST_NOSUID:
                self.skipTest("programs get no rights of their files here")
        path = shutil.copy(program, self.path("program"))
        os.chown(path, owner, group)
        os.chmod(path, bits)
        return path

    def skip_unless_it_runs(self, *command):
        if subprocess.run(command, stdin=subprocess.DEVNULL, check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            self.skipTest(f"{command[-1]} cannot be run by others")


class Clients(Security):
    """The clients that the library serves."""

    @needs_root
    @needs_plain
    def test_program_with_more_rights_than_its_user_is_for_root_alone(self):
        # Set-group-ID: the user is the same, so the mode of the socket admits the client.
        program = self.copy(STATIC, OWNER, 0, 0o2755)
        process = self.start(program, prefix=user(OWNER))
        # The library ignores TMPDIR.
        path = self.socket_of(process, "/tmp")
        self.assertEqual(self.ask_as(OWNER, path), 0)
        self.assertGreater(self.ask_as(0, path), 0)

    @needs_root
    @needs_plain
    def test_set_user_id_program_answers_neither_of_its_users(self):
        program = self.copy(STATIC, OWNER, OWNER, 0o4755)
        process = self.start(program, prefix=user(OTHER_PROCESS))
        path = self.socket_of(process, "/tmp")
        self.assertEqual((os.stat(path).st_uid, mode(path)), (OWNER, 0o600))
        os.chmod(path, 0o666)
        self.assertEqual(self.ask_as(OWNER, path), 0)
        self.assertEqual(self.ask_as(OTHER_PROCESS, path), 0)
        self.assertGreater(self.ask_as(0, path), 0)

    @needs_root
    def test_process_that_plays_another_user_for_a_while_is_for_root_alone(self):
        process = self.start(HOST, "ids", str(OWNER))
        path = self.socket_of(process)
        os.chmod(path, 0o666)
        self.assertEqual(self.ask_as(OWNER, path), 0)
        self.assertGreater(self.ask_as(0, path), 0)

    @needs_root
    def test_process_that_may_become_another_user_again_is_for_root_alone(self):
        for saved, answers in (OWNER, True), (0, False), (OTHER_PROCESS, False):
            with self.subTest(saved=saved):
                process = self.start(HOST, "saved", str(OWNER), str(saved))
                path = self.socket_of(process)
                os.chmod(path, 0o666)
                self.assertEqual(self.ask_as(OWNER, path) > 0, answers)
                self.assertGreater(self.ask_as(0, path), 0)

    @needs_root
    def test_own_user_is_served_and_another_is_not(self):
        self.skip_unless_it_runs(*user(OWNER), "test", "-x", HOST)
        process = self.start(prefix=user(OWNER))
        path = self.socket_of(process)
        self.assertGreater(self.ask_as(OWNER, path), 0)
        self.assertGreater(self.ask_as(0, path), 0)
        os.chmod(path, 0o666)
        self.assertEqual(self.ask_as(OTHER_PROCESS, path), 0)

    @needs_root
    @needs_plain
    def test_environment_says_nothing_to_a_set_user_id_program(self):
        program = self.copy(STATIC, OWNER, OWNER, 0o4755)
        folder = self.folder("others", OWNER)
        settings = {"RINGPIPE_CONFIG": "*", "RINGPIPE_OUTPUT": folder + "/ours",
                    "RINGPIPE_PORTS": folder + "/port,listen,nosuspend", "TMPDIR": folder,
                    "RINGPIPE_RECOVER": folder + "/recover", "RINGPIPE_LTTNG": "1",
                    "RINGPIPE_DIAGNOSTICS": "0", "DOTNET_EnableEventPipe": "1",
                    "DOTNET_EventPipeOutputPath": folder + "/theirs",
                    "COMPlus_DiagnosticPorts": folder + "/old,listen,nosuspend",
                    "DOTNET_DefaultDiagnosticPortSuspend": "1"}
        process = self.start(program, prefix=user(OTHER_PROCESS), **settings)
        self.socket_of(process, "/tmp")
        self.assertEqual(os.listdir(folder), [])
        self.assertEqual(self.said(), "")


class Files(Security):
    """The files that the library creates, and their owners."""

    def test_socket_is_the_owners_whatever_the_umask(self):
        for umask in (0, 0o777):
            with self.subTest(umask=oct(umask)):
                path = self.socket_of(self.start(umask=umask))
                self.assertEqual((mode(path), os.stat(path).st_uid), (0o600, os.geteuid()))

    def squat(self, kind, owner):
        self.log.truncate(0)
        process = self.start(PYTHON, "-c", SQUAT, kind, str(owner), self.directory, HOST,
                             prefix=user(OWNER, OWNER) if owner == 0 and IS_ROOT else (),
                             RINGPIPE_DIAGNOSTICS="1")
        return process, socket_path(self.directory, process.pid)

    def test_name_of_the_socket_that_another_user_took_is_left_alone(self):
        for kind in ("link", "file"):
            with self.subTest(kind):
                process, found = self.squat(kind, OTHER_PROCESS if IS_ROOT else 0)
                before = os.lstat(found)
                self.assertIn("diagnostic port", self.said())
                self.end(process)
                after = os.lstat(found)
                self.assertEqual((after.st_ino, after.st_mode, after.st_uid),
                                 (before.st_ino, before.st_mode, before.st_uid))
                self.assertFalse(os.path.lexists(self.path("victim")))

    @needs_root
    def test_socket_of_another_process_under_our_name_is_not_taken_for_ours(self):
        self.skip_unless_it_runs(*user(OWNER), "test", "-x", HOST)
        # The process creates the file and gives it away; in a sticky folder it cannot remove it.
        done = subprocess.Popen([PYTHON, "-c", SQUAT.replace("os.execv", """
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
os.execv"""), "socket", str(OTHER_PROCESS), self.directory, HOST], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=self.log, cwd="/",
                                env=self.environment(RINGPIPE_DIAGNOSTICS="1"))
        self.addCleanup(self.end, done)
        pid = int(done.stdout.readline())
        found = socket_path(self.directory, pid)
        self.assertEqual(os.stat(found).st_uid, OTHER_PROCESS)
        self.assertIn("diagnostic port", self.said())
        listed = self.tool("list", pid)
        self.assertNotEqual(listed.returncode, 0)
        self.assertNotIn(b"Till", listed.stdout)

    def test_traces_are_the_owners_whatever_the_umask(self):
        process = self.start(umask=0, RINGPIPE_CONFIG="Till", RINGPIPE_OUTPUT=self.path("trace"))
        commands = (("collect", "-p", process.pid, "--duration", "1", "-o", self.path("collected")),
                    ("counters", "collect", "--format=csv", "-p", process.pid, "--counters",
                     "Evil-Counters", "--duration", "2", "-o", self.path("counted")))
        for done in self.at_once(lambda command: self.tool(*command, umask=0), commands):
            self.assertEqual(done.returncode, 0, done.stderr)
        self.end(process)
        self.end(self.start(umask=0, RINGPIPE_CONFIG="Till", RINGPIPE_ROLL_MB="8",
                            RINGPIPE_OUTPUT=self.path("rolled")))
        for name in ("trace", "rolled.000001", "collected", "counted"):
            self.assertEqual((name, mode(self.path(name))), (name, 0o600))

    def test_descriptors_are_not_for_programs_that_it_starts(self):
        process = self.start(RINGPIPE_CONFIG="Till", RINGPIPE_OUTPUT=self.path("trace"),
                             RINGPIPE_RECOVER=self.path("rings"))
        self.socket_of(process)
        for fd in os.listdir(f"/proc/{process.pid}/fd"):
            if int(fd) > 2:
                with open(f"/proc/{process.pid}/fdinfo/{fd}", encoding="ascii") as info:
                    flags = int(re.search(r"flags:\s*(\d+)", info.read())[1], 8)
                self.assertTrue(flags & os.O_CLOEXEC,
                                os.readlink(f"/proc/{process.pid}/fd/{fd}"))

    def test_secrets_are_in_no_file(self):
        """Neither in the trace nor in the rings of a process that is killed."""
        process = self.start(RINGPIPE_CONFIG="Till,Till-Made", RINGPIPE_OUTPUT=self.path("trace"),
                             RINGPIPE_RECOVER=self.path("rings"))
        eventually(lambda: os.path.getsize(self.path("trace")) > 4000, "a longer trace")
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
        folder, = glob.glob(self.path("rings", "*"))
        done = self.tool("recover", folder, "-o", self.path("recovered"))
        self.assertEqual(done.returncode, 0, done.stderr)
        files = [self.path("trace"), self.path("recovered"), *glob.glob(folder + "/*")]
        self.assertGreater(len(files), 5)
        for name in files:
            with open(name, "rb") as file:
                content = file.read()
            self.assertFalse(SECRET in content or WIDE in content, name)
        report = self.tool("report", self.path("recovered"), "events", "--format=json").stdout
        self.assertTrue(b'"card":"***","wide":"***","code":""' in report, report[:1000])
        self.assertTrue(b'"event":"made","id":1,"fields":{"card":"***"}' in report, report[:1000])


class Seen(Security):
    """Information that another user can see."""

    @needs_root
    def test_another_user_sees_the_sockets_name_and_nothing_in_the_process(self):
        self.skip_unless_it_runs(*user(OTHER_PROCESS), "test", "-x", RINGPIPE)
        process = self.start(RINGPIPE_CONFIG="Till", RINGPIPE_OUTPUT=self.path("trace"))
        path = self.socket_of(process)
        with open("/proc/net/unix", encoding="utf-8") as sockets:
            self.assertIn(path, sockets.read())
        for name in (f"/proc/{process.pid}/{file}" for file in
                     ("fd", "maps", "environ", "map_files")):
            done = subprocess.run([*user(OTHER_PROCESS), "cat" if "fd" not in name else "ls", name],
                                  check=False, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertNotEqual((name, done.returncode), (name, 0))
        done = subprocess.run([*user(OTHER_PROCESS), "cat", self.path("trace")], check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        self.assertNotEqual(done.returncode, 0)
        listed = self.tool("list", process.pid, prefix=user(OTHER_PROCESS))
        self.assertNotEqual(listed.returncode, 0)
        self.assertNotIn(b"Till", listed.stdout)


    def test_counters_are_served_on_this_machine_alone(self):
        process = self.start()
        self.socket_of(process)
        server = subprocess.Popen([RINGPIPE, "counters", "serve", "-p", str(process.pid),
                                   "--counters", "Evil-Counters", "--port", "0"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=self.log, env=self.environment())
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait, PATIENCE)
        self.addCleanup(server.terminate)
        said = server.stdout.readline()
        if not said and "built without" in self.said():
            self.skipTest("built without libmicrohttpd")
        port = int(re.fullmatch(rb"http://127\.0\.0\.1:(\d+)/metrics\n", said)[1])
        listens = []
        for family in ("tcp", "tcp6"):
            with contextlib.suppress(FileNotFoundError), \
                    open("/proc/net/" + family, encoding="ascii") as sockets:
                listens += [row.split()[1] for row in sockets if f":{port:04X} " in row and
                            row.split()[3] == "0A"]
        self.assertEqual(listens, [f"0100007F:{port:04X}"])

    @needs_root
    def test_kernel_events_of_a_process_are_for_its_user(self):
        """Even if the program has capabilities that its caller lacks."""
        if not KERNEL:
            self.skipTest("built without ringpipe-kernel")
        program = self.copy(KERNEL, 0, 0, 0o755)
        process = self.start()
        for uid, is_refused in ((OTHER_PROCESS, True), (0, False)):
            done = subprocess.run([*user(uid), program, str(process.pid), "0", "1048576"],
                                  check=False, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, timeout=PATIENCE)
            self.assertEqual(b"another user" in done.stderr, is_refused, done.stderr)


class Terminal(Security):
    """Names, texts and values of a hostile process do not control the viewer's terminal."""

    def check(self, arguments):
        done = self.tool(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        for output in (done.stdout, done.stderr):
            text = output.decode()
            steering = {hex(ord(c)) for c in text
                        if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)}
            self.assertEqual((arguments, steering), (arguments, set()), text[:2000])
            # A separate line would look like output of ringpipe.
            self.assertFalse("\nringpipe: all is well" in text, text[:2000])
        return done.stdout

    def test_no_command_prints_control_characters_of_a_process(self):
        name = "evil\033[2J\u009b2J\a\r\nringpipe: all is well\177"
        process = self.start(name, executable=HOST)
        self.socket_of(process)
        pid = process.pid
        forms = ((), ("--format=json",), ("--format=csv",))
        counters = (*(("collect", *form) for form in forms), ("monitor",))
        live = [*(("ps", *form) for form in forms), *(("list", pid, *form) for form in forms),
                ("collect", "-p", pid, "--duration", "1", "--providers", "*"),
                *(("counters", how, "-p", pid, "--counters", "Evil-Counters", "--duration", "2",
                   *more) for how, *more in counters)]
        for command, output in zip(live, self.at_once(self.check, live)):
            self.assertTrue(command[0] == "collect" or b"evil" in output, command)
        trace, = glob.glob(self.path("*.nettrace"))
        for form in forms:
            self.check(("stacks", pid, *form))
            for more in (form, ("events", *form)):
                self.assertTrue(b"evil" in self.check(("report", trace, *more)), more)


class Code(Security):
    """The code that is loaded and executed."""

    def mapped(self, process):
        with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
            return maps.read()

    def lay_out(self):
        """Creates a folder with an attacker's modules and helper."""
        folder = self.folder("theirs")
        for name in ("libringpipe-lttng.so", "libringpipe-symbols.so"):
            shutil.copy(MODULE, os.path.join(folder, name))
        with open(os.path.join(folder, "ringpipe-dump"), "w", encoding="ascii") as helper:
            helper.write(f"#!/bin/sh\necho >{folder}/was-run\n")
        os.chmod(os.path.join(folder, "ringpipe-dump"), 0o755)
        return folder

    def test_neither_working_directory_nor_first_argument_choose_modules(self):
        folder = self.lay_out()
        for name, cwd in (("./host", folder), (folder + "/host", "/")):
            with self.subTest(name):
                process = self.start(name, executable=STATIC, cwd=cwd, RINGPIPE_LTTNG="1")
                self.assertFalse(folder in self.mapped(process))
                self.end(process)

    def test_neither_working_directory_nor_first_argument_choose_the_dump_helper(self):
        folder = self.lay_out()
        for name, cwd in (("./host", folder), (folder + "/host", "/")):
            with self.subTest(name):
                process = self.start(name, executable=STATIC, cwd=cwd)
                self.socket_of(process)
                # The library finds the helper of an installation, or none.
                self.tool("dump", process.pid, "-o", self.path("core"), "--force")
                self.assertFalse(os.path.exists(folder + "/was-run"))
                self.end(process)


    def test_dump_helper_next_to_the_program_gets_no_environment(self):
        folder = self.folder("own")
        program = shutil.copy(STATIC, folder)
        helper = os.path.join(folder, "ringpipe-dump")
        with open(helper, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n/usr/bin/env >{folder}/part\nmv {folder}/part {folder}/seen\n")
        os.chmod(helper, 0o755)
        process = self.start(program)
        self.socket_of(process)
        self.tool("dump", process.pid, "-o", self.path("core"))
        eventually(lambda: os.path.exists(folder + "/seen"), "the helper")
        with open(folder + "/seen", encoding="utf-8") as seen:
            names = {line.partition("=")[0] for line in seen}
        # The shell itself sets these variables.
        self.assertLessEqual(names, {"PWD", "OLDPWD", "SHLVL", "_"})


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("usage: security_test.py HOST STATIC_HOST RINGPIPE MODULE [unittest arguments]")
    KERNEL = os.environ.get("KERNEL")
    HOST, STATIC, RINGPIPE, MODULE = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))
    unittest.main(verbosity=2)
