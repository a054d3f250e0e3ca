#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The context of a process and of its threads, read as OpenTelemetry's OTEPs 4719 and 4947 say.

usage: context_test.py HOST LIBRARY [unittest arguments]

This reader knows nothing of the library but the name of its file. protoc decodes the payload.
"""
import ctypes
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HOST = None
LIBRARY = None
PATIENCE = 120
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
NAMES = ("[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]", "/memfd:OTEL_CTX")
HEADER = struct.Struct("<8sIIQQ")
RECORD = struct.Struct("<16s8sBBH")
PTRACE_GETREGS, PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 12, 17, 0x4206, 0x4207
FS_BASE = 21    # index in struct user_regs_struct of x86-64
EEXIST, E2BIG, EINVAL = 17, 7, 22

# The numbers of the fields are OpenTelemetry's.
SCHEMA = """
syntax = "proto3";
message Array { repeated Value values = 1; }
message Value { string text = 1; Array array = 5; }
message Attribute { string key = 1; Value value = 2; }
message Resource { repeated Attribute attributes = 1; }
message Context { Resource resource = 1; repeated Attribute attributes = 2; }
"""

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def read_memory(pid, address, size):
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(address)
        return memory.read(size)


def mappings(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            words = line.rstrip("\n").split(None, 5)
            yield int(words[0].split("-")[0], 16), words[5] if len(words) > 5 else ""


def context_of(pid):
    """Return (time, payload); None: the process has no context."""
    for address, name in mappings(pid):
        if not name.startswith(NAMES):
            continue
        signature, version, size, published, payload = \
            HEADER.unpack(read_memory(pid, address, HEADER.size))
        if signature != b"OTEL_CTX" or version != 2 or not published:
            continue
        return published, read_memory(pid, payload, size)
    return None


def attributes_of(pid):
    """Return the attributes of the resource, and the other ones."""
    with tempfile.NamedTemporaryFile("w", suffix=".proto") as schema:
        schema.write(SCHEMA)
        schema.flush()
        text = subprocess.run(
            ["protoc", "--decode=Context", "-I", os.path.dirname(schema.name), schema.name],
            input=context_of(pid)[1], check=True, stdout=subprocess.PIPE).stdout.decode()
    found = {"resource": [], "context": []}
    for indent, row in re.findall(r"^( *)attributes {\n((?:\1  .*\n)*)\1}", text, re.M):
        key = re.search(r'key: "(.*)"', row)[1]
        value = re.search(r'text: "(.*)"', row)
        found["resource" if indent else "context"].append(
            (key, "array" if "array {" in row else value[1] if value else ""))
    assert len(dict(found["resource"])) == len(found["resource"])
    return dict(found["resource"]), dict(found["context"])


def thread_offset(pid):
    """Return where the variable is, from the thread's pointer, by the loader's TLS descriptor."""
    symbols = subprocess.run(["readelf", "-rW", LIBRARY], check=True, stdout=subprocess.PIPE,
                             text=True).stdout
    slot = re.search(r"^([0-9a-f]+) .* (R_X86_64_(?:TLSDESC|TPOFF64)) .* otel_thread_ctx_v1",
                     symbols, re.M)
    start = min(address for address, name in mappings(pid)
                if os.path.realpath(name) == os.path.realpath(LIBRARY))
    at = start + int(slot[1], 16) + (8 if slot[2] == "R_X86_64_TLSDESC" else 0)
    return struct.unpack("<q", read_memory(pid, at, 8))[0]


class Stopped:
    """A thread that does not run while its record is read."""
    def __init__(self, thread):
        self.thread = thread

    def __enter__(self):
        if libc.ptrace(PTRACE_SEIZE, self.thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), "PTRACE_SEIZE")
        libc.ptrace(PTRACE_INTERRUPT, self.thread, None, None)
        self.wait()
        return self

    def wait(self):
        """Wait for the stop. Signals for the thread come first, and it gets them."""
        os.waitpid(self.thread, 0x40000000)

    def thread_pointer(self):
        regs = (ctypes.c_uint64 * 27)()
        if libc.ptrace(PTRACE_GETREGS, self.thread, None, regs) != 0:
            raise OSError(ctypes.get_errno(), "PTRACE_GETREGS")
        return regs[FS_BASE]

    def __exit__(self, *_):
        libc.ptrace(PTRACE_DETACH, self.thread, None, None)


def ids_of(pid, thread):
    """Return the trace id and the span id in digits; None: the thread has none."""
    with Stopped(thread) as stopped:
        at = stopped.thread_pointer() + thread_offset(pid)
        record = struct.unpack("<Q", read_memory(pid, at, 8))[0]
        if not record:
            return None
        trace, span, valid, _, size = RECORD.unpack(read_memory(pid, record, RECORD.size))
    assert record % 2 == 0 and size == 0
    return (trace.hex(), span.hex()) if valid == 1 else None


class Context(unittest.TestCase):
    def start(self, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("OTEL_", "RINGPIPE_"))}
        environment.update(variables, RINGPIPE_DIAGNOSTICS="0", RINGPIPE_LTTNG="0")
        self.host = subprocess.Popen([HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(self.end, self.host)

    @staticmethod
    def end(host):
        host.kill()
        host.communicate()

    def ask(self, *words):
        self.host.stdin.write(" ".join(words) + "\n")
        self.host.stdin.flush()
        self.assertTrue(select.select([self.host.stdout], [], [], PATIENCE)[0])
        return self.host.stdout.readline().strip()

    def test_attributes_are_those_of_the_program_then_of_the_environment(self):
        self.start(OTEL_SERVICE_NAME="shop",
                   OTEL_RESOURCE_ATTRIBUTES="service.name=no,deployment.environment.name=a%20b%2Cc,"
                                            "empty=,wrong, host.name = 100%")
        self.assertEqual(self.ask("publish", "service.version=1.2", "host.name=mine"), "0")
        resource, others = attributes_of(self.host.pid)
        self.assertRegex(resource.pop("service.instance.id"),
                         r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        self.assertRegex(resource.pop("telemetry.sdk.version"), r"^\d+\.\d+\.\d+$")
        self.assertEqual(resource, {
            "service.version": "1.2", "host.name": "mine", "service.name": "shop",
            "deployment.environment.name": "a b,c", "empty": "",
            "telemetry.sdk.name": "ringpipe", "telemetry.sdk.language": "cpp"})
        self.assertEqual(others, {"threadlocal.schema_version": "tls_v1",
                                  "threadlocal.attribute_key_map": "array"})

    def test_a_service_without_a_name_is_unknown(self):
        self.start()
        self.assertEqual(self.ask("publish"), "0")
        self.assertEqual(attributes_of(self.host.pid)[0]["service.name"],
                         "unknown_service:" + os.path.basename(HOST))

    def test_the_variable_publishes_at_load(self):
        self.start(RINGPIPE_PROCESS_CONTEXT="1", OTEL_SERVICE_NAME="early")
        self.ask("none")
        self.assertEqual(attributes_of(self.host.pid)[0]["service.name"], "early")

    def test_nothing_is_published_unless_requested(self):
        self.start()
        own = self.ask("parent", PARENT)
        self.assertTrue(own)
        self.assertIsNone(context_of(self.host.pid))
        self.assertIsNone(ids_of(self.host.pid, self.host.pid))

    def test_a_later_call_replaces_the_attributes_and_changes_the_time(self):
        self.start()
        times = set()
        for number in range(20):
            self.assertEqual(self.ask("publish", f"service.version={number}"), "0")
            times.add(context_of(self.host.pid)[0])
            self.assertEqual(attributes_of(self.host.pid)[0]["service.version"], str(number))
        self.assertEqual(len(times), 20)
        names = [name for _, name in mappings(self.host.pid) if name.startswith(NAMES)]
        self.assertEqual(len(names), 1)

    def test_the_context_of_other_code_stays_the_only_one(self):
        self.start()
        self.ask("foreign")
        self.assertEqual(self.ask("publish"), str(-EEXIST))
        names = [name for _, name in mappings(self.host.pid) if name.startswith(NAMES)]
        self.assertEqual(len(names), 1)

    def test_wrong_and_too_many_attributes_are_refused(self):
        self.start()
        self.assertEqual(self.ask("publish", "name"), str(-EINVAL))
        self.assertEqual(self.ask("publish", "=value"), str(-EINVAL))
        self.assertEqual(self.ask("publish", *[f"k{i}=v" for i in range(129)]), str(-E2BIG))
        self.assertEqual(self.ask("publish", "k=" + "v" * 66000), str(-E2BIG))
        self.assertIsNone(context_of(self.host.pid))
        self.assertEqual(self.ask("publish", "k=" + "v" * 300, "l=" + "w" * 20000), "0")
        resource = attributes_of(self.host.pid)[0]
        self.assertEqual((resource["k"], resource["l"]), ("v" * 300, "w" * 20000))

    def test_a_forked_child_has_no_context(self):
        self.start()
        self.ask("publish")
        self.ask("parent", PARENT)
        child = int(self.ask("fork"))
        self.assertIsNone(context_of(child))
        self.assertIsNotNone(context_of(self.host.pid))

    def test_a_forked_child_publishes_a_context_of_its_own(self):
        self.start()
        self.ask("publish")
        child = int(self.ask("fork-publisher"))
        end = time.monotonic() + PATIENCE
        while not context_of(child):
            self.assertLess(time.monotonic(), end)
        ids = [attributes_of(pid)[0]["service.instance.id"] for pid in (self.host.pid, child)]
        self.assertNotEqual(*ids)

    def test_each_thread_shows_its_span(self):
        self.start()
        self.ask("publish")
        own = self.ask("parent", PARENT)
        self.assertEqual(ids_of(self.host.pid, self.host.pid), (TRACE, own.split("-")[2]))
        other = PARENT.replace("0af7", "1234")
        thread, own_of_thread = self.ask("thread", other).split()
        self.assertEqual(ids_of(self.host.pid, int(thread)),
                         (TRACE.replace("0af7", "1234"), own_of_thread.split("-")[2]))
        self.assertEqual(ids_of(self.host.pid, self.host.pid), (TRACE, own.split("-")[2]))

    def test_an_activity_of_the_process_alone_is_no_span(self):
        self.start()
        self.ask("publish")
        self.ask("parent", PARENT)
        self.ask("begin")
        self.assertIsNone(ids_of(self.host.pid, self.host.pid))
        self.ask("parent", PARENT)
        self.assertIsNotNone(ids_of(self.host.pid, self.host.pid))
        self.ask("none")
        self.assertIsNone(ids_of(self.host.pid, self.host.pid))

    def test_ids_are_never_torn_while_handlers_set_others(self):
        self.start()
        self.ask("publish")
        self.ask("handlers")
        seen = 0
        end = time.monotonic() + PATIENCE
        while seen < 300:
            self.assertLess(time.monotonic(), end)
            ids = ids_of(self.host.pid, self.host.pid)
            if ids:
                trace, span = ids
                self.assertEqual({trace, span + span}, {trace[:2] * 16})
                seen += 1


if __name__ == "__main__":
    HOST, LIBRARY = sys.argv[1:3]
    if os.uname().machine != "x86_64":
        print("registers are read as on x86-64", file=sys.stderr)
        sys.exit(77)
    if not shutil.which("protoc") or not shutil.which("readelf"):
        print("no protoc or no readelf", file=sys.stderr)
        sys.exit(77)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
