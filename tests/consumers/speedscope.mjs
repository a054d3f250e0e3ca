// SPDX-License-Identifier: MIT
// Opens files in speedscope, as a user does with its "Browse" button, exports each, and prints what
// speedscope has imported as one JSON object: for each file the exported profiles, or an error.
//
// usage: node speedscope.mjs CHROMIUM FILE…
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import puppeteer from 'puppeteer-core';

const PATIENCE_MS = 60000;
const [chromium, ...files] = process.argv.slice(2);
const program = path.dirname(createRequire(import.meta.url).resolve('speedscope/package.json'));
const site = pathToFileURL(path.join(program, 'dist', 'release', 'index.html')).href;
const found = {};

const browser = await puppeteer.launch({ executablePath: chromium, headless: true,
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--use-angle=swiftshader',
    '--enable-unsafe-swiftshader'] });

async function open(file) {
  const page = await browser.newPage();
  const seen = { errors: [], profile: null };
  page.on('pageerror', (error) => seen.errors.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') {
      seen.errors.push(message.text());
    }
  });
  page.on('dialog', (dialog) => {
    seen.errors.push(dialog.message());
    dialog.dismiss();
  });
  await page.evaluateOnNewDocument(() => {
    window.exported = null;
    URL.createObjectURL = (blob) => {
      window.exported = blob.text();
      return 'data:,';
    };
  });
  await page.goto(site);
  await (await page.waitForSelector('input[type=file]')).uploadFile(file);
  const deadline = Date.now() + PATIENCE_MS;
  while (!seen.profile && seen.errors.length === 0 && Date.now() < deadline) {
    // The key does nothing until the file is imported.
    await page.keyboard.down('Control');
    await page.keyboard.press('s');
    await page.keyboard.up('Control');
    seen.profile = JSON.parse(await page.evaluate(() => window.exported) ?? 'null');
  }
  await page.close();
  return seen;
}

try {
  for (const file of files) {
    found[path.basename(file)] = await open(path.resolve(file));
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
