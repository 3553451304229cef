// @ts-check
/** The waterfall of a turn: what each part took, one after the other, on a scale. */

import { duration, t } from "./i18n.js";
import { bars, sums, ticks, v2v } from "./latency.js";
import { make } from "./page.js";
import { shape } from "./shapes.js";

/** height of a row, pixels: the lines of the scale go through */
const ROW = 24;
/** height of a bar */
const BAR = 12;
/** a label nearer to the right end than this share is not centred on its line */
const EDGE = 0.93;
/** from that on the scale counts seconds, milliseconds */
const SECONDS = 2000;

/** @typedef {import("./latency.js").Timing} Timing */

/** @param {Timing} turn @returns {HTMLElement[]} */
export function waterfall(turn) {
  const all = bars(turn).filter(({ ms }) => ms >= 0.5);
  const span = Math.max(v2v(turn) ?? 0, ...all.map(({ start, ms }) => start + ms), 1);
  const table = make("table");
  const body = make("tbody");
  body.append(...all.map((bar) => row(bar, span)));
  table.append(caption(turn), head(), body, scale(span));
  const legend = make("ul", "legend");
  legend.append(...keys(sums(turn)));
  const notes = make("div", "notes");
  notes.append(...said(turn).map((note) => make("p", "", note)));
  return [table, legend, notes];
}

/**
 * The items of a legend, with what each group took where that is known.
 * @param {{group: string, ms?: number}[]} groups
 */
export function keys(groups) {
  return groups.map(({ group, ms }) => {
    const item = make("li");
    item.append(make("span", `swatch bar-${group}`), t(`group_${group}`));
    if (ms !== undefined) item.append(" ", make("b", "", duration(ms)));
    return item;
  });
}

/** @param {Timing} turn */
function caption(turn) {
  const element = make("caption");
  const title = make("b", "", `${t("timing_of", { n: turn.number })} `);
  title.append(make("span", "total", duration(v2v(turn))));
  element.append(title, make("span", "", t(turn.typed ? "timing_typed" : "timing_hint")));
  return element;
}

/** What the columns are, for who does not see them. */
function head() {
  const element = make("thead", "unseen");
  const titles = make("tr");
  for (const key of ["part", "begins", "duration"]) {
    const title = make("th", "", t(key));
    title.scope = "col";
    titles.append(title);
  }
  element.append(titles);
  return element;
}

/** @param {ReturnType<typeof bars>[number]} bar @param {number} span milliseconds */
function row({ part, group, start, ms }, span) {
  const element = make("tr");
  const name = make("th", "", t(`part_${part}`));
  name.scope = "row";
  const place = make("td");
  place.append(track(start / span, ms / span, group, span), make("span", "unseen", duration(start)));
  element.append(name, place, make("td", "", duration(ms)));
  return element;
}

/** @param {number} start @param {number} length shares @param {string} group @param {number} span */
function track(start, length, group, span) {
  const svg = shape("svg", { "aria-hidden": "true" });
  svg.append(...ticks(span).map((tick) => line(tick / span)));
  const width = Math.max(length * 100, 0.6);
  const x = Math.min(start * 100, 100 - width);
  svg.append(
    shape("rect", {
      x: `${x}%`,
      width: `${width}%`,
      y: (ROW - BAR) / 2,
      height: BAR,
      rx: 2,
      class: `bar-${group}`,
    }),
  );
  return svg;
}

/** @param {number} place share of the width */
function line(place) {
  const x = `${place * 100}%`;
  return shape("line", { x1: x, x2: x, y1: 0, y2: ROW, class: "grid" });
}

/** @param {number} span milliseconds */
function scale(span) {
  const element = make("tfoot");
  element.setAttribute("aria-hidden", "true");
  const labels = shape("svg", {});
  const { unit, ms } = span < SECONDS ? { unit: "ms", ms: 1 } : { unit: "s", ms: 1000 };
  for (const tick of ticks(span)) {
    const place = tick / span;
    const label = shape("text", {
      x: `${place * 100}%`,
      y: 18,
      "text-anchor": tick === 0 ? "start" : place > EDGE ? "end" : "middle",
    });
    label.textContent = String(tick / ms);
    labels.append(label);
  }
  const cells = make("tr");
  const place = make("td");
  place.append(labels);
  cells.append(make("td"), place, make("td", "", unit));
  element.append(cells);
  return element;
}

/** What else is known of the turn. @param {Timing} turn @returns {string[]} */
function said(turn) {
  if (turn.parts_ms === null) return [t("timing_wait")];
  const notes = Object.entries(turn.work_ms).map(([name, ms]) =>
    name === "asr_decode"
      ? t("timing_recogniser", { ms: duration(ms) })
      : t("timing_work", { name, ms: duration(ms) }),
  );
  if (turn.server_ms !== null) notes.unshift(t("timing_server", { ms: duration(turn.server_ms) }));
  if (turn.underruns) {
    const key = turn.underruns === 1 ? "timing_underruns_1" : "timing_underruns";
    notes.push(t(key, { n: turn.underruns }));
  }
  return notes;
}
