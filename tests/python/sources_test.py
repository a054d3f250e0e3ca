#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The arguments of ringpipe.open(), the end of a blocked read, and leaks.

Environment: ZSTD=1 if the module reads compressed traces; SANITIZE, the build's sanitizers.
"""
import gc
import gzip
import io
import mmap
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import unittest
import zipfile

import ringpipe

import traces

try:
    import _testcapi
except ImportError:  # Python is built without its own tests
    _testcapi = None

ORDERS = [0, 1, 2]
PATIENCE_S = 60


def orders_of(source):
    with ringpipe.open(source) as trace:
        return [event["order_id"] for event in trace]


def compressed(*parts):
    return b"".join(subprocess.run(["zstd", "-q", "--check"], input=part, check=True,
                                   stdout=subprocess.PIPE).stdout for part in parts)


class Sources(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ringpipe-python-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.data = traces.orders()
        self.path = os.path.join(self.folder, "zoë.nettrace")
        pathlib.Path(self.path).write_bytes(self.data)

    def test_a_path_may_be_text_bytes_or_an_object(self):
        self.assertEqual(orders_of(self.path), ORDERS)
        self.assertEqual(orders_of(pathlib.Path(self.path)), ORDERS)

        class Encoded:
            def __fspath__(path):
                return os.fsencode(self.path)
        self.assertEqual(orders_of(Encoded()), ORDERS)

    def test_bytes_are_a_trace_in_memory(self):
        with open(self.path, "rb") as file, \
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            for source in (self.data, bytearray(self.data), memoryview(self.data), memory):
                self.assertEqual(orders_of(source), ORDERS)
        self.assertEqual(orders_of(memoryview(b"xx" + self.data)[2:]), ORDERS)
        self.assertRaises(BufferError, ringpipe.open, memoryview(self.data)[::2])

    def test_a_file_is_read_from_its_position(self):
        with open(self.path, "wb") as file:
            file.write(b"first line\n" + self.data)
        for buffering in (-1, 0):
            with open(self.path, "rb", buffering) as file:
                file.readline()
                self.assertEqual(orders_of(file), ORDERS)
                self.assertFalse(file.closed)

    def test_files_that_are_no_descriptors_are_read(self):
        archive = os.path.join(self.folder, "machine.zip")
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("machine.nettrace", self.data)
        with zipfile.ZipFile(archive) as file, file.open("machine.nettrace") as member:
            self.assertEqual(orders_of(member), ORDERS)
        with gzip.open(self.path + ".gz", "wb") as file:
            file.write(self.data)
        with gzip.open(self.path + ".gz") as file:
            self.assertEqual(orders_of(file), ORDERS)
        self.assertEqual(orders_of(io.BytesIO(self.data)), ORDERS)

    def test_a_descriptor_stays_open(self):
        one, other = socket.socketpair()
        with one, other:
            other.sendall(self.data)
            other.shutdown(socket.SHUT_WR)
            self.assertEqual(orders_of(one), ORDERS)
            one.getsockname()
        fd = os.open(self.path, os.O_RDONLY)
        self.assertEqual(orders_of(fd), ORDERS)
        os.close(fd)

    def test_a_descriptor_without_blocking_is_waited_for(self):
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        os.write(write_end, self.data[:-1])

        def finish():
            os.write(write_end, self.data[-1:])
            os.close(write_end)

        writer = threading.Thread(target=finish)
        with ringpipe.open(read_end) as trace:
            events = [next(trace) for _ in ORDERS]
            writer.start()
            self.assertEqual(list(trace), [])
            self.assertTrue(trace.stats.ended)
        writer.join()
        self.assertEqual([event["order_id"] for event in events], ORDERS)
        os.close(read_end)

    def test_standard_input_gives_the_events_of_a_pipe(self):
        program = "import ringpipe, sys; print([e['order_id'] for e in ringpipe.open(sys.stdin)])"
        done = subprocess.run([sys.executable, "-c", program], input=self.data, check=True,
                              stdout=subprocess.PIPE)
        self.assertEqual(done.stdout.decode().strip(), str(ORDERS))

    def test_errors_of_the_system_are_os_errors_with_the_name(self):
        for path, kind in ((self.path + "no", FileNotFoundError), (self.folder,
                                                                   IsADirectoryError)):
            with self.assertRaises(kind) as caught:
                ringpipe.open(path)
            self.assertEqual(caught.exception.filename, path)
        self.assertRaises(OSError, ringpipe.open, 10**6)
        self.assertRaises(ValueError, ringpipe.open, "a\0b")

    def test_other_objects_are_refused(self):
        for source in (None, 1.5, [], object()):
            self.assertRaises(TypeError, ringpipe.open, source)
        self.assertRaises(ValueError, ringpipe.open, -1)

    def test_errors_of_a_files_methods_reach_the_caller(self):
        class Bad:
            def __init__(self, *answers):
                self.answers = list(answers)

            def read(self, size):
                answer = self.answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                return answer

        for answer, kind in ((EOFError("x"), EOFError), ("text", TypeError),
                             (None, BlockingIOError), (b"x" * 300_000, ValueError)):
            self.assertRaises(kind, ringpipe.open, Bad(answer))
            trace = ringpipe.open(Bad(self.data[:4], self.data[4:400], answer, b""))
            self.assertRaises(kind, list, trace)
            self.assertRaises(ringpipe.Error, list, trace)

    def test_a_compressed_trace_is_decompressed(self):
        for source in (compressed(self.data), compressed(self.data[:300], self.data[300:])):
            self.assertEqual(orders_of(source), ORDERS)
            self.assertEqual(orders_of(io.BytesIO(source)), ORDERS)
            pathlib.Path(self.path + ".zst").write_bytes(source)
            self.assertEqual(orders_of(self.path + ".zst"), ORDERS)

    def test_a_damaged_frame_costs_only_the_events_in_it(self):
        data, offset = traces.in_two_blocks()
        frames = [compressed(data[:offset]), compressed(data[offset:])]
        broken = bytearray(frames[1])
        broken[-1] ^= 1
        events = []
        with self.assertRaisesRegex(ringpipe.Error, "a damaged frame of zstd: .* at offset"):
            for event in ringpipe.open(frames[0] + broken):
                events.append(event)
        self.assertEqual([event["order_id"] for event in events][:2], traces.NUMBERS[:2])
        self.assertRaises(ringpipe.Incomplete, list, ringpipe.open(frames[0] + frames[1][:9]))
        with self.assertRaisesRegex(ringpipe.Error, "a damaged frame of zstd"):
            ringpipe.open(b"\x28\xb5\x2f\xfd" + b"\xff" * 50)


    def test_no_byte_of_a_damaged_frame_is_used_before_its_checksum_is_read(self):
        plain = b"".join(traces.long_trace(60, range(1000)))
        frame = bytearray(compressed(plain[:1 << 20]))
        frame[-1] ^= 1

        class Pieces:
            """A file whose method read() stops before the checksum of the frame."""

            at = 0

            def read(self, size):
                end = len(frame) if self.at >= len(frame) - 4 else len(frame) - 4
                begin, self.at = self.at, min(self.at + size, end)
                return bytes(frame[begin:self.at])

        self.assertGreater(len(plain), 1 << 20)
        with self.assertRaisesRegex(ringpipe.Error, "a damaged frame of zstd"):
            ringpipe.open(Pieces())


class WithoutZstd(unittest.TestCase):
    def test_a_compressed_trace_names_the_command_that_helps(self):
        with self.assertRaisesRegex(ringpipe.Error, "zstd -d"):
            ringpipe.open(b"\x28\xb5\x2f\xfd" + bytes(50))


def wait_until_asleep(pid):
    """Wait until the only thread of a process blocks in a system call."""
    end = time.monotonic() + PATIENCE_S
    while pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "S":
        if time.monotonic() > end:
            raise TimeoutError(pid)
        time.sleep(0.001)


class Interrupt(unittest.TestCase):
    """Ctrl-C ends a read that waits for a pipe, in open() and in a loop."""

    PROGRAM = """if True:
        import signal, sys, ringpipe
        def once(*_):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            raise KeyboardInterrupt
        signal.signal(signal.SIGINT, once)
        try:
            print('ready', flush=True)
            for event in ringpipe.open(SOURCE):
                print(event['order_id'], flush=True)
        except KeyboardInterrupt:
            print('interrupted')
        """

    def interrupted(self, source, data, lines):
        program = self.PROGRAM.replace("SOURCE", source)
        with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            self.addCleanup(process.kill)
            process.stdin.write(data)
            process.stdin.flush()
            got = [process.stdout.readline().decode().strip() for _ in range(1 + lines)]
            wait_until_asleep(process.pid)
            # Repeatedly: a signal just before the system call does not end it.
            for _ in range(10 * PATIENCE_S):
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(0.1)
                    break
                except subprocess.TimeoutExpired:
                    pass
            got.append(process.stdout.read().decode().strip())
        self.assertEqual(got, ["ready", *map(str, range(lines)), "interrupted"])

    def test_a_blocked_read_of_a_path_or_a_descriptor_is_interrupted(self):
        for source in ("'/dev/stdin'", "0", "sys.stdin"):
            for size, lines in ((0, 0), (-1, 3)):
                with self.subTest(source=source, lines=lines):
                    self.interrupted(source, traces.orders()[:size], lines)

    def test_an_open_that_waits_for_the_writer_of_a_fifo_is_interrupted(self):
        folder = tempfile.mkdtemp(prefix="ringpipe-python-")
        self.addCleanup(shutil.rmtree, folder)
        os.mkfifo(os.path.join(folder, "fifo"))
        self.interrupted(repr(os.path.join(folder, "fifo")), b"", 0)


def use_everything(data):
    """Use each way of the module once, also those that fail."""
    with ringpipe.open(data) as trace:
        trace.info, trace.stats, trace.closed
        for event in trace:
            for name in dir(event):
                getattr(event, name)
            repr(event)
            event.get("none"), event.get("n")
    for bad in (data[:-30], data[:40], data[:200] + b"\xff" * 99, 1.5):
        try:
            for event in ringpipe.open(bad):
                event["none"]
        except (ringpipe.Error, KeyError, TypeError):
            pass
    list(zip(ringpipe.open(io.BytesIO(data)), range(1)))


class NoMemory(unittest.TestCase):
    def test_each_failed_allocation_of_python_is_a_memory_error(self):
        """SystemError would be a function that missed the failure."""
        for data in (traces.with_ids_v6(), traces.with_ids_v4(), traces.all_types_v6()[0]):
            use_everything(data)
            failed = 0
            for number in range(800):
                _testcapi.set_nomemory(number, number + 1)
                try:
                    use_everything(data)
                except MemoryError:
                    failed += 1
                finally:
                    _testcapi.remove_mem_hooks()
            self.assertGreater(failed, 100)


class Leaks(unittest.TestCase):
    def test_nothing_is_leaked(self):
        data = [traces.with_ids_v6(), traces.with_ids_v4(), traces.all_types_v6()[0],
                traces.all_types_v4()]

        def use(times):
            for _ in range(times):
                for one in data:
                    use_everything(one)
            gc.collect()

        def references():
            return [sys.getrefcount(kind) for kind in (ringpipe.Trace, ringpipe.Event,
                                                       ringpipe.Error, ringpipe.Stats)]

        use(3)
        first = references()
        tracemalloc.start()
        use(2)
        before = tracemalloc.take_snapshot()
        use(10)
        after = tracemalloc.take_snapshot()
        tracemalloc.stop()
        grown = sum(row.size_diff for row in after.compare_to(before, "filename")
                    if "tracemalloc" not in row.traceback[0].filename)
        # One pointer per use would be 8 bytes * 10 * 4 * the uses of each trace.
        self.assertLess(grown, 4096)
        self.assertEqual(references(), first)

    @unittest.skipUnless(os.environ["SANITIZE"] == "none", "a sanitizer delays each free()")
    def test_memory_is_bounded_while_a_long_trace_is_read(self):
        class Long:
            """A file of 400,000 events; its bytes never exist together."""

            parts, rest = traces.long_trace(400, range(1000)), b""

            def read(self, size):
                self.rest = self.rest or next(self.parts, b"")
                given, self.rest = self.rest[:size], self.rest[size:]
                return given

        trace, peaks = ringpipe.open(Long()), []
        for count, event in enumerate(trace, 1):
            self.assertEqual(event["order_id"], (count - 1) % 1000)
            if count % 100_000 == 0:
                peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        self.assertEqual((count, trace.stats.lost), (400_000, 0))
        self.assertLess(peaks[-1] - peaks[0], 4096)  # kilobytes


# Removed, not skipped, because no machine needs all of them.
if _testcapi is None:
    del NoMemory
if os.environ["ZSTD"] == "1":
    del WithoutZstd
else:
    del Sources.test_a_compressed_trace_is_decompressed
    del Sources.test_a_damaged_frame_costs_only_the_events_in_it
    del Sources.test_no_byte_of_a_damaged_frame_is_used_before_its_checksum_is_read

if __name__ == "__main__":
    unittest.main()
