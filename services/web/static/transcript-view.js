// @ts-check
/** The transcript on the page: one row a turn; follows the talk unless the reader has scrolled up. */

import { duration, lang, t } from "./i18n.js";
import { byId, make, yes } from "./page.js";

/** nearer to the end than this, the reader follows, pixels */
const NEAR = 64;

/** @typedef {import("./transcript.js").Entry} Entry */

export class TranscriptView {
  /** @param {{onChip: (answer: string) => void}} options */
  constructor({ onChip }) {
    this._onChip = onChip;
    this._box = byId("transcript");
    this._rows = byId("rows");
    this._latest = byId("latest");
    this._announcer = byId("announcer");
    /** @type {Map<string, HTMLLIElement>} */
    this._known = new Map();
    this._follows = true;
    this._box.addEventListener("scroll", () => this._scrolled(), { passive: true });
    this._latest.addEventListener("click", () => {
      this._follows = true;
      this._end();
    });
    new ResizeObserver(() => this._follow()).observe(this._box);
  }

  /** @param {Entry} entry @param {boolean} gone */
  show(entry, gone) {
    let row = this._known.get(entry.id);
    if (gone) {
      row?.remove();
      this._known.delete(entry.id);
    } else {
      if (!row) {
        row = this._add(entry);
        if (entry.typed) this._follows = true;
      }
      this._write(row, entry);
    }
    document.body.dataset.empty = yes(this._known.size === 0);
    byId("empty").hidden = this._known.size > 0;
    this._follow();
  }

  /** @param {string} answer @param {number | null} ms @param {number} number */
  chip(answer, ms, number) {
    const row = this._rows.querySelector(`[data-answer="${CSS.escape(answer)}"]`);
    const meta = row?.querySelector(".meta");
    if (!meta || ms === null) return;
    let chip = /** @type {HTMLButtonElement | null} */ (meta.querySelector(".chip"));
    if (!chip) {
      chip = make("button", "chip");
      chip.type = "button";
      chip.dataset.testid = "chip";
      chip.setAttribute("aria-pressed", "false");
      chip.addEventListener("click", () => this._onChip(answer));
      meta.append(chip);
    }
    chip.textContent = duration(ms);
    chip.dataset.turn = String(number);
    chip.setAttribute("aria-label", t("timing_open", { ms: duration(ms) }));
    this._follow();
  }

  /** @param {string} answer whose chip is pressed; empty: none */
  press(answer) {
    for (const chip of this._rows.querySelectorAll(".chip")) {
      const row = /** @type {HTMLElement | null} */ (chip.closest(".row"));
      chip.setAttribute("aria-pressed", String(Boolean(answer) && row?.dataset.answer === answer));
    }
  }

  /** In another language. @param {Entry[]} entries */
  translate(entries) {
    for (const entry of entries) {
      const row = this._known.get(entry.id);
      if (row) this._write(row, entry, false);
    }
  }

  clear() {
    this._rows.replaceChildren();
    this._known.clear();
    document.body.dataset.empty = "yes";
    byId("empty").hidden = false;
  }

  /** @param {Entry} entry */
  _add(entry) {
    const row = make("li", "row");
    row.dataset.testid = "turn";
    row.dataset.role = entry.role;
    if (entry.answer) row.dataset.answer = entry.answer;
    const who = make("span", "unseen");
    const text = make("div", "text");
    const meta = make("div", "meta");
    meta.append(make("time"));
    row.append(who, meta, text);
    this._rows.append(row);
    this._known.set(entry.id, row);
    return row;
  }

  /**
   * @param {HTMLLIElement} row
   * @param {Entry} entry
   * @param {boolean} [aloud]
   */
  _write(row, entry, aloud = true) {
    const was = row.dataset.state;
    row.dataset.state = entry.state;
    const [who, meta, text] = row.children;
    const name = t(entry.role === "user" ? "you" : "assistant");
    who.textContent = `${name}: `;
    const failed = entry.state === "failed";
    text.replaceChildren(failed ? t("not_understood") : entry.text);
    if (entry.state === "partial" && !entry.text) text.append(make("span", "dots"));
    if (entry.cut) {
      text.append(make("span", "unseen", t("cut_label")), make("del", "", entry.cut));
    }
    const time = /** @type {HTMLTimeElement} */ (meta.querySelector("time"));
    time.dateTime = entry.at.toISOString();
    time.textContent = entry.at.toLocaleTimeString(lang() === "zh" ? "zh-CN" : "en-GB", {
      hour: "2-digit",
      minute: "2-digit",
    });
    if (aloud && entry.state !== "partial" && was !== entry.state) {
      this._announcer.textContent = `${name}: ${entry.text}`;
    }
  }

  _scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this._box;
    this._follows = scrollHeight - scrollTop - clientHeight < NEAR;
    this._latest.hidden = this._follows;
  }

  _follow() {
    if (this._follows) this._end();
  }

  _end() {
    this._box.scrollTop = this._box.scrollHeight;
    this._latest.hidden = true;
  }
}
