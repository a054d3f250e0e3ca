#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The public headers as a later version may have them: every struct that may grow is longer. With
--first, as version 1 has them: every struct ends with the last member of its ..._SIZE_V1.

usage: later.py [--first] HEADERS OUTPUT [STAMP]

Structs whose bytes a declaration writes by the assembler stay as they are: a later version changes
those directives, too.
"""
import os
import re
import sys

WRITTEN = {"rp_provider_decl", "rp_event_decl", "rp_counter_decl", "rp_object"}
MEMBER = "\tuint64_t added_later[5];\n"


SIZES = re.compile(r"_SIZE_V1\s+(?:\\\s*)?RP_SIZE_THROUGH_\(struct (\w+),\s*(?:\\\s*)?(\w+)\)")


def change(text, is_first):
    for name, last in SIZES.findall(text):
        if name in WRITTEN:
            continue
        struct = re.search(rf"^struct {name} {{\n(.*?)^}}", text, re.DOTALL | re.MULTILINE)
        if not struct:
            raise SystemExit(f"struct {name} is not where its size is")
        body = struct[1]
        if is_first:
            # A member may be an array or a pointer to a function.
            ends = [member.end() for member in
                    re.finditer(rf"\b{last}(?:\[\w+\]|\)\([^;]*)?;[^\n]*\n", body)]
            body = body[:ends[-1]]
        else:
            body += MEMBER
        text = text[:struct.start(1)] + body + text[struct.end(1):]
    return text


def main():
    arguments = sys.argv[1:]
    is_first = arguments[0] == "--first"
    headers, output, *stamps = arguments[is_first:]
    for folder, _, names in os.walk(headers):
        to = os.path.join(output, os.path.relpath(folder, headers))
        os.makedirs(to, exist_ok=True)
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = change(file.read(), is_first)
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
