// @ts-check
/** The box one types in. */

import { byId } from "./page.js";

export class Composer {
  /** @param {{onSend: () => void}} options */
  constructor({ onSend }) {
    /** @type {HTMLTextAreaElement} */
    this._input = byId("text-input");
    /** @type {HTMLButtonElement} */
    this._send = byId("send");
    this._input.addEventListener("input", () => this._fit());
    this._input.addEventListener("keydown", (event) => {
      // Enter also ends the composition of a Chinese word: that one is not ours
      const composing = event.isComposing || event.keyCode === 229;
      if (event.key !== "Enter" || event.shiftKey || composing) return;
      event.preventDefault();
      onSend();
    });
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      onSend();
    });
  }

  get text() {
    return this._input.value.trim();
  }

  set text(text) {
    this._input.value = text;
    this._fit();
  }

  focus() {
    this._input.focus();
  }

  get focused() {
    return document.activeElement === this._input;
  }

  blur() {
    this._input.blur();
  }

  _fit() {
    this._send.disabled = !this.text;
    this._input.style.height = "auto";
    this._input.style.height = `${this._input.scrollHeight}px`;
  }
}
