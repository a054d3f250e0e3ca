// SPDX-License-Identifier: MIT
// The expressions of --where, for the events of an offline page. EXPRESSIONS in ringpipe(1)
// describes the language, and src/tools/trace/event_expression_parse.c has the grammar. The
// messages and positions of errors are those of the command; tests/view/expression_test.py compares
// them.
//
// Texts are strings of the bytes of UTF-8 here, because positions, orders and searches count bytes.

const BYTES_MAX = 4096;
const DEPTH_MAX = 64;
const COMPARISONS_MAX = 256;
const REGEX_MAX = 512;
const SEARCHED_MAX = 65535;
const INT64_MAX = 2n ** 63n - 1n;
const UINT64_MAX = 2n ** 64n - 1n;
const VALUE = 'a number, true, false, or a text in quotes';

const UNITS = { ns: 1n, us: 1000n, ms: 1000000n, s: 1000000000n, m: 60000000000n,
  h: 3600000000000n };
const LEVELS = { always: 0, critical: 1, error: 2, warning: 3, informational: 4, info: 4,
  verbose: 5 };
const INSTEAD = { '=~': '~', '=': '==', '&&': 'and', '||': 'or', '!': 'not' };
const ESCAPES = { '\\': '\\', '"': '"', "'": "'", n: '\n', t: '\t', r: '\r' };
const CLASSES = { alpha: 'A-Za-z', digit: '0-9', alnum: 'A-Za-z0-9', upper: 'A-Z', lower: 'a-z',
  space: '\\s', blank: ' \\t', punct: '!-/:-@[-`{-~', print: ' -~', graph: '!-~',
  cntrl: '\\x00-\\x1f\\x7f', xdigit: '0-9A-Fa-f' };

/** The names of every event: the member of the answer `events`, and the kind of its value. */
const NAMES = {
  provider: ['provider', 'text'], event: ['name', 'text'], id: ['id', 'number'],
  level: ['level', 'number'], keywords: ['keywords', 'number'], opcode: ['opcode', 'number'],
  version: ['version', 'number'], time: ['time_ns', 'number'], process: ['pid', 'number'],
  thread: ['tid', 'number'], processor: ['processor', 'number'],
  thread_name: ['thread_name', 'text'], activity: ['activity', 'guid'],
  related_activity: ['related_activity', 'guid'], trace_id: ['trace_id', 32],
  span_id: ['span_id', 16],
};

/** Values that compare with nothing. */
const OTHER = Symbol('other');

export class ExpressionError extends Error {
  /** @param {string} message @param {number} position in bytes */
  constructor(message, position) {
    super(message);
    this.position = position;
  }
}

function fail(position, message) {
  throw new ExpressionError(message, position);
}

function bytesOf(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join('');
}

function match(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** Returns [the content, the position after the closing quote]. */
function readText(text, start) {
  const quote = text[start];
  let content = '';
  let at = start + 1;
  while (text[at] !== quote) {
    if (at >= text.length) {
      fail(start, `the text has no closing ${quote}`);
    }
    if (text[at] !== '\\' || quote === "'") {
      content += text[at++];
      continue;
    }
    const kind = text[at + 1];
    const digits = match(kind === 'x' ? /[0-9a-f]{2}/iy : /[0-9a-f]{4}/iy, text, at + 2)?.[0];
    const code = parseInt(digits ?? '0', 16);
    if (Object.hasOwn(ESCAPES, kind ?? '')) {
      content += ESCAPES[kind];
      at += 2;
    } else if (kind === 'x') {
      content += code ? String.fromCharCode(code)
        : fail(at, '\\x needs two hexadecimal digits, which are not 00');
      at += 4;
    } else if (kind === 'u') {
      content += code && (code < 0xd800 || code >= 0xe000) ? bytesOf(String.fromCharCode(code))
        : fail(at, '\\u needs the four hexadecimal digits of a character, which are not 0000');
      at += 6;
    } else {
      fail(at, 'a text has the escapes \\\\ \\" \\\' \\n \\t \\r \\xHH and \\uHHHH');
    }
  }
  return [content, at + 1];
}

function readTime(token, whole, fraction, ns) {
  const scale = 10n ** BigInt(fraction.length);
  const rest = BigInt(fraction || '0') * ns;
  if (fraction.length > 18) {
    fail(token.at, 'a time has up to 18 digits after the point');
  }
  if (rest % scale) {
    fail(token.at, 'the time is not a whole number of nanoseconds');
  }
  token.value = BigInt(whole) * ns + rest / scale;
  token.hasUnit = true;
  if (BigInt(whole) > INT64_MAX || token.value > INT64_MAX) {
    fail(token.at, 'the time is longer than 292 years');
  }
}

function readNumber(text, token) {
  const sign = text[token.at] === '-' ? 1 : 0;
  const at = token.at + sign;
  const hex = match(/0x([0-9a-f]*)/iy, text, at);
  const parts = hex ?? match(/(\d+)(?:\.(\d+))?(?:e[+-]?\d+)?/iy, text, at);
  const end = at + parts[0].length;
  const unit = match(/[\w.\x80-\xff]*/y, text, end)[0];
  token.end = end + unit.length;
  if (hex && (!hex[1] || unit)) {
    fail(end, 'expected a hexadecimal digit');
  }
  const isPlain = hex || parts[0] === parts[1];
  const hasExponent = !hex && /e/i.test(parts[0]);
  if (unit && (!Object.hasOwn(UNITS, unit) || hasExponent)) {
    fail(end, 'the units of a time are ns, us, ms, s, m and h');
  }
  if (unit) {
    readTime(token, parts[1], parts[2] ?? '', UNITS[unit]);
  } else if (isPlain) {
    token.value = BigInt(parts[0]);
  } else {
    if (parts[0].length > 400) {
      fail(token.at, 'a number has up to 400 characters');
    }
    token.value = Number(parts[0]);
    if (!Number.isFinite(token.value)) {
      fail(token.at, 'the number is too large');
    }
  }
  if (sign) {
    token.value = -token.value;
  }
  if (typeof token.value === 'bigint' &&
      (token.value > UINT64_MAX || token.value < -INT64_MAX - 1n)) {
    fail(token.at, 'an integer has up to 64 bits');
  }
}

/** Returns the next word: {kind, at, end} and `word` of a name or text, `value` of a number. */
function readToken(text, from) {
  const at = match(/[ \t\r\n]*/y, text, from)[0].length + from;
  const token = { kind: 'operator', at, end: at + 1, word: '', value: undefined, hasUnit: false,
    isQuoted: false };
  const rest = text.slice(at, at + 2);
  if (rest === '') {
    Object.assign(token, { kind: 'end', end: at });
  } else if (/^[()]/.test(rest)) {
    token.kind = rest[0];
  } else if (/^["']/.test(rest)) {
    token.kind = 'text';
    [token.word, token.end] = readText(text, at);
  } else if (/^-?\d/.test(rest)) {
    token.kind = 'number';
    readNumber(text, token);
  } else if (/^[A-Za-z_\x80-\xff]/.test(rest)) {
    token.kind = 'name';
    token.isQuoted = /^["']/.test(text.slice(at + 6, at + 7)) && text.startsWith('field.', at);
    if (token.isQuoted) {
      [token.word, token.end] = readText(text, at + 6);
    } else {
      token.word = match(/[\w.\x80-\xff]*/y, text, at)[0];
      token.end = at + token.word.length;
    }
  } else {
    const sign = match(/==|!=|<=|>=|=~|<|>|~|=|&&|\|\||!/y, text, at)?.[0] ??
      fail(at, 'this character is not part of an expression');
    if (Object.hasOwn(INSTEAD, sign)) {
      fail(at, `write '${INSTEAD[sign]}' instead of '${sign}'`);
    }
    token.word = sign;
    token.end = at + sign.length;
  }
  return token;
}

/** Returns the end of a bracket expression of POSIX and its form in JavaScript. */
function translateBracket(pattern, start) {
  let at = start + 1;
  let out = '[';
  if (pattern[at] === '^') {
    out += pattern[at++];
  }
  for (let first = true; first || pattern[at] !== ']'; first = false) {
    const name = match(/\[:([a-z]+):\]/y, pattern, at);
    if (at >= pattern.length || (name && !Object.hasOwn(CLASSES, name[1])) ||
        /^\[[.=]/.test(pattern.slice(at))) {
      throw new SyntaxError('an invalid bracket');
    }
    out += name ? CLASSES[name[1]] : pattern[at].replace(/[\\\][^]/, '\\$&');
    at += name ? name[0].length : 1;
  }
  return [at + 1, `${out}]`];
}

/** Translates an extended regular expression of POSIX. */
function translate(pattern) {
  const places = { '<': '\\b(?=\\w)', '>': '\\b(?<=\\w)', '`': '^', "'": '$' };
  let out = '';
  for (let at = 0; at < pattern.length;) {
    const next = pattern[at + 1] ?? '';
    if (pattern[at] === '[') {
      const [end, bracket] = translateBracket(pattern, at);
      out += bracket;
      at = end;
    } else if (pattern[at] === '\\') {
      out += places[next] ?? (/[wWsSbB]/.test(next) || !/\w/.test(next) ? `\\${next}` : next);
      at += 2;
    } else {
      out += pattern[at] === '}' && !/\{\d+(,\d*)?$/.test(out) ? '\\}' : pattern[at];
      at++;
    }
  }
  return new RegExp(out, 's');
}

/** Returns why the command refuses a regular expression, or null. */
function findFault(pattern) {
  const plain = pattern.replace(/\\.|\[\^?\]?[^\]]*\]/gs, '.');
  if (pattern.length > REGEX_MAX) {
    return 'a regular expression has up to 512 bytes';
  }
  if (/(^|[^\\])(\\\\)*\\[1-9]/.test(pattern)) {
    return 'a regular expression has no back-references';
  }
  if (/\{(?!\d+(,\d*)?\})/.test(plain)) {
    return 'a repetition has the form {2}, {2,} or {2,5}; a brace is [{]';
  }
  if (/([*?+]|\{\d+(,\d*)?\})[*?+{]/.test(plain)) {
    return 'a repetition follows another; put the first in parentheses';
  }
  return null;
}

function compileRegex(token) {
  const fault = findFault(token.word);
  if (fault) {
    fail(token.at, fault);
  }
  try {
    return translate(token.word);
  } catch {
    return fail(token.at, 'not a regular expression');
  }
}

/** Finds the member whose path is `name`; a whole name with dots comes first. */
function findMember(fields, name, isTop = true) {
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) {
    return undefined;
  }
  if (isTop && Object.hasOwn(fields, name)) {
    return fields[name];
  }
  const dot = name.indexOf('.');
  const first = dot < 0 ? name : name.slice(0, dot);
  const own = Object.hasOwn(fields, first) ? fields[first] : undefined;
  const found = dot < 0 ? own : findMember(own, name.slice(dot + 1), false);
  return found === undefined && isTop ? findMember(fields[''], name, false) : found;
}

/** Turns a value of the answer into a number, BigInt, text, or boolean, or OTHER. */
function operand(value, kind) {
  if (value === undefined || (value === null && kind)) {
    return undefined;
  }
  if (kind === 'number') {
    return BigInt(value);
  }
  if (typeof value === 'string') {
    // JSON has integers beyond 2^53 as texts, so a text of that form is taken for one.
    const integer = !kind && /^-?\d{16,20}$/.test(value) ? BigInt(value) : 0n;
    return BigInt.asIntN(54, integer) === integer ? bytesOf(value) : integer;
  }
  return typeof value === 'number' || typeof value === 'boolean' ? value : OTHER;
}

function isNumber(value) {
  return typeof value === 'bigint' || typeof value === 'number';
}

function holds(left, sign, right) {
  switch (sign) {
  case '==':
    // BigInt and number compare exactly, and only by ==.
    return left == right; // eslint-disable-line eqeqeq
  case '!=':
    return left != right; // eslint-disable-line eqeqeq
  case '<':
    return left < right;
  case '<=':
    return left <= right;
  case '>':
    return left > right;
  default:
    return left >= right;
  }
}

/** @param {any} given @param {string} sign @param {any} right @param {boolean} isId */
function compare(left, sign, right, isId) {
  if (left === undefined || left === OTHER || (isNumber(left) !== isNumber(right)) ||
      (!isNumber(left) && typeof left !== typeof right)) {
    return false;
  }
  return isId || /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(String(left))
    ? holds(left.toLowerCase(), sign, right.toLowerCase()) : holds(left, sign, right);
}

class Parser {
  constructor(text) {
    this.text = text;
    this.depth = 0;
    this.comparisons = 0;
    this.token = readToken(text, 0);
  }

  advance() {
    const { token } = this;
    this.token = readToken(this.text, token.end);
    return token;
  }

  is(word) {
    return this.token.kind === 'name' && !this.token.isQuoted && this.token.word === word;
  }

  expect(expected) {
    return fail(this.token.at, `expected ${expected}` +
      (this.token.kind === 'end' ? ', but the expression ends' : ''));
  }

  /** Takes parts with the word between them. */
  chain(word, part) {
    const parts = [part()];
    while (this.is(word)) {
      this.advance();
      parts.push(part());
    }
    return word === 'and' ? (event) => parts.every((one) => one(event))
      : (event) => parts.some((one) => one(event));
  }

  either() {
    return this.chain('or', () => this.chain('and', () => this.one()));
  }

  one() {
    let isNegated = false;
    for (; this.is('not'); this.advance()) {
      isNegated = !isNegated;
    }
    const part = this.token.kind === '(' ? this.group()
      : this.is('has') ? this.has() : this.comparison();
    return isNegated ? (event) => !part(event) : part;
  }

  group() {
    if (this.depth === DEPTH_MAX) {
      fail(this.token.at, `parentheses nest up to ${DEPTH_MAX} deep`);
    }
    this.depth++;
    this.advance();
    const part = this.either();
    if (this.token.kind !== ')') {
      this.expect("'and', 'or' or ')'");
    }
    this.advance();
    this.depth--;
    return part;
  }

  /** Takes a name. Returns {get, kind, word}; `kind` is undefined for a field. */
  name() {
    const { word, isQuoted, at } = this.token;
    if (this.comparisons++ === COMPARISONS_MAX) {
      fail(at, `an expression has up to ${COMPARISONS_MAX} comparisons`);
    }
    if (!isQuoted && Object.hasOwn(NAMES, word)) {
      const [member, kind] = NAMES[word];
      this.advance();
      return { word, kind, get: (event) => operand(event[member] ??
        (['id', 'opcode', 'version', 'keywords'].includes(member) ? 0 : null), kind) };
    }
    const bytes = isQuoted ? word : word.replace(/^field\./, '');
    if (bytes === '' || (!isQuoted && bytes.endsWith('.'))) {
      fail(at, 'the name of the field is incomplete');
    }
    const path = new TextDecoder().decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
    this.advance();
    return { word, kind: undefined, get: (event) => operand(findMember(event.fields, path)) };
  }

  has() {
    this.advance();
    if (this.token.kind !== 'name') {
      this.expect('the name of a field');
    }
    const { get } = this.name();
    return (event) => get(event) !== undefined;
  }

  comparison() {
    if (this.token.kind !== 'name' || this.is('and') || this.is('or')) {
      this.expect("a name, 'not', 'has' or '('");
    }
    const name = this.name();
    const { kind, word: sign, at } = this.token;
    if (kind !== 'operator') {
      this.expect('one of == != < <= > >= ~');
    }
    if (sign === '~' && name.kind === 'number') {
      fail(at, `'${name.word}' is a number, and ~ searches texts`);
    }
    this.advance();
    return sign === '~' ? this.search(name) : this.compareWith(name, sign);
  }

  search({ get }) {
    if (this.token.kind !== 'text') {
      this.expect('a regular expression in quotes');
    }
    const regex = compileRegex(this.token);
    this.advance();
    return (event) => {
      const left = get(event);
      return typeof left === 'string' && regex.test(left.slice(0, SEARCHED_MAX));
    };
  }

  compareWith(name, sign) {
    const right = this.value(name, sign);
    this.advance();
    return (event) => compare(name.get(event), sign, right,
      name.kind !== undefined && name.kind !== 'text' && name.kind !== 'number');
  }

  /** Returns what a word without quotes means. */
  word(isLevel) {
    const { word, at } = this.token;
    if (isLevel && Object.hasOwn(LEVELS, word)) {
      return BigInt(LEVELS[word]);
    }
    if (word === 'true' || word === 'false') {
      return word === 'true';
    }
    return fail(at, isLevel ? 'the levels are critical, error, warning, informational and verbose'
      : `expected ${VALUE}`);
  }

  value({ word: name, kind }, sign) {
    const { token } = this;
    const value = token.kind === 'name' && !token.isQuoted ? this.word(name === 'level' && kind)
      : token.kind === 'text' ? token.word
        : token.kind === 'number' ? token.value : this.expect(VALUE);
    const wrong = kind && this.wrong(name, kind, sign, value);
    if (wrong) {
      fail(token.at, `'${name}' ${wrong}`);
    }
    if (name === 'time' && kind && !token.hasUnit) {
      fail(token.at, 'a time has a unit, as in 1.5s or 20ms');
    }
    if (typeof value === 'boolean' && sign !== '==' && sign !== '!=') {
      fail(token.at, 'true and false compare by == and != only');
    }
    return value;
  }

  /** Returns why a value cannot be that of a name of the event, or null. */
  wrong(name, kind, sign, value) {
    if (kind === 'number') {
      return isNumber(value) ? null : 'is a number';
    }
    if (typeof value !== 'string') {
      return 'is a text, in quotes';
    }
    if (kind === 'text') {
      return null;
    }
    if (sign !== '==' && sign !== '!=') {
      return 'compares by ==, != and ~ only';
    }
    if (kind === 'guid') {
      return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value) ? null
        : 'has the form "00112233-4455-6677-8899-aabbccddeeff"';
    }
    return /^[0-9a-f]*$/i.test(value) && value.length === kind ? null
      : `has ${kind} hexadecimal digits`;
  }
}

/**
 * Compiles an expression for events of the answer `events`.
 * @param {string} text
 * @returns {(event: any) => boolean}
 * @throws {ExpressionError}
 */
export function compileExpression(text) {
  const bytes = bytesOf(text);
  if (bytes.length > BYTES_MAX) {
    fail(BYTES_MAX, `an expression has up to ${BYTES_MAX} bytes`);
  }
  const parser = new Parser(bytes);
  const matches = parser.either();
  if (parser.token.kind !== 'end') {
    parser.expect("'and', 'or' or the end");
  }
  return matches;
}
