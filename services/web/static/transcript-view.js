// @ts-check
/** The transcript on the page: one row a turn; follows the talk unless the reader has scrolled up. */

import { duration, lang, t } from "./i18n.js";
import { byId, make, yes } from "./page.js";

/** nearer to the end than this, the reader follows, pixels */
const NEAR = 64;

/** a text with a character of Chinese is read as Chinese, whatever the page's language */
const HANZI = /\p{Script=Han}/u;

/** @typedef {import("./transcript.js").Entry} Entry */

export class TranscriptView {
  /** @param {{onChip: (answer: string) => void, onTry: (text: string) => void}} options */
  constructor({ onChip, onTry }) {
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
    for (const button of document.querySelectorAll(".try")) {
      button.addEventListener("click", () => onTry(button.textContent ?? ""));
    }
    new ResizeObserver(() => this._follow()).observe(this._box);
  }

  /** @param {Entry} entry @param {boolean} gone */
  show(entry, gone) {
    let row = this._known.get(entry.id);
    if (gone) {
      row?.remove();
      this._known.delete(entry.id);
      this._times();
    } else {
      if (!row) {
        row = this._add(entry);
        if (entry.typed) this._follows = true;
      }
      this._write(row, entry);
    }
    this._empty();
    this._follow();
  }

  /** @param {string} answer @param {number | null} ms */
  chip(answer, ms) {
    const meta = this._row(answer)?.querySelector(".meta");
    if (!meta || ms === null) return;
    let chip = /** @type {HTMLButtonElement | null} */ (meta.querySelector(".chip"));
    if (!chip) {
      chip = make("button", "chip");
      chip.type = "button";
      chip.dataset.testid = "chip";
      chip.setAttribute("aria-expanded", "false");
      chip.setAttribute("aria-controls", "waterfall");
      chip.addEventListener("click", () => this._onChip(answer));
      meta.append(chip);
    }
    chip.textContent = duration(ms);
    chip.setAttribute("aria-label", t("timing_open", { ms: duration(ms) }));
    this._follow();
  }

  /**
   * Shows the details of an answer below it.
   * @param {string} answer empty: of none
   * @param {HTMLElement} details
   */
  unfold(answer, details) {
    let shown = false;
    for (const row of this._known.values()) {
      const chosen = Boolean(answer) && row.dataset.answer === answer;
      row.querySelector(".chip")?.setAttribute("aria-expanded", String(chosen));
      if (chosen && details.parentElement !== row) row.append(details);
      shown ||= chosen;
    }
    if (!shown) details.remove();
    this._follow();
  }

  /** @param {string} answer that the reader has asked for */
  reveal(answer) {
    const row = this._row(answer);
    // all of it, and if there is no room for that, what its details begin with
    row?.scrollIntoView({ block: "nearest" });
    row?.querySelector(".chip")?.scrollIntoView({ block: "nearest" });
  }

  /** @param {string} answer whose chip gets the focus */
  focusChip(answer) {
    const chip = this._row(answer)?.querySelector(".chip");
    if (chip instanceof HTMLElement) chip.focus({ preventScroll: true });
  }

  /** In another language. @param {Entry[]} entries */
  translate(entries) {
    for (const entry of entries) {
      const row = this._known.get(entry.id);
      if (row) this._write(row, entry, false);
    }
    this._times();
  }

  clear() {
    this._rows.replaceChildren();
    this._known.clear();
    this._empty();
  }

  /** @param {string} answer @returns {Element | null} */
  _row(answer) {
    return this._rows.querySelector(`[data-answer="${CSS.escape(answer)}"]`);
  }

  /** Shows what there is to try, as long as there is nothing to read. */
  _empty() {
    const empty = this._known.size === 0;
    document.body.dataset.empty = yes(empty);
    byId("empty").hidden = !empty;
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
    const time = make("time");
    time.dateTime = entry.at.toISOString();
    meta.append(time);
    row.append(who, meta, text);
    this._rows.append(row);
    this._known.set(entry.id, row);
    this._times();
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
    const [who, , text] = row.children;
    const name = t(entry.role === "user" ? "you" : "assistant");
    who.textContent = `${name}${t("colon")}`;
    const failed = entry.state === "failed";
    text.replaceChildren(failed ? t("not_understood") : entry.text);
    const said = failed ? "" : entry.text + entry.cut;
    if (said) text.setAttribute("lang", HANZI.test(said) ? "zh-CN" : "en");
    else text.removeAttribute("lang");
    if (entry.state === "partial" && !entry.text) text.append(make("span", "dots"));
    if (entry.cut) {
      text.append(make("span", "unseen", t("cut_label")), make("del", "", entry.cut));
    }
    if (aloud && entry.state !== "partial" && was !== entry.state) {
      this._announcer.textContent = `${name}${t("colon")}${entry.text}`;
    }
  }

  /** Writes when each row began, unless the one before has said the same. */
  _times() {
    let last = "";
    for (const time of this._rows.querySelectorAll("time")) {
      time.textContent = new Date(time.dateTime).toLocaleTimeString(
        lang() === "zh" ? "zh-CN" : "en-GB",
        { hour: "2-digit", minute: "2-digit" },
      );
      time.hidden = time.textContent === last;
      last = time.textContent;
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
