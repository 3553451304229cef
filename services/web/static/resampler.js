// @ts-check
/** Changes the rate of a stream of samples: a windowed sinc, one table of its phases. */

const PHASES = 128;
const LOBES = 12;

export class Resampler {
  /**
   * @param {number} from samples per second that come in
   * @param {number} to samples per second that go out
   */
  constructor(from, to) {
    /** input samples per output sample */
    this.ratio = from / to;
    const cut = Math.min(1, to / from) * 0.94;
    this._half = Math.ceil(LOBES / cut);
    this._taps = 2 * this._half;
    this._table = from === to ? null : kernel(this._half, cut);
    /** samples that are still needed; the first output lies at the first input @type {Float32Array} */
    this._held = new Float32Array(this._half - 1);
    // position of the next output in `_held`
    this._next = this._half - 1;
  }

  /** input samples that have come and that no output stands for yet */
  get lag() {
    return this._table ? Math.max(0, this._held.length - this._next) : 0;
  }

  /**
   * @param {Float32Array} samples
   * @returns {Float32Array} what can be told by now
   */
  push(samples) {
    if (!this._table) return samples;
    const input = new Float32Array(this._held.length + samples.length);
    input.set(this._held);
    input.set(samples, this._held.length);
    const room = input.length - this._half - this._next;
    const output = new Float32Array(room > 0 ? Math.ceil(room / this.ratio) : 0);
    for (let index = 0; index < output.length; index += 1) {
      output[index] = this._at(input, this._next + index * this.ratio);
    }
    const next = this._next + output.length * this.ratio;
    const drop = Math.max(0, Math.floor(next) - this._half + 1);
    this._held = input.slice(drop);
    this._next = next - drop;
    return output;
  }

  /**
   * @param {Float32Array} input
   * @param {number} place
   */
  _at(input, place) {
    const whole = Math.floor(place);
    const row = Math.round((place - whole) * PHASES) * this._taps;
    const start = whole - this._half + 1;
    const table = /** @type {Float32Array} */ (this._table);
    let sum = 0;
    for (let tap = 0; tap < this._taps; tap += 1) sum += input[start + tap] * table[row + tap];
    return sum;
  }
}

/**
 * @param {number} half taps on each side
 * @param {number} cut share of the input's band that passes
 */
function kernel(half, cut) {
  const taps = 2 * half;
  const table = new Float32Array((PHASES + 1) * taps);
  for (let phase = 0; phase <= PHASES; phase += 1) {
    let sum = 0;
    for (let tap = 0; tap < taps; tap += 1) {
      const x = tap - half + 1 - phase / PHASES;
      const window = Math.abs(x) >= half ? 0 : 0.5 + 0.5 * Math.cos((Math.PI * x) / half);
      const value = window * (x === 0 ? cut : Math.sin(Math.PI * cut * x) / (Math.PI * x));
      table[phase * taps + tap] = value;
      sum += value;
    }
    for (let tap = 0; tap < taps; tap += 1) table[phase * taps + tap] /= sum;
  }
  return table;
}
