// @ts-check
/**
 * A conversation as the daemon's events tell it: the transcript, the timings, and what goes on
 * now. Owns no socket and no page.
 */

import { Timings } from "./latency.js";
import { Transcript } from "./transcript.js";
import { decodeAudio, truncate } from "./wire.js";

/** a pause that is shorter is not shown: most are, and a word that flickers says nothing, ms */
export const UNSEEN_MS = 150;

/**
 * @typedef {object} Speaker what an answer is played with
 * @property {(id: string, pcm: Int16Array) => void} play
 * @property {(id: string) => void} close
 * @property {() => void} flush
 * @property {() => void} pause
 * @property {() => void} resume
 *
 * @typedef {object} Clocks
 * @property {() => number | null} now seconds on the audio's clock
 * @property {() => number | null} voicedAt end of the user's voice, same clock
 */

export class Conversation {
  /**
   * @param {object} options
   * @param {(event: object) => void} options.send
   * @param {Speaker} options.speaker
   * @param {Clocks} options.clocks
   * @param {() => void} options.onChange something goes on
   * @param {(entry: import("./transcript.js").Entry, gone: boolean) => void} options.onEntry
   * @param {(timing: import("./latency.js").Timing) => void} options.onTiming
   * @param {(error: {code: string, message: string}) => void} options.onError
   */
  constructor({ send, speaker, clocks, onChange, onEntry, onTiming, onError }) {
    this.transcript = new Transcript(onEntry);
    this.timings = new Timings();
    this.hearing = false;
    this.thinking = false;
    this.playing = false;
    /** it is held back, long enough to be shown */
    this.paused = false;
    this._send = send;
    this._speaker = speaker;
    this._clocks = clocks;
    this._onChange = onChange;
    this._onTiming = onTiming;
    this._onError = onError;
    /** the answer that is open @type {{item: string} | null} */
    this._open = null;
    /** answers that were cut: what still comes of them is not played @type {Set<string>} */
    this._cut = new Set();
    this._typed = 0;
    /** until the pause is shown @type {ReturnType<typeof setTimeout> | null} */
    this._held = null;
  }

  /** An answer is being made or played. */
  get answering() {
    return this._open !== null || this.thinking || this.playing;
  }

  /** @param {string} text what the user wrote */
  wrote(text) {
    this.transcript.open(`typed-${++this._typed}`, "user", { text, state: "final", typed: true });
    this.timings.question(this._clocks.now(), true);
    this.thinking = true;
    this._onChange();
  }

  /** Local audio stops at once. */
  silence() {
    if (this._open) this._cut.add(this._open.item);
    this._speaker.flush();
    this.playing = false;
    this._release();
    this._onChange();
  }

  /** The user stopped the answer. */
  stopped() {
    this.thinking = false;
    this.silence();
  }

  /** The connection is gone. */
  lost() {
    this.silence();
    this._open = null;
    this.hearing = false;
    this.thinking = false;
    this.transcript.settle();
    this._onChange();
  }

  /** @param {Record<string, any>} event one of the daemon's */
  take(event) {
    const handler = this._handlers[event.type];
    if (!handler) return;
    handler(event);
    this._onChange();
  }

  /** @type {Record<string, (event: Record<string, any>) => void>} */
  _handlers = {
    "input_audio_buffer.speech_started": (event) => {
      this.silence();
      this.hearing = true;
      this.thinking = false;
      this.transcript.open(event.item_id, "user");
    },
    "input_audio_buffer.speech_stopped": () => {
      this.hearing = false;
    },
    "input_audio_buffer.committed": (event) => {
      this.hearing = false;
      this.thinking = true;
      this.transcript.open(event.item_id, "user");
      this.timings.question(this._clocks.voicedAt(), false);
    },
    "conversation.item.input_audio_transcription.delta": (event) =>
      this.transcript.write(event.item_id, event.delta),
    "conversation.item.input_audio_transcription.completed": (event) => {
      if (!event.transcript.trim() && !this._open) this.thinking = false;
      this.transcript.understood(event.item_id, event.transcript);
    },
    "conversation.item.input_audio_transcription.failed": (event) => {
      this.thinking = false;
      this.transcript.failed(event.item_id);
    },
    "response.created": (event) => {
      this.thinking = true;
      this._open = { item: "" };
      this.timings.answer(event.response.id);
    },
    "response.output_item.added": (event) => {
      if (!this._open || event.item.type !== "message") return;
      this._open.item = event.item.id;
      this.transcript.open(event.item.id, "assistant", { answer: event.response_id });
    },
    "response.output_audio.delta": (event) => {
      if (!this._cut.has(event.item_id)) this._speaker.play(event.item_id, decodeAudio(event.delta));
    },
    "response.output_audio.done": (event) => this._speaker.close(event.item_id),
    "response.output_audio_transcript.delta": (event) =>
      this.transcript.write(event.item_id, event.delta),
    "response.output_text.delta": (event) => {
      this.thinking = false;
      this._first(event.response_id, this._clocks.now());
      this.transcript.write(event.item_id, event.delta);
    },
    "response.output_item.done": (event) => {
      const part = event.item.content?.[0] ?? {};
      const heard = part.transcript ?? part.text ?? "";
      this.transcript.over(event.item.id, event.item.status === "completed" ? null : heard);
    },
    "response.done": (event) => {
      const { status, status_details: details } = event.response;
      // nobody else ends a pause any more
      if (this._held !== null && status === "cancelled") this.silence();
      else if (this._held !== null) this._resume();
      this._open = null;
      if (!this.playing) this.thinking = false;
      if (status === "failed") this._onError(details?.error ?? { code: "failed", message: "" });
    },
    "duplexd.playback.paused": () => this._pause(),
    "duplexd.playback.resumed": () => this._resume(),
    "duplexd.turn": (event) => {
      const timing = this.timings.report(event.response_id ?? "", event.report);
      if (timing) this._onTiming(timing);
    },
    error: (event) => {
      if (!this._open) this.thinking = false;
      this._onError(event.error);
    },
  };

  // --- a pause -------------------------------------------------------------------------------------
  _pause() {
    this._release();
    this._speaker.pause();
    this._held = setTimeout(() => {
      this.paused = true;
      this._onChange();
    }, UNSEEN_MS);
  }

  _resume() {
    this._speaker.resume();
    this._release();
  }

  _release() {
    if (this._held !== null) clearTimeout(this._held);
    this._held = null;
    this.paused = false;
  }

  // --- from the loudspeaker ----------------------------------------------------------------------
  /** @param {Record<string, any>} event see queue.js */
  played(event) {
    if (event.type === "audible") {
      this.playing = true;
      this.thinking = false;
      const entry = this.transcript.find(event.id);
      if (entry) this._first(entry.answer, event.at);
    } else if (event.type === "drained") {
      this.playing = false;
      this.thinking = false;
    } else if (event.type === "flushed") {
      // The daemon reckons what was heard; this is what was.
      if (event.playedMs > 0) this._send(truncate(event.id, event.playedMs));
    } else if (event.type === "underrun") {
      const entry = this.transcript.find(event.id);
      const timing = entry && this.timings.of(entry.answer);
      if (timing) timing.underruns += 1;
    }
    this._onChange();
  }

  /**
   * @param {string} answer
   * @param {number | null} at
   */
  _first(answer, at) {
    const timing = this.timings.of(answer);
    if (!timing || timing.heard !== null || at === null) return;
    timing.heard = at;
    this._onTiming(timing);
  }
}
