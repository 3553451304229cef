// @ts-check
/** The daemon's speech service: its voices, and texts that are spoken in them. */

import { ServiceFailure, ask } from "./service.js";

/**
 * @typedef {object} Voice
 * @property {string} id
 * @property {boolean} default
 * @property {boolean} registered it was made of a recording; what follows is known of these only
 * @property {string} [text] what is said in the recording
 * @property {string} [created] ISO 8601
 * @property {number} [duration_s] of the recording
 *
 * @typedef {object} Listed
 * @property {Voice[]} voices the default first
 * @property {boolean} cloning voices can be registered
 */

/** @returns {Promise<Listed>} */
export async function list() {
  const response = await ask("/list-voice", { cache: "no-store" });
  return response.json();
}

/**
 * @param {{name: string, text: string, consent: string, audio: Blob}} wanted
 * @returns {Promise<Voice>}
 */
export async function register({ audio, ...fields }) {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  body.append("audio", audio, "recording");
  const response = await ask("/register-voice", { method: "POST", body });
  return response.json();
}

/** @param {string} id */
export async function remove(id) {
  await ask(`/voices/${encodeURIComponent(id)}`, { method: "DELETE" });
}

/**
 * Has a text spoken.
 * @param {{text: string, voice?: string}} wanted
 * @param {AbortSignal} signal ends it
 * @returns {Promise<{serverMs: number | null, audio: AsyncGenerator<Int16Array>}>} how long the
 *   service took to the first audio, and the audio as it comes, at 24 kHz
 */
export async function speak(wanted, signal) {
  const response = await ask("/tts", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...wanted, format: "pcm" }),
    signal,
  });
  const told = response.headers.get("X-First-Audio-Ms");
  const stream = /** @type {ReadableStream<Uint8Array>} */ (response.body);
  return { serverMs: told === null ? null : Number(told), audio: samples(stream) };
}

/**
 * Samples of a stream of bytes, however it is cut.
 * @param {ReadableStream<Uint8Array>} stream
 * @returns {AsyncGenerator<Int16Array>}
 */
export async function* samples(stream) {
  const reader = stream.getReader();
  let held = new Uint8Array(0);
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(() => {
        throw new ServiceFailure("broken");
      });
      if (done) return;
      const bytes = new Uint8Array(held.length + value.length);
      bytes.set(held);
      bytes.set(value, held.length);
      const whole = bytes.length & ~1;
      held = bytes.slice(whole);
      if (whole) yield new Int16Array(bytes.buffer.slice(0, whole));
    }
  } finally {
    void reader.cancel().catch(() => {}); // whoever listened no longer does
  }
}
