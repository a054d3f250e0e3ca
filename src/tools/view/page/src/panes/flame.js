// SPDX-License-Identifier: MIT
// Flame graph, left-heavy view and functions: on a processor, waiting, or within spans.
import { ask } from '../api.js';
import { fill, fit, h, perFrame, showTooltip } from '../dom.js';
import * as format from '../format.js';
import { changeColour, colours, hash, onTheme } from '../palette.js';
import { onChange, state, update } from '../state.js';
import { FONT, shorten } from '../timeline/draw.js';
import { choice, Pane, scope, table, threads } from './pane.js';
import { follow, functionName, grow, path } from './tree.js';

const HEIGHT = 18;
const NARROWEST = 0.6;

export class FlamePane extends Pane {
  constructor(traces) {
    super('flame', 'Call stacks', ['trace', 'other', 'range', 'tid', 'pid', 'key', 'kind', 'order',
      'within']);
    this.traces = traces;
    this.zoomed = [];
    this.boxes = [];
    this.focus = null;
    this.within = h('select', { class: 'field', 'aria-label': 'Within spans',
      onchange: () => update({ within: this.within.value || null }) });
    this.mark = h('input', { class: 'field', type: 'search', placeholder: 'Highlight functions',
      'aria-label': 'Highlight functions', value: state.mark,
      oninput: () => update({ mark: this.mark.value }) });
    this.legend = h('span', { class: 'legend push' });
    fill(this.tools,
      choice('Stacks', [['cpu', 'On CPU'], ['offcpu', 'Off CPU']], 'kind'),
      choice('Order', [['heavy', 'Left heavy'], ['flame', 'Flame graph'],
        ['functions', 'Functions']], 'order'),
      h('label', { class: 'dim' }, 'within ', this.within), this.mark, this.legend);
    this.canvas = h('canvas', { role: 'img', 'aria-label': 'Flame graph' });
    this.foot = h('div', { class: 'foot', 'aria-live': 'polite' });
    this.element.append(this.foot);
    this.draw = perFrame(() => this.paint());
    new ResizeObserver(this.draw).observe(this.body);
    onTheme(this.draw);
    onChange((changed) => {
      if (changed.has('mark')) {
        this.draw();
      }
    });
    this.listen();
  }

  load() {
    const names = this.traces[state.trace]?.span_names ?? [];
    fill(this.within, h('option', { value: '' }, 'all stacks'),
      [...new Set(names.map((name) => name.name))].map((name) => h('option', { value: name,
        selected: name === state.within }, name)));
    this.within.value = state.within ?? '';
    this.within.disabled = state.order === 'functions';
    const parameters = scope({ kind: state.kind, span: state.within, ...threads() });
    if (state.order === 'functions') {
      const { span, ...plain } = parameters;
      void span;
      this.ask((signal) => ask('functions', plain, signal), (answer) => this.list(answer));
      return;
    }
    this.ask(async (signal) => ({
      own: await ask('flame', parameters, signal),
      other: state.other === null ? null
        : await ask('flame', { kind: state.kind, span: state.within, trace: state.other }, signal),
    }), ({ own, other }) => this.show(own, other));
  }

  list(answer) {
    const unit = state.kind === 'cpu' ? 'samples' : 'ns';
    this.root = null;
    fill(this.foot, `${format.weight(answer.total, unit)} in all`);
    fill(this.legend);
    if (answer.functions.length === 0) {
      this.nothing();
      return;
    }
    fill(this.body, table('Functions', [
      { title: 'Self', number: true, cell: (row) => format.weight(row.exclusive, unit) },
      { title: '%', number: true, cell: (row) => format.percent(row.exclusive / answer.total) },
      { title: 'Total', number: true, cell: (row) => format.weight(row.inclusive, unit) },
      { title: '%', number: true, cell: (row) => format.percent(row.inclusive / answer.total) },
      { title: 'Function', cell: (row) => functionName(row.name, row.file) },
      { title: 'File', wide: true, cell: (row) => row.file ?? '' },
    ], answer.functions.slice(0, 500), {
      choose: (row) => update({ mark: functionName(row.name, row.file), order: 'heavy' }),
    }));
    this.body.classList.remove('flame');
  }

  nothing() {
    const has = this.traces[state.trace]?.has ?? {};
    const known = state.kind === 'cpu' ? has.samples : has.waits;
    fill(this.body, h('p', { class: 'empty' }, known ? 'No stack was taken in this selection.'
      : `The trace has no ${state.kind === 'cpu' ? 'samples' : 'waits'}. ` +
        '`ringpipe record` records them.'));
  }

  show(own, asked) {
    const other = own.total > 0 && asked?.total === 0 ? null : asked;
    this.unit = own.unit;
    this.compared = Boolean(other);
    this.root = grow(own, other, state.order);
    fill(this.legend, other && ['less', 'more'].map((word, i) => h('span', null,
      h('i', { style: { background: changeColour(i ? 0.8 : -0.8) } }), `${word} than trace ` +
        `${state.other + 1}`)), asked && !other && `Trace ${state.other + 1} has no ` +
        `${state.kind === 'cpu' ? 'samples' : 'waits'} to compare with.`);
    if (own.total === 0 && !other?.total) {
      this.root = null;
      fill(this.foot);
      this.nothing();
      return;
    }
    this.body.classList.add('flame');
    fill(this.body, this.canvas);
    this.describe(null);
    this.draw();
  }

  describe(entry) {
    const at = entry ?? follow(this.root, this.zoomed);
    const parts = [h('strong', null, at.parent ? at.name : 'all stacks'),
      `${format.weight(at.sum, this.unit)} (${format.percent(at.sum / this.root.sum)})`,
      at.self > 0 && `self ${format.weight(at.self, this.unit)}`, at.file];
    if (this.compared) {
      parts.push(`trace ${state.other + 1}: ${format.percent(at.otherSum / this.root.sum)}`);
    }
    fill(this.foot, parts.map((part) => part && h('span', null, part)),
      this.zoomed.length > 0 && h('button', { class: 'button push', type: 'button',
        onclick: () => this.zoom([]) }, 'Show all'));
  }

  zoom(keys) {
    this.zoomed = keys;
    this.body.scrollTop = 0;
    this.describe(null);
    this.draw();
  }

  /** Lays out the nodes that are wide enough to see. */
  place(across) {
    const top = follow(this.root, this.zoomed);
    const boxes = [];
    let depth = 0;
    for (let at = top; at; at = at.parent) {
      depth++;
    }
    let level = depth - 1;
    for (let at = top; at; at = at.parent) {
      boxes.push({ entry: at, x: 0, w: across, level: level-- });
    }
    const scale = across / Math.max(1, top.width);
    const left = [{ entry: top, x: 0, level: depth - 1 }];
    while (left.length > 0) {
      const { entry, x, level: above } = left.pop();
      let at = x;
      for (const next of entry.children) {
        const w = next.width * scale;
        if (w >= NARROWEST && at < across) {
          boxes.push({ entry: next, x: at, w: Math.min(w, across - at), level: above + 1 });
          left.push({ entry: next, x: at, level: above + 1 });
        }
        at += w;
      }
    }
    return boxes;
  }

  colour(entry, palette) {
    if (!this.compared) {
      return palette.spans[hash(entry.file || entry.name) % palette.spans.length];
    }
    const more = (entry.sum - entry.otherSum) / Math.max(1, entry.sum, entry.otherSum);
    return changeColour(more);
  }

  paint() {
    const across = this.body.clientWidth;
    if (!this.root || state.order === 'functions' || across === 0) {
      return;
    }
    this.boxes = this.place(across);
    const depth = this.boxes.reduce((most, box) => Math.max(most, box.level), 0) + 1;
    const palette = colours();
    const high = Math.min(Math.max(depth * HEIGHT + 2, 40), 16000);
    const context = fit(this.canvas, across, high);
    const mark = state.mark.toLowerCase();
    context.fillStyle = palette.back;
    context.fillRect(0, 0, across, high);
    context.font = FONT;
    for (const { entry, x, w, level } of this.boxes) {
      const hit = mark !== '' && entry.name.toLowerCase().includes(mark);
      context.globalAlpha = mark !== '' && !hit ? 0.35 : 1;
      context.fillStyle = entry.parent ? this.colour(entry, palette) : palette.group;
      context.fillRect(x, level * HEIGHT, Math.max(0.5, w - 0.5), HEIGHT - 1);
      context.globalAlpha = 1;
      if (hit || entry === this.focus) {
        context.strokeStyle = hit ? palette.highlight : palette.text;
        context.lineWidth = 1.5;
        context.strokeRect(x + 0.75, level * HEIGHT + 0.75, Math.max(0.5, w - 2), HEIGHT - 2.5);
      }
      if (w > 26) {
        context.fillStyle = palette.spanText;
        context.fillText(shorten(context, entry.parent ? entry.name : 'all', w - 8), x + 4,
          level * HEIGHT + 12.5);
      }
    }
  }

  at(event) {
    const area = this.canvas.getBoundingClientRect();
    const x = event.clientX - area.left;
    const level = Math.floor((event.clientY - area.top) / HEIGHT);
    return this.boxes.find((box) => box.level === level && x >= box.x && x < box.x + box.w);
  }

  listen() {
    this.canvas.addEventListener('pointermove', (event) => {
      const box = this.at(event);
      const entry = box?.entry ?? null;
      if (entry !== this.focus) {
        this.focus = entry;
        this.draw();
        this.describe(entry);
      }
      showTooltip(entry && entry.parent ? { title: entry.name, rows: [
        ['Total', `${format.weight(entry.sum, this.unit)} · ` +
          format.percent(entry.sum / this.root.sum)],
        ['Self', format.weight(entry.self, this.unit)],
        ...(entry.file ? [['File', entry.file]] : []),
        ...(this.compared ? [['Before', format.percent(entry.otherSum / this.root.sum)]] : []),
      ] } : null, event.clientX, event.clientY);
    });
    this.canvas.addEventListener('pointerleave', () => {
      this.focus = null;
      showTooltip(null);
      this.draw();
    });
    this.canvas.addEventListener('click', (event) => {
      const box = this.at(event);
      if (box) {
        this.zoom(path(box.entry));
      }
    });
    this.body.addEventListener('keydown', (event) => {
      if (!this.root || state.order === 'functions' || !event.key.startsWith('Arrow')) {
        return;
      }
      this.move(event.key);
      event.preventDefault();
      event.stopPropagation();
    });
  }

  /** The arrow keys zoom to a caller, a callee, or a neighbour. */
  move(key) {
    const at = follow(this.root, this.zoomed);
    const siblings = at.parent?.children ?? [at];
    const place = siblings.indexOf(at);
    const next = { ArrowUp: at.parent, ArrowDown: at.children[0],
      ArrowLeft: siblings[place - 1], ArrowRight: siblings[place + 1] }[key];
    if (next) {
      this.zoom(path(next));
    }
  }
}
