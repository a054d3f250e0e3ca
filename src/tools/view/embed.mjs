// SPDX-License-Identifier: MIT
// Writes a file as an array of C.
//
// usage: node embed.mjs PAGE OUT
import { readFile, writeFile } from 'node:fs/promises';

const [page, out] = process.argv.slice(2);
const bytes = await readFile(page);
const lines = [];
for (let at = 0; at < bytes.length; at += 20) {
  lines.push(`\t${[...bytes.subarray(at, at + 20)].join(',')},`);
}
await writeFile(out, `#include "tools/view/view_page.h"

const unsigned char rp_view_page[] = {
${lines.join('\n')}
};
const size_t rp_view_page_bytes = ${bytes.length};
`);
