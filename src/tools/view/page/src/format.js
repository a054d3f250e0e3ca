// SPDX-License-Identifier: MIT
// Numbers and times as people read them.

const UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'us'], [1, 'ns']];
const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/**
 * Formats a duration with four significant digits: 12.34 ms.
 * @param {number} ns
 * @returns {string}
 */
export function duration(ns) {
  if (!Number.isFinite(ns)) {
    return '–';
  }
  const size = Math.abs(ns);
  if (size >= 120e9) {
    const minutes = Math.floor(size / 60e9);
    return `${ns < 0 ? '-' : ''}${minutes} min ${((size - minutes * 60e9) / 1e9).toFixed(1)} s`;
  }
  for (const [unit, name] of UNITS) {
    if (size >= unit || unit === 1) {
      const value = ns / Number(unit);
      const digits = unit === 1 ? 0
        : Math.max(0, 3 - Math.floor(Math.log10(Math.max(1, Math.abs(value)))));
      return `${value.toFixed(digits)} ${name}`;
    }
  }
  return '0 ns';
}

/**
 * Formats a point in time as seconds since the start, exact to the step of the axis.
 * @param {number} ns
 * @param {number} [step] difference of two times that must show, in nanoseconds
 * @returns {string}
 */
export function time(ns, step = 1000) {
  const digits = Math.min(9, Math.max(0, Math.ceil(9 - Math.log10(Math.max(1, step)))));
  return `${(ns / 1e9).toFixed(digits)} s`;
}

/** @param {number} value */
export function count(value) {
  return Number.isFinite(value) ? whole.format(value) : '–';
}

/**
 * A number of things: 1 event, 2 events, 0 processes.
 * @param {number} value
 * @param {string} noun in the singular
 */
export function counted(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? '' : noun.endsWith('s') ? 'es' : 's'}`;
}

/** @param {number} value */
export function number(value) {
  if (!Number.isFinite(value)) {
    return '–';
  }
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) {
    return value.toExponential(3);
  }
  return size >= 1000 || Number.isInteger(value)
    ? value.toLocaleString('en-US', { maximumFractionDigits: 1 })
    : value.toPrecision(4).replace(/\.?0+$/, '');
}

/** @param {number} share 0 to 1 */
export function percent(share) {
  return Number.isFinite(share) ? `${(share * 100).toFixed(1)} %` : '–';
}

/**
 * How much of a range was read, as a sentence.
 * @param {{read: number, events: number}} excerpt
 */
export function excerpt({ read, events }) {
  return `${count(read)} of ${count(events)} events (${percent(read / Math.max(1, events))}) ` +
    'were read.';
}

/** @param {number} value @param {string} unit samples or ns */
export function weight(value, unit) {
  return unit === 'ns' ? duration(value) : counted(value, 'sample');
}

/**
 * Returns the steps of an axis: about `wanted` round values between two times.
 * @param {number} from
 * @param {number} to
 * @param {number} wanted
 * @returns {{step: number, values: number[]}}
 */
export function ticks(from, to, wanted) {
  const raw = Math.max((to - from) / Math.max(1, wanted), 1e-9);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= raw) ?? 10);
  const values = [];
  for (let at = Math.ceil(from / step); at * step <= to && values.length < 200; at++) {
    values.push(at * step);
  }
  return { step, values };
}

/** @param {number} tid @param {string} name */
export function threadName(tid, name) {
  return name ? `${name} ${tid}` : `thread ${tid}`;
}
