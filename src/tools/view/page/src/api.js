// SPDX-License-Identifier: MIT
// Asks the server, or the answers that are recorded in an offline page.
import { query } from './query.js';
import { Recorded } from './recorded.js';

const CACHE_ENTRIES = 48;
const CACHE_BYTES = 48 << 20;

export class ApiError extends Error {
  /** @param {string} message @param {number} [position] byte offset in the expression */
  constructor(message, position) {
    super(message);
    this.position = position;
  }
}

/** The least recently used answers go first, by number and by size. */
class Cache {
  constructor() {
    /** @type {Map<string, {answer: any, bytes: number}>} */
    this.entries = new Map();
    this.bytes = 0;
  }

  get(key) {
    const entry = this.entries.get(key);
    if (entry) {
      this.entries.delete(key);
      this.entries.set(key, entry);
    }
    return entry?.answer;
  }

  set(key, answer, bytes) {
    this.bytes += bytes - (this.entries.get(key)?.bytes ?? 0);
    this.entries.delete(key);
    this.entries.set(key, { answer, bytes });
    for (const [oldest, entry] of this.entries) {
      if (this.entries.size <= CACHE_ENTRIES && this.bytes <= CACHE_BYTES) {
        break;
      }
      this.entries.delete(oldest);
      this.bytes -= entry.bytes;
    }
  }
}

const cache = new Cache();
const element = document.getElementById('recorded');
/** The answers of an offline page, or null. @type {Recorded | null} */
export const recorded = element ? Recorded.parse(element.textContent ?? '') : null;

/** Numbers for tests: requests sent and aborted. */
export const requests = { sent: 0, aborted: 0 };

/** The questions that the server has not answered yet. @type {Map<string, Promise<any>>} */
const pending = new Map();

async function fetchAnswer(path, key, signal) {
  requests.sent++;
  let response;
  let text;
  try {
    response = await fetch(`api/${key}`, { signal, credentials: 'omit' });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) {
      requests.aborted++;
      throw error;
    }
    throw new ApiError('The server does not answer. Is `ringpipe view` still running?');
  }
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new ApiError(`The server's answer to ${path} is not JSON (status ${response.status}).`);
  }
  if (!response.ok) {
    throw new ApiError(String(answer.error ?? `Status ${response.status}`), answer.position);
  }
  cache.set(key, answer, text.length * 3);
  return answer;
}

/**
 * Asks for an answer. Equal questions share one request.
 * @param {string} path
 * @param {Record<string, any>} parameters
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function ask(path, parameters, signal) {
  if (recorded) {
    const answer = recorded.answer(path, parameters);
    if (answer.error) {
      throw new ApiError(answer.error, answer.position);
    }
    return answer;
  }
  const key = query(path, parameters);
  // The request fails if the function that began it aborts it.
  for (let other; (other = pending.get(key));) {
    await other.catch(() => null);
  }
  const known = cache.get(key);
  if (known) {
    return known;
  }
  const answer = fetchAnswer(path, key, signal);
  pending.set(key, answer);
  try {
    return await answer;
  } finally {
    if (pending.get(key) === answer) {
      pending.delete(key);
    }
  }
}

/** Questions of which only the latest matters: a new one aborts its predecessor. */
export class Latest {
  constructor() {
    /** @type {AbortController | null} */
    this.controller = null;
  }

  abort() {
    this.controller?.abort();
    this.controller = null;
  }

  /**
   * Runs a function that asks; its result is null when a later call replaced it.
   * @template T
   * @param {(signal: AbortSignal) => Promise<T>} asker
   * @returns {Promise<T | null>}
   */
  async run(asker) {
    this.abort();
    const controller = new AbortController();
    this.controller = controller;
    try {
      const result = await asker(controller.signal);
      return controller.signal.aborted ? null : result;
    } catch (error) {
      if (controller.signal.aborted) {
        return null;
      }
      throw error;
    }
  }
}
