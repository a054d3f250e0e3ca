// SPDX-License-Identifier: MIT
// Where the time of a span, or of a thread in the selected times, went: in words and parts.
import { ask } from '../api.js';
import { fill, h } from '../dom.js';
import * as format from '../format.js';
import { colours, onTheme } from '../palette.js';
import { state } from '../state.js';
import { Pane, table } from './pane.js';

export class ExplainPane extends Pane {
  constructor(traces) {
    super('explain', 'Explanation', ['trace', 'range', 'key', 'keyTrace', 'tid']);
    this.traces = traces;
    this.tools.remove();
    this.answer = null;
    onTheme(() => this.answer && this.show(this.answer));
  }

  load() {
    this.answer = null;
    let parameters = null;
    if (state.key) {
      parameters = { trace: state.keyTrace ?? state.trace, key: state.key };
    } else if (state.tid !== null) {
      const [from, to] = state.range ?? [0, this.traces[state.trace].duration_ns];
      parameters = { trace: state.trace, from, to, tid: state.tid };
    }
    if (!parameters) {
      this.latest.abort();
      this.body.classList.remove('stale');
      fill(this.body, h('p', { class: 'empty' }, 'Click a span in the timeline, or a thread ' +
        'and times, to see where its time went.'));
      return;
    }
    this.ask((signal) => ask('explain', parameters, signal), (answer) => this.show(answer));
  }

  show(answer) {
    this.answer = answer;
    const { instance, parts, words, missing } = answer;
    const whole = parts.reduce((sum, part) => sum + part.ns, 0);
    const hues = colours().parts;
    const colour = (index) => hues[index % hues.length];
    const title = instance
      ? `${instance.name} took ${format.duration(instance.duration_ns)}`
      : `Thread ${state.tid} during ${format.duration(whole)}`;
    const shares = parts.map((part, index) => ({ ...part, index })).filter((part) => part.ns > 0);
    fill(this.body, h('div', { class: 'explain' },
      h('div', null,
        h('h2', null, title),
        h('div', { class: 'stack', role: 'img', 'aria-label': shares.map((part) =>
          `${part.part} ${format.percent(part.ns / whole)}`).join(', ') },
        shares.map((part) => h('i', { title: `${part.part}: ${format.duration(part.ns)}`,
          style: { width: `${(part.ns / whole) * 100}%`, background: colour(part.index) } }))),
        table('Parts of the time', [
          { title: 'Part', cell: (row) => [h('i', { class: 'swatch',
            style: { background: colour(row.index) } }), row.part.replaceAll('_', ' ')] },
          { title: 'Time', number: true, cell: (row) => format.duration(row.ns) },
          { title: '%', number: true, cell: (row) => format.percent(row.ns / whole) },
          { title: 'What', wide: true, cell: (row) => row.detail ?? '' },
        ], shares)),
      h('div', null,
        h('h2', null, 'In words'),
        h('ul', { class: 'words' }, words.map((line) =>
          h('li', { class: line.startsWith(' ') ? 'row' : null }, line === '' ? ' ' : line))),
        missing.length > 0 && h('ul', { class: 'missing' }, missing.map((sentence) =>
          h('li', null, sentence))))));
  }
}
