// SPDX-License-Identifier: MIT
// Elements are built here and nowhere else. Strings of a trace become text nodes or attribute
// values, never markup.

// Characters that would reorder or hide the text around them: C0 and C1 controls, bidirectional
// marks and overrides, zero-width characters, line separators.
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/**
 * Returns a string of a trace in a form that is safe to read: invisible characters as ‹U+202E›.
 * @param {unknown} text
 * @returns {string}
 */
export function clean(text) {
  return String(text).replace(UNSAFE, (character) => (character === '\n' || character === '\t'
    ? ' '
    : `‹U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}›`));
}

/**
 * Makes an element. Properties whose names begin with `on` are listeners; `style` is an object.
 * @param {string} tag
 * @param {Record<string, any> | null} [properties]
 * @param {...any} children nodes, strings, numbers, arrays of these, or null
 * @returns {any}
 */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) {
      continue;
    }
    if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), value);
    } else if (name === 'style') {
      for (const [key, setting] of Object.entries(value)) {
        element.style.setProperty(key, setting);
      }
    } else if (name === 'value') {
      element.value = value;
    } else if (name === 'title' || name === 'aria-label') {
      element.setAttribute(name, clean(value));
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  append(element, children);
  return element;
}

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) {
      continue;
    }
    parent.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  }
}

/**
 * Replaces the children of an element.
 * @param {Element} parent
 * @param {...any} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/**
 * Fits a canvas to its CSS size and returns its context in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @returns {CanvasRenderingContext2D}
 */
export function fit(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const across = Math.max(1, Math.round(width * ratio));
  const down = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d', {
    alpha: false,
  }));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/**
 * Calls back at most once per frame, however often the returned function is called.
 * @param {() => void} callback
 * @returns {() => void}
 */
export function perFrame(callback) {
  let asked = false;
  return () => {
    if (!asked) {
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        callback();
      });
    }
  };
}

let tooltip = null;

/**
 * Shows lines next to the pointer, or hides the tooltip when there are none.
 * @param {{title: string, rows: [string, string][]} | null} content
 * @param {number} [x]
 * @param {number} [y]
 */
export function showTooltip(content, x = 0, y = 0) {
  if (!tooltip) {
    tooltip = h('div', { class: 'tooltip', role: 'tooltip', hidden: true });
    document.body.append(tooltip);
  }
  tooltip.hidden = !content;
  if (!content) {
    return;
  }
  fill(tooltip, h('div', { class: 'tooltip-title' }, content.title),
    content.rows.length > 0 && h('dl', null, content.rows.map(([name, value]) => [
      h('dt', null, name), h('dd', null, value),
    ])));
  const box = tooltip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - box.width - 10 : x + 14;
  const top = y + 16 + box.height > innerHeight ? y - box.height - 8 : y + 16;
  tooltip.style.setProperty('transform',
    `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`);
}
