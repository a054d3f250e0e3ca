# SPDX-License-Identifier: MIT
"""ringpipe record reads symbols in another thread, while it records.

The recordings are long enough for functions to get names before the end. In a build with
ThreadSanitizer, they would also show data races between the two threads. Environment: RINGPIPE,
HOST, RECORD (empty: not built), SANITIZERS.
"""
import json
import os
import shutil
import signal
import subprocess

import record_case
from record_case import HOST, PATIENCE, TOOL, Case, drive

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


if __name__ == "__main__":
    record_case.require_recorder()
    record_case.unittest.main()
