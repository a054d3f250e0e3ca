#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""If the read of a symbol file blocks, the end of a session is delayed but not prevented.

usage: hanging_test.py HOST LIBRARY MODULE STRICT: the module lies next to the library in a folder.
"""
import json
import os
import subprocess
import sys
import tempfile

PATIENCE = 120


def main(host, library, module, strict):
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.realpath(library), os.path.join(folder, "libringpipe.so.1"))
        os.symlink(os.path.realpath(module), os.path.join(folder, "libringpipe-symbols.so"))
        trace = os.path.join(folder, "t.nettrace")
        environment = dict(os.environ, LD_LIBRARY_PATH=folder, RINGPIPE_DIAGNOSTICS="0",
                           HANGING_UNTIL=os.path.join(folder, "answer"))
        subprocess.run([host, trace], env=environment, check=True, timeout=PATIENCE)
        done = subprocess.run([strict, "--serials", "Test-Hanging/mark:serial", trace],
                              stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
        found = json.loads(done.stdout)
        assert found["kinds"]["Test-Hanging/mark"] == 10, found
        assert found["missing"] == 0 and found["complete"], found


if __name__ == "__main__":
    main(*sys.argv[1:])
