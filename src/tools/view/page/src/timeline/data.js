// SPDX-License-Identifier: MIT
// An answer of api/timeline in the form that drawing needs: typed arrays, sorted by time.

export const STATES = ['run', 'runnable', 'wait'];
/** Deeper spans are drawn on the last row. */
export const MAX_DEPTH = 24;

/**
 * @typedef {object} Row spans of one depth, sorted by start
 * @property {Float64Array} start
 * @property {Float64Array} stop
 * @property {Float64Array} reach the latest stop of this span and all before it
 * @property {Uint32Array} name
 * @property {Uint8Array} error
 * @property {string[]} keys
 */

/** Copies numbers; anything else in an answer becomes 0. */
function floats(list) {
  return Float64Array.from(list, (value) => (Number.isFinite(value) ? value : 0));
}

/** @param {any[]} spans @returns {Row[]} */
function byDepth(spans) {
  const lists = [];
  for (const span of spans) {
    const depth = Math.min(MAX_DEPTH - 1, Math.max(0, span[2] | 0));
    (lists[depth] ??= []).push(span);
  }
  return Array.from(lists, (list = []) => {
    list.sort((a, b) => a[0] - b[0]);
    const stop = floats(list.map((span) => span[1]));
    const reach = new Float64Array(stop.length);
    let latest = -Infinity;
    for (let i = 0; i < stop.length; i++) {
      latest = Math.max(latest, stop[i]);
      reach[i] = latest;
    }
    return {
      start: floats(list.map((span) => span[0])), stop, reach,
      name: Uint32Array.from(list, (span) => span[3]),
      error: Uint8Array.from(list, (span) => (span[4] ? 1 : 0)),
      keys: list.map((span) => String(span[5])),
    };
  });
}

/** Index of the first value above `at` in an ascending array. */
export function above(values, at) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > at) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

function largest(bins) {
  let most = 0;
  for (const value of bins ?? []) {
    most = value > most ? value : most;
  }
  return most;
}

function states(pieces) {
  const sorted = [...pieces ?? []].sort((a, b) => a[0] - b[0]);
  return {
    start: floats(sorted.map((piece) => piece[0])),
    stop: floats(sorted.map((piece) => piece[1])),
    kind: Uint8Array.from(sorted, (piece) => Math.max(0, STATES.indexOf(piece[2]))),
  };
}

/**
 * Prepares an answer.
 * @param {any} answer
 */
export function prepare(answer) {
  const threads = new Map();
  let mostSamples = 0;
  let mostEvents = 0;
  let mostBins = 0;
  for (const thread of answer.threads ?? []) {
    mostSamples = Math.max(mostSamples, largest(thread.samples));
    mostEvents = Math.max(mostEvents, largest(thread.events));
    mostBins = Math.max(mostBins, largest(thread.span_bins));
    threads.set(thread.tid, {
      pid: thread.pid,
      tid: thread.tid,
      name: thread.name ?? null,
      events: thread.events ?? null,
      samples: thread.samples ?? null,
      spanBins: thread.span_bins ?? null,
      states: states(thread.states),
      rows: byDepth(thread.spans ?? []),
    });
  }
  const cpus = (answer.cpus ?? []).map((cpu) => ({
    cpu: cpu.cpu, samples: cpu.samples ?? null, events: cpu.events ?? null,
  }));
  let mostCpu = 0;
  let mostCpuEvents = 0;
  for (const cpu of cpus) {
    mostCpu = Math.max(mostCpu, largest(cpu.samples));
    mostCpuEvents = Math.max(mostCpuEvents, largest(cpu.events));
  }
  const wakes = [...answer.wakes ?? []].sort((a, b) => a[0] - b[0]);
  return {
    from: answer.from, to: answer.to, binNs: answer.bin_ns || 1,
    names: answer.span_names ?? null, excerpt: answer.excerpt ?? null,
    threads, cpus, mostSamples, mostEvents, mostBins, mostCpu, mostCpuEvents,
    wakes: { time: floats(wakes.map((wake) => wake[0])), list: wakes },
    wakesLeftOut: answer.wakes_left_out ?? 0,
  };
}

/**
 * Returns the window to ask for: it contains the view and is the same for near views, so that
 * small movements need no new answer.
 * @param {number} from
 * @param {number} to
 * @param {number} length of the trace
 * @returns {[number, number]}
 */
export function windowOf(from, to, length) {
  const tile = 2 ** Math.ceil(Math.log2(Math.max(64, to - from)));
  const start = Math.max(0, Math.floor((from - tile / 8) / (tile / 2)) * (tile / 2));
  const end = Math.min(length, Math.ceil((to + tile / 8) / (tile / 2)) * (tile / 2));
  return end > start ? [start, end] : [0, length];
}
