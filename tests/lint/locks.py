#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Finds code that may wait for the loader's lock while it holds a lock that a constructor takes.

usage: locks.py LIBRARY [--module MODULE] [--list]

The script reads the machine code of the linked library (x86-64, with symbols and debug
information), follows every path through every function, and records the mutexes that may be held at
each call. Some mutexes are taken by fork handlers, or by constructors and destructors of objects
(rp_object_register, rp_object_unregister). No such mutex may be held where a function of FORBIDDEN
can be called.

The script identifies a mutex by its address, and a mutex in allocated memory by the source file
that locks it: it treats all such mutexes of one file as the same mutex. TARGETS lists the functions
that a call through a pointer may reach. A missing row is an error, and so is an unused one. HOST
represents a callback of the program: none may run while such a mutex is held.

--module analyses libringpipe-lttng.so as well. Its operations and its thread run under the
exporters' lock, so they may not call a function of FORBIDDEN. MODULE_FREE lists the exceptions.

--list prints the mutexes, and the calls through pointers while they are held.
"""
import argparse
import bisect
import collections
import re
import subprocess
import sys

import tree

CONSTRUCTORS = ['rp_object_register', 'rp_object_unregister']
FORBIDDEN = re.compile(
    r'^(dl(m?open|v?sym|close|error|info|addr1?)|pthread_(create|cancel|exit|atfork|once|join)|'
    r'thrd_create|__register_atfork|(at|on_|at_quick_)exit|sem_wait|'
    r'__cxa_(at_quick_exit|atexit|thread_\w+)|__tls_get_addr|iconv\w*|setlocale|newlocale|'
    r'strerror(_[rl])?|dcn?gettext|get(pw|gr|host|addr|serv|name)\w*|backtrace\w*|'
    r'fork|vfork|system|popen|syslog)$')
# dl_iterate_phdr(3) waits only for the lock of the list of objects. No constructor runs under that
# lock, so the call is safe if its callbacks lock nothing. In a child that was forked while another
# thread held the lock, the call never returns: only the mutexes of FILLED may be held there.
WALK = 'dl_iterate_phdr'
FILLED = {'host/mappings.c: table', 'unwind/loaded_objects.c: loader_lock'}
# Locking attempts and timed waits are not checked: they may delay a thread, but never block it.
LOCK, UNLOCK = 'pthread_mutex_lock', 'pthread_mutex_unlock'
HOST = 'HOST'    # a callback of the program
MODULE = 'MODULE'    # a function of libringpipe-lttng.so, which is analysed with --module
LIBC = 'LIBC'
# Runs once, before any other thread can use the library.
ONCE = 'library_init'

ADD = [('export/user_events.c', 'add'), ('export/tracers.c', 'add'), MODULE]
REMOVE = [('export/user_events.c', 'take_away'), ('export/tracers.c', 'take'), MODULE]
# (source file, calling function): functions that its calls through pointers may reach.
TARGETS = {
    ('base/thread.c', 'rp_thread_create'): [LIBC],    # __pthread_get_minstack
    # The allocator of a host, which may do what malloc(3) may do (host.h).
    ('base/heap.c', 'rp_heap_alloc'): [LIBC],
    ('base/heap.c', 'rp_heap_free'): [LIBC],
    ('base/heap.c', 'rp_heap_resize'): [LIBC],
    ('core/enable.c', 'rp_config_wants'): [('trigger/trigger.c', 'is_wanted')],
    ('core/exporters.c', 'rp_exporter_register'): ADD,
    ('core/exporters.c', 'rp_exporters_settle'): ADD,
    ('core/exporters.c', 'take_exports'): REMOVE,
    ('core/exporters.c', 'take_leave'): REMOVE,
    ('core/exporters.c', 'rp_exporters_fork_prepare'):
        [('export/user_events.c', 'fork_prepare'), MODULE],
    ('core/listing.c', 'rp_core_list_events'): [('diag/list_command.c', 'event_row')],
    ('counter/instrument.c', 'rp_counter_destroy'): [('counter/counter_thread.c', 'report_end')],
    ('counter/instrument.c', 'rp_counters_unregister'):
        [('counter/counter_thread.c', 'report_end')],
    ('nettrace/metadata.c', 'field_at'): [('nettrace/metadata.c', 'get_field')],
}

EXPORTERS = 'core/exporters.c: exporters'
OPERATIONS, THREAD = 'ops', 'watch'    # of the module
# The write function runs without the lock. In a forked child, the module creates its thread again.
MODULE_FREE = {'rp_lttng_write', 'after_fork_in_child'}
LIBRARY = 'LIBRARY'    # a function of libringpipe.so, which is analysed there
# As TARGETS, for the module. LTTng's functions, which take LTTng's locks, are not analysed.
MODULE_TARGETS = {
    ('modules/lttng/lttng_module.c', 'look_at'): [LIBRARY],    # rp_export_switch
    ('modules/lttng/lttng_module.c', 'on_add'): [LIBRARY],    # rp_export_switch
    ('modules/lttng/lttng_module.c', 'watch'): [LIBRARY],    # rp_exporters_lock, …_unlock
    ('modules/lttng/tracepoint.c', 'rp_lttng_event_create'):
        [('modules/lttng/lttng_module.c', 'name_is_taken')],
}

SAVED = ('rbx', 'rbp', 'r12', 'r13', 'r14', 'r15')
ARGUMENTS = ('rdi', 'rsi', 'rdx')
LINE = re.compile(r'^\s*([0-9a-f]+):\t(?:(?:lock|rep|repz|repnz|notrack|bnd|data16|cs) )*'
                  r'(\S+)\s*(.*)$')
LABEL = re.compile(r'^([0-9a-f]+) <(.+)>:$')
ADDRESS = re.compile(r'^([0-9a-f]+) <([^>]*)>')
DATA = re.compile(r'#\s*([0-9a-f]+) <')
RELATIVE = re.compile(r'^(-?(?:0x[0-9a-f]+)?)\((%\w+)\)$')


class Code:
    """The instructions by address, and the addresses where functions begin."""

    def __init__(self, library):
        text = subprocess.run(['objdump', '-d', '--no-show-raw-insn', library], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        self.names, self.at, self.next = {}, {}, {}
        last = None
        for line in text.splitlines():
            if match := LABEL.match(line):
                self.names[int(match.group(1), 16)] = match.group(2)
            elif match := LINE.match(line):
                address = int(match.group(1), 16)
                self.at[address] = (match.group(2), match.group(3))
                if last is not None:
                    self.next[last] = address
                last = address
        self.starts = {address for address, name in self.names.items()
                       if not name.endswith('.cold') and not name.endswith('@plt')}
        self.data = self.read_data(library)
        self.library = library
        self.places = {}

    @staticmethod
    def read_data(library):
        """Returns data objects as (start, end, name)."""
        rows = subprocess.run(['readelf', '-sW', library], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        found = set()
        for line in rows.splitlines():
            words = line.split()
            if len(words) == 8 and words[3] == 'OBJECT' and words[6] != 'UND':
                start = int(words[1], 16)
                found.add((start, start + int(words[2], 0), words[7].split('@')[0]))
        return sorted(found)

    def pointers_in(self, name):
        """Returns the addresses in this library to which the data object points."""
        rows = subprocess.run(['readelf', '-rW', self.library], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        return {int(addend, 16) for offset, addend
                in re.findall(r'^([0-9a-f]+) .* R_X86_64_RELATIVE +([0-9a-f]+)$', rows, re.M)
                for start, end, other in self.data
                if other == name and start <= int(offset, 16) < end}

    def object_at(self, address):
        for start, end, name in self.data:
            if start <= address < end:
                offset = address - start
                return f'{name}+{offset:#x}' if offset else name
        return None

    def locate(self, addresses):
        """Finds the source files of addresses."""
        wanted = [address for address in addresses if address not in self.places]
        if not wanted:
            return
        output = subprocess.run(['addr2line', '-e', self.library, *map(hex, wanted)], check=True,
                                stdout=subprocess.PIPE, text=True).stdout
        for address, place in zip(wanted, output.splitlines()):
            path = place.rsplit(':', 1)[0]
            self.places[address] = re.sub(r'^.*/src/(lib/)?', '', path)

    def name(self, start):
        self.locate([start])
        return (self.places[start], re.sub(r'\.(isra|part|constprop).*', '', self.names[start]))


def register(operand):
    """Returns the 64-bit register that an operand names, or None."""
    match = re.match(r'^%([re]?\w+)$', operand)
    if not match:
        return None
    name = match.group(1)
    if re.match(r'^r\d+', name):
        return re.match(r'^r\d+', name).group(0)
    for full in ('ax', 'bx', 'cx', 'dx', 'si', 'di', 'bp', 'sp'):
        if name.endswith(full):
            return 'r' + full
    return None


def split(operands):
    """Splits the operands, without objdump's comment."""
    text, parts, depth = operands.split('#')[0].strip(), [''], 0
    for char in text:
        depth += (char == '(') - (char == ')')
        if char == ',' and depth == 0:
            parts.append('')
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def step(values, mnemonic, operands):
    """Returns the addresses that registers and stack slots contain after an instruction."""
    parts = split(operands)
    target = parts[-1]
    key = register(target) or (target if '(%rsp)' in target or '(%rbp)' in target else None)
    if mnemonic.startswith('call'):
        return {name: value for name, value in values.items()
                if name in SAVED or name.startswith(('-', '0x', '('))}
    if key is None or mnemonic.startswith(('cmp', 'test', 'j', 'push', 'nop')):
        return values
    value = None
    if mnemonic == 'lea':
        if match := DATA.search(operands):
            value = int(match.group(1), 16)
        elif match := RELATIVE.match(parts[0]):
            base = values.get(register(match.group(2)))
            value = None if base is None else base + int(match.group(1) or '0', 16)
    elif mnemonic == 'mov' and len(parts) == 2:
        value = values.get(register(parts[0]) or parts[0])
    elif mnemonic == 'add' and parts[0].startswith('$'):
        base = values.get(key)
        value = None if base is None else base + int(parts[0][1:], 16)
    if values.get(key) == value:
        return values
    values = dict(values)
    values.pop(key, None)
    if value is not None:
        values[key] = value
    return values


def merge(one, other):
    return {key: value for key, value in one.items() if other.get(key) == value}


Call = collections.namedtuple('Call', 'at kind what arguments')    # kind: direct, extern, pointer


class Function:
    """The calls of a function, and for each call the calls that may follow it."""

    def __init__(self, code, start):
        self.code, self.start = code, start
        self.calls, self.after = {}, collections.defaultdict(set)
        self.leaves, self.known = set(), {}
        values = self.propagate()
        self.describe(values)

    def successors(self, address):
        if address not in self.known:
            self.known[address] = self.find_successors(address)
        return self.known[address]

    def find_successors(self, address):
        mnemonic, operands = self.code.at[address]
        following = self.code.next.get(address)
        if mnemonic.startswith(('ret', 'ud2', 'hlt')):
            return []
        if mnemonic.startswith('jmp'):
            match = ADDRESS.match(operands)
            if not match:
                return self.cases(address) if self.is_switch(address) else []
            target = int(match.group(1), 16)
            return [] if self.is_tail(target) else [target]
        if mnemonic.startswith('j'):
            match = ADDRESS.match(operands)
            target = int(match.group(1), 16)
            return [following] + ([] if self.is_tail(target) else [target])
        if following in self.code.starts or following is None:
            return []    # after a call that does not return
        return [following]

    def is_tail(self, target):
        return target in self.code.starts and target != self.start or \
            self.code.names.get(target, '').endswith('@plt')

    def is_switch(self, address):
        """Detects a jump through a table, which adds an offset to the table's address."""
        index = self.code.index[address]
        before = self.code.order[max(0, index - 6):index]
        return any(self.code.at[other][0] in ('movslq', 'movsxd') for other in before)

    def cases(self, address):
        """Returns possible targets of such a jump: the instructions after jumps and returns."""
        found = []
        behind = bisect.bisect_right(self.code.sorted_starts, address)
        end = self.code.sorted_starts[behind] if behind < len(self.code.sorted_starts) else \
            self.code.order[-1]
        for other in self.code.order[self.code.index[self.start]:]:
            if other >= end:
                break
            if self.code.at[other][0].startswith(('jmp', 'ret')) and \
                    self.code.next.get(other, end) < end:
                found.append(self.code.next[other])
        return found

    def propagate(self):
        values, todo = {self.start: {}}, [self.start]
        while todo:
            address = todo.pop()
            after = step(values[address], *self.code.at[address])
            for other in self.successors(address):
                if other not in self.code.at:
                    continue
                known = values.get(other)
                merged = after if known is None else merge(known, after)
                if known is None or merged != known:
                    values[other] = merged
                    todo.append(other)
        return values

    def call_at(self, address, values):
        mnemonic, operands = self.code.at[address]
        arguments = tuple(values.get(name) for name in ARGUMENTS)
        match = ADDRESS.match(operands)
        if match and (mnemonic.startswith('call') or mnemonic.startswith('j')):
            target, name = int(match.group(1), 16), match.group(2)
            if name.endswith('@plt'):
                return Call(address, 'extern', name[:-4], arguments)
            if mnemonic.startswith('call') or self.is_tail(target):
                return Call(address, 'direct', target, arguments)
        elif '*' in operands and (mnemonic.startswith('call') or
                                  mnemonic.startswith('jmp') and not self.is_switch(address)):
            return Call(address, 'pointer', operands, arguments)
        return None

    def describe(self, values):
        """Builds the graph of calls, without the instructions between them."""
        for address in values:
            if call := self.call_at(address, values[address]):
                self.calls[address] = call
        for source in [None, *self.calls]:
            seen = set()
            first = [self.start] if source is None else self.successors(source)
            if source is not None and not first:
                self.leaves.add(source)
            todo = [other for other in first if other in values]
            while todo:
                address = todo.pop()
                if address in seen:
                    continue
                seen.add(address)
                if address in self.calls:
                    self.after[source].add(address)
                    # A conditional jump to another function may not be taken.
                    if not self.code.at[address][0].startswith('j') or \
                            self.code.at[address][0].startswith('jmp'):
                        continue
                if self.code.at[address][0].startswith('ret'):
                    self.leaves.add(source)
                todo += [other for other in self.successors(address) if other in values]


class Analysis:
    def __init__(self, code, rows):
        self.code, self.rows = code, rows
        code.order = sorted(code.at)
        code.sorted_starts = sorted(code.starts)
        code.index = {address: index for index, address in enumerate(code.order)}
        self.functions = {start: Function(code, start) for start in code.starts}
        code.locate(code.starts)
        code.locate([call.at for function in self.functions.values()
                     for call in function.calls.values()])
        self.by_name = collections.defaultdict(list)
        for start in code.starts:
            self.by_name[code.name(start)].append(start)
            self.by_name[code.name(start)[1]].append(start)
        self.memory, self.events, self.relevant = {}, {}, None
        self.used, self.absent = set(), set()

    def mutex(self, call):
        address = call.arguments[0]
        name = self.code.object_at(address) if address is not None else None
        place = self.code.places[call.at]
        return f'{place}: {name}' if name and '+' not in name and name.islower() and \
            not name.startswith('rp_') else name or f'{place}: by pointer'

    def targets(self, function, call):
        """Returns the functions that a call through a pointer may reach; None: no row exists."""
        key = self.code.name(function.start)
        if key not in self.rows:
            return None
        self.used.add(key)
        return self.rows[key]

    def walk(self, start, held):
        """Follows a function that is entered with `held`. Returns the mutexes that may be held
        when the function returns."""
        key = (start, held)
        if key in self.memory:
            return self.memory[key]
        self.memory[key] = held    # the result for a recursive call
        function, events = self.functions[start], []
        states = {None: held}
        todo, left = [None], set()
        while todo:
            source = todo.pop()
            state = states[source]
            if source is not None:
                state = self.take(function, function.calls[source], state, events)
            if source in function.leaves:
                left |= state
            for other in function.after[source]:
                known = states.get(other)
                if known is None or not state <= known:
                    states[other] = state | (known or frozenset())
                    todo.append(other)
        self.events[key] = events
        self.memory[key] = frozenset(left)
        return self.memory[key]

    def take(self, function, call, held, events):
        if call.kind == 'extern':
            events.append((call, held, None))
            if call.what == LOCK and (self.relevant is None or self.mutex(call) in self.relevant):
                return held | {self.mutex(call)}
            if call.what == UNLOCK:
                return held - {self.mutex(call)}
            return held
        if call.kind == 'direct' and self.code.names[call.what] == ONCE:
            return held
        if call.kind == 'direct':
            events.append((call, held, (call.what, held)))
            return self.walk(call.what, held) if call.what in self.functions else held
        targets = self.targets(function, call)
        events.append((call, held, None))
        after = held
        for target in targets or ():
            if isinstance(target, tuple):
                if not self.by_name[target]:
                    self.absent.add(target)
                for start in self.by_name[target]:
                    events.append((call, held, (start, held)))
                    after = after | self.walk(start, held)
        return after

    def reach(self, starts, held=frozenset()):
        """Returns the contexts that are reached if `starts` are entered with `held`."""
        for start in starts:
            self.walk(start, held)
        seen, todo = {}, [((start, held), None) for start in starts]
        while todo:
            key, parent = todo.pop()
            if key in seen:
                continue
            seen[key] = parent
            for _, _, target in self.events.get(key, ()):
                if target and target[0] in self.functions:
                    todo.append((target, key))
        return seen

    def fork_handlers(self):
        """Returns the handlers that run before a fork: first arguments of pthread_atfork()."""
        return {call.arguments[0] for function in self.functions.values()
                for call in function.calls.values()
                if call.kind != 'pointer' and call.arguments[0] in self.functions and
                (call.what == '__register_atfork' or call.kind == 'direct' and
                 self.code.names.get(call.what) == '__pthread_atfork')}

    def locks(self, roots):
        """Returns the mutexes that these functions wait for."""
        return {self.mutex(call) for key in self.reach(roots)
                for call, _, _ in self.events.get(key, ())
                if call.kind == 'extern' and call.what == LOCK}

    def restrict(self, mutexes):
        """Limits the analysis to these mutexes from now on."""
        self.memory, self.events, self.relevant = {}, {}, mutexes

    def chain(self, seen, key):
        names = []
        while key:
            names.append(self.code.name(key[0])[1])
            key = seen[key]
        return ' < '.join(names)


def check(analysis, show):
    roots = [analysis.by_name[name][0] for name in CONSTRUCTORS] + \
        sorted(analysis.fork_handlers())
    taken = analysis.locks(roots)
    called = {call.what for function in analysis.functions.values()
              for call in function.calls.values() if call.kind == 'direct'}
    entries = [start for start in analysis.functions if start not in called] + roots
    analysis.restrict(taken)
    complaints, listed = check_contexts(analysis, analysis.reach(entries))
    if show:
        print('\n'.join(f'taken by a constructor or fork handler: {name}'
                        for name in sorted(taken)))
        print('\n'.join(sorted(listed)))
    if not taken:
        complaints.add('no mutex found that a constructor takes')
    return complaints | check_rows(analysis)


def check_module(analysis, show):
    operations = {start for start in analysis.code.pointers_in(OPERATIONS)
                  if start in analysis.functions}
    entries = {start for start in operations
               if analysis.code.name(start)[1] not in MODULE_FREE}
    if not entries or not analysis.by_name[THREAD]:
        return {f'{analysis.code.library}: {OPERATIONS} or {THREAD}() is not there'}
    seen = analysis.reach([*sorted(entries), *analysis.by_name[THREAD]], frozenset({EXPORTERS}))
    complaints, listed = check_contexts(analysis, seen)
    if show:
        print('\n'.join(sorted(listed)))
    return complaints | check_rows(analysis)


def check_contexts(analysis, seen):
    """Returns the complaints, and the calls through pointers while mutexes are held."""
    complaints, listed = set(), set()
    for key in seen:
        for call, held, _ in analysis.events.get(key, ()):
            if not held:
                continue
            place = analysis.code.name(key[0])
            under = f'under {" and ".join(sorted(held))}: {analysis.chain(seen, key)}'
            if call.kind == 'pointer':
                targets = analysis.rows.get(place)
                listed.add(f'{place[0]}: {place[1]}: {targets} {under}')
                if targets is None:
                    complaints.add(f'{place[0]}: {place[1]}: no row says what is called through a '
                                   f'pointer {under}')
                elif HOST in targets:
                    complaints.add(f'{place[0]}: {place[1]}: the program is called {under}')
            elif call.kind == 'extern' and call.what == WALK:
                complaints |= check_walk(analysis, place, call)
                if not held <= FILLED:
                    complaints.add(f'{place[0]}: {WALK}() {under}')
            elif call.kind == 'extern' and FORBIDDEN.match(call.what):
                complaints.add(f'{place[0]}: {call.what}() {under}')
    return complaints, listed


def check_rows(analysis):
    complaints = {f'{place}: {name}: no call through a pointer is there'
                  for place, name in set(analysis.rows) - analysis.used}
    return complaints | {f'{place}: {name}: no such function' for place, name in analysis.absent}


def check_walk(analysis, place, call):
    callback = call.arguments[0]
    if callback not in analysis.functions:
        return {f'{place[0]}: {place[1]}: what {WALK}() calls is unknown'}
    if analysis.locks([callback]):
        return {f'{place[0]}: {place[1]}: {WALK}() calls what locks'}
    return set()


def analyse(path, rows, checker, show):
    head = subprocess.run(['readelf', '-hdW', path], check=True, stdout=subprocess.PIPE,
                          text=True).stdout
    if 'X86-64' not in head:
        print('the machine code of x86-64 alone is read')
        sys.exit(77)
    complaints = checker(Analysis(Code(path), rows), show)
    if not re.search(r'\bNOW\b', head):
        complaints.add(f'{path}: not linked with -z now')
    return complaints


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('library')
    parser.add_argument('--module')
    parser.add_argument('--list', action='store_true')
    options = parser.parse_args()
    sys.setrecursionlimit(10000)
    complaints = analyse(options.library, TARGETS, check, options.list)
    if options.module:
        complaints |= analyse(options.module, MODULE_TARGETS, check_module, options.list)
    tree.report(sorted(complaints))


if __name__ == '__main__':
    main()
