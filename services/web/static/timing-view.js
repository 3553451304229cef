// @ts-check
/** Response times on the page: p50 and p95, a bar a turn, and the waterfall of the chosen one. */

import { duration, t } from "./i18n.js";
import { bars, v2v } from "./latency.js";
import { byId, make, yes } from "./page.js";

const SVG = "http://www.w3.org/2000/svg";
/** bars that are shown; older turns are in what is saved */
const MOST = 24;

/** @typedef {import("./latency.js").Timing} Timing */
/** @typedef {import("./latency.js").Timings} Timings */

export class TimingView {
  /** @param {{onChoose: (answer: string) => void, onClose: () => void}} options */
  constructor({ onChoose, onClose }) {
    this._onChoose = onChoose;
    this._panel = byId("timing");
    this._opener = byId("timing-open");
    this._turns = byId("turns");
    this._waterfall = byId("waterfall");
    this._opener.addEventListener("click", () => this.open(true));
    document.addEventListener("pointerdown", ({ target }) => {
      const outside = target instanceof Element && !target.closest("#timing, .chip, #timing-open");
      if (this.isOpen && outside) this.open(false);
    });
    byId("timing-close").addEventListener("click", () => {
      this.open(false);
      onClose();
    });
  }

  /** It lies over the page: on a phone. */
  get isSheet() {
    return getComputedStyle(this._panel).position === "fixed";
  }

  get isOpen() {
    return this.isSheet && this._panel.dataset.open === "yes";
  }

  /** @param {boolean} open */
  open(open) {
    this._panel.dataset.open = yes(open);
    this._opener.setAttribute("aria-expanded", String(open));
    if (!this.isSheet) return;
    if (open) byId("timing-title").focus({ preventScroll: true });
    else this._opener.focus({ preventScroll: true });
  }

  /**
   * @param {Timings} timings
   * @param {string} chosen the answer whose waterfall is shown; empty: none
   */
  show(timings, chosen) {
    const { p50, p95, count } = timings.summary();
    byId("figures").hidden = !count;
    byId("p50").textContent = duration(p50);
    byId("p95").textContent = duration(p95);
    const turns = t(count === 1 ? "turns_1" : "turns", { n: count });
    this._opener.textContent = count
      ? `${t("p50")} ${duration(p50)} · ${turns} ›`
      : t("timing");
    this._overview(timings, chosen);
    const turn = chosen ? timings.of(chosen) : undefined;
    this._waterfall.hidden = !turn;
    if (turn) this._waterfall.replaceChildren(...waterfall(turn));
    else this._waterfall.replaceChildren();
  }

  /** @param {Timings} timings @param {string} chosen */
  _overview(timings, chosen) {
    const measured = timings.turns.filter((turn) => v2v(turn) !== null).slice(-MOST);
    if (!measured.length) {
      this._turns.replaceChildren(make("p", "", t("timing_none")));
      this._turns.dataset.none = "yes";
      return;
    }
    delete this._turns.dataset.none;
    const longest = Math.max(...measured.map((turn) => Number(v2v(turn))));
    const focused = document.activeElement;
    const again =
      focused instanceof HTMLElement && this._turns.contains(focused) ? focused.dataset.id : null;
    this._turns.replaceChildren(
      ...measured.map((turn) => {
        const button = make("button", "turn-bar");
        button.type = "button";
        button.dataset.id = turn.id;
        const label = `${t("timing_of", { n: turn.number })}: ${duration(v2v(turn))}`;
        button.setAttribute("aria-label", label);
        button.title = label;
        button.setAttribute("aria-pressed", String(turn.id === chosen));
        button.append(column(turn, longest));
        button.addEventListener("click", () => this._onChoose(turn.id));
        return button;
      }),
    );
    if (again) {
      /** @type {HTMLElement | null} */ (
        this._turns.querySelector(`[data-id="${CSS.escape(again)}"]`)
      )?.focus();
    }
  }
}

/** @param {string} name @param {Record<string, string | number>} attributes */
function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

/** A turn as a stack. @param {Timing} turn @param {number} longest */
function column(turn, longest) {
  const svg = shape("svg", { preserveAspectRatio: "none", viewBox: "0 0 1 1" });
  for (const { group, start, ms } of bars(turn)) {
    svg.append(
      shape("rect", {
        x: 0,
        width: 1,
        y: 1 - (start + ms) / longest,
        height: ms / longest,
        class: `bar-${group}`,
      }),
    );
  }
  return svg;
}

/** @param {Timing} turn @returns {HTMLElement[]} */
function waterfall(turn) {
  const total = Number(v2v(turn));
  const table = make("table");
  const caption = make("caption");
  caption.append(
    make("b", "", `${t("timing_of", { n: turn.number })} · ${duration(v2v(turn))}`),
    make("span", "", t(turn.typed ? "timing_typed" : "timing_hint")),
  );
  const head = make("thead", "unseen");
  const titles = make("tr");
  for (const key of ["part", "begins", "duration"]) titles.append(make("th", "", t(key)));
  head.append(titles);
  const body = make("tbody");
  const all = bars(turn);
  const span = Math.max(total || 0, ...all.map(({ start, ms }) => start + ms), 1);
  for (const { part, group, start, ms } of all) {
    if (ms < 0.5) continue;
    const row = make("tr");
    row.dataset.part = part;
    const name = make("th", "", t(`part_${part}`));
    name.scope = "row";
    const place = make("td");
    place.append(track(start / span, ms / span, group), make("span", "unseen", duration(start)));
    row.append(name, place, make("td", "", duration(ms)));
    body.append(row);
  }
  table.append(caption, head, body);
  const notes = said(turn);
  return notes ? [table, make("p", "notes", notes)] : [table];
}

/** @param {number} start @param {number} length shares @param {string} group */
function track(start, length, group) {
  const svg = shape("svg", { "aria-hidden": "true" });
  const width = Math.max(length * 100, 1);
  const x = Math.min(start * 100, 100 - width);
  svg.append(
    shape("rect", { x: 0, width: "100%", y: 5, height: 2, rx: 1, class: "track" }),
    shape("rect", { x: `${x}%`, width: `${width}%`, height: 12, rx: 2, class: `bar-${group}` }),
  );
  return svg;
}

/** @param {Timing} turn */
function said(turn) {
  if (turn.parts_ms === null) return t("timing_wait");
  const work = Object.entries(turn.work_ms).map(
    ([name, ms]) => `${t(`work_${name}`).replace(/^work_/, "")} ${duration(ms)}`,
  );
  return [
    turn.server_ms === null ? "" : t("timing_server", { ms: duration(turn.server_ms) }),
    work.length ? t("timing_work", { list: work.join(", ") }) : "",
    turn.underruns
      ? t(turn.underruns === 1 ? "timing_underruns_1" : "timing_underruns", { n: turn.underruns })
      : "",
  ]
    .filter(Boolean)
    .join(" · ");
}
