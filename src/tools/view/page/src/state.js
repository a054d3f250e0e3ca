// SPDX-License-Identifier: MIT
// The state of the page, kept in location.hash so that its address is a permalink.
import { perFrame } from './dom.js';

const TABS = ['flame', 'latency', 'explain', 'counters', 'events'];
const LIMIT = 2000;

/**
 * @typedef {object} State
 * @property {number} trace index of the trace that the panes show
 * @property {number | null} other index of the trace to compare with
 * @property {[number, number] | null} view visible times, or null for the whole trace
 * @property {[number, number] | null} range selected times
 * @property {string} tab
 * @property {string | null} key selected span instance
 * @property {number | null} keyTrace trace of the selected instance
 * @property {number | null} tid selected thread
 * @property {number | null} pid selected process
 * @property {string} kind cpu or offcpu
 * @property {string} order flame, heavy or functions
 * @property {string | null} within stacks within spans of this name
 * @property {string} mark text to highlight in the flame graph
 * @property {string | null} span id of the span in the latency pane, see spanId()
 * @property {[number, number] | null} bucket durations of the listed instances
 * @property {string} where
 */

/** @returns {State} */
function initial() {
  return {
    trace: 0, other: null, view: null, range: null, tab: 'flame', key: null, keyTrace: null,
    tid: null, pid: null, kind: 'cpu', order: 'heavy', within: null, mark: '', span: null,
    bucket: null, where: '',
  };
}

const PAIRS = new Set(['view', 'range', 'bucket']);
const NUMBERS = new Set(['trace', 'other', 'tid', 'pid', 'keyTrace']);

/** @param {string} text @returns {[number, number] | null} */
function pair(text) {
  const found = /^(\d+)-(\d+)$/.exec(text);
  const [low, high] = found ? [Number(found[1]), Number(found[2])] : [0, 0];
  return high > low && Number.isSafeInteger(high) ? [low, high] : null;
}

/** Reads a hash that a person may have edited. @param {string} text @returns {State} */
export function parse(text) {
  const read = initial();
  for (const [name, value] of new URLSearchParams(text.replace(/^#/, ''))) {
    if (!Object.hasOwn(read, name) || value.length > LIMIT) {
      continue;
    }
    if (PAIRS.has(name)) {
      read[name] = pair(value);
    } else if (NUMBERS.has(name)) {
      read[name] = /^\d+$/.test(value) ? Number(value) : read[name];
    } else {
      read[name] = value;
    }
  }
  read.tab = TABS.includes(read.tab) ? read.tab : 'flame';
  read.kind = read.kind === 'offcpu' ? 'offcpu' : 'cpu';
  read.order = ['flame', 'heavy', 'functions'].includes(read.order) ? read.order : 'heavy';
  return read;
}

/** @param {State} from @returns {string} */
export function serialise(from) {
  const plain = initial();
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(from)) {
    if (value === null || value === plain[name]) {
      continue;
    }
    out.set(name, PAIRS.has(name) ? value.map((part) => Math.round(part)).join('-')
      : String(value));
  }
  return out.toString();
}

/** Returns the id of the spans of one name. Two providers may have spans of the same name. */
export function spanId({ provider, name }) {
  return `${provider}/${name}`;
}

/** @type {State} */
export const state = parse(location.hash);
/** @type {Set<(changed: Set<string>) => void>} */
const listeners = new Set();
let pending = new Set();
let written = location.hash.replace(/^#/, '');

const report = perFrame(() => {
  const changed = pending;
  pending = new Set();
  for (const listener of listeners) {
    listener(changed);
  }
  remember();
});

let timer = 0;

/** Writes the hash when the state rests, since browsers limit how often it may change. */
function remember() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const text = serialise(state);
    if (text !== written) {
      written = text;
      history.replaceState(null, '', `#${text}`);
    }
  }, 150);
}

/** Changes the state; listeners hear of it in the next frame. @param {Partial<State>} changes */
export function update(changes) {
  for (const [name, value] of Object.entries(changes)) {
    const old = state[name];
    const same = Array.isArray(value) && Array.isArray(old)
      ? value[0] === old[0] && value[1] === old[1] : value === old;
    if (!same) {
      state[name] = value;
      pending.add(name);
    }
  }
  if (pending.size > 0) {
    report();
  }
}

/** @param {(changed: Set<string>) => void} listener */
export function onChange(listener) {
  listeners.add(listener);
}

addEventListener('hashchange', () => {
  const text = location.hash.replace(/^#/, '');
  if (text !== written) {
    written = text;
    update(parse(text));
  }
});
