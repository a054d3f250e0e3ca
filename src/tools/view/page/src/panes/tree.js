// SPDX-License-Identifier: MIT
// The call tree of a flame graph, and the difference of two.

/**
 * @typedef {object} Node
 * @property {string} name
 * @property {string} file
 * @property {number} self
 * @property {number} sum
 * @property {number} otherSum weight in the other trace, as a share of this trace's total
 * @property {Node | null} parent
 * @property {Node[]} children
 */

function node(name, file, parent) {
  return { name, file, self: 0, sum: 0, otherSum: 0, parent, children: [], found: new Map() };
}

function child(parent, name, file) {
  const key = `${name}\u0000${file}`;
  let found = parent.found.get(key);
  if (!found) {
    found = node(name, file, parent);
    parent.found.set(key, found);
    parent.children.push(found);
  }
  return found;
}

function add(root, answer, put) {
  const nodes = [];
  for (const [parent, frame, self, sum] of answer.nodes) {
    const { name, file } = answer.frames[frame] ?? { name: null, file: null };
    const own = child(parent < 0 ? root : nodes[parent], name ?? '[unknown]', file ?? '');
    nodes.push(own);
    put(own, self, sum);
  }
}

function sort(tree, compare) {
  const left = [tree];
  while (left.length > 0) {
    const next = left.pop();
    next.children.sort(compare);
    left.push(...next.children);
  }
}

/**
 * @param {any} answer of api/flame
 * @param {any} other the same of another trace, or null
 * @param {string} order heavy or flame
 * @returns {Node}
 */
export function grow(answer, other, order) {
  const root = node('all', '', null);
  root.sum = answer.total;
  add(root, answer, (own, self, sum) => {
    own.self += self;
    own.sum += sum;
  });
  if (other) {
    const scale = other.total > 0 ? answer.total / other.total : 0;
    root.otherSum = answer.total;
    add(root, other, (own, self, sum) => {
      own.otherSum += sum * scale;
    });
  }
  const size = (entry) => Math.max(entry.sum, entry.otherSum);
  sort(root, order === 'flame' ? (a, b) => (a.name < b.name ? -1 : Number(a.name > b.name))
    : (a, b) => size(b) - size(a));
  return root;
}

/** Returns the weight of a node that decides its width. */
export function width(entry) {
  return Math.max(entry.sum, entry.otherSum);
}

/** Returns the names from the outermost function to a node. */
export function path(entry) {
  const names = [];
  for (let at = entry; at && at.parent; at = at.parent) {
    names.unshift(at.name);
  }
  return names;
}

/** Returns the node with the longest common beginning of a path. */
export function follow(root, names) {
  let at = root;
  for (const name of names) {
    const next = at.children.find((entry) => entry.name === name);
    if (!next) {
      break;
    }
    at = next;
  }
  return at;
}
