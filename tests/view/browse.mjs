// SPDX-License-Identifier: MIT
// Opens the page of `ringpipe view` in headless Chromium, acts like a user, and prints what it saw
// as one JSON object.
//
// usage: node browse.mjs CHROMIUM URL STEP…
//
// A step is one of: tab=NAME, key=KEY, type=SELECTOR=TEXT, click=SELECTOR, theme=light|dark,
// hash=HASH, size=WIDTHxHEIGHT, rows=LABEL (the cells of a table), text=SELECTOR, state, axe, asked
// (the requests), scripts, pan (a series of moves and zooms), loaded (have the whole trace read, and
// wait for it), view=LOW-HIGH (show times, in percent of the trace), cost (what the page has used so far), shot=FILE, shown=SELECTOR (wait until it is visible),
// wide=SELECTOR (the elements whose content is wider than they are), reload, reading=PART|null|fails (which part of the traces the server has read, for the page).
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import puppeteer from 'puppeteer-core';

const [chromium, url, ...steps] = process.argv.slice(2);
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const seen = { errors: [], dialogs: [], asked: [], results: [] };

const browser = await puppeteer.launch({ executablePath: chromium, headless: true,
  protocolTimeout: 900000,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
const page = await browser.newPage();
page.on('pageerror', (error) => seen.errors.push(String(error)));
page.on('dialog', (dialog) => {
  seen.dialogs.push(dialog.message());
  dialog.dismiss();
});
// The bytes of the answers, by their addresses.
const devtools = await page.createCDPSession();
const names = new Map();
const answers = new Map();
await devtools.send('Network.enable');
devtools.on('Network.requestWillBeSent', ({ requestId, request }) => {
  names.set(requestId, new URL(request.url).pathname.replace(/.*\//, ''));
});
devtools.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
  const name = names.get(requestId);
  answers.set(name, Math.max(answers.get(name) ?? 0, encodedDataLength));
});
page.on('request', (request) => seen.asked.push(request.url()));

// The page is quiet when nothing it asked for is on its way and two frames have passed.
async function quiet() {
  await page.waitForNetworkIdle({ idleTime: 250, timeout: 60000 });
  await page.waitForFunction(() => !document.querySelector('.stale'), { timeout: 60000 });
  // Unlike evaluate(), this continues after the page has loaded again.
  await page.waitForFunction(() => new Promise((resolve) => {
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(true)));
  }));
}

let reading;
let completeMs;

/** Answers the question for the traces with the part that `reading` states. */
async function intercept(request) {
  if (!request.url().endsWith('/api/traces')) {
    request.continue();
  } else if (reading === 'fails') {
    request.abort();
  } else {
    // A later action may change `reading` while the server answers.
    const loading = JSON.parse(reading);
    const answer = await (await fetch(request.url())).json();
    for (const trace of answer.traces) {
      trace.loading = loading;
    }
    request.respond({ contentType: 'application/json', body: JSON.stringify(answer) });
  }
}

const actions = {
  tab: (name) => page.click(`#tab-${name}`),
  key: (key) => page.keyboard.press(key),
  click: (selector) => page.click(selector),
  type: async (argument) => {
    const [selector, ...text] = argument.split('=');
    await page.focus(selector);
    await page.keyboard.type(text.join('='));
  },
  theme: (name) => page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: name }]),
  hash: async (hash) => {
    await page.goto('about:blank');
    await page.goto(`${url}#${hash}`);
    await page.waitForSelector('[role="tablist"]');
  },
  size: (size) => page.setViewport({ width: Number(size.split('x')[0]),
    height: Number(size.split('x')[1]) }),
  rows: (label) => page.$eval(`table[aria-label="${label}"] tbody`, (body) => [...body.rows]
    .map((row) => [...row.cells].map((cell) => cell.textContent))),
  text: (selector) => page.$eval(selector, (element) => element.innerText),
  state: () => page.evaluate(() => ({ ...window.ringpipeView.state, hash: location.hash })),
  asked: () => seen.asked.length,
  scripts: () => page.evaluate(() => ({
    scripts: document.querySelectorAll('script:not([type="application/json"])').length,
    frames: document.querySelectorAll('iframe, object, embed, img').length,
    handlers: [...document.querySelectorAll('*')].filter((element) => [...element.attributes]
      .some((attribute) => attribute.name.startsWith('on'))).length,
  })),
  axe: async () => {
    // The page's policy permits no other script, so the test evaluates it outside of the policy.
    await page.evaluate(`${axe}; undefined`);
    const found = await page.evaluate(() => window.axe.run(document));
    return found.violations.filter((one) => ['serious', 'critical'].includes(one.impact))
      .map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' ').slice(0, 300)}`);
  },
  pan: async () => {
    await page.evaluate(async () => {
      const { frames, timeline, work } = window.ringpipeView;
      frames.length = 0;
      window.mostRows = 0;
      for (let i = 0; i < 120; i++) {
        if (i % 4 === 3) {
          timeline.zoom(i % 8 === 3 ? 0.6 : 1.5);
        } else {
          timeline.pan(i % 2 ? 0.11 : -0.07);
        }
        await new Promise((resolve) => {
          requestAnimationFrame(resolve);
        });
        window.mostRows = Math.max(window.mostRows, work.rows);
      }
    });
    return page.evaluate(() => {
      const sorted = [...window.ringpipeView.frames].sort((a, b) => a - b);
      return { frames: sorted.length, p95_ms: sorted[Math.floor(sorted.length * 0.95)] ?? null,
        most_rows: window.mostRows };
    });
  },
  loaded: async () => {
    await page.evaluate(() => document.querySelector('.loading .whole:not([hidden])')?.click());
    await page.waitForFunction(() => window.ringpipeView &&
      document.querySelector('.loading')?.hidden, { timeout: 600000, polling: 200 });
    return null;
  },
  // The times in percent of the trace. The answer has them and some before and after them.
  view: async (percent) => {
    await page.evaluate((low, high) => {
      const { timeline } = window.ringpipeView;
      timeline.setView(timeline.length() * low / 100, timeline.length() * high / 100);
    }, ...percent.split('-').map(Number));
    await page.waitForFunction(() => {
      const { timeline } = window.ringpipeView;
      const [from, to] = timeline.view();
      return [...timeline.data.values()].every((data) => data.from <= from && data.to >= to &&
        data.to - data.from < 8 * (to - from));
    }, { timeout: 60000 });
    return null;
  },
  cost: async () => ({ first_picture_ms: await page.evaluate(() => window.ringpipeView.work.first),
    complete_ms: completeMs, heap_bytes: (await page.metrics()).JSHeapUsedSize, largest: Object.fromEntries(answers) }),
  shot: (path) => page.screenshot({ path }),
  wide: (selector) => page.$$eval(selector, (elements) => elements
    .filter((element) => element.scrollWidth > element.clientWidth)
    .map((element) => element.textContent.slice(0, 300))),
  shown: (selector) => page.waitForSelector(selector, { visible: true }).then(() => null),
  reload: () => page.reload().then(() => null),
  reading: async (value) => {
    if (reading === undefined) {
      await page.setRequestInterception(true);
      page.on('request', intercept);
    }
    reading = value;
  },
};

try {
  await page.setViewport({ width: 1280, height: 800 });
  await page.goto(url);
  await page.waitForSelector('[role="tablist"], [role="alert"]', { timeout: 60000 });
  await quiet();
  completeMs = await page.evaluate(() => performance.now());
  for (const step of steps) {
    const [name, ...rest] = step.split('=');
    const result = await actions[name](rest.join('='));
    await quiet();
    seen.results.push(result === undefined || result instanceof Uint8Array ? null : result);
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
