// SPDX-License-Identifier: MIT
// The timeline: a canvas under a scroller that holds the labels of the visible rows.
import { ask, Latest } from '../api.js';
import { fill, fit, h, perFrame, showTooltip } from '../dom.js';
import * as format from '../format.js';
import { colours, onTheme } from '../palette.js';
import { onChange, state, update } from '../state.js';
import { above, prepare, STATES, windowOf } from './data.js';
import { FONT, paintRow, paintWakes, spanAt, work } from './draw.js';
import { between, layout, SPAN_HEIGHT, SPANS_TOP } from './rows.js';

export const LABELS = 208;
const RULER = 24;
const BINS = 2048;
const MIN_VIEW = 200;

/** Times of painting in milliseconds, for tests. @type {number[]} */
export const frames = [];

/** An excerpt of a trace may lack threads that a range of it has. */
function addThreads(trace, data) {
  for (const { pid, tid, name } of data.threads.values()) {
    let process = trace.processes.find((one) => one.pid === pid);
    if (!process) {
      process = { pid, name: null, threads: [] };
      trace.processes.push(process);
    }
    if (!process.threads.some((thread) => thread.tid === tid)) {
      process.threads.push({ tid, name, events: 0, samples: 0, spans: 0 });
    }
  }
}

export class Timeline {
  /** @param {any[]} traces of api/traces @param {(message: string) => void} announce */
  constructor(traces, announce) {
    this.traces = traces;
    this.announce = announce;
    this.closed = new Set();
    this.depths = new Map();
    /** @type {Map<number, any>} */
    this.data = new Map();
    /** @type {Map<number, Latest>} */
    this.questions = new Map();
    this.asked = new Map();
    this.wakes = true;
    this.hover = null;
    this.focusRow = 0;
    this.plan = layout([], this.closed, this.depths);
    this.canvas = h('canvas', { 'aria-hidden': 'true' });
    this.labels = h('div', { class: 'tl-labels', role: 'tree',
      'aria-label': 'Processes, threads and processors' });
    this.message = h('div', { class: 'tl-message', role: 'status' });
    this.scroller = h('div', { class: 'tl-scroller', tabindex: '0', role: 'group',
      'aria-label': 'Timeline. W and S zoom, A and D move, arrow keys move and scroll.' },
    this.labels);
    this.element = h('section', { class: 'timeline', 'aria-label': 'Timeline' },
      this.canvas, this.scroller, this.message);
    this.draw = perFrame(() => this.paint());
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.element);
    onTheme(this.draw);
    onChange((changed) => this.changed(changed));
  }

  /** Indices of the traces that are shown. */
  shown() {
    return [state.trace, state.other].filter((index, place, all) => index !== null &&
      this.traces[index] && all.indexOf(index) === place);
  }

  length() {
    return Math.max(1, ...this.shown().map((index) => this.traces[index].duration_ns));
  }

  view() {
    return state.view ?? [0, this.length()];
  }

  changed(changed) {
    if (changed.has('trace') || changed.has('other')) {
      this.relayout();
    }
    if (changed.has('view') || changed.has('trace') || changed.has('other')) {
      this.request();
    }
    if (changed.has('tid') || changed.has('pid')) {
      this.placeLabels();
    }
    this.draw();
  }

  /** Shows other times, kept within the trace. */
  setView(from, to) {
    const length = this.length();
    const size = Math.min(length, Math.max(MIN_VIEW, to - from));
    const start = Math.round(Math.min(Math.max(0, from), length - size));
    update({ view: size >= length ? null : [start, Math.round(start + size)] });
  }

  /** @param {number} factor below 1 zooms in @param {number} [at] time that keeps its place */
  zoom(factor, at) {
    const [from, to] = this.view();
    const centre = at ?? (from + to) / 2;
    const size = Math.max(MIN_VIEW, (to - from) * factor);
    const share = (centre - from) / (to - from);
    this.setView(centre - size * share, centre + size * (1 - share));
  }

  /** @param {number} share of the view */
  pan(share) {
    const [from, to] = this.view();
    this.setView(from + (to - from) * share, to + (to - from) * share);
  }

  /** Shows an interval with space around it. */
  reveal(from, to) {
    const space = Math.max((to - from) * 0.6, 500);
    this.setView(from - space, to + space);
  }

  /** Scrolls to the row of a thread or process and opens what hides it. */
  revealRow(trace, pid, tid) {
    this.closed.delete(`t${trace}`);
    if (tid !== null) {
      this.closed.delete(`p${trace}.${pid}`);
    }
    this.relayout();
    const row = this.plan.rows.find((entry) => entry.trace === trace && (tid !== null
      ? entry.tid === tid : entry.type === 'process' && entry.pid === pid));
    if (row) {
      const high = this.scroller.clientHeight - RULER;
      if (row.y < this.scroller.scrollTop || row.y + Math.min(row.height, high) >
          this.scroller.scrollTop + high) {
        this.scroller.scrollTop = Math.max(0, row.y - high / 4);
      }
    }
  }

  request() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), this.data.size === 0 ? 0 : 90);
  }

  load() {
    for (const index of this.shown()) {
      const length = this.traces[index].duration_ns;
      const [from, to] = this.view();
      const window = windowOf(Math.min(from, length), Math.min(to, length), length);
      const wanted = window.join('-');
      if (this.asked.get(index) === wanted) {
        continue;
      }
      this.asked.set(index, wanted);
      const latest = this.questions.get(index) ?? new Latest();
      this.questions.set(index, latest);
      const whole = window[0] === 0 && window[1] >= length;
      latest.run((signal) => ask('timeline', { trace: index, from: whole ? null : window[0],
        to: whole ? null : window[1], bins: BINS }, signal)).then((answer) => {
        if (answer) {
          const data = prepare(answer);
          this.data.set(index, data);
          addThreads(this.traces[index], data);
          this.showExcerpt(data.excerpt);
          this.relayout();
          this.draw();
        }
      }, (error) => {
        this.asked.delete(index);
        fill(this.message, `The timeline could not be read: ${error.message}`);
      });
    }
  }

  /** States that the counts are estimates, unless all events were read. */
  showExcerpt(excerpt) {
    fill(this.message, excerpt && `${format.excerpt(excerpt)} Counts are estimates. Zoom in to ` +
      'read more.');
  }

  /** The names of an answer's spans: those of a range are in the answer. */
  names(trace) {
    return this.data.get(trace)?.names ?? this.traces[trace].span_names ?? [];
  }

  relayout() {
    const traces = this.shown().map((index) => ({ index, about: this.traces[index],
      data: this.data.get(index) }));
    this.plan = layout(traces, this.closed, this.depths);
    this.labels.style.setProperty('height', `${this.plan.height + RULER}px`);
    this.placeLabels();
    this.draw();
  }

  resize() {
    this.width = this.element.clientWidth;
    this.height = this.element.clientHeight;
    this.placeLabels();
    this.draw();
  }

  toggle(row) {
    if (row.open === undefined) {
      return;
    }
    if (!this.closed.delete(row.id)) {
      this.closed.add(row.id);
    }
    this.relayout();
  }

  choose(row) {
    if (row.type === 'thread') {
      const same = state.tid === row.tid && state.trace === row.trace;
      update({ trace: this.traceFor(row), tid: same ? null : row.tid, pid: null, key: null });
    } else if (row.type === 'process') {
      const same = state.pid === row.pid && state.trace === row.trace;
      update({ trace: this.traceFor(row), pid: same ? null : row.pid, tid: null, key: null });
    }
  }

  /** Panes show the trace of the selection; in a comparison both stay visible. */
  traceFor(row) {
    if (row.trace !== state.trace && state.other === row.trace) {
      update({ other: state.trace });
    }
    return row.trace;
  }

  /** Keeps label elements only for visible rows, since a trace may have 100,000 threads. */
  placeLabels() {
    const top = this.scroller.scrollTop;
    const [first, end] = between(this.plan.tops, top, top + (this.height ?? 0));
    const focused = this.labels.contains(document.activeElement);
    this.focusRow = Math.min(Math.max(this.focusRow, 0), Math.max(0, this.plan.rows.length - 1));
    const tabbed = this.focusRow >= first && this.focusRow < end ? this.focusRow : first;
    fill(this.labels, this.plan.rows.slice(first, end).map((row, i) => this.label(row, first + i,
      first + i === tabbed)));
    if (focused) {
      this.labels.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
    }
  }

  label(row, index, tabbed) {
    const chosen = row.trace === state.trace && (row.type === 'thread'
      ? row.tid === state.tid : row.type === 'process' && row.pid === state.pid);
    return h('div', {
      class: `tl-label tl-${row.type}`, role: 'treeitem', 'aria-level': row.level,
      'aria-expanded': row.open === undefined ? null : String(row.open),
      'aria-selected': String(chosen), tabindex: tabbed ? '0' : '-1', 'data-row': index,
      title: `${row.label} ${row.note}`,
      style: { top: `${row.y + RULER}px`, height: `${row.height}px`,
        'padding-left': `${row.level * 12 - 4}px` },
    },
    row.open !== undefined && h('span', { class: 'tl-arrow', 'aria-hidden': 'true' },
      row.open ? '▾' : '▸'),
    h('span', { class: 'tl-name' }, row.label),
    h('span', { class: 'tl-note' }, row.note));
  }

  labelKey(event) {
    const row = this.plan.rows[this.focusRow];
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10,
      Home: -this.plan.rows.length, End: this.plan.rows.length };
    if (event.key in moves) {
      const last = this.plan.rows.length - 1;
      this.focusRow = Math.min(last, Math.max(0, this.focusRow + moves[event.key]));
      const target = this.plan.rows[this.focusRow];
      const high = this.scroller.clientHeight - RULER;
      if (target.y < this.scroller.scrollTop) {
        this.scroller.scrollTop = target.y;
      } else if (target.y + target.height > this.scroller.scrollTop + high) {
        this.scroller.scrollTop = target.y + Math.min(target.height, high) - high;
      }
      this.placeLabels();
    } else if (event.key === 'Enter' || event.key === ' ') {
      this.choose(row);
    } else if ((event.key === 'ArrowRight' && row?.open === false) ||
               (event.key === 'ArrowLeft' && row?.open === true)) {
      this.toggle(row);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** Returns what is at a point of the element: time, row, and span. */
  locate(x, y) {
    const [from, to] = this.view();
    const across = Math.max(1, this.width - LABELS);
    const at = from + ((x - LABELS) / across) * (to - from);
    const slack = (1.5 / across) * (to - from);
    const high = y - RULER + this.scroller.scrollTop;
    const index = above(this.plan.tops, high) - 1;
    const row = y < RULER ? undefined : this.plan.rows[index];
    const found = { at, row, span: null, thread: null, state: null, data: null };
    if (row && row.type !== 'trace' && high < row.y + row.height) {
      found.data = this.data.get(row.trace);
      found.thread = row.type === 'thread' ? found.data?.threads.get(row.tid) : null;
      const inner = high - row.y;
      if (found.thread && inner >= SPANS_TOP) {
        found.span = spanAt(found.thread.rows, Math.floor((inner - SPANS_TOP) / SPAN_HEIGHT), at,
          slack);
      } else if (found.thread) {
        const { states } = found.thread;
        const i = above(states.start, at) - 1;
        if (i >= 0 && states.stop[i] >= at) {
          found.state = { kind: STATES[states.kind[i]], ns: states.stop[i] - states.start[i] };
        }
      }
    }
    return found;
  }

  tip(found, x, y) {
    const { row, span, data, at } = found;
    if (!row || row.type === 'trace') {
      showTooltip(null);
      return;
    }
    const rows = [];
    let title = `${row.label} ${row.note}`;
    if (span) {
      title = this.names(row.trace)[span.name]?.name ?? 'span';
      rows.push(['Duration', format.duration(span.stop - span.start)],
        ['Start', format.time(span.start, 1)], ['Thread', `${row.label} ${row.note}`]);
      if (span.error) {
        rows.push(['Result', 'error']);
      }
    } else {
      rows.push(['Time', format.time(at, (this.view()[1] - this.view()[0]) / 1000)]);
      if (found.state) {
        rows.push(['State', `${found.state.kind} for ${format.duration(found.state.ns)}`]);
      }
      const source = row.type === 'cpu' ? data?.cpus.find((cpu) => cpu.cpu === row.cpu)
        : found.thread;
      const bin = data ? Math.floor((at - data.from) / data.binNs) : -1;
      for (const name of ['samples', 'events']) {
        if (source?.[name]?.[bin]) {
          rows.push([name === 'samples' ? 'Samples' : 'Events',
            `${format.count(source[name][bin])} in ${format.duration(data.binNs)}`]);
        }
      }
    }
    showTooltip({ title, rows }, x, y);
  }

  click(found) {
    const { row, span } = found;
    if (span && row) {
      this.traceFor(row);
      update({ trace: row.trace, key: span.key, keyTrace: row.trace, tid: row.tid, pid: null,
        tab: 'explain' });
      const name = this.names(row.trace)[span.name]?.name ?? 'span';
      this.announce(`Selected ${name}, ${format.duration(span.stop - span.start)}`);
    } else if (row?.type === 'thread') {
      this.choose(row);
    } else {
      update({ range: null, key: null });
    }
  }

  listen() {
    const { scroller } = this;
    let drag = null;
    const place = (event) => {
      const box = this.element.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    scroller.addEventListener('scroll', () => {
      this.placeLabels();
      this.draw();
    }, { passive: true });
    this.labels.addEventListener('keydown', (event) => this.labelKey(event));
    this.labels.addEventListener('click', (event) => {
      const label = event.target.closest?.('.tl-label');
      if (label) {
        this.focusRow = Number(label.dataset.row);
        const row = this.plan.rows[this.focusRow];
        if (row.open === undefined || !event.target.closest('.tl-arrow')) {
          this.choose(row);
        }
        if (event.target.closest('.tl-arrow') || row.type === 'cpus' || row.type === 'trace') {
          this.toggle(row);
        }
      }
    });
    this.labels.addEventListener('focusin', (event) => {
      const index = event.target.dataset?.row;
      this.focusRow = index === undefined ? this.focusRow : Number(index);
    });
    scroller.addEventListener('wheel', (event) => {
      const [x] = place(event);
      const [from, to] = this.view();
      const across = Math.max(1, this.width - LABELS);
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))),
          from + ((x - LABELS) / across) * (to - from));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.pan((event.deltaX || event.deltaY) / across);
      }
    }, { passive: false });
    scroller.addEventListener('pointerdown', (event) => {
      const [x, y] = place(event);
      if (event.button === 0 && x > LABELS && x < LABELS + this.width - LABELS) {
        const pan = event.shiftKey;
        drag = { x, y, pan, moved: false, found: this.locate(x, y), view: this.view() };
        scroller.setPointerCapture(event.pointerId);
      }
    });
    scroller.addEventListener('pointermove', (event) => {
      const [x, y] = place(event);
      if (!drag) {
        this.hover = x > LABELS ? x : null;
        this.tip(x > LABELS ? this.locate(x, y) : { row: null }, event.clientX, event.clientY);
        this.draw();
        return;
      }
      drag.moved ||= Math.abs(x - drag.x) > 3;
      if (drag.moved && drag.pan) {
        const [from, to] = drag.view;
        const shift = ((drag.x - x) / (this.width - LABELS)) * (to - from);
        this.setView(from + shift, to + shift);
      } else if (drag.moved) {
        showTooltip(null);
        const ends = [drag.found.at, this.locate(x, y).at].sort((a, b) => a - b);
        const low = Math.max(0, Math.round(ends[0]));
        update({ range: [low, Math.max(low + 1, Math.min(this.length(), Math.round(ends[1])))] });
      }
    });
    scroller.addEventListener('pointerup', () => {
      if (drag && !drag.moved) {
        this.click(drag.found);
      }
      drag = null;
    });
    scroller.addEventListener('pointercancel', () => {
      drag = null;
    });
    scroller.addEventListener('pointerleave', () => {
      this.hover = null;
      showTooltip(null);
      this.draw();
    });
    scroller.addEventListener('dblclick', (event) => {
      const { span } = this.locate(...place(event));
      if (span) {
        this.reveal(span.start, span.stop);
      }
    });
  }

  paint() {
    if (!this.width || !this.height) {
      return;
    }
    const began = performance.now();
    work.shapes = 0;
    work.rows = 0;
    const palette = colours();
    const context = fit(this.canvas, this.width, this.height);
    const [from, to] = this.view();
    const across = Math.max(1, this.width - LABELS);
    const top = this.scroller.scrollTop;
    context.fillStyle = palette.back;
    context.fillRect(0, 0, this.width, this.height);
    context.font = FONT;
    const axis = format.ticks(from, to, across / 110);
    this.paintGrid(context, axis, palette);
    const [first, end] = between(this.plan.tops, top, top + this.height - RULER);
    context.save();
    context.beginPath();
    context.rect(LABELS, RULER, across, this.height - RULER);
    context.clip();
    const place = { x: LABELS, y: 0, width: across, from, to };
    for (const row of this.plan.rows.slice(first, end)) {
      const options = { names: this.names(row.trace), outline: null,
        key: state.keyTrace === row.trace ? state.key : null };
      paintRow(context, { ...place, y: row.y - top + RULER }, row, this.data.get(row.trace),
        options, palette);
    }
    this.paintOverlay(context, place, top, palette);
    context.restore();
    this.paintRuler(context, axis, palette);
    frames.push(performance.now() - began);
    if (frames.length > 2000) {
      frames.splice(0, 1000);
    }
  }

  x(at) {
    const [from, to] = this.view();
    return LABELS + ((at - from) / (to - from)) * (this.width - LABELS);
  }

  paintGrid(context, axis, palette) {
    context.fillStyle = palette.grid;
    for (const value of axis.values) {
      context.fillRect(Math.round(this.x(value)), RULER, 1, this.height - RULER);
    }
  }

  paintOverlay(context, place, top, palette) {
    if (this.wakes) {
      for (const index of this.shown()) {
        const data = this.data.get(index);
        if (data) {
          paintWakes(context, place, data, (tid) => {
            const row = this.plan.threads.get(`${index}.${tid}`);
            return row ? row.y - top + RULER + 6 : null;
          }, index === state.trace ? state.tid : null, palette);
        }
      }
    }
    if (state.range) {
      const left = this.x(state.range[0]);
      const right = this.x(state.range[1]);
      context.fillStyle = palette.select;
      context.fillRect(left, RULER, right - left, this.height);
      context.fillStyle = palette.accent;
      context.fillRect(left, RULER, 1, this.height);
      context.fillRect(right - 1, RULER, 1, this.height);
    }
    if (this.hover !== null) {
      context.fillStyle = palette.dim;
      context.fillRect(Math.round(this.hover), RULER, 1, this.height);
    }
  }

  paintRuler(context, axis, palette) {
    context.fillStyle = palette.group;
    context.fillRect(0, 0, this.width, RULER);
    context.fillStyle = palette.line;
    context.fillRect(0, RULER - 1, this.width, 1);
    context.fillRect(LABELS - 1, 0, 1, this.height);
    context.fillStyle = palette.dim;
    for (const value of axis.values) {
      const x = Math.round(this.x(value));
      context.fillRect(x, RULER - 6, 1, 5);
      if (x + 60 < this.width) {
        context.fillText(format.time(value, axis.step), x + 4, 15);
      }
    }
    if (state.range) {
      const left = Math.max(LABELS, this.x(state.range[0]));
      const right = Math.min(this.width, this.x(state.range[1]));
      if (right > left) {
        context.fillStyle = palette.accent;
        context.fillRect(left, RULER - 3, right - left, 2);
        const text = format.duration(state.range[1] - state.range[0]);
        const space = context.measureText(text).width + 10;
        const x = Math.min(Math.max(LABELS, (left + right - space) / 2), this.width - space);
        context.fillRect(x, 3, space, 16);
        context.fillStyle = palette.back;
        context.fillText(text, x + 5, 15);
      }
    }
  }
}
