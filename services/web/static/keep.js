// @ts-check
/** A conversation to take away: as text, and as data with its timings. */

import { lang, t, duration } from "./i18n.js";
import { bars, v2v } from "./latency.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

/** @param {Conversation} conversation @returns {string} Markdown */
export function asText({ transcript, timings }) {
  const { p50, tail, count } = timings.summary();
  const colon = t("colon");
  const lines = transcript.entries
    .filter((entry) => entry.text.trim() || entry.cut)
    .map((entry) => {
      const who = t(entry.role === "user" ? "you" : "assistant");
      const timing = entry.answer ? timings.of(entry.answer) : undefined;
      const ms = timing ? v2v(timing) : null;
      const cut = entry.cut ? ` ~~${entry.cut.trim()}~~` : "";
      const took = ms === null ? "" : ` (${duration(ms)})`;
      return `**${who}**${took}${colon}${entry.text.trim()}${cut}`;
    });
  const figures = [
    `${t("p50")} ${duration(p50)}`,
    `${t(tail.name)} ${duration(tail.ms)}`,
    t(count === 1 ? "turns_1" : "turns", { n: count }),
  ].join(t("comma"));
  return `${lines.join("\n\n")}${count ? `\n\n${t("timing")}${colon}${figures}` : ""}\n`;
}

/** @param {Conversation} conversation @param {Record<string, unknown>} more @returns {string} JSON */
export function asData({ transcript, timings }, more) {
  const { p50, p95, count } = timings.summary();
  const round = (/** @type {number | null} */ ms) => (ms === null ? null : Math.round(ms * 10) / 10);
  return JSON.stringify(
    {
      saved_at: new Date().toISOString(),
      language: lang(),
      ...more,
      v2v_ms: { p50: round(p50), p95: round(p95), turns: count },
      transcript: transcript.entries.map(({ role, state, text, cut, at, typed, answer }) => ({
        role,
        state,
        text,
        not_heard: cut,
        at: at.toISOString(),
        typed,
        response_id: answer || undefined,
      })),
      timings: timings.turns.map((turn) => ({
        response_id: turn.id,
        turn: turn.number,
        typed: turn.typed,
        outcome: turn.outcome,
        v2v_ms: round(v2v(turn)),
        daemon_ms: round(turn.server_ms),
        parts_ms: Object.fromEntries(bars(turn).map(({ part, ms }) => [part, round(ms)])),
        work_ms: turn.work_ms,
        underruns: turn.underruns,
      })),
    },
    null,
    2,
  );
}

/** @param {string} text */
export async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // not a secure origin: the old way
    const box = document.createElement("textarea");
    box.value = text;
    box.className = "unseen";
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
}

/** @param {string} text @param {string} type @param {string} ending */
export function toFile(text, type, ending) {
  const link = document.createElement("a");
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = `duplexd-${stamp}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
