// @ts-check
/** Response times on the page: what is usual, a bar a turn, and the waterfall of the chosen one. */

import { duration, t } from "./i18n.js";
import { GROUPS, sums, v2v } from "./latency.js";
import { byId, label, make, yes } from "./page.js";
import { shape } from "./shapes.js";
import { keys, waterfall } from "./waterfall.js";

/** bars that are shown: as many as a finger has room for; older turns are in what is saved */
const MOST = 14;
/** a bar's size, and the gap between its groups, pixels */
const [WIDE, HIGH, GAP] = [14, 48, 1];

/** @typedef {import("./latency.js").Timing} Timing */
/** @typedef {import("./latency.js").Timings} Timings */

export class TimingView {
  /** @param {{onChoose: (answer: string) => void, onClose: () => void}} options */
  constructor({ onChoose, onClose }) {
    this._onChoose = onChoose;
    this._panel = byId("timing");
    this._opener = byId("timing-open");
    this._turns = byId("turns");
    this._chart = byId("chart");
    /** where the waterfall is drawn; who shows it finds a place for it */
    this.waterfall = byId("waterfall");
    this._opener.addEventListener("click", () => this._open(this._panel.dataset.open !== "yes"));
    byId("timing-close").addEventListener("click", onClose);
  }

  /**
   * @param {Timings} timings
   * @param {string} chosen the answer whose waterfall is shown; empty: none
   */
  show(timings, chosen) {
    const { p50, tail, count } = timings.summary();
    byId("figures").hidden = !count;
    byId("p50").textContent = duration(p50);
    byId("p95").textContent = duration(tail.ms);
    byId("p95-name").textContent = t(tail.name);
    byId("timing-brief").textContent = count ? `${t("p50")} ${duration(p50)}` : t("timing");
    byId("groups").hidden = !count;
    byId("groups").replaceChildren(...keys(GROUPS.map((group) => ({ group }))));
    this._overview(timings, chosen);
    const turn = chosen ? timings.of(chosen) : undefined;
    this.waterfall.hidden = !turn;
    this._chart.replaceChildren(...(turn ? waterfall(turn) : []));
  }

  /** On a phone, where there is room for it or for the waterfall. @param {boolean} open */
  _open(open) {
    this._panel.dataset.open = yes(open);
    this._opener.setAttribute("aria-expanded", String(open));
  }

  /** @param {Timings} timings @param {string} chosen */
  _overview(timings, chosen) {
    const measured = timings.turns.filter((turn) => v2v(turn) !== null).slice(-MOST);
    this._turns.dataset.none = yes(!measured.length);
    if (!measured.length) {
      this._turns.replaceChildren(make("p", "", t("timing_none")));
      return;
    }
    const longest = Math.max(...measured.map((turn) => Number(v2v(turn))));
    const focused = document.activeElement;
    const again =
      focused instanceof HTMLElement && this._turns.contains(focused) ? focused.dataset.id : null;
    this._turns.replaceChildren(...measured.map((turn) => this._bar(turn, longest, chosen)));
    this._turns.scrollLeft = this._turns.scrollWidth;
    if (again) {
      /** @type {HTMLElement | null} */ (
        this._turns.querySelector(`[data-id="${CSS.escape(again)}"]`)
      )?.focus();
    }
  }

  /** @param {Timing} turn @param {number} longest @param {string} chosen */
  _bar(turn, longest, chosen) {
    const button = make("button", "turn-bar");
    button.type = "button";
    button.dataset.id = turn.id;
    const name = t("timing_of", { n: turn.number });
    label(button, `${name}${t("colon")}${duration(v2v(turn))}`);
    button.setAttribute("aria-pressed", String(turn.id === chosen));
    button.append(column(turn, longest));
    button.addEventListener("click", () => {
      this._open(false);
      this._onChoose(turn.id);
    });
    return button;
  }
}

/** A turn as a stack of what its groups took. @param {Timing} turn @param {number} longest */
function column(turn, longest) {
  const svg = shape("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, width: WIDE, height: HIGH });
  const total = Number(v2v(turn));
  const groups = turn.parts_ms ? sums(turn) : [{ group: "pending", ms: total }];
  const scale = HIGH / longest;
  let start = 0;
  for (const { group, ms } of groups) {
    const low = Math.round(start * scale) + (start ? GAP : 0);
    const high = Math.round((start + ms) * scale);
    start += ms;
    if (high <= low) continue; // thinner than the gap
    const place = { x: 0, width: WIDE, y: HIGH - high, height: high - low };
    svg.append(shape("rect", { ...place, class: `bar-${group}` }));
  }
  return svg;
}
