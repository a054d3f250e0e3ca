// SPDX-License-Identifier: MIT
// How a question is written: to the server, and as the key of a recorded answer.

/**
 * Returns the query as the offline page stores it: parameters sorted, absent ones left out.
 * @param {string} path
 * @param {Record<string, any>} parameters
 */
export function query(path, parameters) {
  const parts = Object.keys(parameters).sort()
    .filter((name) => parameters[name] !== null && parameters[name] !== undefined &&
      parameters[name] !== '')
    .map((name) => `${encodeURIComponent(name)}=${encodeURIComponent(parameters[name])}`);
  return parts.length > 0 ? `${path}?${parts.join('&')}` : path;
}
