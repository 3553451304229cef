// @ts-check
/** Sound files: written, and told apart by how they begin. */

import { RATE } from "./wire.js";

const HEAD = 44;

/**
 * @param {Int16Array} pcm mono, at 24 kHz
 * @returns {Uint8Array<ArrayBuffer>} a WAV file
 */
export function wavOf(pcm) {
  const file = new Uint8Array(HEAD + pcm.length * 2);
  const view = new DataView(file.buffer);
  const put = (/** @type {number} */ at, /** @type {string} */ text) =>
    file.set([...text].map((letter) => letter.charCodeAt(0)), at);
  put(0, "RIFF");
  view.setUint32(4, file.length - 8, true);
  put(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // channels
  view.setUint32(24, RATE, true);
  view.setUint32(28, RATE * 2, true); // bytes per second
  view.setUint16(32, 2, true); // bytes per sample
  view.setUint16(34, 16, true); // bits per sample
  put(36, "data");
  view.setUint32(40, pcm.length * 2, true);
  pcm.forEach((sample, index) => view.setInt16(HEAD + index * 2, sample, true));
  return file;
}

/**
 * Whether the service cannot read a file that browsers can: MP4 (.m4a), Matroska (.webm), bare AAC.
 * @param {Uint8Array} file its beginning is enough
 */
export function isForeign(file) {
  const [first = 0, second = 0] = file;
  const mp4 = String.fromCharCode(...file.subarray(4, 8)) === "ftyp";
  const matroska = first === 0x1a && second === 0x45 && file[2] === 0xdf && file[3] === 0xa3;
  const aac = first === 0xff && (second & 0xf6) === 0xf0; // MP3 frames say which layer they are
  return mp4 || matroska || aac;
}

/**
 * One channel of several.
 * @param {Float32Array[]} channels in [-1, 1], equally long
 * @returns {Int16Array}
 */
export function mixed(channels) {
  return Int16Array.from(channels[0], (_, at) => {
    const sum = channels.reduce((total, channel) => total + channel[at], 0);
    return Math.max(-32768, Math.min(32767, Math.round((sum / channels.length) * 32767)));
  });
}
