// @ts-check
/** The Realtime protocol as this page speaks it: events that it sends, audio as text. */

/** samples per second on the wire, both ways */
export const RATE = 24000;

/**
 * @param {Int16Array} pcm
 * @returns {string} base64
 */
export function encodeAudio(pcm) {
  const bytes = new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength);
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x2000) {
    text += String.fromCharCode(...bytes.subarray(at, at + 0x2000));
  }
  return btoa(text);
}

/**
 * @param {string} text base64
 * @returns {Int16Array}
 */
export function decodeAudio(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length & ~1);
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = raw.charCodeAt(at);
  return new Int16Array(bytes.buffer);
}

/** @param {Int16Array} pcm */
export const append = (pcm) => ({ type: "input_audio_buffer.append", audio: encodeAudio(pcm) });

/**
 * @param {"user" | "assistant"} role
 * @param {string} text
 */
export const message = (role, text) => ({
  type: "conversation.item.create",
  item: {
    type: "message",
    role,
    content: [{ type: role === "user" ? "input_text" : "output_text", text }],
  },
});

export const respond = () => ({ type: "response.create" });

export const cancel = () => ({ type: "response.cancel" });

/**
 * @param {string} itemId
 * @param {number} playedMs
 */
export const truncate = (itemId, playedMs) => ({
  type: "conversation.item.truncate",
  item_id: itemId,
  content_index: 0,
  audio_end_ms: playedMs,
});

/**
 * @param {object} choice
 * @param {string} [choice.voice]
 * @param {string} [choice.instructions]
 * @param {boolean} choice.speak
 * @param {boolean} choice.echoCancelled the microphone does not hear the loudspeaker
 */
export function update({ voice, instructions, speak, echoCancelled }) {
  /** @type {Record<string, unknown>} */
  const session = {
    type: "realtime",
    output_modalities: [speak ? "audio" : "text"],
    duplexd: { pauses: true, echo_cancelled: echoCancelled },
  };
  if (voice) session.audio = { output: { voice } };
  if (instructions !== undefined) session.instructions = instructions;
  return { type: "session.update", session };
}
