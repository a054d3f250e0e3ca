// SPDX-License-Identifier: MIT
// Puts the page together: header, timeline, panes, keys.
import { ask, recorded, requests } from './api.js';
import { fill, h } from './dom.js';
import * as format from './format.js';
import { helpDialog } from './help.js';
import { loadingLine } from './loading.js';
import { onTheme, themeName, toggleTheme } from './palette.js';
import { CountersPane } from './panes/counters.js';
import { EventsPane } from './panes/events.js';
import { ExplainPane } from './panes/explain.js';
import { FlamePane } from './panes/flame.js';
import { LatencyPane } from './panes/latency.js';
import { Search } from './search.js';
import { onChange, state, update } from './state.js';
import { work } from './timeline/draw.js';
import { Minimap } from './timeline/minimap.js';
import { frames, Timeline } from './timeline/view.js';

const TABS = [['flame', 'Stacks'], ['latency', 'Latency'], ['explain', 'Explain'],
  ['counters', 'Counters'], ['events', 'Events']];

const live = h('div', { class: 'sr', role: 'status', 'aria-live': 'polite' });
const announce = (text) => fill(live, text);

function facts(trace) {
  return [format.duration(trace.duration_ns), format.counted(trace.events, 'event'),
    trace.lost > 0 && `${format.count(trace.lost)} lost`,
    format.counted(trace.processes.length, 'process'),
    trace.start_utc_ns !== '0' && new Date(Number(BigInt(trace.start_utc_ns) / 1000000n))
      .toISOString().replace('T', ' ').replace(/\.\d+Z/, ' UTC')]
    .filter(Boolean).join(' · ');
}

function traceSelect(traces, name, label, none) {
  const select = h('select', { class: 'field', 'aria-label': label, onchange: () => update({
    [name]: select.value === '' ? null : Number(select.value), key: null, tid: null, pid: null,
    range: null }) }, none && h('option', { value: '' }, none),
  traces.map((trace, i) => h('option', { value: String(i) }, `${i + 1}: ${trace.name}`)));
  const show = () => {
    select.value = state[name] === null ? '' : String(state[name]);
  };
  onChange((changed) => changed.has(name) && show());
  show();
  return select;
}

function header(traces, search, help) {
  const text = h('span', { class: 'facts' });
  const theme = h('button', { class: 'button', type: 'button', onclick: toggleTheme });
  const showTheme = () => fill(theme, themeName() === 'dark' ? 'Light' : 'Dark');
  const show = () => fill(text, facts(traces[state.trace]));
  onTheme(showTheme);
  onChange((changed) => changed.has('trace') && show());
  showTheme();
  show();
  return h('header', { class: 'bar' }, h('h1', { class: 'brand' }, 'ringpipe ',
    h('span', null, 'view')), traceSelect(traces, 'trace', 'Trace', null),
  traces.length > 1 && traceSelect(traces, 'other', 'Compare with', 'compare with…'), text,
  search.element, theme, h('button', { class: 'button icon', type: 'button',
    'aria-label': 'Keys and gestures', onclick: () => help.showModal() }, '?'));
}

/** Returns which times an offline page shows instead of the selected ones. */
function recordedText(trace, from, to) {
  const [first, end] = recorded.snap(trace, from, to);
  return `shown: ${format.time(first)} + ${format.duration(end - first)}`;
}

/** The line that shows what the panes are restricted to. */
function scopeLine(traces) {
  const element = h('div', { class: 'scope' });
  const chip = (text, changes, label) => h('span', { class: 'chip' }, text, h('button', {
    type: 'button', 'aria-label': label, onclick: () => update(changes) }, '×'));
  const show = () => {
    const [from, to] = state.range ?? [];
    fill(element,
      state.range && chip(`${format.time(from)} + ${format.duration(to - from)}`,
        { range: null }, 'Clear the selected times'),
      recorded && state.range && h('span', null, recordedText(state.trace, from, to)),
      state.tid !== null && !state.key && chip(`thread ${state.tid}`, { tid: null },
        'All threads'),
      state.pid !== null && !state.key && chip(`process ${state.pid}`, { pid: null },
        'All processes'),
      !state.range && (state.key ? state.tab !== 'explain' : state.tid === null &&
        state.pid === null) &&
        h('span', null, `whole trace, ${format.duration(traces[state.trace].duration_ns)}`),
      // Only the explanation is restricted to the span.
      state.key && chip(state.tab === 'explain' ? 'span' : 'span selected', { key: null,
        keyTrace: null, tid: null, pid: null }, 'Clear the selected span'));
  };
  onChange(show);
  show();
  return element;
}

function tabBar(traces, panes) {
  const buttons = TABS.map(([tab, text]) => h('button', { class: 'tab', type: 'button',
    role: 'tab', id: `tab-${tab}`, 'aria-controls': `pane-${tab}`,
    onclick: () => update({ tab }) }, text));
  const list = h('div', { role: 'tablist', 'aria-label': 'Panes' }, buttons);
  list.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const at = TABS.findIndex(([tab]) => tab === state.tab);
      const next = (at + step + TABS.length) % TABS.length;
      update({ tab: TABS[next][0] });
      buttons[next].focus();
      event.preventDefault();
      event.stopPropagation();
    }
  });
  const show = () => TABS.forEach(([tab], i) => {
    const chosen = state.tab === tab;
    buttons[i].setAttribute('aria-selected', String(chosen));
    buttons[i].tabIndex = chosen ? 0 : -1;
    panes[i].element.hidden = !chosen;
  });
  onChange((changed) => changed.has('tab') && show());
  show();
  return h('nav', { class: 'tabs', 'aria-label': 'Panes' }, list, scopeLine(traces));
}

function splitter() {
  const element = h('div', { class: 'splitter', role: 'separator', tabindex: '0',
    'aria-label': 'Height of the panes', 'aria-orientation': 'horizontal', 'aria-valuemin': '15',
    'aria-valuemax': '85', 'aria-valuenow': '42' });
  let share = 42;
  const set = (value) => {
    share = Math.min(85, Math.max(15, value));
    document.getElementById('app').style.setProperty('--drawer', `${share}%`);
    element.setAttribute('aria-valuenow', String(Math.round(share)));
  };
  element.addEventListener('pointerdown', (event) => element.setPointerCapture(event.pointerId));
  element.addEventListener('pointermove', (event) => {
    if (element.hasPointerCapture(event.pointerId)) {
      set(100 * (1 - event.clientY / innerHeight));
    }
  });
  element.addEventListener('keydown', (event) => {
    const step = { ArrowUp: 4, ArrowDown: -4 }[event.key];
    if (step) {
      set(share + step);
      event.preventDefault();
      event.stopPropagation();
    }
  });
  return element;
}

function notices(traces) {
  const sentences = traces.flatMap((trace, i) => (trace.warnings ?? []).map((warning) =>
    (traces.length > 1 ? `${i + 1}: ${warning}` : warning[0].toUpperCase() + warning.slice(1))));
  if (recorded) {
    sentences.unshift('This page is a copy with less detail than `ringpipe view` shows.');
  }
  const element = h('div', { class: 'notice', role: 'note', hidden: sentences.length === 0 },
    h('ul', null, sentences.map((sentence) => h('li', null, sentence))),
    h('button', { class: 'button', type: 'button', onclick: () => {
      element.hidden = true;
    } }, 'Hide'));
  return element;
}

function listen(timeline, search, help, events) {
  const actions = {
    w: () => timeline.zoom(0.7), s: () => timeline.zoom(1 / 0.7), a: () => timeline.pan(-0.2),
    d: () => timeline.pan(0.2), ArrowLeft: () => timeline.pan(-0.1),
    ArrowRight: () => timeline.pan(0.1), 0: () => update({ view: null }),
    ArrowUp: () => timeline.scroller.scrollBy(0, -60),
    ArrowDown: () => timeline.scroller.scrollBy(0, 60),
    f: () => state.range && timeline.reveal(...state.range), t: toggleTheme,
    '/': () => search.input.focus(), '?': () => help.showModal(),
    e: () => {
      update({ tab: 'events' });
      requestAnimationFrame(() => events.input.focus());
    },
    x: () => {
      timeline.wakes = !timeline.wakes;
      timeline.draw();
    },
    Escape: () => update({ range: null, key: null, tid: null, pid: null, mark: '' }),
  };
  TABS.forEach(([tab], i) => {
    actions[i + 1] = () => update({ tab });
  });
  document.addEventListener('keydown', (event) => {
    const writes = event.target.closest?.('input, select, textarea, dialog');
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!writes && !event.ctrlKey && !event.metaKey && !event.altKey && actions[key]) {
      event.preventDefault();
      actions[key]();
    }
  });
}

/**
 * Sorts the processes of a trace: those with spans are first, then those with the most events.
 * By their ids, the threads of the kernel would be first.
 */
function sortProcesses(trace) {
  const sum = (process, name) => process.threads.reduce((all, thread) => all + thread[name], 0);
  const spans = new Map(trace.processes.map((process) => [process, sum(process, 'spans')]));
  const events = new Map(trace.processes.map((process) => [process, sum(process, 'events')]));
  trace.processes.sort((a, b) => spans.get(b) - spans.get(a) || events.get(b) - events.get(a) ||
    a.pid - b.pid);
}

function start(traces) {
  traces.forEach(sortProcesses);
  if (!traces[state.trace]) {
    state.trace = 0;
  }
  state.other = traces[state.other ?? -1] ? state.other : null;
  const timeline = new Timeline(traces, announce);
  const search = new Search(timeline, announce);
  const help = helpDialog();
  const events = new EventsPane();
  const panes = [new FlamePane(traces), new LatencyPane(traces, timeline),
    new ExplainPane(traces), new CountersPane(), events];
  const drawer = h('main', { 'aria-label': 'Panes', style: { display: 'flex',
    'flex-direction': 'column', 'min-height': '0', overflow: 'hidden' } }, tabBar(traces, panes),
  h('div', { style: { flex: '1', 'min-height': '0' } }, panes.map((pane) => pane.element)));
  const top = h('div', null, header(traces, search, help), loadingLine(traces),
    notices(traces));
  const minimap = new Minimap(timeline);
  fill(document.getElementById('app'), top, minimap.element, live, timeline.element, splitter(),
    drawer);
  document.body.append(help);
  const showTitle = () => {
    document.title = `${traces[state.trace].name} – ringpipe view`;
  };
  onChange((changed) => changed.has('trace') && showTitle());
  showTitle();
  listen(timeline, search, help, events);
  minimap.load();
  timeline.relayout();
  timeline.request();
  panes.find((pane) => pane.tab === state.tab).refresh();
  // For tests.
  window.ringpipeView = { frames, requests, state, update, timeline, work };
}

ask('traces', {}).then((answer) => start(answer.traces), (error) => {
  fill(document.getElementById('app'), h('p', { class: 'problem', role: 'alert' },
    error.message));
});
