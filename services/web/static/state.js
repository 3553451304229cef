// @ts-check
/** The one word for what is going on. */

/**
 * @typedef {"off" | "asking" | "blocked" | "on" | "muted"} Microphone asking: the browser asks the
 *   user; blocked: it gives none
 *
 * @typedef {object} Facts
 * @property {"idle" | "connecting" | "open" | "waiting" | "failed"} link
 * @property {Microphone} microphone
 * @property {boolean} hearing the user speaks
 * @property {boolean} thinking an answer is expected, and nothing of it is heard
 * @property {boolean} playing an answer sounds
 * @property {boolean} paused it is held back
 *
 * @typedef {"idle" | "blocked" | "asking" | "connecting" | "ready" | "listening" | "hearing" |
 *   "thinking" | "speaking" | "paused" | "muted" | "reconnecting" | "error"} State
 */

/** @param {Facts} facts @returns {State} */
export function stateOf(facts) {
  if (facts.link === "failed") return "error";
  if (facts.link === "waiting") return "reconnecting";
  if (facts.microphone === "asking") return "asking";
  if (facts.link === "connecting") return "connecting";
  if (facts.link === "idle") return facts.microphone === "blocked" ? "blocked" : "idle";
  if (facts.paused) return "paused";
  if (facts.hearing) return "hearing";
  if (facts.playing) return "speaking";
  if (facts.thinking) return "thinking";
  if (facts.microphone === "muted") return "muted";
  return facts.microphone === "on" ? "listening" : "ready";
}
