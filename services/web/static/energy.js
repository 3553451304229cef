// @ts-check
/**
 * The energy rule: what counts as sound. The same as in pipeline/latency.py: frames of 10 ms, RMS
 * above -45 dBFS, three in a row.
 */

const FRAME_S = 0.01;
const POWER = 10 ** (-45 / 10);
const RUN = 3;

/** Finds the first and the last sounding sample of a stream, as it comes. */
export class SoundTracker {
  /** @param {number} rate samples per second */
  constructor(rate) {
    this.size = Math.round(rate * FRAME_S);
    /** samples taken */
    this.count = 0;
    /** index of the first sounding sample @type {number | null} */
    this.first = null;
    /** index just past the last sounding sample @type {number | null} */
    this.last = null;
    this._sum = 0;
    this._filled = 0;
    this._run = 0;
  }

  /** @param {Float32Array} samples in [-1, 1] */
  push(samples) {
    for (const sample of samples) {
      this._sum += sample * sample;
      this.count += 1;
      if (++this._filled === this.size) this._frame();
    }
  }

  _frame() {
    this._run = this._sum / this.size > POWER ? this._run + 1 : 0;
    this._sum = 0;
    this._filled = 0;
    if (this._run < RUN) return;
    this.first ??= this.count - RUN * this.size;
    this.last = this.count;
  }
}

/**
 * Loudness as it looks: 0 is silence, 1 is loud speech.
 * @param {number} rms root mean square of samples in [-1, 1]
 */
export function loudness(rms) {
  const db = 20 * Math.log10(Math.max(rms, 1e-6));
  return Math.min(1, Math.max(0, (db + 54) / 42));
}
