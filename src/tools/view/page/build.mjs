// SPDX-License-Identifier: MIT
// Bundles the page into one HTML file that loads nothing.
//
// usage: node build.mjs OUT
//
// The file contains a Content-Security-Policy with the hashes of its script and style, which also
// protects the offline page. `ringpipe view --html` puts its answers where RECORDED_MARK is.
import { createHash } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const RECORDED_MARK = '<!--recorded-->';
const here = dirname(fileURLToPath(import.meta.url));

/** Returns the text that esbuild makes from one entry point. */
async function bundle(entry) {
  const result = await build({
    entryPoints: [join(here, 'src', entry)],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: ['chrome108', 'firefox115', 'safari16'],
    charset: 'ascii',
    legalComments: 'none',
    logLevel: 'warning',
  });
  return result.outputFiles[0].text.trim();
}

function hash(text) {
  return `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`;
}

async function main() {
  const out = process.argv[2];
  if (!out) {
    console.error('usage: node build.mjs OUT');
    process.exit(2);
  }
  const [template, script, style] = await Promise.all([
    readFile(join(here, 'src', 'index.html'), 'utf8'), bundle('main.js'), bundle('style.css'),
  ]);
  if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style)) {
    throw new Error('the bundle contains text that would end its own element');
  }
  const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; ` +
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'";
  const parts = { POLICY: policy, STYLE: style, SCRIPT: script };
  const page = template.replace(/@(POLICY|STYLE|SCRIPT)@/g, (_, name) => parts[name]);
  if (page.split(RECORDED_MARK).length !== 2) {
    throw new Error(`the template must contain ${RECORDED_MARK} once`);
  }
  // A build that is interrupted leaves no half of a page.
  await writeFile(`${out}.part`, page);
  await rename(`${out}.part`, out);
}

await main();
