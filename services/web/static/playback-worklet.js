// @ts-check
/** The loudspeaker on the audio thread. */

import { PlayQueue } from "./queue.js";

/** blocks between two words about how loud it is: some 30 a second */
const LEVEL_S = 0.03;

class Playback extends AudioWorkletProcessor {
  constructor() {
    super();
    this._queue = new PlayQueue({
      rate: sampleRate,
      tell: (event) => this.port.postMessage(event),
    });
    this._silent = true;
    this._sum = 0;
    this._count = 0;
    this.port.onmessage = ({ data }) => this._do(data);
  }

  /** @param {{type: string, id?: string, pcm?: Int16Array}} order */
  _do({ type, id = "", pcm }) {
    if (type === "audio" && pcm) this._queue.push(id, pcm);
    else if (type === "close") this._queue.close(id);
    else if (type === "flush") this._queue.flush();
    else if (type === "pause") this._queue.pause();
    else if (type === "resume") this._queue.resume();
  }

  /**
   * @param {Float32Array[][]} _inputs
   * @param {Float32Array[][]} outputs
   */
  process(_inputs, outputs) {
    const [[channel]] = outputs;
    const id = this._queue.pull(channel, currentTime);
    this._level(channel, id);
    return true;
  }

  /**
   * @param {Float32Array} block
   * @param {string | null} id
   */
  _level(block, id) {
    for (const sample of block) this._sum += sample * sample;
    this._count += block.length;
    if (this._count < sampleRate * LEVEL_S) return;
    const rms = Math.sqrt(this._sum / this._count);
    this._sum = 0;
    this._count = 0;
    const silent = id === null && rms === 0;
    if (!(silent && this._silent)) this.port.postMessage({ type: "level", rms });
    this._silent = silent;
  }
}

registerProcessor("playback", Playback);
