# SPDX-License-Identifier: MIT
"""ringpipe record reads symbols in another thread, while it records.

The recordings are long enough for functions to get names before the end. In a build with
ThreadSanitizer, they would also show data races between the two threads. Environment: RINGPIPE,
HOST, ENABLE_SHIM_LIBRARY, RECORD (empty: not built), SANITIZERS.
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile

import record_case
from record_case import HOST, PATIENCE, TOOL, WITHOUT_LEAKS, Case, drive

SHIM = os.environ["ENABLE_SHIM_LIBRARY"]


def functions_of(path):
    """Return the names of the functions in the trace, which may grow meanwhile."""
    copy = f"{path}.copy"
    shutil.copyfile(path, copy)
    done = subprocess.run([TOOL, "report", "--format", "json", "--top", "100000", copy, "cpu"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                          timeout=PATIENCE)
    rows = json.loads(done.stdout or b"[]")
    return {row["function"] for row in rows}


class Symbols(Case):
    def test_functions_have_names_before_the_recording_ends(self):
        # Processes that end and programs that are replaced change what the reader may need.
        script = f"while :; do '{HOST}' 50; '{HOST}' 50 exec; '{HOST}' 50 code; done"
        with drive.running(["sh", "-c", script], stdout=subprocess.DEVNULL) as host, \
             drive.running([TOOL, "record", "-q", "-f", "--providers", "none", "-p", str(host.pid),
                            "-o", self.trace], stderr=subprocess.PIPE) as recorder:
            drive.wait_for(lambda: os.path.exists(self.trace) and
                           "innermost" in functions_of(self.trace), "names of functions")
            self.assertIsNone(recorder.poll())
            recorder.send_signal(signal.SIGINT)
            with recorder.stderr:
                errors = recorder.stderr.read()
            recorder.wait(PATIENCE)
        self.assertEqual(recorder.returncode, 0, errors)
        self.assertLessEqual({"innermost", "generated function"}, functions_of(self.trace))

    def record_to_its_end(self, *numbers):
        """Record a program for a second, and send signals when that second has passed. Return the
        functions in the trace, and the status and the messages of the recorder."""
        folder = tempfile.mkdtemp(dir=os.path.dirname(self.trace))
        end = os.path.join(folder, "end")
        os.mkfifo(end)
        with drive.running([HOST, "600000"], stdout=subprocess.DEVNULL) as host, \
             drive.running([TOOL, "record", "-q", "-p", str(host.pid), "-d", "1", "-o", self.trace],
                           env={**WITHOUT_LEAKS, "LD_PRELOAD": SHIM, "DISABLE_SHIM": folder},
                           stderr=subprocess.PIPE, text=True) as recorder:
            drive.wait_for(lambda: os.path.exists(os.path.join(folder, "begin")), "the end",
                           [recorder])
            for number in numbers:
                recorder.send_signal(number)
            os.close(os.open(end, os.O_WRONLY))
            with recorder.stderr:
                errors = recorder.stderr.read()
            recorder.wait(PATIENCE)
        return functions_of(self.trace), recorder.returncode, errors

    def test_a_first_interrupt_after_the_duration_leaves_the_trace_complete(self):
        names, status, errors = self.record_to_its_end(signal.SIGINT)
        self.assertEqual(status, 0, errors)
        self.assertIn("innermost", names)

    @record_case.in_one_of_three
    def test_a_second_interrupt_ends_the_search_for_names_and_leaves_a_whole_file(self):
        names, status, errors = self.record_to_its_end(signal.SIGINT, signal.SIGTERM)
        self.assertEqual(status, 130, errors)
        # The search begins after five seconds of a recording, which may take so long under load.
        self.assertNotIn("innermost", names)
        subprocess.run([TOOL, "report", self.trace], stdout=subprocess.DEVNULL, check=True,
                       timeout=PATIENCE)


if __name__ == "__main__":
    record_case.require_recorder()
    record_case.unittest.main()
