// SPDX-License-Identifier: MIT
// The call tree of a flame graph, and the difference of two.

/**
 * @typedef {object} Node
 * @property {string} key of the function, among the children of one node
 * @property {string} name
 * @property {string} file
 * @property {number} self
 * @property {number} sum
 * @property {number} otherSum weight in the other trace, as a share of this trace's total
 * @property {number} width weight that decides the width, at least that of all children
 * @property {Node | null} parent
 * @property {Node[]} children
 */

/**
 * Names a function as the commands do. Those of a file without names are one function.
 * @param {string | null} [name]
 * @param {string | null} [file]
 * @returns {string}
 */
export function functionName(name, file) {
  return name ?? (file ? `[${file.replace(/.*\//, '')}]` : '[unknown]');
}

function node(key, name, file, parent) {
  return { key, name, file, self: 0, sum: 0, otherSum: 0, width: 0, parent, children: [],
    found: new Map() };
}

function child(parent, name, file) {
  const key = `${name}\u0000${file}`;
  let found = parent.found.get(key);
  if (!found) {
    found = node(key, name, file, parent);
    parent.found.set(key, found);
    parent.children.push(found);
  }
  return found;
}

function add(root, answer, put) {
  const nodes = [];
  for (const [parent, frame, self, sum] of answer.nodes) {
    const { name, file } = answer.frames[frame] ?? { name: null, file: null };
    const own = child(parent < 0 ? root : nodes[parent], functionName(name, file), file ?? '');
    nodes.push(own);
    put(own, self, sum);
  }
}

/** Returns all nodes, each before its children. */
function list(tree) {
  const nodes = [tree];
  for (let i = 0; i < nodes.length; i++) {
    nodes.push(...nodes[i].children);
  }
  return nodes;
}

/** The children of a node may be heavier in different traces, and together wider than itself. */
function measure(nodes) {
  for (const entry of [...nodes].reverse()) {
    const inside = entry.children.reduce((sum, next) => sum + next.width, 0);
    entry.width = Math.max(entry.sum, entry.otherSum, inside);
  }
}

/**
 * @param {any} answer of api/flame
 * @param {any} other the same of another trace, or null
 * @param {string} order heavy or flame
 * @returns {Node}
 */
export function grow(answer, other, order) {
  const root = node('', 'all', '', null);
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
  const nodes = list(root);
  measure(nodes);
  for (const entry of nodes) {
    entry.children.sort(order === 'flame' ?
      (a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)) : (a, b) => b.width - a.width);
  }
  return root;
}

/** Returns the keys from the outermost function to a node. */
export function path(entry) {
  const keys = [];
  for (let at = entry; at && at.parent; at = at.parent) {
    keys.unshift(at.key);
  }
  return keys;
}

/** Returns the node with the longest common beginning of a path. */
export function follow(root, keys) {
  let at = root;
  for (const key of keys) {
    const next = at.found.get(key);
    if (!next) {
      break;
    }
    at = next;
  }
  return at;
}
