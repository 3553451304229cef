// @ts-check
/** The microphone on the audio thread: 24 kHz frames of 20 ms, and where the voice ended. */

import { SoundTracker } from "./energy.js";
import { Resampler } from "./resampler.js";
import { RATE } from "./wire.js";

const FRAME = 480;

class Microphone extends AudioWorkletProcessor {
  constructor() {
    super();
    this._resampler = new Resampler(sampleRate, RATE);
    this._tracker = new SoundTracker(RATE);
    this._frame = new Float32Array(FRAME);
    this._filled = 0;
    this._over = false;
    this.port.onmessage = () => {
      this._over = true;
    };
  }

  /** @param {Float32Array[][]} inputs */
  process(inputs) {
    if (this._over) return false;
    const channel = inputs[0][0];
    if (!channel) return true; // nothing is connected, for now
    const samples = this._resampler.push(channel);
    const end = currentTime + channel.length / sampleRate - this._resampler.lag / sampleRate;
    for (let at = 0; at < samples.length; ) {
      const take = Math.min(FRAME - this._filled, samples.length - at);
      this._frame.set(samples.subarray(at, at + take), this._filled);
      this._filled += take;
      at += take;
      if (this._filled === FRAME) this._send(end - (samples.length - at) / RATE);
    }
    return true;
  }

  /** @param {number} end when the frame's last sample was recorded, on the context's clock */
  _send(end) {
    this._filled = 0;
    this._tracker.push(this._frame);
    const { last, count } = this._tracker;
    const pcm = new Int16Array(FRAME);
    let sum = 0;
    this._frame.forEach((sample, index) => {
      sum += sample * sample;
      pcm[index] = Math.max(-32768, Math.min(32767, Math.round(sample * 32768)));
    });
    const voicedAt = last === null ? null : end - (count - last) / RATE;
    this.port.postMessage({ pcm, rms: Math.sqrt(sum / FRAME), voicedAt }, [pcm.buffer]);
  }
}

registerProcessor("microphone", Microphone);
