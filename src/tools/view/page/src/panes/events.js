// SPDX-License-Identifier: MIT
// A table of events, filtered by an expression.
import { ask } from '../api.js';
import { fill, h } from '../dom.js';
import * as format from '../format.js';
import { state, update } from '../state.js';
import { Pane, scope, table, threads } from './pane.js';

const PAGE = 200;
const LEVELS = ['always', 'critical', 'error', 'warning', 'info', 'verbose'];

/** Converts a byte offset in UTF-8 to an offset in characters. */
function characters(text, bytes) {
  return new TextDecoder().decode(new TextEncoder().encode(text).slice(0, bytes)).length;
}

function fields(event) {
  return Object.entries(event.fields ?? {}).map(([name, value]) =>
    `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`).join('  ');
}

export class EventsPane extends Pane {
  constructor() {
    super('events', 'Events', ['trace', 'range', 'tid', 'pid', 'key', 'where']);
    this.input = h('input', { class: 'field', type: 'text', spellcheck: 'false', size: '60',
      'aria-label': 'Expression that selects events',
      placeholder: 'provider == "Shop-Orders" and total > 100', value: state.where });
    this.caret = h('div', { class: 'caret', role: 'alert', hidden: true });
    this.note = h('span', { class: 'dim', role: 'status' });
    fill(this.tools, h('form', { class: 'where', onsubmit: (event) => {
      event.preventDefault();
      update({ where: this.input.value.trim() });
    } }, this.input), this.note);
    this.tools.after(this.caret);
    this.events = [];
    this.next = null;
    this.body.addEventListener('scroll', () => {
      const { scrollTop, clientHeight, scrollHeight } = this.body;
      if (this.next && scrollTop + clientHeight > scrollHeight - 300) {
        this.more();
      }
    }, { passive: true });
  }

  parameters() {
    return scope({ where: state.where || null, limit: PAGE, ...threads() });
  }

  load() {
    if (document.activeElement !== this.input) {
      this.input.value = state.where;
    }
    this.caret.hidden = true;
    this.next = null;
    this.ask((signal) => ask('events', this.parameters(), signal), (answer) => {
      this.events = answer.events;
      this.next = answer.next;
      this.body.scrollTop = 0;
      this.show();
    });
  }

  more() {
    const after = this.next;
    this.next = null;
    this.ask((signal) => ask('events', { ...this.parameters(), after }, signal), (answer) => {
      this.events.push(...answer.events);
      this.next = answer.next;
      const top = this.body.scrollTop;
      this.show();
      this.body.scrollTop = top;
    });
  }

  fail(error) {
    if (error.position === undefined) {
      super.fail(error);
      return;
    }
    const text = state.where;
    this.caret.hidden = false;
    fill(this.note);
    // The rows of an earlier expression would look like those of this one.
    fill(this.body, h('p', { class: 'empty' }, 'The expression is wrong, so no events are shown.'));
    this.caret.textContent = `${text}\n${' '.repeat(characters(text, error.position))}^ ` +
      error.message;
  }

  show() {
    fill(this.note, this.next ? `${format.count(this.events.length)} or more events`
      : format.counted(this.events.length, 'event'));
    if (this.events.length === 0) {
      fill(this.body, h('p', { class: 'empty' }, 'No event fulfils this in the selection.'));
      return;
    }
    fill(this.body, table('Events', [
      { title: 'Time', number: true, cell: (row) => format.time(row.time_ns, 1000) },
      { title: 'Process', number: true, cell: (row) => String(row.pid) },
      { title: 'Thread', number: true, cell: (row) => String(row.tid) },
      { title: 'Level', cell: (row) => (typeof row.level === 'number' ? LEVELS[row.level] ??
        String(row.level) : row.level), bad: (row) => row.level === 1 || row.level === 2 ||
        row.level === 'error' || row.level === 'critical' },
      { title: 'Event', name: true, cell: (row) => row.name },
      { title: 'Provider', name: true, cell: (row) => row.provider },
      { title: 'Fields', wide: true, cell: fields },
    ], this.events));
  }
}
