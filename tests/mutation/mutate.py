#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Puts mistakes into the lock-free core, one at a time, and sees that the tests find each.

usage: mutate.py BUILD [--quick | --all | --races] [--only WORD]

BUILD is a build directory in which the unit and stress tests are built; nothing in it is changed.
A mistake is one edit of one file under src/: the file is compiled as the build compiles it, the
library and the test are linked with it, and the tests named for it must fail. A survivor is a
failure. --quick: a few of them, some seconds. --all: also those that only show by chance, under
load, which takes minutes. --races: those of the fallback that ThreadSanitizer sees; BUILD has it.

What x86 cannot show (an acquire made relaxed is the same code there) is left to the models: such an
edit must leave the object's fences and LOCKed instructions as they are, and the models must know
the mistake, as they must those that would take hours to show.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROUNDS = 20         # of a test that needs luck
QUICK_STEP = 9      # one in so many
PATIENCE = 120      # seconds; a test that hangs has found the mistake

Mutation = collections.namedtuple('Mutation', 'name file old new tests')

SECTION = 'src/ring/write_x86_64.c'
WORDS = 'src/core/words_x86_64.c'
TURNS = 'src/core/turns_x86_64.c'
FALLBACK = 'src/ring/fallback.c'
WRITE = 'src/core/write.c'
MERGE = 'src/core/merge.c'
ENABLE = 'src/core/enable.c'
LOSSES = 'src/core/losses.c'
DRAIN = 'src/core/drain.c'
WAIT = 'src/core/wait.c'
SNAPSHOT = 'src/core/snapshot.c'
RUN = 'src/core/run.h'
RING = 'src/ring/ring.c'

ABORTS = ['ring_aborts']
BLOCK = ['core_block']
COARSE = ['core_write']
CLOCK = ['core_clock']

# What a test finds every time.
CERTAIN = [
    Mutation('the section does not test the bit', SECTION,
             r'"testq %%rax, %c[w_bit](%[write])\n\t" ' '\\\n\t' r'"jz 5f\n\t"',
             r'"testq %%rax, %c[w_bit](%[write])\n\t"', ABORTS),
    Mutation('the section does not see that the slot is empty', SECTION,
             r'"testq %%r8, %%r8\n\t" ' '\\\n\t' r'"jz 5f\n\t"', r'""', ABORTS),
    Mutation('the section takes any concurrency id', SECTION, r'"jae 6f\n\t"', r'""', ABORTS),
    Mutation('the section goes on without a ring', SECTION, r'"jz 6f\n\t"', r'""', ABORTS),
    Mutation('room for one record too many', SECTION,
             r'"addq %c[w_step](%[write]), %%rax\n\t"', r'""', ABORTS),
    Mutation('the commit is not the last instruction', SECTION,
             r'"addq %%rax, %c[r_head](%%r8)\n"' + '\n',
             r'"addq %%rax, %c[r_head](%%r8)\n\tnop\n"' + '\n', ABORTS),
    Mutation('the head is stored before the record', SECTION,
             r'"addq %c[r_data](%%r8), %%rdi\n\t"',
             r'"addq %c[r_data](%%r8), %%rdi\n\t" "movq %c[w_step](%[write]), %%rax\n\t"'
             r' "addq %%rax, %c[r_head](%%r8)\n\t" "movq $0, %c[w_step](%[write])\n\t"', ABORTS),
    Mutation('the place in the ring does not wrap', SECTION, r'"andq %%rdx, %%rdi\n\t"',
             r'"movq %%rdx, %%rdi\n\t"', ABORTS),
    Mutation('an abort is taken for success', SECTION, r'"movl $4, %%eax\n"',
             r'"xorl %%eax, %%eax\n"', ABORTS),
    Mutation('a loss is counted outside of its section', SECTION,
             r'"movq %%rsi, (%%rdi)\n"' + '\n\t\t' + r'"2:\n\t"',
             r'"2:\n\t" "movq %%rsi, (%%rdi)\n\t"', ABORTS),
    Mutation('a loss is not counted', SECTION, r'"incq %%rsi\n\t"', r'"nop\n\t"', ABORTS),
    Mutation('a turn does not note where the chunk ends', SECTION,
             r'"movq %%rdx, %c[r_ends](%%r8, %%r10, 8)\n\t"', r'""', ABORTS),
    Mutation('a turn gives nothing up', SECTION,
             r'"leaq (%%r10, %%rax), %%rsi\n\t"', r'"movq %%r10, %%rsi\n\t"', ABORTS),
    Mutation('a turn in the fallback gives nothing up', FALLBACK,
             'tail + ring->chunk);', 'tail);', ABORTS),
    Mutation('the thread keeps pointing into the section', SECTION,
             r'"movq $0, %%fs:%c[area_cs](%%rcx)\n\t"', r'""', ABORTS),
    Mutation('the thread keeps pointing into the section of several sessions', WRITE,
             '\trp_rseq_leave();', '\t;', ABORTS),
    Mutation('a time is used again without a look at what came between', SECTION,
             r'"cmpq %%rax, %%fs:%c[area_cs](%%rcx)\n\t" ' '\\\n\t' r'"jne 4f\n\t"', r'""', CLOCK),
    Mutation('the section is entered anew with a time of before', SECTION,
             r'"jne 1f\n\t"', r'"nop\n\t"', CLOCK),
    Mutation('no time is used again', SECTION, r'"movq %%rax, %c[w_ticks](%[write])\n"', r'"\n"',
             CLOCK),
    Mutation('a time is used again that is of no session', WRITE,
             '\twrite->ticks = 0;\n\tfor', '\twrite->ticks = 1;\n\tfor', CLOCK),
    Mutation('a causal session takes the time of others', SECTION,
             r'"lfence\n\t" ' '\\\n\t' r'"jmp 31b\n"',
             r'"movq %c[w_ticks](%[write]), %%rax\n\t" "jmp 32b\n"', CLOCK),
    Mutation('the processor is left out', SECTION, r'"movw %%r11w, 20(%%rdi)\n\t"', r'""', ABORTS),
    Mutation('the last byte is left out', SECTION, r'"movb %%al, (%%rdi)\n\t"', r'""', ABORTS),
    Mutation('a part in two is left out', SECTION, r'"addq $16, %%r10\n\t"',
             r'"addq $32, %%r10\n\t"', ABORTS),
    Mutation('the parts behind a prefix are left out', SECTION, r'"jl 34f\n\t"',
             r'"jl 19f\n\t"', ABORTS),
    Mutation('a coarse time that is not later than the thread\'s', SECTION,
             r'"movq %%fs:(%%rcx), %%rax\n\t"', r'"xorl %%eax, %%eax\n\t"', ABORTS),
    Mutation('the section of words does not test the bit', WORDS,
             r'"testq %%rax, %c[e_enable](%%r8)\n\t"' + '\n\t\t' + r'"jz 5f\n\t"', r'""', ABORTS),
    Mutation('the section of words does not see that the slot is empty', WORDS,
             r'"testq %%r11, %%r11\n\t"' + '\n\t\t' + r'"jz 5f\n\t"', r'""', ABORTS),
    Mutation('the section of words takes any concurrency id', WORDS, r'"jae 5f\n\t"', r'""',
             ABORTS),
    Mutation('the section of words goes on without a ring', WORDS,
             r'"movq (%%r11, %%rax, 8), %%r11\n\t"' + '\n\t\t' +
             r'"testq %%r11, %%r11\n\t"' + '\n\t\t' + r'"jz 5f\n\t"',
             r'"movq (%%r11, %%rax, 8), %%r11\n\t"', ABORTS),
    Mutation('words are written where there is no room', WORDS, r'"ja 5f\n\t"', r'""', ABORTS),
    Mutation('the commit of words is not the last instruction', WORDS,
             r'"addq %%rax, %c[r_head](%%r11)\n"', r'"addq %%rax, %c[r_head](%%r11)\n\tnop\n"',
             ABORTS),
    Mutation('the head is stored before the words', WORDS,
             r'"movq %%rdi, 24(%%rdx)\n\t"',
             r'"addq $56, %c[r_head](%%r11)\n\t" "movq %%rdi, 24(%%rdx)\n\t"', ABORTS),
    Mutation('the place of words does not wrap', WORDS, r'"andq %%rax, %%rdx\n\t"',
             r'"movq %%rax, %%rdx\n\t"', ABORTS),
    Mutation('the thread keeps pointing into the section of words', WORDS,
             r'"movq $0, %%fs:%c[area_cs](%%rdx)\n\t"', r'""', ABORTS),
    Mutation('the third word is lost where words go another way', WORDS,
             r'"movq %%xmm0, %%rdx\n"', r'"\n"', ABORTS),
    Mutation('words are stamped behind their ring', WORDS, r'"jbe 35b\n"', r'"\n"', ABORTS),
    Mutation('words do not see that the coarse clock moved', WORDS, r'"jb 36b\n"', r'"\n"',
             ABORTS),
    Mutation('the section of words in turn does not test the bit', TURNS,
             r'"testq %%rax, %c[e_enable](%%r8)\n\t"' + '\n\t\t' + r'"jz 5f\n\t"', r'""', ABORTS),
    Mutation('the section of words in turn goes on without rings', TURNS,
             r'"testq %%rdx, %%rdx\n\t"' + '\n\t\t' + r'"jz 5f\n\t"' + '\n\t\t' +
             r'"cmpq %c[s_count]', r'"cmpq %c[s_count]', ABORTS),
    Mutation('the section of words in turn takes any concurrency id', TURNS, r'"jae 5f\n\t"',
             r'""', ABORTS),
    Mutation('words are written in turn where there is no room', TURNS, r'"ja 5f\n\t"', r'""',
             ABORTS),
    Mutation('the commit of words in turn is not the last instruction', TURNS,
             r'"addq %%r9, %c[r_head](%%rdx)\n"',
             r'"addq %%r9, %c[r_head](%%rdx)\n\txchgw %%ax, %%ax\n"', ABORTS),
    Mutation('a session behind another is forgotten', TURNS, r'"jnz 20b\n\t"', r'"nop\n\t"',
             ABORTS),
    Mutation('the rest is all of them', TURNS, r'"orq %%r10, %%r9\n\t"',
             r'"orq %c[e_enable](%%r8), %%r9\n\t"', ABORTS),
    Mutation('words of the rest are lost', TURNS, r'"punpckhqdq %%xmm0, %%xmm0\n\t"', r'""',
             ABORTS),
    Mutation('words keep a thread pointing into the section of several sessions', TURNS,
             r'"movq $0, %%fs:%c[area_cs](%%rdx)\n\t"', r'""', ABORTS),
    Mutation("words' time is used again without a look at what came between", TURNS,
             r'"cmpq %%rax, %%fs:%c[area_cs](%%rdx)\n\t"' + '\n\t\t' + r'"jne 5f\n\t"', r'""',
             CLOCK),
    Mutation("words' time is used in a causal session", TURNS,
             r'"cmpl $0, %c[s_clock](%%r11)\n\t"' + '\n\t\t' + r'"jne 5f\n\t"', r'""', CLOCK),
    Mutation('the fallback does not test the bit', FALLBACK, 'if (!wanted(write))\n\t\t\tresult',
             'if (0)\n\t\t\tresult', ABORTS),
    Mutation('the fallback keeps its lock', FALLBACK,
             '(void)rp_exchange_seq_cst(&fallback->lock, lock + 2);', '', ABORTS),
    Mutation('the fallback stores its head before the record', FALLBACK,
             '\tcopy_record(write,', '\trp_store_release(&ring->head, head + write->step);\n'
             '\tcopy_record(write,', ABORTS),
    Mutation('the fallback does not say that it writes', FALLBACK,
             'rp_store_relaxed(&ring->intent, head + write->step);', '', ABORTS),
    Mutation('the fallback counts no loss', FALLBACK,
             'rp_store_relaxed(&ring->lost_full, ring->lost_full + 1);', '', ABORTS),
    Mutation('the fallback counts a loss twice', FALLBACK, 'ring->lost_full + 1);',
             'ring->lost_full + 2);', ABORTS),
    Mutation('the fallback has room for one record too many', FALLBACK,
             'rp_load_acquire(&ring->tail) + write->step;', 'rp_load_acquire(&ring->tail);',
             ABORTS),
    Mutation('a lock is taken without a look', FALLBACK,
             'if (!rp_cas_seq_cst(&fallback->lock, &lock, lock + 1))',
             'rp_store_seq_cst(&fallback->lock, lock + 1);\n\t\tif (0)',
             ABORTS),
    Mutation('an account is raised by a plain store', FALLBACK,
             'rp_cas_seq_cst(word, &old, old + 1)',
             '({ rp_store_seq_cst(word, old + 1); true; })', ABORTS),
    Mutation('an account does not look whose it is', FALLBACK, 'if (!wanted(write) || ',
             'if (', ABORTS),
    Mutation('a writer whose rings are all held is not counted', FALLBACK,
             'return account(write, &slot->busy) ? RP_WRITE_BUSY : RP_WRITE_GONE;',
             'return RP_WRITE_BUSY;', ABORTS),
    Mutation('a writer is aborted for ever', WRITE, 'i < ABORTS_MAX', 'i < 100000', ABORTS),
    Mutation('what is full goes to the fallback too', WRITE,
             'if (result != RP_WRITE_NO_RING && ',
             'if (result != RP_WRITE_FULL && result != RP_WRITE_NO_RING && ', ABORTS),
    Mutation('a payload too big is not counted', WRITE, 'return rp_slot_refuse(write);',
             'return RP_WRITE_TOO_BIG;', ABORTS),
    Mutation('nobody is told of a missing ring', WRITE,
             'rp_store_relaxed(&write->slot->wanted, cid + 1);', '', ABORTS),
    Mutation('a writer does not say that its ring fills', SECTION,
             r'"seta %c[w_above](%[write])\n\t"', r'""', ['core_write']),
    Mutation('a ring given up is not told', MERGE, 'session->lost_damaged += rp_load_relaxed(',
             'session->lost_damaged += 0 & rp_load_relaxed(', ['stress-leaving']),

    Mutation('a window begins before what was overwritten', SNAPSHOT,
             'from = ticks > from ? ticks : from;', 'from = 0 & ticks;', ['core_snapshot']),
    Mutation('a window does not end before the sequence point', SNAPSHOT,
             'end = rp_clock_map_ns(map, until) - 1;', 'end = rp_clock_map_ns(map, until) + '
             '10000000000;', ['core_snapshot']),
    Mutation('a snapshot does not tell its window', SNAPSHOT,
             'payload[1] ? rp_session_tell(session, &window_def, payload, sizeof(payload)) : 0;',
             '0; (void)payload, (void)window_def;', ['core_snapshot']),
    Mutation('a snapshot does not begin with what is oldest', SNAPSHOT,
             'source->position = rp_ring_oldest(source->ring);', ';', ['core_snapshot']),
    Mutation('a record is taken to be as long as the one before', RUN,
             '\t\t\tlength = record->length;', '\t\t\tlength = guess ? guess : record->length;',
             ['core_snapshot']),
    Mutation('an event is taken to be of the kind before', RUN,
             'if (record->event != index) {', 'if (index == UINT32_MAX) {', ['core_enable']),
    Mutation("a coarse time that is not later than its ring's", SECTION,
             r'"movq %c[r_stamp](%%r8), %%rdx\n\t"', r'"xorl %%edx, %%edx\n\t"', COARSE),
    Mutation('a thread is not told its coarse time', SECTION,
             r'"movq %%rax, %%fs:(%%rcx)\n\t"', r'""', COARSE),
    Mutation('a ring is not told its coarse time', SECTION,
             r'"movq %%rax, %c[r_stamp](%%r8)\n\t"', r'""', COARSE),
    Mutation("a fallback's coarse time that is not later than its thread's", FALLBACK,
             'if (ticks < last + RP_CLOCK_STEP)', 'if (0)', COARSE),
    Mutation('all rings begin at one place of their pages', RING,
             'rp_add_relaxed(&rings, 1) * 3', 'rp_add_relaxed(&rings, 1) * 0', ['ring_memory']),
    Mutation('a ring in a file does not begin with it', RING, 'fd < 0 ? next_place() : 0',
             'next_place()', ['ring_memory']),
    Mutation('a ring is unmapped from its struct on', RING, 'ring->data - RP_RING_CONTROL_BYTES,',
             'ring,', ['ring_memory']),
    Mutation('a row goes on with what another thread wrote', RUN,
             ' && its.writer == row->writer;', ';', ['sink_rows']),
    Mutation('a row goes on with events of another kind', RUN,
             'its.kind == row->kind && ', '', ['sink_rows']),
    Mutation('a row goes on past what may be read', RUN, 'limit - position < length ||', '',
             ['sink_rows']),
]

# What shows under load, in the first run or in one of the next, or by waiting in vain.
LIKELY = [
    Mutation('a session ends and waits for no lock', MERGE, 'wait_for_holders(session, true);',
             '', ['stress-switching@fallback']),
    Mutation('bits stay when a session ends', ENABLE, 'rp_session_switch(session, false);', '',
             ['stress-switching']),
    Mutation('a tail is published before its records are read', MERGE,
             'rp_store_release(&source->ring->tail, source->position);',
             'rp_store_release(&source->ring->tail, source->limit);', ['stress-accounting']),
    Mutation('a tail is never published', MERGE,
             'rp_store_release(&source->ring->tail, source->position);', '',
             ['stress-accounting']),
    Mutation('the account of what was too big is left out', MERGE,
             'rp_exchange_seq_cst(&slot->too_big, 0) & RP_ACCOUNT_COUNT;',
             '0 & rp_exchange_seq_cst(&slot->too_big, 0);', ['stress-accounting']),
    Mutation('losses are told twice', LOSSES, 'source->lost_told = now;', '',
             ['stress-accounting']),
    Mutation('the losses of one ring are left out', LOSSES,
             'for (uint32_t i = 0; i < session->source_count; i++)\n\t\t\tsum +=',
             'for (uint32_t i = 0; i + 1 < session->source_count; i++)\n\t\t\tsum +=',
             ['stress-accounting@fallback', 'stress-accounting']),
    Mutation('what a failed sink leaves behind is left out', MERGE,
             'session->lost_sink += records_left(session);', '(void)records_left(session);',
             ['process-small_disk']),
    Mutation('nobody wakes the drain thread', DRAIN, '\t\tfutex_wake();\n\terrno', '\t\t;\n\terrno',
             ['stress-times']),
    Mutation('a run goes on past the next ring\'s time', RUN,
             'if (record->ticks > run->until_ticks)', 'if (0)', ['stress-accounting']),
    Mutation('room wakes nobody', MERGE, 'if (freed && session->wait_ns)', 'if (0)', BLOCK),
    Mutation('the end of a session wakes nobody', ENABLE,
             '\trp_wait_wake(&rp_slots[session->slot]);\n}', '}', BLOCK),
    Mutation('an output that stands still is waited for by each event', WAIT,
             'rp_or_seq_cst(&slot->room, STALLED);', ';', BLOCK),
    Mutation('a thread that asked not to waits', WAIT, 'thread.refuses || ', '', BLOCK),
    Mutation('the drain thread waits', WAIT, 'rp_thread_is_ours || ', '', BLOCK),
    Mutation('a handler waits in the wait that it interrupted', WAIT,
             'now < thread.until_ns ||', '', BLOCK),
    Mutation('the alternate stack is waited on', WAIT, 'on_alternate_stack())', 'false)', BLOCK),
    Mutation('a wait has no bound', WAIT, 'if (now >= until) {', 'if (0) {', BLOCK),
    Mutation('what was given up is not counted', FALLBACK,
             'return account(write, &write->slot->blocked) ? RP_WRITE_BLOCKED : RP_WRITE_GONE;',
             'return RP_WRITE_BLOCKED;', BLOCK),
    Mutation('a coarse time that is not later than the one before', WORDS,
             r'"movq %%fs:(%%r10), %%rax\n\t"', r'"xorl %%eax, %%eax\n\t"', ['stress-times']),
    Mutation('a thread that is not registered writes words as others do', WORDS,
             r'"js 5f\n\t"', r'""', ['stress-interrupted']),
    Mutation('causal order of words without a fence', WORDS, r'"lfence\n"', r'"nop\n"',
             ['stress-times']),
    Mutation('a sequence point does not move the coarse clock', DRAIN,
             'rp_clock_coarse_pass(now);', '', ['stress-times']),
    Mutation('causal order without a fence', SECTION, r'"lfence\n\t"', r'"nop\n\t"',
             ['stress-times']),
]

# What ThreadSanitizer sees besides.
RACES = [
    Mutation('a lock is given back relaxed', FALLBACK,
             '(void)rp_exchange_seq_cst(&fallback->lock, lock + 2);',
             'rp_store_relaxed(&fallback->lock, lock + 2);', ['stress-accounting']),
    Mutation('a lock is taken by a plain look', FALLBACK,
             'if (!rp_cas_seq_cst(&fallback->lock, &lock, lock + 1))',
             'rp_store_relaxed(&fallback->lock, lock + 1);\n\t\tif (0)', ['stress-accounting']),
]

Same = collections.namedtuple('Same', 'name file old new model')

# The same code on x86-64; what would come of it elsewhere, the models say, and of some
# ThreadSanitizer: for it, what a lock's giving back orders is ordered.
VISIBLE = [
    Same('the fallback loads the tail relaxed', FALLBACK, 'rp_load_acquire(&ring->tail)',
         'rp_load_relaxed(&ring->tail)', 'WRONG_TAIL_FIRST'),
    Same('the drain thread loads heads relaxed', MERGE,
         'source->limit = rp_load_acquire(&source->ring->head);\t/*',
         'source->limit = rp_load_relaxed(&source->ring->head);\t/*', 'WRONG_HEAD_FIRST'),
    Same('the drain thread publishes tails relaxed', MERGE,
         'rp_store_release(&source->ring->tail,', 'rp_store_relaxed(&source->ring->tail,',
         'WRONG_TAIL_FIRST'),
]
SAME = VISIBLE + [
    Same('the fallback publishes its head relaxed', FALLBACK,
         'rp_store_release(&ring->head,', 'rp_store_relaxed(&ring->head,', 'WRONG_HEAD_FIRST'),
    Same('the bit is loaded relaxed under the lock', FALLBACK,
         'rp_load_seq_cst(write->enable)', 'rp_load_relaxed(write->enable)',
         'WRONG_NO_TEST_UNDER_LOCK'),
    Same('the lock is loaded relaxed by who stops', MERGE,
         'rp_load_seq_cst(&fallback->lock)', 'rp_load_relaxed(&fallback->lock)',
         'WRONG_NO_WAIT_AT_END'),
]

# Orders that take two processors at the same nanosecond to go wrong: seen after hours, if ever.
RARE = [
    Same('a sequence point without a membarrier', DRAIN,
         'rp_clock_coarse_pass(now);\n\trp_fence_heavy();',
         'rp_clock_coarse_pass(now);', 'WRONG_NO_FENCE_AT_POINT'),
    Same('a sequence point that waits for no lock', MERGE, 'wait_for_holders(session, false);',
         '', 'WRONG_NO_WAIT_AT_POINT'),
    Same('events given out up to the heads', MERGE, 'merge(session, now_ticks, map)',
         'merge(session, UINT64_MAX, map)', 'WRONG_NO_BOUND'),
    Same('a sequence point that moves the coarse clock to itself', 'src/base/clock.h',
         'rp_clock_coarse_move(ticks + 1)', 'rp_clock_coarse_move(ticks)', 'WRONG_NOT_BEHIND'),
    Same("a handler's coarse time is taken back", FALLBACK,
         'while (!rp_cas_seq_cst(&rp_thread_stamp, &last, ticks));',
         'while (0);\n\trp_store_relaxed(&rp_thread_stamp, ticks);', 'WRONG_PLAIN_STAMP'),
    Same('the drain thread asleep without a fence', DRAIN,
         'rp_store_seq_cst(&asleep, 1);\t/* [DRAIN-ASLEEP] */\n\trp_fence_heavy();',
         'rp_store_seq_cst(&asleep, 1);', 'WRONG_NO_FENCE'),
    Same('the drain thread asleep whatever was asked for', DRAIN,
         '!rp_exchange_seq_cst(&rp_core.work, 0) && ', '', 'WRONG_WORK_NOT_SEEN'),
]


def users_of(header, sources):
    line = f'#include "{os.path.relpath(header, "src")}"'
    return [source for source in sources
            if line in open(os.path.join(ROOT, source), encoding='utf-8').read()]


class Build:
    """How the build directory compiles and links, with other objects in place of its own."""

    def __init__(self, directory):
        self.directory = os.path.abspath(directory)
        with open(os.path.join(directory, 'compile_commands.json'), encoding='utf-8') as file:
            commands = json.load(file)
        self.compiles = {}
        for entry in commands:
            source = os.path.relpath(os.path.join(entry['directory'], entry['file']), ROOT)
            if entry['output'].startswith('src/libringpipe.so'):
                self.library = entry['output'].partition('.p/')[0]
                self.compiles[source] = shlex.split(entry['command']), entry

    def link_command(self, target):
        said = subprocess.run(['ninja', '-C', self.directory, '-t', 'commands', target],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        return shlex.split(said.strip().splitlines()[-1])

    def run(self, command):
        subprocess.run(command, cwd=self.directory, check=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)

    def compile(self, folder, file, text):
        """Objects with a changed source or header, and those whose places they take."""
        sources = [file] if file in self.compiles else users_of(file, self.compiles)
        changed = os.path.join(folder, os.path.relpath(file, 'src'))
        os.makedirs(os.path.dirname(changed))
        with open(changed, 'w', encoding='utf-8') as stream:
            stream.write(text)
        pairs = [self.compile_one(folder, source, changed if source == file else None)
                 for source in sources]
        return [made for made, _ in pairs], [replaced for _, replaced in pairs]

    def compile_one(self, folder, source, changed):
        command, entry = self.compiles[source]
        made = os.path.join(folder, source.replace('/', '_') + '.o')
        words = []
        skip = False
        for word in command:
            if skip or word in ('-MD', '-MQ', '-MF', '-o', '-c', entry['file'], entry['output']):
                skip = word in ('-MQ', '-MF', '-o')
                continue
            words.append(word)
        first = next(i for i, word in enumerate(words) if word.startswith('-I'))
        words.insert(first, '-I' + folder)
        self.run(words + ['-w', '-o', made, '-c', changed or os.path.join(ROOT, source)])
        return made, entry['output']

    def link_test(self, folder, name, made, replaced):
        """The command that runs a test with the objects."""
        suite, _, program = name.partition('-')
        if not program:
            words = []
            # In front of the archive, whose own object is not needed then.
            for word in self.link_command(f'tests/unit/unit-{name}'):
                if word == '-Wl,--start-group':
                    words += made
                words.append(word)
            words[words.index('-o') + 1] = os.path.join(folder, 'unit')
            self.run(words)
            return [os.path.join(folder, 'unit'), *([] if name == 'ring_aborts' else ['--tap=-'])]
        words = [made[replaced.index(word)] if word in replaced else word
                 for word in self.link_command(self.library)]
        words[words.index('-o') + 1] = os.path.join(folder, 'libringpipe.so.0')
        self.run(words)
        target = program if suite == 'process' else f'stress-{program}'
        return [os.path.join(self.directory, 'tests', suite, target)]

    def fails(self, folder, test, made, replaced):
        """What a test says that fails with these objects in place of those; None: it passes."""
        name, _, way = test.partition('@')
        environment = dict(os.environ, LD_LIBRARY_PATH=folder, RINGPIPE_DIAGNOSTICS='0',
                           RINGPIPE_LTTNG='0',
                           TSAN_OPTIONS=f'halt_on_error=1:suppressions={ROOT}/tests/tsan.supp')
        if way == 'fallback':
            environment['GLIBC_TUNABLES'] = 'glibc.pthread.rseq=0'
        command = self.link_test(folder, name, made, replaced)
        # Where stress tests keep their files, which those that are killed leave.
        with tempfile.TemporaryDirectory(dir=memory()) as environment['TMPDIR']:
            try:
                ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     env=environment, timeout=PATIENCE, check=False)
            except subprocess.TimeoutExpired:
                return 'hangs'
        said = ran.stdout.decode(errors='replace')
        if '1..0 # SKIP' in said:
            print(said)
            sys.exit(77)
        if ran.returncode < 0:
            return f'killed by signal {-ran.returncode}'
        if ran.returncode:
            bad = [line for line in said.splitlines() if line.startswith('not ok')]
            return bad[0] if bad else f'ended with {ran.returncode}'
        return None


def changed_text(mutation):
    with open(os.path.join(ROOT, mutation.file), encoding='utf-8') as file:
        text = file.read()
    if mutation.old not in text:
        sys.exit(f'{mutation.file} has no {mutation.old!r} any more: mend "{mutation.name}"')
    return text.replace(mutation.old, mutation.new, 1)


def orderings_of(path):
    """The instructions of an object that order memory, in their order."""
    said = subprocess.run(['objdump', '-d', '--no-show-raw-insn', path], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return re.findall(r'\t(lock \S+|xchg\b.*\(|[mls]fence)', said)


def memory():
    """A file system in memory that has room for them, or None."""
    path = '/dev/shm'
    return path if os.access(path, os.W_OK) and shutil.disk_usage(path).free >= 1 << 30 else None


class Report:
    def __init__(self):
        self.number = self.made = self.caught = self.failed = 0

    def tell(self, good, text):
        self.number += 1
        self.failed += not good
        print(f'{"ok" if good else "not ok"} {self.number} - {text}', flush=True)

    def tell_mutation(self, mutation, found):
        self.made += 1
        self.caught += bool(found)
        if not found:
            self.tell(False, f'{mutation.name}: survives {" ".join(mutation.tests)}')
            return
        test, number, why = found
        self.tell(True, f'{mutation.name}: is caught by {test}')
        print(f'# in run {number}: {why}')


def find(build, mutation, rounds):
    """The test that caught it, in which run, and what it said; or None."""
    with tempfile.TemporaryDirectory() as folder:
        made, replaced = build.compile(folder, mutation.file, changed_text(mutation))
        for number in range(1, rounds + 1):
            for test in mutation.tests:
                why = build.fails(folder, test, made, replaced)
                if why:
                    return test, number, why
    return None


def is_modelled(same):
    """Whether the models know the mistake that this change of the text is."""
    with open(os.path.join(ROOT, 'tests/model/check.py'), encoding='utf-8') as file:
        return bool(changed_text(same)) and f"'{same.model}'" in file.read()


def is_same(build, same):
    """Whether it makes no difference here, and is modelled."""
    with open(os.path.join(ROOT, same.file), encoding='utf-8') as file:
        before = file.read()
    with tempfile.TemporaryDirectory() as folder:
        orderings = orderings_of(build.compile(os.path.join(folder, 'before'), same.file,
                                               before)[0][0])
        return is_modelled(same) and orderings == orderings_of(
            build.compile(folder, same.file, changed_text(same))[0][0])


def main_races(build, report):
    """Without a mistake the same build's tests are run anyway."""
    races = RACES + [Mutation(*same[:4], ['stress-accounting']) for same in VISIBLE]
    for race in races:
        report.tell_mutation(race, find(build, race, ROUNDS))
    print(f'# figure: {report.made} races made, {report.caught} caught by ThreadSanitizer')


def main_mistakes(build, report, options):
    certain = [mutation for mutation in (CERTAIN[::QUICK_STEP] if options.quick else CERTAIN)
               if options.only in mutation.name]
    likely = [mutation for mutation in LIKELY if options.only in mutation.name and options.all]
    same = [change for change in SAME if options.only in change.name and not options.quick]
    rare = [change for change in RARE if options.only in change.name and not options.quick]
    for test in sorted({test for mutation in certain + likely for test in mutation.tests}):
        with tempfile.TemporaryDirectory() as folder:
            why = build.fails(folder, test, [], [])
        report.tell(not why, f'without a mistake, {test} passes' + (f': {why}' if why else ''))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda mutation: find(build, mutation, 1), certain)
        for mutation, result in zip(certain, found):
            report.tell_mutation(mutation, result)
        for change, result in zip(same, pool.map(lambda change: is_same(build, change), same)):
            report.tell(result, f'{change.name}: no other order on this machine, left to the '
                        f'model\'s {change.model}')
    for change in rare:
        report.tell(is_modelled(change), f'{change.name}: too rare, left to the model\'s '
                    f'{change.model}')
    for mutation in likely:
        report.tell_mutation(mutation, find(build, mutation, ROUNDS))
    left = f'; left to the models: {len(same)} that make no difference on this machine, ' \
           f'{len(rare)} that are too rare'
    print(f'# figure: {report.made} mutations made, {report.caught} caught{left if same else ""}')


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1].splitlines()[0])
    parser.add_argument('build')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--races', action='store_true')
    parser.add_argument('--only', default='')
    options = parser.parse_args()
    for mutation in CERTAIN + LIKELY + RACES + SAME + RARE:
        changed_text(mutation)
    build = Build(options.build)
    report = Report()
    print('TAP version 13')
    if options.races:
        main_races(build, report)
    else:
        main_mistakes(build, report, options)
    print(f'1..{report.number}')
    sys.exit(report.failed != 0)


if __name__ == '__main__':
    main()
