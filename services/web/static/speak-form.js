// @ts-check
/** The form that has a text spoken, and what that took. */

import { duration, t } from "./i18n.js";
import { byId, make, put, yes } from "./page.js";
import { voiceName } from "./voice-name.js";

/** @typedef {import("./speech-service.js").Voice} Voice */

export class SpeakForm {
  /** @param {{onSpeak: (voice: string) => void, onStop: () => void}} options */
  constructor({ onSpeak, onStop }) {
    /** @type {HTMLTextAreaElement} */
    this._text = byId("say-text");
    /** @type {HTMLSelectElement} */
    this._voice = byId("say-voice");
    /** @type {HTMLButtonElement} */
    this._go = byId("say-go");
    this._speaking = false;
    byId("say").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this._speaking) onStop();
      else onSpeak(this._voice.value);
    });
    this._text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      onSpeak(this._voice.value);
    });
  }

  /** What is to be said; the sample, if nothing was written. */
  get text() {
    return this._text.value.trim() || t("say_sample");
  }

  /** The voice that is chosen. @param {string} voice */
  set voice(voice) {
    this._voice.value = voice;
  }

  focus() {
    this._text.focus();
  }

  /** @param {Voice[]} voices */
  offer(voices) {
    const chosen = this._voice.value;
    this._voice.replaceChildren(
      ...voices.map(({ id }) => {
        const option = make("option", "", voiceName(id));
        option.value = id;
        return option;
      }),
    );
    if (voices.some(({ id }) => id === chosen)) this._voice.value = chosen;
    this._voice.disabled = this._go.disabled = !voices.length;
  }

  /** @param {boolean} speaking @param {import("./player.js").Figures} figures */
  show(speaking, { firstMs, serverMs, seconds }) {
    this._speaking = speaking;
    this._go.dataset.on = yes(speaking);
    put("say-word", t(speaking ? "say_stop" : "say_go"));
    byId("say-figures").hidden = firstMs === null;
    put("say-first", duration(firstMs));
    put("say-server", duration(serverMs));
    put("say-seconds", seconds === null ? "…" : t("seconds", { s: seconds.toFixed(1) }));
  }
}
