// SPDX-License-Identifier: MIT
// The whole trace in one strip, with a brush that sets the visible times.
import { ask } from '../api.js';
import { fit, h, perFrame } from '../dom.js';
import * as format from '../format.js';
import { colours, onTheme } from '../palette.js';
import { onChange, state } from '../state.js';
import { LABELS } from './view.js';

const HEIGHT = 40;
const EDGE = 6;

/** Adds up the counts of all threads. */
function total(answer, name) {
  const sums = new Float64Array(Math.max(1, ...answer.threads.map((thread) =>
    thread[name]?.length ?? 0)));
  for (const thread of answer.threads) {
    thread[name]?.forEach((value, i) => {
      sums[i] += value;
    });
  }
  return sums;
}

export class Minimap {
  /** @param {import('./view.js').Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.series = null;
    this.canvas = h('canvas', { 'aria-hidden': 'true' });
    this.caption = h('div', { class: 'minimap-caption' });
    this.brush = h('div', { class: 'minimap-brush', role: 'slider', tabindex: '0',
      'aria-label': 'Visible times', 'aria-valuemin': '0', 'aria-valuemax': '1000',
      'aria-valuenow': '500' }, this.canvas);
    this.element = h('div', { class: 'minimap' }, this.caption, this.brush);
    this.draw = perFrame(() => this.paint());
    new ResizeObserver(this.draw).observe(this.element);
    onTheme(this.draw);
    onChange((changed) => {
      if (changed.has('trace')) {
        this.load();
      }
      this.draw();
    });
    this.listen();
  }

  async load() {
    const trace = state.trace;
    try {
      const answer = await ask('timeline', { trace, bins: 2048 });
      if (trace === state.trace) {
        this.series = { samples: total(answer, 'samples'), events: total(answer, 'events') };
        this.draw();
      }
    } catch {
      // The timeline reports the same failure.
      this.series = null;
    }
  }

  time(x) {
    return Math.min(1, Math.max(0, x / this.brush.clientWidth)) * this.timeline.length();
  }

  listen() {
    let drag = null;
    const place = (event) => event.clientX - this.brush.getBoundingClientRect().left;
    const edges = () => this.timeline.view().map((at) =>
      (at / this.timeline.length()) * this.brush.clientWidth);
    this.brush.addEventListener('pointerdown', (event) => {
      const x = place(event);
      const [left, right] = edges();
      const [from, to] = this.timeline.view();
      if (Math.abs(x - left) < EDGE) {
        drag = { type: 'edge', other: to };
      } else if (Math.abs(x - right) < EDGE) {
        drag = { type: 'edge', other: from };
      } else if (x > left && x < right && state.view) {
        drag = { type: 'move', grip: this.time(x) - from };
      } else {
        drag = { type: 'edge', other: this.time(x) };
      }
      this.brush.setPointerCapture(event.pointerId);
    });
    this.brush.addEventListener('pointermove', (event) => {
      const x = place(event);
      if (!drag) {
        const near = edges().some((edge) => Math.abs(edge - x) < EDGE);
        this.brush.style.setProperty('cursor', near ? 'ew-resize' : 'grab');
        return;
      }
      const at = this.time(x);
      const [from, to] = this.timeline.view();
      if (drag.type === 'move') {
        this.timeline.setView(at - drag.grip, at - drag.grip + to - from);
      } else {
        this.timeline.setView(Math.min(at, drag.other), Math.max(at, drag.other));
      }
    });
    const stop = () => {
      drag = null;
    };
    this.brush.addEventListener('pointerup', stop);
    this.brush.addEventListener('pointercancel', stop);
    this.brush.addEventListener('dblclick', () => {
      this.timeline.setView(0, this.timeline.length());
    });
  }

  paint() {
    const width = this.brush.clientWidth;
    if (width < 2) {
      return;
    }
    const palette = colours();
    const context = fit(this.canvas, width, HEIGHT);
    context.fillStyle = palette.back;
    context.fillRect(0, 0, width, HEIGHT);
    if (this.series) {
      this.area(context, this.series.events, width, palette.events, 0.45);
      this.area(context, this.series.samples, width, palette.samples, 1);
    }
    const length = this.timeline.length();
    const [from, to] = this.timeline.view();
    const left = (from / length) * width;
    const right = Math.max(left + 2, (to / length) * width);
    if (state.range) {
      context.fillStyle = palette.select;
      context.fillRect((state.range[0] / length) * width, 0,
        Math.max(2, ((state.range[1] - state.range[0]) / length) * width), HEIGHT);
    }
    context.fillStyle = palette.shade;
    context.fillRect(0, 0, left, HEIGHT);
    context.fillRect(right, 0, width - right, HEIGHT);
    context.fillStyle = palette.accent;
    context.fillRect(left, 0, 2, HEIGHT);
    context.fillRect(right - 2, 0, 2, HEIGHT);
    this.brush.setAttribute('aria-valuenow',
      String(Math.round(((from + to) / 2 / length) * 1000)));
    const step = (to - from) / 1000;
    this.brush.setAttribute('aria-valuetext',
      `${format.time(from, step)} to ${format.time(to, step)}`);
    this.caption.textContent = `View ${format.duration(to - from)}`;
    this.caption.title = `${format.time(from, step)} to ${format.time(to, step)}`;
  }

  area(context, sums, width, colour, share) {
    let most = 1;
    for (const value of sums) {
      most = Math.max(most, value);
    }
    context.fillStyle = colour;
    const columns = Math.floor(width);
    for (let x = 0; x < columns; x++) {
      const first = Math.floor((x / columns) * sums.length);
      const end = Math.max(first + 1, Math.floor(((x + 1) / columns) * sums.length));
      let value = 0;
      for (let i = first; i < end; i++) {
        value = Math.max(value, sums[i]);
      }
      const tall = Math.sqrt(value / most) * (HEIGHT - 4) * share;
      context.fillRect(x, HEIGHT - tall, 1, tall);
    }
  }
}

export { LABELS };
