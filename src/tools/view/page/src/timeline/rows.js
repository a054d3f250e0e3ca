// SPDX-License-Identifier: MIT
// The rows of the timeline and their places: processes with their threads, then processors.
import { above } from './data.js';

export const SPAN_HEIGHT = 17;
const HEADER = 24;
const TRACK = 28;
const CPU = 22;

/**
 * @typedef {object} TimelineRow
 * @property {'trace' | 'process' | 'thread' | 'cpus' | 'cpu'} type
 * @property {string} id
 * @property {string} label
 * @property {string} note
 * @property {number} level
 * @property {number} trace
 * @property {number} y
 * @property {number} height
 * @property {number} depth rows of spans
 * @property {boolean} [open]
 * @property {number} [pid]
 * @property {number} [tid]
 * @property {number} [cpu]
 * @property {number[]} [tids] threads of a process
 */

/**
 * Lays out the rows.
 * @param {{index: number, about: any, data: any}[]} traces
 * @param {Set<string>} closed ids of collapsed rows
 * @param {Map<string, number>} depths the largest depth seen of each thread
 */
export function layout(traces, closed, depths) {
  /** @type {TimelineRow[]} */
  const rows = [];
  let y = 0;
  const add = (row, height) => {
    rows.push({ depth: 0, note: '', ...row, y, height });
    y += height;
  };
  for (const { index, about, data } of traces) {
    const base = traces.length > 1 ? 1 : 0;
    if (base) {
      const id = `t${index}`;
      add({ type: 'trace', id, label: about.name, level: 1, trace: index,
        open: !closed.has(id) }, HEADER);
      if (closed.has(id)) {
        continue;
      }
    }
    for (const process of about.processes ?? []) {
      const id = `p${index}.${process.pid}`;
      add({ type: 'process', id, label: process.name || 'process', note: String(process.pid),
        level: base + 1, trace: index, open: !closed.has(id), pid: process.pid,
        tids: process.threads.map((thread) => thread.tid) }, HEADER);
      if (closed.has(id)) {
        continue;
      }
      for (const thread of process.threads) {
        const key = `${index}.${thread.tid}`;
        const known = data?.threads.get(thread.tid);
        // Spans that are too short to be drawn each have one row for all of them.
        const seen = Math.max(depths.get(key) ?? 0, known?.rows.length ?? 0,
          known?.spanBins ? 1 : 0);
        depths.set(key, seen);
        add({ type: 'thread', id: `h${key}`, label: thread.name || 'thread',
          note: String(thread.tid), level: base + 2, trace: index, pid: process.pid,
          tid: thread.tid, depth: seen },
        TRACK + (seen > 0 ? seen * SPAN_HEIGHT + 4 : 0));
      }
    }
    if (data?.cpus.length) {
      const id = `c${index}`;
      add({ type: 'cpus', id, label: 'Processors', note: String(data.cpus.length),
        level: base + 1, trace: index, open: !closed.has(id) }, HEADER);
      if (!closed.has(id)) {
        for (const cpu of data.cpus) {
          add({ type: 'cpu', id: `u${index}.${cpu.cpu}`, label: `CPU ${cpu.cpu}`,
            level: base + 2, trace: index, cpu: cpu.cpu }, CPU);
        }
      }
    }
  }
  const tops = Float64Array.from(rows, (row) => row.y);
  const threads = new Map();
  for (const row of rows) {
    if (row.type === 'thread') {
      threads.set(`${row.trace}.${row.tid}`, row);
    } else if (row.type === 'process' && !row.open) {
      for (const tid of row.tids ?? []) {
        threads.set(`${row.trace}.${tid}`, row);
      }
    }
  }
  return { rows, tops, height: y, threads };
}

/** Returns the indices of the rows between two heights: [first, end). */
export function between(tops, top, bottom) {
  return [Math.max(0, above(tops, top) - 1), above(tops, bottom)];
}

/** Where spans begin below the top of a thread's row. */
export const SPANS_TOP = TRACK;
