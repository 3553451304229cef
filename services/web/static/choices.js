// @ts-check
/** Persona, voice, microphone with its echo canceller, spoken answers or not. */

import { microphones } from "./audio.js";
import { lang, t } from "./i18n.js";
import { byId, make, yes } from "./page.js";
import { voiceName } from "./voice-name.js";

/**
 * @typedef {{zh: string, en: string}} Bilingual
 * @typedef {{id: string, name: Bilingual, instructions: Bilingual}} Persona
 * @typedef {{version: string, voices: string[], default_voice: string, personas: Persona[]}} About
 */

export class Choices {
  /**
   * @param {object} options
   * @param {import("./settings.js").Settings} options.settings
   * @param {() => void} options.onChoice persona, voice or speech
   * @param {() => void} options.onDevice microphone, or its echo canceller
   */
  constructor({ settings, onChoice, onDevice }) {
    this._settings = settings;
    /** @type {About} */
    this.about = { version: "", voices: [], default_voice: "", personas: [] };
    /** @type {HTMLSelectElement} */
    this._persona = byId("persona");
    /** @type {HTMLSelectElement} */
    this._voice = byId("voice");
    /** @type {HTMLSelectElement} */
    this._device = byId("device");
    /** @type {HTMLInputElement} */
    this._speak = byId("speak");
    this._speak.checked = settings.speak;
    /** @type {HTMLInputElement} */
    this._cancelEcho = byId("cancel-echo");
    this._cancelEcho.checked = settings.cancelEcho;
    this._persona.addEventListener("change", () => {
      settings.persona = this._persona.value;
      onChoice();
    });
    this._voice.addEventListener("change", () => {
      settings.voice = this._voice.value;
      onChoice();
    });
    this._speak.addEventListener("change", () => {
      settings.speak = this._speak.checked;
      onChoice();
    });
    this._device.addEventListener("change", () => {
      settings.device = this._device.value;
      onDevice();
    });
    this._cancelEcho.addEventListener("change", () => {
      settings.cancelEcho = this._cancelEcho.checked;
      onDevice();
    });
    const opener = byId("settings");
    const form = byId("choices");
    opener.addEventListener("click", () => {
      const open = form.dataset.open !== "yes";
      form.dataset.open = yes(open);
      opener.setAttribute("aria-expanded", String(open));
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    navigator.mediaDevices?.addEventListener?.("devicechange", () => void this.devices());
  }

  /** Asks the daemon what there is. */
  async load() {
    this.show();
    const response = await fetch("/talk/about.json").catch(() => null);
    if (response?.ok) this.about = await response.json();
    this.show();
  }

  /** The daemon has told what there is. */
  get loaded() {
    return this.about.voices.length > 0;
  }

  show() {
    const { personas, voices, default_voice: preset } = this.about;
    options(
      this._persona,
      personas.map(({ id, name }) => [id, name[lang()]]),
      this._settings.persona,
    );
    options(
      this._voice,
      voices.map((voice) => [voice, voiceName(voice)]),
      this._settings.voice || preset,
    );
    void this.devices();
  }

  async devices() {
    const found = await microphones();
    byId("device-field").hidden = found.length < 2;
    options(
      this._device,
      [["", t("device_default")], ...found.map(({ id, label }) => /** @type {[string, string]} */ ([id, label]))],
      this._settings.device,
    );
  }

  /** The session as it is chosen; what the daemon has anyway is not named. */
  session() {
    const persona = this.about.personas.find(({ id }) => id === this._persona.value);
    return {
      voice: this._voice.value || undefined,
      instructions: persona?.instructions[lang()],
    };
  }
}

/**
 * @param {HTMLSelectElement} select
 * @param {[value: string, word: string][]} list
 * @param {string} chosen
 */
function options(select, list, chosen) {
  select.disabled = !list.length;
  const shown = list.length ? list : [["", t("loading")]];
  select.replaceChildren(
    ...shown.map(([value, word]) => {
      const option = make("option", "", word);
      option.value = value;
      return option;
    }),
  );
  if (list.some(([value]) => value === chosen)) select.value = chosen;
}
