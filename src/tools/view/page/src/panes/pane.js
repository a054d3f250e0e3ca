// SPDX-License-Identifier: MIT
// The base of all panes: a pane asks when it becomes visible or its part of the state changes.
import { ApiError, Latest } from '../api.js';
import { fill, h } from '../dom.js';
import * as format from '../format.js';
import { onChange, state, update } from '../state.js';

/** Returns the parameters of a query about the selected trace and times. */
export function scope(more = {}) {
  return { trace: state.trace, from: state.range?.[0] ?? null, to: state.range?.[1] ?? null,
    ...more };
}

/** The thread of a selected span instance restricts no pane: only a chosen row does. */
export function threads() {
  return state.key ? {} : { pid: state.pid, tid: state.tid };
}

export class Pane {
  /**
   * @param {string} tab
   * @param {string} label
   * @param {string[]} parts names of the state after whose change the pane asks again
   */
  constructor(tab, label, parts) {
    this.tab = tab;
    this.latest = new Latest();
    this.isStale = true;
    this.tools = h('div', { class: 'tools' });
    /** The data that the read events lack, as a sentence after a space. */
    this.excerptLacks = '';
    this.excerpt = h('div', { class: 'excerpt', role: 'note', hidden: true });
    this.body = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label });
    this.element = h('div', { class: 'pane', role: 'tabpanel', id: `pane-${tab}`,
      'aria-labelledby': `tab-${tab}` }, this.tools, this.excerpt, this.body);
    onChange((changed) => {
      this.isStale ||= parts.some((part) => changed.has(part));
      if (state.tab === tab && (this.isStale || changed.has('tab'))) {
        this.refresh();
      }
    });
  }

  refresh() {
    if (this.isStale) {
      this.isStale = false;
      this.load();
    }
  }

  /**
   * Asks, and shows the answer or the reason why there is none.
   * @param {(signal: AbortSignal) => Promise<any>} asker
   * @param {(answer: any) => void} show
   */
  async ask(asker, show) {
    this.body.classList.add('stale');
    let answer;
    try {
      answer = await this.latest.run(asker);
    } catch (error) {
      this.body.classList.remove('stale');
      this.fail(error);
      return;
    }
    if (answer) {
      this.body.classList.remove('stale');
      this.showExcerpt(answer.excerpt ?? answer.own?.excerpt ?? answer.other?.excerpt);
      show(answer);
    }
  }

  /** States how much the numbers of the pane are about, unless all events were read. */
  showExcerpt(excerpt) {
    this.excerpt.hidden = !excerpt;
    fill(this.excerpt, excerpt && `${format.excerpt(excerpt)} The numbers are those of the events ` +
      `that were read.${this.excerptLacks}`);
  }

  fail(error) {
    this.showExcerpt(null);
    const text = error instanceof ApiError ? error.message : `The page failed: ${error}`;
    fill(this.body, h('p', { class: 'problem', role: 'alert' }, text));
  }

  load() {}
}

/** A row of buttons of which one is pressed. */
export function choice(label, options, name) {
  const buttons = options.map(([value, text]) => h('button', { class: 'button', type: 'button',
    'aria-pressed': String(state[name] === value),
    onclick: () => update({ [name]: value }) }, text));
  onChange((changed) => {
    if (changed.has(name)) {
      buttons.forEach((button, i) => button.setAttribute('aria-pressed',
        String(state[name] === options[i][0])));
    }
  });
  return h('div', { class: 'group', role: 'group', 'aria-label': label }, buttons);
}

/**
 * A table whose rows can be chosen by pointer and keyboard.
 * @param {string} label
 * @param {{title: string, number?: boolean, name?: boolean, wide?: boolean,
 *   cell: (row: any) => any, bad?: (row: any) => boolean}[]} columns
 * @param {any[]} rows
 * @param {{choose?: (row: any) => void, chosen?: (row: any) => boolean}} [options]
 */
export function table(label, columns, rows, options = {}) {
  const kind = (column) => ['name', 'wide'].filter((word) => column[word])
    .concat(column.number ? 'num' : []).join(' ') || null;
  return h('table', { 'aria-label': label },
    h('thead', null, h('tr', null, columns.map((column) => h('th', { scope: 'col',
      class: kind(column) }, column.title)))),
    h('tbody', null, rows.map((row) => h('tr', {
      tabindex: options.choose ? '0' : null,
      class: options.chosen?.(row) ? 'chosen' : null,
      onclick: options.choose && (() => options.choose(row)),
      onkeydown: options.choose && ((event) => {
        if (event.key === 'Enter') {
          options.choose(row);
        }
      }),
    }, columns.map((column) => {
      const text = column.cell(row);
      return h('td', { class: [kind(column), column.bad?.(row) && 'bad'].filter(Boolean)
        .join(' ') || null, title: typeof text === 'string' ? text : null }, text);
    })))));
}
