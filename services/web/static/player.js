// @ts-check
/** Plays one thing at a time: a text as the service speaks it, or a recording. */

import { speak } from "./speech-service.js";
import { RATE } from "./wire.js";

/**
 * @typedef {object} Figures
 * @property {number | null} firstMs from asking to the first piece of audio, as the page has it
 * @property {number | null} serverMs of that, what the service took
 * @property {number | null} seconds of speech, once it is all there
 */

/** @returns {Figures} */
const nothing = () => ({ firstMs: null, serverMs: null, seconds: null });

export class Player {
  /**
   * @param {object} options
   * @param {{open: () => Promise<void>, play: (id: string, pcm: Int16Array) => void,
   *   close: (id: string) => void, flush: () => void}} options.sound
   * @param {() => void} options.onChange
   * @param {(error: unknown) => void} options.onFailure
   */
  constructor({ sound, onChange, onFailure }) {
    this._sound = sound;
    this._onChange = onChange;
    this._onFailure = onFailure;
    /** whose sound it is: a voice's id, or a name of the caller's; null: nobody's @type {string | null} */
    this.source = null;
    /** of the last text @type {Figures} */
    this.figures = nothing();
    this._id = "";
    this._count = 0;
    /** @type {AbortController | null} */
    this._asking = null;
  }

  /** @param {string} source @param {string} text spoken in the voice of that name */
  async speak(source, text) {
    const id = this._begin(source);
    this.figures = nothing();
    const asking = new AbortController();
    this._asking = asking;
    try {
      await this._sound.open();
      if (this._id !== id) return;
      await this._take(id, { text, voice: source }, asking.signal);
    } catch (error) {
      if (this._id !== id) return; // it was stopped, and that is why
      this._onFailure(error);
      this._closed(id, this.figures.firstMs !== null);
    }
  }

  /** @param {string} source @param {Int16Array} pcm a recording, at 24 kHz */
  async play(source, pcm) {
    const id = this._begin(source);
    try {
      await this._sound.open();
      if (this._id !== id) return;
      this._sound.play(id, pcm.slice()); // the player keeps what it is given
      this._closed(id, pcm.length > 0);
    } catch (error) {
      if (this._id !== id) return;
      this._onFailure(error);
      this._closed(id, false);
    }
  }

  /** Ends what plays, at once. */
  stop() {
    this._asking?.abort();
    this._asking = null;
    if (this.source === null) return;
    this._sound.flush();
    this._become("", null);
  }

  /** @param {Record<string, any>} event see queue.js */
  played({ type, id }) {
    if (type === "drained" && id === this._id) this._become("", null);
  }

  /** @param {string} source @returns {string} */
  _begin(source) {
    this.stop();
    this._become(`said-${++this._count}`, source);
    return this._id;
  }

  /**
   * @param {string} id
   * @param {{text: string, voice: string}} wanted
   * @param {AbortSignal} signal
   */
  async _take(id, wanted, signal) {
    const asked = performance.now();
    const { serverMs, audio } = await speak(wanted, signal);
    let count = 0;
    for await (const pcm of audio) {
      if (this._id !== id) return;
      count += pcm.length;
      this._sound.play(id, pcm);
      if (this.figures.firstMs !== null) continue;
      this.figures = { firstMs: performance.now() - asked, serverMs, seconds: null };
      this._onChange();
    }
    if (this._id !== id) return;
    this.figures = { ...this.figures, seconds: count / RATE };
    this._closed(id, count > 0);
    this._onChange();
  }

  /**
   * No more comes.
   * @param {string} id
   * @param {boolean} any something has come: it is over when it was heard
   */
  _closed(id, any) {
    if (any) this._sound.close(id);
    else this._become("", null);
  }

  /** @param {string} id @param {string | null} source */
  _become(id, source) {
    this._id = id;
    this.source = source;
    this._onChange();
  }
}
