// SPDX-License-Identifier: MIT
// The offline page: answers come from what `ringpipe view --html` recorded. A time range is
// widened to the smallest recorded range that contains it.

import { compileExpression, ExpressionError } from './expression.js';
import { query } from './query.js';

const MAX_RESULTS = 200;
const PAGE = 200;

export class Recorded {
  /** @param {string} text @returns {Recorded} */
  static parse(text) {
    try {
      const data = JSON.parse(text);
      return new Recorded(data.ranges ?? [], data.answers ?? {});
    } catch {
      return new Recorded([], {});
    }
  }

  /** @param {[number, number][]} ranges @param {Record<string, any>} answers */
  constructor(ranges, answers) {
    this.answers = answers;
    this.ranges = ranges.filter((range) => Array.isArray(range) && range.length === 2)
      .sort((a, b) => (a[1] - a[0]) - (b[1] - b[0]));
  }

  length(trace) {
    return this.answers.traces?.traces?.[trace]?.duration_ns ?? 0;
  }

  /** Returns the ranges that contain [from, to], the smallest first and the whole trace last. */
  around(trace, from, to) {
    const end = this.length(trace);
    const low = Math.max(0, from ?? 0);
    const high = Math.min(end, to ?? end);
    const found = this.ranges.filter((range) => range[0] <= low && range[1] >= high);
    return [...found, [0, end]];
  }

  /** Finds an answer for the smallest range that has one. */
  find(path, parameters) {
    const { from, to, ...rest } = parameters;
    for (const range of this.around(rest.trace ?? 0, from, to)) {
      const exact = this.get(query(path, { ...rest, from: range[0], to: range[1] }));
      if (exact) {
        return exact;
      }
    }
    // Nothing is recorded for single threads: the answer for all of them is the nearest.
    const { pid, tid, ...wider } = parameters;
    return pid || tid ? this.find(path, wider) : this.get(query(path, rest));
  }

  get(key) {
    return Object.hasOwn(this.answers, key) ? this.answers[key] : undefined;
  }

  /** Returns the range whose numbers the panes show for a selection. */
  snap(trace, from, to) {
    for (const range of this.around(trace, from, to)) {
      if (this.get(query('spans', { trace, from: range[0], to: range[1] }))) {
        return range;
      }
    }
    return [0, this.length(trace)];
  }

  /**
   * Answers as the server does, or returns {error}.
   * @param {string} path
   * @param {Record<string, any>} parameters
   */
  answer(path, parameters) {
    const { trace = 0 } = parameters;
    let found;
    switch (path) {
    case 'traces':
      found = this.get('traces');
      break;
    case 'timeline':
      found = this.find(path, { ...parameters, bins: 1024 });
      break;
    case 'counters':
      found = this.find(path, { ...parameters, points: 1024 });
      break;
    case 'spans':
      found = this.find(path, parameters);
      break;
    case 'flame':
    case 'functions':
      found = this.find(path, parameters) ??
        this.find(path, { ...parameters, provider: null });
      break;
    case 'explain':
      found = parameters.key && this.get(query(path, { trace, key: parameters.key }));
      break;
    case 'instances':
      return this.instances(parameters);
    case 'events':
      return this.events(parameters);
    case 'search':
      return this.search(trace, String(parameters.q ?? ''));
    }
    return found || { error: 'This copy of the view does not contain the answer. ' +
      'Open the trace with `ringpipe view` to see it.' };
  }

  instances(parameters) {
    const answer = this.find('spans', { trace: parameters.trace, from: parameters.from,
      to: parameters.to });
    const span = answer?.spans?.find((entry) => entry.name === parameters.name &&
      (!parameters.provider || entry.provider === parameters.provider));
    const instances = (span?.slowest ?? []).filter((instance) =>
      instance.duration_ns >= (parameters.min_ns ?? 0) &&
      instance.duration_ns <= (parameters.max_ns ?? Infinity));
    return { instances: instances.slice(0, parameters.limit ?? 100), total: instances.length };
  }

  events(parameters) {
    const { trace = 0, from, to, where } = parameters;
    const answer = this.find('events', { trace, from, to, limit: 2000 });
    if (!answer) {
      return { error: 'This copy of the view contains no events.' };
    }
    let matches;
    try {
      matches = where ? compileExpression(where) : () => true;
    } catch (error) {
      if (error instanceof ExpressionError) {
        return { error: error.message, position: error.position };
      }
      throw error;
    }
    const events = answer.events.filter((event) =>
      (from === undefined || from === null || event.time_ns >= from) &&
      (to === undefined || to === null || event.time_ns < to) &&
      matches(event));
    const start = Number(parameters.after ?? 0) || 0;
    const size = parameters.limit ?? PAGE;
    const next = start + size < events.length ? String(start + size) : null;
    return { events: events.slice(start, start + size), next };
  }

  search(trace, text) {
    const words = text.toLowerCase();
    const results = [];
    const add = (kind, name, more) => {
      const whole = more.provider === undefined ? String(name) : `${more.provider}/${name}`;
      if (results.length < MAX_RESULTS && whole.toLowerCase().includes(words)) {
        results.push({ kind, name, count: 0, ...more });
      }
    };
    const about = this.answers.traces?.traces?.[trace];
    for (const span of this.find('spans', { trace })?.spans ?? []) {
      add('span', span.name, { provider: span.provider, count: span.count });
    }
    for (const process of about?.processes ?? []) {
      add('process', process.name, { pid: process.pid });
      for (const thread of process.threads) {
        add('thread', thread.name, { pid: process.pid, tid: thread.tid, count: thread.events });
      }
    }
    for (const entry of this.find('functions', { trace, kind: 'cpu' })?.functions ?? []) {
      add('function', entry.name, { count: entry.inclusive });
    }
    const kinds = new Map();
    for (const { provider, name } of this.find('events', { trace, limit: 2000 })?.events ?? []) {
      const key = `${provider}/${name}`;
      kinds.set(key, { provider, name, count: (kinds.get(key)?.count ?? 0) + 1 });
    }
    for (const { name, ...more } of kinds.values()) {
      add('event', name, more);
    }
    return { results };
  }
}
