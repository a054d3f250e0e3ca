// SPDX-License-Identifier: MIT
// Shows how much of the traces has been read, as long as the panes show a preview.
import { fill, h } from './dom.js';

const POLL_MS = 500;
const RETRY_MS = 2000;

const READING = 'The trace is being read. Until then, this is a preview: it has the events of some ' +
  'parts.';
const READ = 'The trace has been read, but the page still shows a preview.';
const FAILED = 'The server does not answer. Is `ringpipe view` still running? The page shows a ' +
  'preview, and asks again.';

/** A reload would lose what the user writes. */
function isWriting() {
  return document.activeElement?.matches('input, select, textarea') ||
    document.querySelector('dialog[open]');
}

async function askTraces() {
  const response = await fetch('api/traces', { credentials: 'omit' });
  if (!response.ok) {
    throw new Error(`Status ${response.status}`);
  }
  return (await response.json()).traces;
}

/**
 * Returns the line. When all traces have been read and the user writes nothing, the page loads
 * again, and its address keeps what it shows. Until then the line remains.
 */
export function loadingLine(traces) {
  const bar = h('progress', { 'aria-label': 'Reading the trace' });
  const text = h('span', null, READING);
  const button = h('button', { class: 'button', type: 'button', hidden: true,
    onclick: () => location.reload() }, 'Show the whole trace');
  const element = h('div', { class: 'notice loading', role: 'note', hidden: true }, bar, text,
    button);

  /** Shows the state of the reading, and returns whether it is complete. */
  const show = (list) => {
    const left = list.filter((trace) => typeof trace.loading === 'number');
    bar.max = list.length;
    bar.value = list.length - left.length + Math.max(0, ...left.map((trace) => trace.loading));
    button.hidden = left.length > 0;
    element.classList.remove('failed');
    fill(text, left.length > 0 ? READING : READ);
    return left.length === 0;
  };
  const reload = () => {
    if (isWriting()) {
      setTimeout(reload, POLL_MS);
    } else {
      location.reload();
    }
  };
  const poll = async () => {
    let wait = POLL_MS;
    try {
      if (show(await askTraces())) {
        reload();
        return;
      }
    } catch {
      element.classList.add('failed');
      fill(text, FAILED);
      wait = RETRY_MS;
    }
    setTimeout(poll, wait);
  };
  if (!show(traces)) {
    element.hidden = false;
    setTimeout(poll, POLL_MS);
  }
  return element;
}
