// @ts-check
/**
 * Answers that wait to be played, sample by sample. Knows nothing of the audio thread, so that it
 * can be tested; playback-worklet.js gives it time.
 */

import { SoundTracker } from "./energy.js";
import { Resampler } from "./resampler.js";
import { RATE } from "./wire.js";

/** audio in hand with which an answer starts, seconds: the daemon sends 0.2 s of it at once */
const START_S = 0.1;
/** with less than that it starts so long after its first sample came: short and slow ones wait no more */
const START_WAIT_S = 0.04;
/** audio in hand with which it goes on after it ran dry or was paused, seconds */
const RESTART_S = 0.08;
/** a cut is faded over so many samples: too short to hear, long enough not to click */
const FADE = 128;

/**
 * @typedef {object} Answer
 * @property {string} id
 * @property {Resampler} resampler
 * @property {SoundTracker} tracker
 * @property {Float32Array[]} pieces
 * @property {number} offset samples of the first piece that were played
 * @property {number} buffered samples that wait
 * @property {number} played samples that were played, at the output's rate
 * @property {boolean} running
 * @property {number | null} came when its first sample was there to be played, seconds
 * @property {boolean} dry it ran out of samples, and has not started again
 * @property {boolean} closed no more will come
 * @property {boolean} heard the first sound was told
 * @property {number} anchor position at which it was last started
 * @property {number} anchorAt when that was
 */

export class PlayQueue {
  /**
   * @param {object} options
   * @param {number} options.rate samples per second of the output
   * @param {(event: Record<string, unknown>) => void} options.tell
   */
  constructor({ rate, tell }) {
    this._rate = rate;
    this._tell = tell;
    /** @type {Answer[]} */
    this._answers = [];
    this._paused = false;
    /** what fades out after a cut @type {Float32Array} */
    this._tail = new Float32Array(0);
    this._fadeIn = 0;
  }

  /**
   * @param {string} id of the answer
   * @param {Int16Array} pcm at 24 kHz
   */
  push(id, pcm) {
    const answer = this._answers.find((each) => each.id === id) ?? this._open(id);
    const samples = new Float32Array(pcm.length);
    pcm.forEach((value, index) => {
      samples[index] = value / 32768;
    });
    const output = answer.resampler.push(samples);
    if (answer.dry && !answer.running && output.length) {
      answer.dry = false;
      this._tell({ type: "underrun", id });
    }
    answer.tracker.push(output);
    answer.pieces.push(output);
    answer.buffered += output.length;
  }

  /** @param {string} id of the answer that is complete */
  close(id) {
    const answer = this._answers.find((each) => each.id === id);
    if (answer) answer.closed = true;
  }

  /** Drops everything, and tells how much of it was played. */
  flush() {
    this._cut();
    for (const answer of this._answers) {
      this._tell({ type: "flushed", id: answer.id, playedMs: this._ms(answer.played) });
    }
    this._answers = [];
    this._paused = false;
  }

  /** Holds at the sample that comes next. */
  pause() {
    this._cut();
    this._paused = true;
  }

  resume() {
    if (!this._paused) return;
    this._fadeIn = FADE;
    this._paused = false;
    for (const answer of this._answers) answer.running = false;
  }

  /**
   * Fills a block.
   * @param {Float32Array} block
   * @param {number} time when its first sample is played, seconds
   * @returns {string | null} the answer that sounded
   */
  pull(block, time) {
    let at = 0;
    let sounded = null;
    while (at < block.length && !this._paused) {
      const answer = this._answers[0];
      if (!answer) break;
      if (!answer.running && !this._start(answer, time + at / this._rate)) break;
      at += this._copy(answer, block, at);
      sounded = answer.id;
      if (answer.buffered) continue;
      answer.running = false;
      if (!answer.closed) {
        answer.dry = true;
        break;
      }
    }
    this._drained();
    this._fade(block, at);
    return sounded;
  }

  /** @param {string} id */
  _open(id) {
    const answer = {
      id,
      resampler: new Resampler(RATE, this._rate),
      tracker: new SoundTracker(this._rate),
      pieces: [],
      offset: 0,
      buffered: 0,
      played: 0,
      running: false,
      came: null,
      dry: false,
      closed: false,
      heard: false,
      anchor: 0,
      anchorAt: 0,
    };
    this._answers.push(answer);
    return answer;
  }

  /**
   * @param {Answer} answer
   * @param {number} time
   * @returns {boolean} it runs
   */
  _start(answer, time) {
    if (!answer.buffered || !(answer.closed || this._enough(answer, time))) return false;
    answer.running = true;
    answer.anchor = answer.played;
    answer.anchorAt = time;
    return true;
  }

  /**
   * @param {Answer} answer
   * @param {number} time
   * @returns {boolean} there is enough in hand, or it was waited for
   */
  _enough(answer, time) {
    if (answer.played) return answer.buffered >= RESTART_S * this._rate;
    answer.came ??= time;
    return answer.buffered >= START_S * this._rate || time - answer.came >= START_WAIT_S;
  }

  /**
   * @param {Answer} answer
   * @param {Float32Array} block
   * @param {number} at
   * @returns {number} samples copied
   */
  _copy(answer, block, at) {
    let done = 0;
    while (at + done < block.length && answer.pieces.length) {
      const piece = answer.pieces[0];
      const take = Math.min(block.length - at - done, piece.length - answer.offset);
      block.set(piece.subarray(answer.offset, answer.offset + take), at + done);
      answer.offset += take;
      done += take;
      if (answer.offset === piece.length) {
        answer.pieces.shift();
        answer.offset = 0;
      }
    }
    answer.buffered -= done;
    answer.played += done;
    const { first } = answer.tracker;
    if (!answer.heard && first !== null && first < answer.played) {
      answer.heard = true;
      const at = answer.anchorAt + Math.max(0, first - answer.anchor) / this._rate;
      this._tell({ type: "audible", id: answer.id, at });
    }
    return done;
  }

  /** Answers that are over. */
  _drained() {
    while (this._answers.length && this._answers[0].closed && !this._answers[0].buffered) {
      const answer = /** @type {Answer} */ (this._answers.shift());
      this._tell({ type: "drained", id: answer.id, playedMs: this._ms(answer.played) });
    }
  }

  /** Keeps a few samples to fade out with; they do not count as played. */
  _cut() {
    const answer = this._answers[0];
    if (this._paused || !answer?.running) return;
    const tail = new Float32Array(FADE);
    let filled = 0;
    let { offset } = answer;
    for (const piece of answer.pieces) {
      const take = Math.min(FADE - filled, piece.length - offset);
      tail.set(piece.subarray(offset, offset + take), filled);
      filled += take;
      offset = 0;
      if (filled === FADE) break;
    }
    this._tail = tail.map((sample, index) => sample * (1 - index / FADE));
  }

  /**
   * @param {Float32Array} block
   * @param {number} at where silence begins
   */
  _fade(block, at) {
    for (let index = 0; index < at && this._fadeIn > 0; index += 1) {
      block[index] *= 1 - this._fadeIn / FADE;
      this._fadeIn -= 1;
    }
    if (!this._tail.length) return;
    const take = Math.min(this._tail.length, block.length);
    for (let index = 0; index < take; index += 1) block[index] += this._tail[index];
    this._tail = this._tail.slice(take);
  }

  /** @param {number} samples at the output's rate */
  _ms(samples) {
    return Math.floor((samples * 1000) / this._rate);
  }
}
