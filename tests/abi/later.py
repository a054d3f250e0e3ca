#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The public headers as a later version may have them: every struct that may grow is longer.

usage: later.py HEADERS OUTPUT [STAMP]

Structs whose bytes a declaration writes by the assembler stay as they are: a later version changes
those directives, too.
"""
import os
import re
import sys

WRITTEN = {"rp_provider_decl", "rp_event_decl", "rp_counter_decl", "rp_object"}
MEMBER = "\tuint64_t added_later[5];\n"


def grow(text):
    for name in re.findall(r"_SIZE_V1 (?:\\\n\s*)?RP_SIZE_THROUGH_\(struct (\w+),", text):
        if name in WRITTEN:
            continue
        text, count = re.subn(rf"^(struct {name} \{{\n.*?)(^\}};)", rf"\1{MEMBER}\2", text, count=1,
                              flags=re.DOTALL | re.MULTILINE)
        if count != 1:
            raise SystemExit(f"struct {name} is not where its size is")
    return text


def main():
    headers, output, *stamps = sys.argv[1:]
    for folder, _, names in os.walk(headers):
        to = os.path.join(output, os.path.relpath(folder, headers))
        os.makedirs(to, exist_ok=True)
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = grow(file.read())
            path = os.path.join(to, name)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    if file.read() == text:
                        continue
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    for stamp in stamps:
        with open(stamp, "w", encoding="ascii"):
            pass


if __name__ == "__main__":
    main()
