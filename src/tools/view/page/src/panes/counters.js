// SPDX-License-Identifier: MIT
// A plot for each counter. All plots share the position of the pointer.
import uPlot from 'uplot';
import { ask } from '../api.js';
import { fill, h } from '../dom.js';
import * as format from '../format.js';
import { colours, onTheme } from '../palette.js';
import { state, update } from '../state.js';
import { Pane, scope } from './pane.js';

const PLOTS = 200;
const HEIGHT = 130;

export class CountersPane extends Pane {
  constructor() {
    super('counters', 'Counters', ['trace', 'range', 'pid']);
    this.plots = [];
    this.counters = [];
    this.filter = h('input', { class: 'field', type: 'search', placeholder: 'Names of counters',
      'aria-label': 'Names of counters', oninput: () => this.show() });
    this.note = h('span', { class: 'dim push' });
    fill(this.tools, this.filter, this.note);
    new ResizeObserver(() => this.resize()).observe(this.body);
    onTheme(() => state.tab === 'counters' && this.show());
  }

  load() {
    this.ask((signal) => ask('counters', scope({ points: 1024 }), signal), (answer) => {
      this.counters = answer.counters;
      this.show();
    });
  }

  show() {
    const words = this.filter.value.toLowerCase();
    const found = this.counters.filter((counter) => (state.pid === null ||
      counter.pid === state.pid) && `${counter.provider} ${counter.name} ${counter.display ?? ''}`
      .toLowerCase().includes(words));
    this.plots.forEach((plot) => plot.destroy());
    this.plots = [];
    fill(this.note, found.length > PLOTS && `The first ${PLOTS} of ${found.length} counters`);
    if (found.length === 0) {
      fill(this.body, h('p', { class: 'empty' }, this.missing(words)));
      return;
    }
    const grid = h('div', { class: 'plots' });
    fill(this.body, grid);
    for (const counter of found.slice(0, PLOTS)) {
      grid.append(this.plot(counter));
    }
    this.resize();
  }

  missing(words) {
    if (this.counters.length > 0) {
      return words ? 'No counter has such a name.' : 'The process has no counters.';
    }
    return state.range ? 'The trace has no counters in this selection.'
      : 'The trace has no counters. `ringpipe collect` records them if --providers asks for ' +
        'them with EventCounterIntervalSec=1.';
  }

  plot(counter) {
    const palette = colours();
    const now = h('span', { class: 'now mono' });
    const value = (at) => (at === undefined || at === null ? '' : format.number(at));
    const last = counter.points[counter.points.length - 1]?.[1];
    now.textContent = value(last);
    const box = h('figure', { class: 'plot', style: { margin: '0' } }, h('h3', null,
      h('span', null, counter.display || counter.name), h('span', { class: 'dim' },
        [counter.unit, `pid ${counter.pid}`].filter(Boolean).join(' · ')), now));
    const axis = { stroke: palette.dim, grid: { stroke: palette.grid, width: 1 },
      ticks: { show: false }, font: '10px sans-serif', size: 22 };
    const options = {
      width: 340, height: HEIGHT, padding: [8, 8, 0, 0],
      cursor: { sync: { key: 'counters' }, y: false, drag: { x: true, y: false, setScale: false } },
      legend: { show: false },
      scales: { x: { time: false } },
      axes: [{ ...axis, values: (_, ticks) => ticks.map((at) => `${at} s`) },
        { ...axis, size: 52, values: (_, ticks) => ticks.map((at) => format.number(at)) }],
      series: [{}, { stroke: palette.accent, width: 1.5, points: { show:
        counter.points.length < 40, size: 4 } }],
      hooks: {
        setCursor: [(plot) => {
          const at = plot.cursor.idx;
          now.textContent = at === null || at === undefined ? value(last)
            : value(plot.data[1][at]);
        }],
        setSelect: [(plot) => {
          const { left, width } = plot.select;
          if (width > 3) {
            const ends = [left, left + width].map((x) => Math.round(plot.posToVal(x, 'x') * 1e9));
            update({ range: [Math.max(0, ends[0]), Math.max(ends[0] + 1, ends[1])] });
          }
        }],
      },
    };
    this.plots.push(new uPlot(options, [counter.points.map((point) => point[0] / 1e9),
      counter.points.map((point) => point[1])], box));
    return box;
  }

  resize() {
    for (const plot of this.plots) {
      const width = plot.root.parentElement?.clientWidth ?? 0;
      if (width > 60) {
        plot.setSize({ width: width - 22, height: HEIGHT });
      }
    }
  }
}
