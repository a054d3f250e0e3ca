// SPDX-License-Identifier: MIT
// The search field: functions, events, spans, threads and processes.
import { ask, Latest } from './api.js';
import { fill, h } from './dom.js';
import * as format from './format.js';
import { spanId, state, update } from './state.js';

/** Returns the filter of the events pane for one event. */
function filterOf({ provider, name }) {
  return `provider == ${JSON.stringify(provider)} and event == ${JSON.stringify(name)}`;
}

export class Search {
  constructor(timeline, announce) {
    this.timeline = timeline;
    this.announce = announce;
    this.latest = new Latest();
    this.results = [];
    this.chosen = 0;
    this.input = h('input', { class: 'field', type: 'search', id: 'search', role: 'combobox',
      'aria-label': 'Search', 'aria-expanded': 'false', 'aria-controls': 'results',
      'aria-autocomplete': 'list', autocomplete: 'off', placeholder: 'Search ( / )' });
    this.list = h('ul', { class: 'results', id: 'results', role: 'listbox',
      'aria-label': 'Results', hidden: true });
    this.element = h('div', { class: 'search' }, this.input, this.list);
    this.input.addEventListener('input', () => this.later());
    this.input.addEventListener('keydown', (event) => this.key(event));
    this.element.addEventListener('focusout', (event) => {
      if (!this.element.contains(event.relatedTarget)) {
        this.close();
      }
    });
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), 120);
  }

  async load() {
    const q = this.input.value.trim();
    if (q === '') {
      this.close();
      return;
    }
    try {
      const answer = await this.latest.run((signal) => ask('search', { trace: state.trace, q },
        signal));
      if (answer) {
        this.results = answer.results;
        this.chosen = 0;
        this.show();
      }
    } catch (error) {
      this.results = [];
      this.show(error.message);
    }
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute('aria-expanded', 'false');
    this.input.removeAttribute('aria-activedescendant');
  }

  show(problem) {
    this.list.hidden = false;
    this.input.setAttribute('aria-expanded', 'true');
    fill(this.list, this.results.map((result, i) => h('li', { role: 'option', id: `result-${i}`,
      'aria-selected': String(i === this.chosen),
      onpointerdown: (event) => {
        event.preventDefault();
        this.go(result);
      } }, h('span', { class: 'kind' }, result.kind), h('span', { class: 'what' }, result.name,
      result.provider && h('span', { class: 'dim' }, ` ${result.provider}`)),
    h('span', { class: 'dim' }, result.kind === 'thread' || result.kind === 'process'
      ? String(result.tid ?? result.pid) : format.count(result.count)))),
    this.results.length === 0 && h('li', { class: 'dim', role: 'option',
      'aria-disabled': 'true' }, problem ?? 'Nothing has this name.'));
    if (this.results.length > 0) {
      this.input.setAttribute('aria-activedescendant', `result-${this.chosen}`);
      this.list.children[this.chosen].scrollIntoView({ block: 'nearest' });
    }
    this.announce(problem ?? format.counted(this.results.length, 'result'));
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.results.length > 0) {
      this.chosen = (this.chosen + step + this.results.length) % this.results.length;
      this.show();
      event.preventDefault();
    } else if (event.key === 'Enter' && this.results[this.chosen]) {
      this.go(this.results[this.chosen]);
    } else if (event.key === 'Escape') {
      this.close();
      this.input.blur();
      event.stopPropagation();
    }
  }

  go(result) {
    this.close();
    switch (result.kind) {
    case 'function':
      update({ tab: 'flame', mark: result.name, order: state.order === 'functions' ? 'heavy'
        : state.order });
      break;
    case 'span':
      update({ tab: 'latency', span: spanId(result), bucket: null });
      break;
    case 'event':
      update({ tab: 'events', where: filterOf(result) });
      break;
    default:
      update({ pid: result.kind === 'process' ? result.pid : null,
        tid: result.kind === 'thread' ? result.tid : null, key: null });
      this.timeline.revealRow(state.trace, result.pid, result.kind === 'thread' ? result.tid
        : null);
    }
    this.announce(`Shows ${result.kind} ${result.name}`);
  }
}
