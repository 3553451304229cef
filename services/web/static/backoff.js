// @ts-check
/** When to try again: each wait twice the one before, up to a limit, and never in step with others. */

const FIRST_S = 0.5;
const MOST_S = 20;

export class Backoff {
  /** @param {() => number} random from 0 to 1 */
  constructor(random = Math.random) {
    this._random = random;
    this.tries = 0;
  }

  /** @returns {number} seconds until the next try */
  next() {
    const wait = Math.min(MOST_S, FIRST_S * 2 ** this.tries);
    this.tries += 1;
    return wait * (0.7 + 0.6 * this._random());
  }

  /** It worked. */
  reset() {
    this.tries = 0;
  }
}
