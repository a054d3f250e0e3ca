// SPDX-License-Identifier: MIT
// The call tree of the flame graph, and the difference of two.
//
// usage: node tree_test.mjs TREE.JS
import assert from 'node:assert';
import { pathToFileURL } from 'node:url';
import { run } from './tap.mjs';

const { follow, grow, path } = await import(pathToFileURL(process.argv[2]).href);

/** Returns an answer whose stacks, from the outermost function, have a weight each. */
function answer(stacks) {
  const frames = [];
  const nodes = [];
  let total = 0;
  for (const [weight, ...stack] of stacks) {
    stack.forEach((name, i) => {
      frames.push(name.startsWith('/') ? { name: null, file: name } : { name, file: 'f' });
      nodes.push([i === 0 ? -1 : nodes.length - 1, frames.length - 1,
        i === stack.length - 1 ? weight : 0, weight]);
    });
    total += weight;
  }
  return { frames, nodes, total };
}

function all(entry) {
  return [entry, ...entry.children.flatMap(all)];
}

const tests = {
  'children never reach beyond their caller': () => {
    // Each trace has its weight in another function, so both together are wider than main.
    const tree = grow(answer([[10, 'main', 'a'], [10, 'other']]),
      answer([[10, 'main', 'b'], [10, 'other']]), 'heavy');
    for (const entry of all(tree)) {
      const inside = entry.children.reduce((sum, next) => sum + next.width, 0);
      assert.ok(entry.width >= inside, `${entry.name}: ${entry.width} < ${inside}`);
      assert.ok(entry.width >= Math.max(entry.sum, entry.otherSum));
    }
    assert.deepEqual(tree.children.map((entry) => [entry.name, entry.width]),
      [['main', 20], ['other', 10]]);
  },
  'without another trace the widths are the weights': () => {
    const tree = grow(answer([[3, 'main', 'a'], [4, 'main', 'b'], [1, 'x']]), null, 'heavy');
    assert.deepEqual(all(tree).map((entry) => [entry.name, entry.sum]),
      all(tree).map((entry) => [entry.name, entry.width]));
  },
  'functions without names are found by their file': () => {
    const tree = grow(answer([[2, '/lib/a.so'], [1, '/lib/b.so']]), null, 'heavy');
    assert.deepEqual(tree.children.map((entry) => entry.name), ['[a.so]', '[b.so]']);
    for (const entry of tree.children) {
      assert.equal(follow(tree, path(entry)), entry);
    }
  },
};

run(tests);
