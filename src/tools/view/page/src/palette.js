// SPDX-License-Identifier: MIT
// Colours of what canvases draw, from the colour-blind safe palette of Okabe and Ito. Tints carry
// text with a contrast of at least 4.5:1.

/** Okabe-Ito without yellow, which is too pale on white, and black. */
const HUES = [[0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167], [86, 180, 233],
  [213, 94, 0], [120, 130, 145]];

function mix(colour, other, share) {
  return `rgb(${colour.map((part, i) => Math.round(part + (other[i] - part) * share)).join(',')})`;
}

function theme(dark) {
  const back = dark ? [18, 21, 26] : [255, 255, 255];
  return {
    dark,
    back: mix(back, back, 0),
    group: dark ? '#1c2128' : '#eef1f4',
    stripe: dark ? '#161a20' : '#fafbfc',
    line: dark ? '#2a3038' : '#e1e5ea',
    grid: dark ? '#20262d' : '#edf0f3',
    text: dark ? '#e4e8ed' : '#1b2027',
    dim: dark ? '#9ba6b3' : '#586270',
    accent: dark ? '#6cb6ee' : '#00588c',
    shade: dark ? 'rgba(0,0,0,.45)' : 'rgba(60,72,88,.16)',
    select: dark ? 'rgba(86,180,233,.16)' : 'rgba(0,114,178,.11)',
    run: dark ? '#1fae86' : '#009e73',
    runnable: '#e69f00',
    wait: dark ? '#3d4754' : '#cfd6de',
    samples: dark ? '#4f9fd4' : '#3f93c8',
    events: dark ? '#b389c9' : '#9a6bb5',
    bin: dark ? '#5a6675' : '#a3aebb',
    error: dark ? '#ff8c4a' : '#c04a00',
    wake: dark ? '#f0b94a' : '#8a5a00',
    highlight: dark ? '#f0e442' : '#7a3b8f',
    spans: HUES.map((hue) => mix(hue, back, dark ? 0.52 : 0.58)),
    edges: HUES.map((hue) => mix(hue, back, dark ? 0.1 : 0.12)),
    parts: HUES.map((hue) => mix(hue, back, dark ? 0.12 : 0.08)),
    spanText: dark ? '#f2f5f8' : '#15191f',
  };
}

const themes = { light: theme(false), dark: theme(true) };
const listeners = new Set();

function stored() {
  try {
    return localStorage.getItem('ringpipe-theme');
  } catch {
    return null;
  }
}

let chosen = stored();
const system = matchMedia('(prefers-color-scheme: dark)');

/** Returns the name of the theme in force. */
export function themeName() {
  return chosen === 'light' || chosen === 'dark' ? chosen : (system.matches ? 'dark' : 'light');
}

/** Returns the colours of the theme in force. */
export function colours() {
  return themes[themeName()];
}

function apply() {
  document.documentElement.dataset.theme = themeName();
  for (const listener of listeners) {
    listener();
  }
}

/** Calls back after each change of the theme. @param {() => void} listener */
export function onTheme(listener) {
  listeners.add(listener);
}

export function toggleTheme() {
  chosen = themeName() === 'dark' ? 'light' : 'dark';
  try {
    localStorage.setItem('ringpipe-theme', chosen);
  } catch {
    // A page from a file may have no storage: the choice lasts as long as the page.
  }
  apply();
}

system.addEventListener('change', apply);
document.documentElement.dataset.theme = themeName();

/**
 * Returns a number that is the same for equal strings.
 * @param {string} text
 * @returns {number}
 */
export function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length && i < 200; i++) {
    value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  }
  return (value ^ (value >>> 15)) >>> 0;
}

/**
 * Returns the colour of a change between two traces: blue for less, vermilion for more.
 * @param {number} change -1 to 1
 */
export function changeColour(change) {
  const { dark } = colours();
  const neutral = dark ? [52, 59, 68] : [232, 235, 239];
  const end = change < 0 ? (dark ? [0, 110, 180] : [96, 178, 226])
    : (dark ? [190, 80, 0] : [240, 150, 90]);
  return mix(neutral, end, Math.min(1, Math.abs(change)));
}
