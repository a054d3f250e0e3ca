// SPDX-License-Identifier: MIT
// The dialog that lists the keys.
import { h } from './dom.js';

const KEYS = [
  ['W, S', 'zoom in, out'], ['A, D', 'move earlier, later'], ['↑ ↓ ← →', 'scroll, move'],
  ['F', 'show the selection'], ['0', 'show the whole trace'], ['1 to 5', 'choose a pane'],
  ['/', 'search'], ['E', 'filter events'], ['X', 'show or hide wake arrows'],
  ['T', 'light or dark'], ['Esc', 'clear the selection'], ['?', 'this help'],
  ['Drag', 'select times'], ['Shift+drag', 'move'], ['Ctrl+wheel', 'zoom'],
  ['Double click', 'zoom to a span'],
];

/** Makes the dialog; showModal() opens it. */
export function helpDialog() {
  const dialog = h('dialog', { 'aria-labelledby': 'help-title' },
    h('header', null, h('h2', { id: 'help-title' }, 'Keys and gestures'),
      h('button', { class: 'button', type: 'button', onclick: () => dialog.close() }, 'Close')),
    h('dl', { class: 'keys' }, KEYS.map(([key, text]) => h('div', null,
      h('dt', null, h('kbd', null, key)), h('dd', null, text)))));
  return dialog;
}
