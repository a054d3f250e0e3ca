// SPDX-License-Identifier: MIT
// Numbers as the page shows them.
//
// usage: node format_test.mjs FORMAT
import assert from 'node:assert';
import { pathToFileURL } from 'node:url';
import { run } from './tap.mjs';

const { counted } = await import(pathToFileURL(process.argv[2]).href);

const tests = {
  'a count of one has the singular of its noun': () => {
    assert.deepEqual([counted(1, 'event'), counted(0, 'event'), counted(1234, 'span')],
      ['1 event', '0 events', '1,234 spans']);
    assert.deepEqual([counted(1, 'process'), counted(2, 'process')], ['1 process', '2 processes']);
  },
};

run(tests);
