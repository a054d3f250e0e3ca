// SPDX-License-Identifier: MIT
// Says that the page shows parts of the traces, and reads all of them if the user asks for it.
import { fill, h } from './dom.js';

const POLL_MS = 500;
const RETRY_MS = 2000;

const EXCERPT = 'The trace is large, so the page shows parts of it. Zoom in or select times, and ' +
  'it shows all events of these.';
const READING = 'The whole trace is being read. Until then, the page shows parts of it.';
const READ = 'The trace has been read, but the page still shows parts of it.';
const FAILED = 'The server does not answer. Is `ringpipe view` still running? The page shows parts ' +
  'of the trace, and asks again.';

/** A reload would lose what the user writes. */
function isWriting() {
  return document.activeElement?.matches('input, select, textarea') ||
    document.querySelector('dialog[open]');
}

async function askTraces(path) {
  const response = await fetch(`api/${path}`, { credentials: 'omit' });
  if (!response.ok) {
    throw new Error(`Status ${response.status}`);
  }
  return (await response.json()).traces;
}

/**
 * Returns the line. The whole trace is read if the user asks for it. Then, unless the user is
 * writing, the page loads again, and its address keeps what it shows.
 */
export function loadingLine(traces) {
  const bar = h('progress', { 'aria-label': 'Reading the trace', hidden: true });
  const text = h('span', null);
  const whole = h('button', { class: 'button whole', type: 'button', hidden: true },
    'Read the whole trace');
  const button = h('button', { class: 'button', type: 'button', hidden: true,
    onclick: () => location.reload() }, 'Show the whole trace');
  const element = h('div', { class: 'notice loading', role: 'note', hidden: true }, bar, text,
    whole, button);

  /** Shows the state of the reading, and returns whether it is complete. */
  const show = (list) => {
    const left = list.filter((trace) => typeof trace.loading === 'number');
    bar.hidden = left.length === 0;
    whole.hidden = true;
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
  const poll = async (path) => {
    let wait = POLL_MS;
    try {
      if (show(await askTraces(path))) {
        reload();
        return;
      }
    } catch {
      element.classList.add('failed');
      fill(text, FAILED);
      wait = RETRY_MS;
    }
    setTimeout(() => poll('traces'), wait);
  };
  whole.addEventListener('click', () => poll('load'));
  if (!show(traces)) {
    element.hidden = false;
    setTimeout(() => poll('traces'), POLL_MS);
  } else if (traces.some((trace) => trace.excerpt)) {
    element.hidden = whole.hidden = false;
    button.hidden = true;
    fill(text, EXCERPT);
  }
  return element;
}
