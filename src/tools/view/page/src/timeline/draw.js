// SPDX-License-Identifier: MIT
// Paints the visible rows of the timeline. The work depends on the pixels of the picture and on
// the answer at hand, never on the size of the trace.
import { clean } from '../dom.js';
import { hash } from '../palette.js';
import { above } from './data.js';
import { SPAN_HEIGHT, SPANS_TOP } from './rows.js';

export const FONT = '11px Inter, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif';
const STATE_HEIGHT = 6;
const MIN_LABEL = 22;
const MAX_WAKES = 300;

/** Numbers for tests: shapes and rows of the last frame, and when the first row had data (ms). */
export const work = { shapes: 0, rows: 0, first: 0 };

const widths = new Map();

function width(context, text) {
  let found = widths.get(text);
  if (found === undefined) {
    if (widths.size > 5000) {
      widths.clear();
    }
    found = context.measureText(text).width;
    widths.set(text, found);
  }
  return found;
}

/** Shortens a text to a width in pixels. */
export function shorten(context, text, space) {
  const all = width(context, text);
  if (all <= space) {
    return text;
  }
  const keep = Math.floor((text.length * (space - 8)) / all);
  return keep > 0 ? `${text.slice(0, keep)}…` : '';
}

/**
 * Paints counts per bin as bars; a pixel shows the largest of its bins.
 * @param {object} place {x, y, width, height} and the view {from, to}
 */
function bars(context, place, data, counts, most, colour) {
  const scale = place.width / (place.to - place.from);
  const first = Math.max(0, Math.floor((place.from - data.from) / data.binNs));
  const end = Math.min(counts.length, Math.ceil((place.to - data.from) / data.binNs));
  context.fillStyle = colour;
  const step = data.binNs * scale;
  const bottom = place.y + place.height;
  const drawBar = (x, across, value) => {
    // The square root keeps rare samples visible next to busy times.
    const tall = Math.max(1, Math.sqrt(value / most) * place.height);
    context.fillRect(x, bottom - tall, across, tall);
    work.shapes++;
  };
  let column = -1;
  let value = 0;
  for (let i = first; i < end; i++) {
    const x = place.x + (data.from + i * data.binNs - place.from) * scale;
    if (step >= 1) {
      if (counts[i] > 0) {
        const left = Math.max(place.x, x);
        drawBar(left, Math.max(1, x + step - left - (step > 4 ? 1 : 0)), counts[i]);
      }
      continue;
    }
    if (Math.floor(x) !== column) {
      if (value > 0) {
        drawBar(Math.max(place.x, column), 1, value);
      }
      column = Math.floor(x);
      value = 0;
    }
    value = Math.max(value, counts[i]);
  }
  if (value > 0) {
    drawBar(column, 1, value);
  }
}

function paintStates(context, place, states, colours) {
  const scale = place.width / (place.to - place.from);
  const fills = [colours.run, colours.runnable, colours.wait];
  let covered = -1;
  for (let i = Math.max(0, above(states.start, place.from) - 1);
    i < states.start.length && states.start[i] < place.to; i++) {
    const left = Math.max(0, (states.start[i] - place.from) * scale);
    const right = Math.min(place.width, (states.stop[i] - place.from) * scale);
    if (right <= covered || right <= 0) {
      continue;
    }
    const kind = states.kind[i];
    const inset = kind === 2 ? 2 : 0;
    context.fillStyle = fills[kind];
    context.fillRect(place.x + left, place.y + inset, Math.max(0.5, right - left),
      STATE_HEIGHT - inset * 2);
    work.shapes++;
    // Pieces that end on the same half pixel are drawn as one.
    covered = Math.floor(right * 2) / 2;
  }
}

function paintSpan(context, place, span, left, right, colours) {
  const hue = hash(span.name) % colours.spans.length;
  const across = right - left;
  if (across < 2) {
    context.fillStyle = span.error ? colours.error : colours.edges[hue];
    context.fillRect(left, place.y, Math.max(1, across), SPAN_HEIGHT - 2);
    return;
  }
  context.fillStyle = colours.spans[hue];
  context.fillRect(left, place.y, across - (across > 3 ? 1 : 0), SPAN_HEIGHT - 2);
  context.fillStyle = span.error ? colours.error : colours.edges[hue];
  context.fillRect(left, place.y, span.error ? 4 : 2, SPAN_HEIGHT - 2);
  if (across > MIN_LABEL) {
    const text = shorten(context, clean(span.name), across - 10);
    context.fillStyle = colours.spanText;
    context.fillText(text, left + 6, place.y + 11.5);
  }
}

function outline(context, x, y, across, tall, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.strokeRect(x + 0.5, y - 0.5, Math.max(2, across - 1), tall);
}

/** Paints the spans of one depth. */
function paintSpanRow(context, place, row, options, colours) {
  const scale = place.width / (place.to - place.from);
  let covered = -1;
  for (let i = above(row.reach, place.from);
    i < row.start.length && row.start[i] < place.to; i++) {
    const left = Math.max(0, (row.start[i] - place.from) * scale);
    const right = Math.min(place.width, (row.stop[i] - place.from) * scale);
    const selected = row.keys[i] === options.key;
    if (right <= 0 || (right - covered < 0.5 && !selected)) {
      continue;
    }
    const name = options.names[row.name[i]]?.name ?? '?';
    paintSpan(context, place, { name, error: row.error[i] }, place.x + left,
      Math.max(place.x + right, place.x + left + 1), colours);
    work.shapes++;
    if (selected) {
      options.outline = [place.x + left, place.y, right - left];
    }
    covered = right;
  }
}

/** Paints spans too short to be sent as a strip of density. */
function paintSpanBins(context, place, data, counts, colours) {
  bars(context, { ...place, y: place.y, height: SPAN_HEIGHT - 6 }, data, counts,
    Math.max(1, data.mostBins), colours.bin);
}

function paintThread(context, place, row, data, options, colours) {
  const thread = data.threads.get(row.tid);
  if (!thread) {
    return;
  }
  paintStates(context, { ...place, y: place.y + 3 }, thread.states, colours);
  if (thread.samples) {
    bars(context, { ...place, y: place.y + 10, height: 12 }, data, thread.samples,
      Math.max(1, data.mostSamples), colours.samples);
  }
  if (thread.events) {
    bars(context, { ...place, y: place.y + 23, height: 3 }, data, thread.events,
      Math.max(1, data.mostEvents), colours.events);
  }
  const top = place.y + SPANS_TOP;
  if (thread.spanBins && row.depth > 0) {
    paintSpanBins(context, { ...place, y: top + 2 }, data, thread.spanBins, colours);
  }
  thread.rows.forEach((spans, depth) => {
    paintSpanRow(context, { ...place, y: top + depth * SPAN_HEIGHT }, spans, options, colours);
  });
}

/** A closed process shows the sum of its threads' samples. */
function paintProcess(context, place, row, data, colours) {
  for (const tid of row.tids ?? []) {
    const samples = data.threads.get(tid)?.samples;
    if (samples) {
      bars(context, { ...place, y: place.y + 4, height: 16 }, data, samples,
        Math.max(1, data.mostSamples), colours.samples);
    }
  }
}

function paintCpu(context, place, row, data, colours) {
  const cpu = data.cpus.find((entry) => entry.cpu === row.cpu);
  if (cpu?.samples) {
    bars(context, { ...place, y: place.y + 3, height: 13 }, data, cpu.samples,
      Math.max(1, data.mostCpu), colours.samples);
  }
  if (cpu?.events) {
    bars(context, { ...place, y: place.y + 17, height: 3 }, data, cpu.events,
      Math.max(1, data.mostCpuEvents), colours.events);
  }
}

/** Paints one row. `options`: {names, key, outline}, where outline is set for the selection. */
export function paintRow(context, place, row, data, options, colours) {
  work.rows++;
  const grouped = row.type === 'process' || row.type === 'cpus' || row.type === 'trace';
  if (grouped) {
    context.fillStyle = colours.group;
    context.fillRect(place.x, place.y, place.width, row.height);
  }
  context.fillStyle = colours.line;
  context.fillRect(place.x, place.y + row.height - 1, place.width, 1);
  if (!data) {
    return;
  }
  work.first ||= performance.now();
  if (row.type === 'thread') {
    paintThread(context, place, row, data, options, colours);
  } else if (row.type === 'cpu') {
    paintCpu(context, place, row, data, colours);
  } else if (row.type === 'process' && !row.open) {
    paintProcess(context, place, row, data, colours);
  }
  if (options.outline) {
    outline(context, options.outline[0], options.outline[1], options.outline[2],
      SPAN_HEIGHT - 1, colours.text);
    options.outline = null;
  }
}

/**
 * Paints arrows from a waking thread to the thread that it woke. If the view has too many, only
 * those of one thread are painted.
 */
export function paintWakes(context, place, data, find, only, colours) {
  const scale = place.width / (place.to - place.from);
  const first = above(data.wakes.time, place.from);
  const end = above(data.wakes.time, place.to);
  if (end - first > MAX_WAKES && only === null) {
    return;
  }
  context.strokeStyle = colours.wake;
  context.fillStyle = colours.wake;
  context.lineWidth = 1;
  let painted = 0;
  for (let i = first; i < end && painted < MAX_WAKES; i++) {
    const [at, source, target] = data.wakes.list[i];
    if (only !== null && source !== only && target !== only) {
      continue;
    }
    const up = find(source);
    const down = find(target);
    if (up === null || down === null || up === down) {
      continue;
    }
    const x = Math.round(place.x + (at - place.from) * scale) + 0.5;
    const sign = down > up ? 1 : -1;
    context.beginPath();
    context.moveTo(x, up);
    context.lineTo(x, down - sign * 4);
    context.stroke();
    context.beginPath();
    context.moveTo(x, down);
    context.lineTo(x - 3, down - sign * 5);
    context.lineTo(x + 3, down - sign * 5);
    context.fill();
    painted++;
    work.shapes++;
  }
}

/** Returns the span of a row at a time and depth, or null. */
export function spanAt(rows, depth, at, slack) {
  const row = rows[depth];
  if (!row) {
    return null;
  }
  let best = null;
  for (let i = above(row.reach, at - slack); i < row.start.length; i++) {
    if (row.start[i] > at + slack) {
      break;
    }
    if (row.stop[i] >= at - slack) {
      best = i;
      if (row.start[i] <= at && row.stop[i] >= at) {
        break;
      }
    }
  }
  return best === null ? null : {
    start: row.start[best], stop: row.stop[best], name: row.name[best],
    error: row.error[best] === 1, key: row.keys[best], depth,
  };
}
