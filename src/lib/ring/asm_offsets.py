#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Generates a header for assembly from the markers in an object file.

usage: asm_offsets.py OBJECT HEADER

asm_offsets.c emits one marker, the text `->NAME NUMBER<-`, for each number.
"""
import re
import sys

MARKER = re.compile(rb'->(\w+) (-?\d+)<-')


def main():
    source, header = sys.argv[1:]
    with open(source, 'rb') as file:
        numbers = dict(MARKER.findall(file.read()))
    if not numbers:
        sys.exit(f'{source}: no markers; was it compiled to machine code?')
    lines = ['/* Made by asm_offsets.py; any change is lost. */']
    lines += [f'#define {name.decode()} {number.decode()}' for name, number in numbers.items()]
    with open(header, 'w', encoding='ascii') as file:
        file.write('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
