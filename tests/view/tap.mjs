// SPDX-License-Identifier: MIT

/**
 * Runs tests, and prints their results in the Test Anything Protocol.
 * @param {Record<string, () => void>} tests by what they promise
 */
export function run(tests) {
  console.log(`1..${Object.keys(tests).length}`);
  for (const [i, [name, test]] of Object.entries(tests).entries()) {
    try {
      test();
      console.log(`ok ${i + 1} - ${name}`);
    } catch (error) {
      console.log(`not ok ${i + 1} - ${name}\n# ${String(error).replace(/\n/g, '\n# ')}`);
    }
  }
}
