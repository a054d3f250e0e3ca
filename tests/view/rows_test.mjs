// SPDX-License-Identifier: MIT
// The rows of the timeline.
//
// usage: node rows_test.mjs TIMELINE
import assert from 'node:assert';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { run } from './tap.mjs';

const load = (name) => import(pathToFileURL(join(process.argv[2], name)).href);
const { prepare } = await load('data.js');
const { layout } = await load('rows.js');

/** Returns the depth of each thread's row. */
function depths(threads) {
  const about = { processes: [{ pid: 1, threads }] };
  const data = prepare({ threads: threads.map((thread) => ({ pid: 1, ...thread })) });
  return layout([{ index: 0, about, data }], new Set(), new Map()).rows
    .filter((row) => row.type === 'thread').map((row) => row.depth);
}

const nested = [[0, 9, 0, 0, 0, 'a'], [1, 2, 1, 0, 0, 'b']];
const tests = {
  'a thread whose spans are all too short to be drawn has a row for them': () => {
    assert.deepEqual(depths([{ tid: 1, span_bins: [3, 0, 4] }]), [1]);
  },
  'a thread has a row for each depth of its spans': () => {
    assert.deepEqual(depths([{ tid: 1 }, { tid: 2, spans: nested, span_bins: [1] }]), [0, 2]);
  },
};

run(tests);
