// SPDX-License-Identifier: MIT
// Spans by name, the distribution of one name's durations, and its slow instances.
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

export class LatencyPane extends Pane {
  constructor(traces, timeline) {
    super('latency', 'Latency by span', ['trace', 'range', 'tid', 'pid', 'key']);
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
    this.spans = [];
    this.draw = perFrame(() => this.paint());
    new ResizeObserver(this.draw).observe(this.histogram);
    onTheme(this.draw);
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
    this.ask((signal) => ask('spans', scope(threads()), signal), (answer) => {
      this.spans = answer.spans;
      if (this.spans.length === 0) {
        fill(this.list, h('p', { class: 'empty' }, 'No span started in this selection.'));
      }
      this.showSpan();
    });
  }

  current() {
    return this.spans.find((span) => spanId(span) === state.span) ?? this.spans[0] ?? null;
  }

  showSpan() {
    const span = this.current();
    if (!span) {
      fill(this.title);
      fill(this.slow);
      this.draw();
      return;
    }
    fill(this.list, table('Spans', [
      { title: 'Span', name: true, cell: (row) => row.name },
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
    ], this.spans, { choose: (row) => update({ span: spanId(row), bucket: null }),
      chosen: (row) => row === span }));
    fill(this.title, span.name, h('span', { class: 'dim' },
      `${format.count(span.count)} spans, both scales logarithmic`), state.bucket && h('span', { class: 'dim' },
      `${format.duration(state.bucket[0])} to ${format.duration(state.bucket[1])}`),
    state.bucket && h('button', { class: 'button', type: 'button',
      onclick: () => update({ bucket: null }) }, 'All durations'));
    this.draw();
    this.askSlow(span);
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

  /** Returns the scale of the plot: logarithms of the durations. */
  scale(span, across) {
    const bins = span.histogram;
    const low = Math.log(Math.max(1, bins[0][0]));
    const high = Math.log(Math.max(2, bins[bins.length - 1][1]));
    const x = (ns) => LEFT + ((Math.log(Math.max(1, ns)) - low) / Math.max(1e-9, high - low)) *
      (across - LEFT - RIGHT);
    return { low, high, x };
  }

  paint() {
    const span = this.current();
    const across = this.histogram.clientWidth;
    const high = this.histogram.clientHeight;
    if (across === 0) {
      return;
    }
    const palette = colours();
    const context = fit(this.canvas, across, high);
    context.fillStyle = palette.back;
    context.fillRect(0, 0, across, high);
    if (!span || span.histogram.length === 0) {
      return;
    }
    const { x } = this.scale(span, across);
    const most = Math.max(...span.histogram.map((bin) => bin[2]));
    const floor = high - 20;
    const y = (value) => floor - (Math.log1p(value) / Math.log1p(most)) * (floor - 18);
    context.font = FONT;
    for (const [from, to, value] of span.histogram) {
      const chosen = state.bucket && from >= state.bucket[0] && to <= state.bucket[1];
      context.fillStyle = chosen ? palette.accent : palette.samples;
      context.fillRect(x(from), y(value), Math.max(1, x(to) - x(from) - 1), floor - y(value));
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
    for (const [name, text] of MARKS) {
      const at = x(span[name]);
      context.fillStyle = palette.error;
      context.fillRect(at, 14, 1, floor - 14);
      if (at > right) {
        context.fillText(text, Math.min(at + 3, across - 34), 12);
        right = at + 34;
      }
    }
  }

  bin(event) {
    const span = this.current();
    const area = this.canvas.getBoundingClientRect();
    if (!span || span.histogram.length === 0) {
      return null;
    }
    const { x } = this.scale(span, area.width);
    const at = event.clientX - area.left;
    return span.histogram.find((bin) => at >= x(bin[0]) && at < Math.max(x(bin[0]) + 3,
      x(bin[1]))) ?? null;
  }

  listen() {
    this.canvas.addEventListener('click', (event) => {
      const bin = this.bin(event);
      if (bin) {
        update({ span: spanId(this.current()), bucket: [bin[0], Math.max(bin[0] + 1, bin[1])] });
      }
    });
    this.canvas.addEventListener('pointermove', (event) => {
      const bin = this.bin(event);
      showTooltip(bin && { title: `${format.count(bin[2])} spans`, rows: [['Duration',
        `${format.duration(bin[0])} to ${format.duration(bin[1])}`]] }, event.clientX,
      event.clientY);
    });
    this.canvas.addEventListener('pointerleave', () => showTooltip(null));
  }
}
