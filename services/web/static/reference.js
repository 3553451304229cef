// @ts-check
/** The recording that a voice is to be made of: from the microphone, or from a file. */

import { AudioFailure } from "./audio.js";
import { isForeign, mixed, wavOf } from "./wav.js";
import { RATE } from "./wire.js";

/** what the service takes, seconds; a recording ends by itself before it is too long */
export const [SHORTEST_S, LONGEST_S] = [1, 30];
/** frames of 20 ms, between two words about how loud and how long it is */
const TOLD = 5;
const FULL = (LONGEST_S - 0.5) * RATE;
/** a larger file is not unpacked here, bytes: the service says what it thinks of it */
const MOST = 32 * 1024 * 1024;

/**
 * @typedef {object} Taken
 * @property {Blob} audio what the service gets
 * @property {Int16Array | null} pcm at 24 kHz, to be listened to; null: this browser cannot play it
 * @property {string} name of the file; empty: recorded here
 */

export class Reference {
  /**
   * @param {object} options
   * @param {import("./audio.js").Sound} options.sound whose microphone hands its frames to `hear`
   * @param {() => void} options.onChange
   */
  constructor({ sound, onChange }) {
    this._sound = sound;
    this._onChange = onChange;
    /** @type {"none" | "asking" | "recording" | "there"} */
    this.state = "none";
    /** @type {Taken | null} */
    this.taken = null;
    /** root mean square of what the microphone hears */
    this.level = 0;
    /** @type {Int16Array[]} */
    this._frames = [];
    this._count = 0;
    this._attempt = 0;
  }

  /** Of the recording, so far, seconds; null: it cannot be told. @returns {number | null} */
  get seconds() {
    if (this.state === "recording") return this._count / RATE;
    return this.taken?.pcm ? this.taken.pcm.length / RATE : null;
  }

  /**
   * From a click; raises AudioFailure.
   * @param {string} device the microphone; empty: the system's choice
   */
  async record(device) {
    const attempt = this.clear();
    this._become("asking");
    try {
      await this._sound.open();
      await this._sound.record({ device, cancelEcho: false, plain: true });
    } catch (error) {
      if (this._attempt !== attempt) return;
      this._become("none");
      throw error instanceof AudioFailure ? error : new AudioFailure("mic-busy", String(error));
    }
    if (this._attempt === attempt) this._become("recording");
    else if (this.state !== "recording") this._sound.stopRecording();
  }

  /** @param {Int16Array} pcm @param {number} rms */
  hear(pcm, rms) {
    if (this.state !== "recording") return;
    this._frames.push(pcm);
    this._count += pcm.length;
    this.level = rms;
    if (this._count >= FULL) this.stop();
    else if (this._frames.length % TOLD === 0) this._onChange();
  }

  /** Ends a recording, and keeps it. */
  stop() {
    if (this.state === "asking") this.clear();
    if (this.state !== "recording") return;
    this._sound.stopRecording();
    const pcm = new Int16Array(this._count);
    let at = 0;
    for (const frame of this._frames) {
      pcm.set(frame, at);
      at += frame.length;
    }
    this._frames = [];
    this._take({ audio: new Blob([wavOf(pcm)], { type: "audio/wav" }), pcm, name: "" });
  }

  /**
   * Takes a file. What the service cannot read is made a WAV file here.
   * @param {File} file
   * @returns {Promise<boolean>} it can be used
   */
  async choose(file) {
    const attempt = this.clear();
    const small = file.size <= MOST;
    const bytes = small ? await file.arrayBuffer() : new ArrayBuffer(0);
    const foreign = isForeign(new Uint8Array(bytes, 0, Math.min(16, bytes.byteLength)));
    const pcm = small ? await unpacked(bytes) : null;
    if (this._attempt !== attempt) return true; // another one has taken its place
    if (foreign && !pcm) return false;
    this._take({ audio: foreign && pcm ? new Blob([wavOf(pcm)]) : file, pcm, name: file.name });
    return true;
  }

  /** There is none any more. @returns {number} the attempt that follows */
  clear() {
    if (this.state === "recording") this._sound.stopRecording();
    this._frames = [];
    this._count = 0;
    this.level = 0;
    this.taken = null;
    this._attempt += 1;
    this._become("none");
    return this._attempt;
  }

  /** @param {Taken} taken */
  _take(taken) {
    this.taken = taken;
    this._become("there");
  }

  /** @param {"none" | "asking" | "recording" | "there"} state */
  _become(state) {
    this.state = state;
    this._onChange();
  }
}

/**
 * @param {ArrayBuffer} bytes of a sound file
 * @returns {Promise<Int16Array | null>} at 24 kHz; null: the browser cannot read it
 */
async function unpacked(bytes) {
  try {
    const found = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(bytes.slice(0));
    const { numberOfChannels: count } = found;
    return mixed(Array.from({ length: count }, (_, at) => found.getChannelData(at)));
  } catch {
    return null;
  }
}
