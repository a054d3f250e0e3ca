// SPDX-License-Identifier: MIT
// Spans by name, the distribution of one name's durations, and its slow instances; also compared
// with another trace.
import { ask } from '../api.js';
import { fill, fit, h, perFrame, showTooltip } from '../dom.js';
import * as format from '../format.js';
import { colours, onTheme } from '../palette.js';
import { onChange, spanId, state, update } from '../state.js';
import { FONT } from '../timeline/draw.js';
import { Pane, scope, table, threads } from './pane.js';

// The margins of the plot: space for a number of seven digits, and for half a mark.
const LEFT = 60;
const RIGHT = 16;
const MARKS = [['p50_ns', 'p50'], ['p99_ns', 'p99'], ['p99_9_ns', 'p99.9']];

/** Selects a span in the timeline. */
export function selectInstance(instance, timeline) {
  update({ key: instance.key, keyTrace: state.trace, pid: instance.pid, tid: instance.tid });
  timeline.revealRow(state.trace, instance.pid, instance.tid);
  timeline.reveal(instance.start_ns, instance.start_ns + instance.duration_ns);
}

/** Pairs the spans of two traces by their names. */
function pair(own, other) {
  const rows = new Map(own.map((span) => [spanId(span), { id: spanId(span), own: span,
    other: null }]));
  for (const span of other) {
    const id = spanId(span);
    rows.set(id, { id, own: rows.get(id)?.own ?? null, other: span });
  }
  return [...rows.values()];
}

export class LatencyPane extends Pane {
  constructor(traces, timeline) {
    super('latency', 'Latency by span', ['trace', 'other', 'range', 'tid', 'pid', 'key']);
    this.timeline = timeline;
    this.list = h('div', { class: 'scroll', tabindex: '0', role: 'region',
      'aria-label': 'Spans' });
    this.title = h('div', { class: 'subtitle' });
    this.canvas = h('canvas', { role: 'img', 'aria-label': 'Distribution of durations' });
    this.histogram = h('div', { class: 'histogram' }, this.canvas);
    this.slow = h('div', { class: 'scroll', tabindex: '0', role: 'region',
      'aria-label': 'Slow spans' });
    this.tools.remove();
    this.body.className = 'split';
    this.body.removeAttribute('tabindex');
    fill(this.body, h('div', null, this.list), h('div', null, this.title, this.histogram,
      this.slow));
    this.excerptLacks = ' Spans that began or ended outside of these are missing.';
    /** What the page shows of each name: the spans of the trace, of the other one, or of both. */
    this.rows = [];
    this.draw = perFrame(() => this.paint());
    new ResizeObserver(this.draw).observe(this.histogram);
    onTheme(() => {
      this.showTitle();
      this.draw();
    });
    onChange((changed) => {
      if (state.tab === 'latency' && (changed.has('span') || changed.has('bucket'))) {
        this.showSpan();
      }
    });
    this.listen();
  }

  fail(error) {
    fill(this.list, h('p', { class: 'problem', role: 'alert' }, error.message));
  }

  load() {
    this.ask(async (signal) => ({
      own: await ask('spans', scope(threads()), signal),
      other: state.other === null ? null : await ask('spans', { trace: state.other }, signal),
    }), ({ own, other }) => {
      this.rows = pair(own.spans, other?.spans ?? []);
      if (this.rows.length === 0) {
        fill(this.list, h('p', { class: 'empty' }, 'No span started in this selection.'));
      }
      this.showSpan();
    });
  }

  current() {
    return this.rows.find((row) => row.id === state.span) ?? this.rows[0] ?? null;
  }

  showSpan() {
    const current = this.current();
    this.showTitle();
    this.draw();
    if (!current) {
      fill(this.slow);
      return;
    }
    const { id, own } = current;
    const isCompared = state.other !== null;
    const spans = this.rows.flatMap((row) => [row.own && { ...row.own, trace: state.trace },
      row.other && { ...row.other, trace: state.other }]).filter(Boolean);
    fill(this.list, table('Spans', [
      { title: 'Span', name: true, cell: (row) => row.name },
      isCompared && { title: 'Trace', number: true, cell: (row) => String(row.trace + 1) },
      { title: 'Provider', name: true, cell: (row) => row.provider },
      { title: 'Count', number: true, cell: (row) => format.count(row.count) },
      { title: 'Per s', number: true, cell: (row) => format.number(row.rate) },
      { title: 'Errors', number: true, cell: (row) => format.count(row.errors),
        bad: (row) => row.errors > 0 },
      { title: 'p50', number: true, cell: (row) => format.duration(row.p50_ns) },
      { title: 'p90', number: true, cell: (row) => format.duration(row.p90_ns) },
      { title: 'p99', number: true, cell: (row) => format.duration(row.p99_ns) },
      { title: 'p99.9', number: true, cell: (row) => format.duration(row.p99_9_ns) },
      { title: 'Max', number: true, cell: (row) => format.duration(row.max_ns) },
    ].filter(Boolean), spans, { choose: (row) => update({ span: spanId(row), bucket: null }),
      chosen: (row) => spanId(row) === id }));
    if (own) {
      this.askSlow(own);
    } else {
      this.wanted = null;
      fill(this.slow, h('p', { class: 'empty' }, 'The trace has no such span.'));
    }
  }

  showTitle() {
    const current = this.current();
    if (!current) {
      fill(this.title);
      return;
    }
    const { own, other } = current;
    fill(this.title, (own ?? other).name, h('span', { class: 'dim' },
      `${format.counted(own?.count ?? 0, 'span')}, both scales logarithmic`),
    state.other !== null && h('span', { class: 'legend dim' },
      h('i', { class: 'line', style: { background: colours().events } }),
      `${format.counted(other?.count ?? 0, 'span')} of trace ${state.other + 1}`),
    state.bucket && h('span', { class: 'dim' },
      `${format.duration(state.bucket[0])} to ${format.duration(state.bucket[1])}`),
    state.bucket && h('button', { class: 'button', type: 'button',
      onclick: () => update({ bucket: null }) }, 'All durations'));
  }

  async askSlow(span) {
    const wanted = `${spanId(span)} ${state.bucket}`;
    this.wanted = wanted;
    let instances = span.slowest;
    if (state.bucket) {
      try {
        const answer = await ask('instances', scope({ provider: span.provider, name: span.name,
          min_ns: state.bucket[0], max_ns: state.bucket[1], limit: 200, ...threads() }));
        instances = answer.instances;
      } catch (error) {
        fill(this.slow, h('p', { class: 'problem', role: 'alert' }, error.message));
        return;
      }
    }
    if (this.wanted === wanted) {
      this.showSlow(instances);
    }
  }

  showSlow(instances) {
    fill(this.slow, instances.length === 0
      ? h('p', { class: 'empty' }, 'No span has such a duration.')
      : table('Slow spans', [
        { title: 'Duration', number: true, cell: (row) => format.duration(row.duration_ns) },
        { title: 'Start', number: true, cell: (row) => format.time(row.start_ns) },
        { title: 'Thread', number: true, cell: (row) => String(row.tid) },
        { title: 'Result', cell: (row) => (row.error ? 'error' : ''), bad: (row) => row.error },
        { title: 'Trace id or activity', wide: true,
          cell: (row) => row.trace_id || row.activity || '' },
      ], instances, { choose: (row) => {
        selectInstance(row, this.timeline);
        update({ tab: 'explain' });
      }, chosen: (row) => row.key === state.key }));
  }

  /** Returns the scale of the plot, which has the bins of both traces: logarithms of durations. */
  scale(bins, across) {
    const low = Math.log(Math.max(1, Math.min(...bins.map((bin) => bin[0]))));
    const high = Math.log(Math.max(2, ...bins.map((bin) => bin[1])));
    const x = (ns) => LEFT + ((Math.log(Math.max(1, ns)) - low) / Math.max(1e-9, high - low)) *
      (across - LEFT - RIGHT);
    return { low, high, x };
  }

  paint() {
    const { own, other } = this.current() ?? {};
    const bins = [...own?.histogram ?? [], ...other?.histogram ?? []];
    const across = this.histogram.clientWidth;
    const high = this.histogram.clientHeight;
    if (across === 0) {
      return;
    }
    const palette = colours();
    const context = fit(this.canvas, across, high);
    context.fillStyle = palette.back;
    context.fillRect(0, 0, across, high);
    if (bins.length === 0) {
      return;
    }
    const { x } = this.scale(bins, across);
    const most = Math.max(...bins.map((bin) => bin[2]));
    const floor = high - 20;
    const y = (value) => floor - (Math.log1p(value) / Math.log1p(most)) * (floor - 18);
    context.font = FONT;
    for (const [from, to, value] of own?.histogram ?? []) {
      const chosen = state.bucket && from >= state.bucket[0] && to <= state.bucket[1];
      context.fillStyle = chosen ? palette.accent : palette.samples;
      context.fillRect(x(from), y(value), Math.max(1, x(to) - x(from) - 1), floor - y(value));
    }
    context.fillStyle = palette.events;
    for (const [from, to, value] of other?.histogram ?? []) {
      context.fillRect(x(from), y(value) - 1, Math.max(2, x(to) - x(from)), 2);
    }
    context.fillStyle = palette.line;
    context.fillRect(LEFT, floor, across - LEFT - RIGHT, 1);
    context.fillStyle = palette.dim;
    let last = -100;
    for (let power = 0; power < 13; power++) {
      for (const digit of [1, 2, 5]) {
        const at = x(digit * 10 ** power);
        if (at >= LEFT && at <= across - RIGHT && at - last > 56) {
          context.fillRect(at, floor, 1, 4);
          const text = format.duration(digit * 10 ** power).replace(/\.0+ /, ' ');
          context.fillText(text, Math.min(at - 12, across - context.measureText(text).width - 2),
            high - 5);
          last = at;
        }
      }
    }
    context.fillText(format.count(most), 4, y(most) + 10);
    let right = -100;
    for (const [name, text] of own ? MARKS : []) {
      const at = x(own[name]);
      context.fillStyle = palette.error;
      context.fillRect(at, 14, 1, floor - 14);
      if (at > right) {
        context.fillText(text, Math.min(at + 3, across - 34), 12);
        right = at + 34;
      }
    }
  }

  /** Returns the bar of the trace at the pointer; null: there is none. */
  bin(event) {
    const { own, other } = this.current() ?? {};
    const area = this.canvas.getBoundingClientRect();
    if (!own || own.histogram.length === 0) {
      return null;
    }
    const { x } = this.scale([...own.histogram, ...other?.histogram ?? []], area.width);
    const at = event.clientX - area.left;
    return own.histogram.find((bin) => at >= x(bin[0]) && at < Math.max(x(bin[0]) + 3,
      x(bin[1]))) ?? null;
  }

  listen() {
    this.canvas.addEventListener('click', (event) => {
      const bin = this.bin(event);
      if (bin) {
        update({ span: this.current().id, bucket: [bin[0], Math.max(bin[0] + 1, bin[1])] });
      }
    });
    this.canvas.addEventListener('pointermove', (event) => {
      const bin = this.bin(event);
      showTooltip(bin && { title: format.counted(bin[2], 'span'), rows: [['Duration',
        `${format.duration(bin[0])} to ${format.duration(bin[1])}`]] }, event.clientX,
      event.clientY);
    });
    this.canvas.addEventListener('pointerleave', () => showTooltip(null));
  }
}
