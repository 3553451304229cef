// @ts-check
/**
 * Where the time of each turn went: the daemon's parts, and what this browser heard.
 *
 * Voice to voice is measured here, on the clock of the audio: from the last voiced sample of the
 * microphone to the first audible one that was played. What the daemon's parts do not explain is
 * the network and the browser.
 */

/** the daemon's parts in the order of its critical path: pipeline/latency.py */
const PARTS = [
  "frame_in",
  "vad_lag",
  "endpoint_wait",
  "asr_final",
  "llm_first_token",
  "first_clause",
  "tts_first_chunk",
  "gate_wait",
  "leading_silence",
  "frame_out",
];
/** the rest of v2v */
const OUTSIDE = "outside";
/** all of it, while the daemon has told no parts yet */
const WHOLE = "whole";
/** who works in a part: the colours of the chart, in their order */
export const GROUPS = ["ear", "mind", "voice", "outside"];
const GROUP = {
  frame_in: "outside",
  vad_lag: "ear",
  endpoint_wait: "ear",
  asr_final: "ear",
  llm_first_token: "mind",
  first_clause: "mind",
  tts_first_chunk: "voice",
  gate_wait: "voice",
  leading_silence: "voice",
  frame_out: "outside",
  outside: "outside",
  whole: "pending",
};

/**
 * @typedef {object} Timing
 * @property {string} id of the answer
 * @property {number} number from 1
 * @property {boolean} typed the question was written
 * @property {number | null} asked end of the question, seconds on the audio's clock
 * @property {number | null} heard first audible sample, same clock
 * @property {Record<string, number> | null} parts_ms the daemon's, when it told
 * @property {number | null} server_ms v2v as the daemon knows it
 * @property {Record<string, number>} work_ms computed meanwhile
 * @property {number} underruns in this browser
 * @property {string} outcome
 */

/** @param {Timing} timing @returns {number | null} voice to voice, milliseconds */
export function v2v(timing) {
  if (timing.asked === null || timing.heard === null) return null;
  const ms = (timing.heard - timing.asked) * 1000;
  return ms > 0 ? ms : null;
}

/**
 * The bars of the chart, in order; they sum to v2v.
 * @param {Timing} timing
 * @returns {{part: string, group: string, start: number, ms: number}[]}
 */
export function bars(timing) {
  const total = v2v(timing);
  const parts = timing.parts_ms ?? {};
  const lengths = PARTS.filter((part) => parts[part] > 0).map((part) => ({
    part,
    ms: parts[part],
  }));
  const known = lengths.reduce((sum, { ms }) => sum + ms, 0);
  if (total !== null && total - known > 0.5) {
    lengths.push({ part: timing.parts_ms ? OUTSIDE : WHOLE, ms: total - known });
  }
  let start = 0;
  return lengths.map(({ part, ms }) => {
    const bar = { part, group: GROUP[/** @type {keyof typeof GROUP} */ (part)], start, ms };
    start += ms;
    return bar;
  });
}

/**
 * How long each group works, in the order of the chart.
 * @param {Timing} timing
 * @returns {{group: string, ms: number}[]} those that work at all
 */
export function sums(timing) {
  const all = bars(timing);
  return GROUPS.map((group) => ({
    group,
    ms: all.reduce((sum, bar) => sum + (bar.group === group ? bar.ms : 0), 0),
  })).filter(({ ms }) => ms >= 0.5);
}

/**
 * Round numbers for a scale from 0 to `span`: two to five steps of 1, 2 or 5 times a power of ten.
 * @param {number} span more than 0
 * @returns {number[]} from 0 on
 */
export function ticks(span) {
  const power = 10 ** Math.floor(Math.log10(span / 2));
  const step = power * (span / power >= 10 ? 5 : span / power >= 5 ? 2 : 1);
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, at) => at * step);
}

/**
 * Interpolates between the neighbours, as numpy does.
 * @param {number[]} values
 * @param {number} percent
 * @returns {number | null}
 */
export function percentile(values, percent) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const place = ((sorted.length - 1) * percent) / 100;
  const low = Math.floor(place);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (place - low);
}

/** with fewer turns the 95th percentile is little else than the slowest */
const TAIL_TURNS = 20;

/** The turns of a conversation. */
export class Timings {
  constructor() {
    /** @type {Timing[]} */
    this.turns = [];
    /** @type {{asked: number | null, typed: boolean} | null} */
    this._question = null;
  }

  /**
   * A question is over.
   * @param {number | null} asked when, on the audio's clock
   * @param {boolean} typed
   */
  question(asked, typed) {
    this._question = { asked, typed };
  }

  /** @param {string} id of the answer that begins */
  answer(id) {
    const { asked = null, typed = false } = this._question ?? {};
    this._question = null;
    this.turns.push({
      id,
      number: this.turns.length + 1,
      typed,
      asked,
      heard: null,
      parts_ms: null,
      server_ms: null,
      work_ms: {},
      underruns: 0,
      outcome: "",
    });
  }

  /** @param {string} id */
  of(id) {
    return this.turns.find((turn) => turn.id === id);
  }

  /**
   * @param {string} id
   * @param {Record<string, any>} report the daemon's
   * @returns {Timing | undefined} the turn, if it is known
   */
  report(id, report) {
    const turn = this.of(id);
    if (!turn) return undefined;
    turn.parts_ms = report.parts_ms ?? {};
    turn.work_ms = report.work_ms ?? {};
    turn.server_ms = report.v2v_server_ms ?? null;
    turn.outcome = report.outcome ?? "";
    return turn;
  }

  /** Voice to voice of all spoken turns, and of the typed ones if there are no others. */
  summary() {
    const measured = this.turns.filter((turn) => v2v(turn) !== null);
    const spoken = measured.filter((turn) => !turn.typed);
    const values = (spoken.length ? spoken : measured).map((turn) => Number(v2v(turn)));
    const count = values.length;
    const slow = count < TAIL_TURNS ? "slowest" : "p95";
    return {
      p50: percentile(values, 50),
      p95: percentile(values, 95),
      /** what is said of the slow ones: its name, and its value */
      tail: { name: slow, ms: percentile(values, slow === "p95" ? 95 : 100) },
      count,
    };
  }
}
