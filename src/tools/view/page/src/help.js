// SPDX-License-Identifier: MIT
// The dialog that lists the keys, and the colours of the timeline.
import { fill, h } from './dom.js';
import { colours, onTheme } from './palette.js';

const KEYS = [
  ['W, S', 'zoom in, out'], ['A, D', 'move earlier, later'], ['↑ ↓ ← →', 'scroll, move'],
  ['F', 'show the selection'], ['0', 'show the whole trace'], ['1 to 5', 'choose a pane'],
  ['/', 'search'], ['E', 'filter events'], ['X', 'show or hide wake arrows'],
  ['T', 'light or dark'], ['Esc', 'clear the selection'], ['?', 'this help'],
  ['Drag', 'select times'], ['Shift+drag', 'move'], ['Ctrl+wheel', 'zoom'],
  ['Double click', 'zoom to a span'],
];

const COLOURS = [
  ['run', 'the thread was on a processor'], ['runnable', 'it was ready to run'],
  ['wait', 'it waited'], ['wake', 'it was woken'], ['samples', 'samples'], ['events', 'events'],
  ['bin', 'many short spans'],
];

function listColours() {
  return COLOURS.map(([name, text]) => h('div', null,
    h('dt', null, h('i', { class: 'swatch', style: { background: colours()[name] } })),
    h('dd', null, text)));
}

/** Makes the dialog; showModal() opens it. */
export function helpDialog() {
  const legend = h('dl', { class: 'keys colours' }, listColours());
  const dialog = h('dialog', { 'aria-labelledby': 'help-title' },
    h('header', null, h('h2', { id: 'help-title' }, 'Keys and gestures'),
      h('button', { class: 'button', type: 'button', onclick: () => dialog.close() }, 'Close')),
    h('dl', { class: 'keys' }, KEYS.map(([key, text]) => h('div', null,
      h('dt', null, h('kbd', null, key)), h('dd', null, text)))),
    h('h2', null, 'Colours of the timeline'), legend);
  onTheme(() => fill(legend, listColours()));
  return dialog;
}
