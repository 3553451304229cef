// @ts-check
/** The form that makes a voice: a recording, what is said in it, a name, and that it may be used. */

import { loudness } from "./energy.js";
import { t } from "./i18n.js";
import { byId, label, put, yes } from "./page.js";
import { LONGEST_S, SHORTEST_S } from "./reference.js";

/** how the recording is called for who plays it */
export const RECORDING = " recording";
/** as the service has it */
const NAME = /^[\p{L}\p{N}_][\p{L}\p{N}_-]{0,63}$/u;
/** the field that the service means, by its own name */
const FIELDS = new Map([
  ["audio", "record"],
  ["text", "clone-text"],
  ["name", "clone-name"],
  ["consent", "clone-consent"],
]);

/**
 * @typedef {object} Wanted
 * @property {string} name
 * @property {string} text
 * @property {string} consent
 * @property {Blob} audio
 */

export class VoiceForm {
  /**
   * @param {object} options
   * @param {import("./reference.js").Reference} options.reference
   * @param {() => void} options.onRecord
   * @param {() => void} options.onPlay
   * @param {(wanted: Wanted) => void} options.onMake the form is complete
   */
  constructor({ reference, onRecord, onPlay, onMake }) {
    this._reference = reference;
    this._onMake = onMake;
    /** @type {HTMLFieldSetElement} */
    this._fields = byId("clone-fields");
    /** @type {HTMLTextAreaElement} */
    this._text = byId("clone-text");
    /** @type {HTMLInputElement} */
    this._name = byId("clone-name");
    /** @type {HTMLInputElement} */
    this._consent = byId("clone-consent");
    /** @type {HTMLInputElement} */
    this._file = byId("clone-file");
    this._able = false;
    this._busy = false;
    /** what sounds, see player.js @type {string | null} */
    this._playing = null;
    /** what is wrong @type {{field: string, said: string} | null} */
    this._wrong = null;
    byId("record").addEventListener("click", onRecord);
    byId("source-play").addEventListener("click", onPlay);
    this._file.addEventListener("change", () => void this._choose());
    byId("clone").addEventListener("submit", (event) => {
      event.preventDefault();
      this._check();
    });
    byId("clone").addEventListener("input", () => this.blame());
  }

  /** @param {boolean} able voices can be made @param {boolean} known it is known by now */
  offer(able, known) {
    this._able = able;
    byId("clone-off").hidden = able || !known;
    this._fields.hidden = !able;
    this.show();
  }

  /** A voice is being made. @param {boolean} busy */
  set busy(busy) {
    this._busy = busy;
    this.show();
  }

  /** It has become a voice. */
  clear() {
    this._reference.clear();
    for (const field of [this._text, this._name, this._file]) field.value = "";
    this._consent.checked = false;
    this.blame();
  }

  /** @param {string | null} [playing] what sounds */
  show(playing = this._playing) {
    this._playing = playing;
    const { state, taken, level, seconds } = this._reference;
    const recording = state === "recording";
    this._fields.disabled = !this._able || this._busy;
    const record = button("record");
    record.dataset.on = yes(recording);
    record.disabled = this._file.disabled = state === "asking";
    const again = state === "there" && !taken?.name;
    put("record-word", t(recording ? "record_stop" : again ? "record_again" : "record"));
    byId("source-there").hidden = !recording && state !== "there";
    const play = button("source-play");
    play.hidden = !taken?.pcm;
    const on = playing === RECORDING;
    play.dataset.on = yes(on);
    label(play, t(on ? "recording_stop" : "recording_listen"));
    const long = seconds === null ? "" : t("seconds", { s: seconds.toFixed(1) });
    put("source-file", [taken?.name, long].filter(Boolean).join(" · "));
    byId("source-level").hidden = !recording;
    byId("source-level").style.setProperty("--level", loudness(level).toFixed(2));
    put("clone-word", t(this._busy ? "clone_busy" : "clone_go"));
    put("clone-error", this._wrong?.said ?? "");
  }

  /**
   * Says what is wrong, and where; nothing is, without arguments.
   * @param {string} [param] the service's name of the field
   * @param {string} [said]
   */
  blame(param = "", said = "") {
    this._wrong = said ? { field: FIELDS.get(param) ?? "", said } : null;
    for (const field of FIELDS.values()) {
      const wrong = field === this._wrong?.field;
      if (!wrong) byId(field).removeAttribute("aria-invalid");
      else if (field !== "record") byId(field).setAttribute("aria-invalid", "true");
    }
    this.show();
    if (this._wrong?.field) byId(this._wrong.field).focus();
  }

  async _choose() {
    const [file] = this._file.files ?? [];
    this._file.value = ""; // the same one may be chosen again
    if (!file) return;
    this.blame();
    if (await this._reference.choose(file)) this._judge();
    else this.blame("audio", t("clone_unreadable"));
  }

  /** @returns {boolean} there is a recording of a length that the service takes */
  _judge() {
    const { state, seconds } = this._reference;
    if (state !== "there") this.blame("audio", t("clone_needs_recording"));
    else if (seconds !== null && seconds < SHORTEST_S) {
      this.blame("audio", t("clone_too_short", { s: SHORTEST_S }));
    } else if (seconds !== null && seconds > LONGEST_S) {
      this.blame("audio", t("clone_too_long", { s: LONGEST_S }));
    } else return true;
    return false;
  }

  /** Hands it over, if it is complete. */
  _check() {
    const text = this._text.value.trim();
    const name = this._name.value.trim();
    this._reference.stop();
    if (!this._judge()) return;
    const audio = this._reference.taken?.audio;
    if (!text) this.blame("text", t("clone_needs_text"));
    else if (!name) this.blame("name", t("clone_needs_name"));
    else if (!NAME.test(name)) this.blame("name", t("clone_bad_name"));
    else if (!this._consent.checked) this.blame("consent", t("clone_needs_consent"));
    else if (audio) {
      this.blame();
      this._onMake({ name, text, consent: "The speaker has agreed: ticked on the talk page", audio });
    }
  }
}

/** @param {string} id @returns {HTMLButtonElement} */
const button = (id) => byId(id);
