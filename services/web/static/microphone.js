// @ts-check
/** The user's microphone as the page has it: off, asked for, refused, on or muted. */

import { AudioFailure, permission } from "./audio.js";

export class Microphone {
  /**
   * @param {object} options
   * @param {import("./audio.js").Sound} options.sound
   * @param {() => void} options.onChange
   * @param {() => void} options.onPermitted it was blocked, and may be tried again
   */
  constructor({ sound, onChange, onPermitted }) {
    this._sound = sound;
    this._onChange = onChange;
    this._onPermitted = onPermitted;
    /** @type {import("./state.js").Microphone} */
    this.state = "off";
    /** code of why there is none; it stays when the microphone comes */
    this.obstacle = "";
    /** counts the starts: one that was ended meanwhile has nothing to say */
    this._attempt = 0;
    /** muted by `hold` */
    this._held = false;
  }

  /** It is there, muted or not. */
  get there() {
    return this.state === "on" || this.state === "muted";
  }

  /**
   * From a click; a microphone that is there already is exchanged.
   * @param {import("./audio.js").Wish} wish
   * @returns {Promise<"there" | "refused" | "ended">}
   */
  async start(wish) {
    const attempt = ++this._attempt;
    try {
      await this._sound.open();
      const said = this.there ? "granted" : await permission(() => void this._permitted());
      if (this._attempt !== attempt) return "ended";
      if (said === "prompt") this._become("asking");
      await this._sound.record(wish);
    } catch (error) {
      if (this._attempt !== attempt) return "ended";
      this.obstacle = error instanceof AudioFailure ? error.code : "mic-busy";
      this._become(this._sound.recording ? this.state : "blocked");
      return "refused";
    }
    if (this._attempt !== attempt || !this._sound.recording) return "ended";
    this._become(this.state === "muted" ? "muted" : "on");
    return "there";
  }

  /** Mutes it, or no more. @returns {boolean} it is there */
  toggle() {
    if (!this.there) return false;
    this._held = false;
    this._become(this.state === "on" ? "muted" : "on");
    return true;
  }

  /** Mutes it for a while, unless it is; then it is again what it was. @param {boolean} held */
  hold(held) {
    if (held && this.state === "on") {
      this._held = true;
      this._become("muted");
    } else if (!held && this._held) {
      this._held = false;
      if (this.state === "muted") this._become("on");
    }
  }

  /** It is gone. */
  end() {
    this._attempt += 1;
    this._become("off");
  }

  /** @param {import("./state.js").Microphone} state */
  _become(state) {
    this.state = state;
    this._sound.mute(state === "muted");
    this._onChange();
  }

  /** The user has changed what they said of it. */
  async _permitted() {
    if (this.state !== "blocked" || (await permission()) === "denied") return;
    this._become("off");
    this._onPermitted();
  }
}
