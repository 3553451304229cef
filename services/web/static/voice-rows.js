// @ts-check
/** The list of voices: those that were made of recordings first. */

import { lang, t } from "./i18n.js";
import { byId, label, make, yes } from "./page.js";
import { shape } from "./shapes.js";
import { voiceName } from "./voice-name.js";

/** @typedef {import("./speech-service.js").Voice} Voice */

const PLAY = "M8 5.5v13l10.5-6.5z";
const END = "M7 8.5A1.5 1.5 0 0 1 8.5 7h7A1.5 1.5 0 0 1 17 8.5v7a1.5 1.5 0 0 1-1.5 1.5h-7A1.5 1.5 0 0 1 7 15.5z";
const BIN = "M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7M10.5 10.5v5.5M13.5 10.5v5.5";

export class VoiceRows {
  /** @param {{onListen: (voice: string) => void, onDelete: (voice: string) => void}} options */
  constructor({ onListen, onDelete }) {
    this._onListen = onListen;
    this._onDelete = onDelete;
    this._rows = byId("voice-rows");
  }

  /** @param {Voice[]} voices */
  offer(voices) {
    const focused = document.activeElement;
    const before = focused instanceof HTMLElement ? focused.dataset : {};
    const made = voices.filter(({ registered }) => registered);
    const others = voices.filter(({ registered }) => !registered);
    this._rows.replaceChildren(...[...made, ...others].map((voice) => this._row(voice)));
    byId("voices-none").hidden = voices.length > 0;
    if (before.act && before.voice) this.focus(before.voice, before.act);
  }

  /** @param {string} voice @param {string} [act] of its buttons, the one that is focused */
  focus(voice, act = "listen") {
    const wanted = `[data-act="${act}"][data-voice="${CSS.escape(voice)}"]`;
    /** @type {HTMLElement | null} */ (this._rows.querySelector(wanted))?.focus();
  }

  /** @param {string | null} playing the voice that sounds */
  show(playing) {
    for (const button of this._rows.querySelectorAll("button")) {
      const { act, voice = "" } = button.dataset;
      if (act !== "listen") continue;
      const on = voice === playing;
      button.dataset.on = yes(on);
      label(button, t(on ? "voice_stop" : "voice_listen", { name: voiceName(voice) }));
    }
  }

  /** @param {Voice} voice */
  _row(voice) {
    const { id, registered, default: preset } = voice;
    const row = make("li", "voice-row");
    row.dataset.testid = "voice-row";
    row.dataset.voice = id;
    const words = make("div");
    const name = make("p", "name");
    name.append(make("b", "", voiceName(id)));
    if (preset) name.append(make("span", "tag", t("voice_default")));
    words.append(name, make("p", "note", registered ? about(voice) : t("voice_own")));
    const listen = this._button(id, "listen", PLAY, END);
    listen.addEventListener("click", () => this._onListen(id));
    row.append(words, listen);
    if (registered) {
      const remove = this._button(id, "delete", BIN);
      label(remove, t("voice_delete", { name: id }));
      remove.addEventListener("click", () => this._onDelete(id));
      row.append(remove);
    }
    return row;
  }

  /**
   * @param {string} voice
   * @param {"listen" | "delete"} act
   * @param {string} drawn
   * @param {string} [other] drawn while it is on
   */
  _button(voice, act, drawn, other) {
    const button = make("button", "icon-button");
    button.type = "button";
    Object.assign(button.dataset, { testid: `voice-${act}`, act, voice });
    button.append(drawing(other ? "go" : "", drawn));
    if (other) button.append(drawing("halt", other));
    return button;
  }
}

/** @param {string} name @param {string} d */
function drawing(name, d) {
  const svg = shape("svg", { viewBox: "0 0 24 24", class: name, "aria-hidden": "true" });
  svg.append(shape("path", { d }));
  return svg;
}

/** When it was made, and of what. @param {Voice} voice */
function about({ created, duration_s: seconds, text }) {
  const at = created ? new Date(created) : null;
  const day = at?.toLocaleDateString(lang() === "zh" ? "zh-CN" : "en-GB", { dateStyle: "medium" });
  const long = seconds === undefined ? "" : t("seconds", { s: seconds.toFixed(1) });
  return [day, long, text && t("quoted", { text })].filter(Boolean).join(" · ");
}
