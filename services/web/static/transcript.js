// @ts-check
/** What was said, by both. */

/**
 * @typedef {object} Entry
 * @property {string} id of the item
 * @property {"user" | "assistant"} role
 * @property {"partial" | "final" | "cut" | "failed"} state
 * @property {string} text what was heard of it; while it is partial, what there is so far
 * @property {string} cut what was written and not heard
 * @property {Date} at when it began
 * @property {boolean} typed
 * @property {string} answer id of the answer's timing, for the assistant
 */

export class Transcript {
  /** @param {(entry: Entry, gone: boolean) => void} onChange */
  constructor(onChange) {
    /** @type {Entry[]} */
    this.entries = [];
    this._onChange = onChange;
  }

  /**
   * @param {string} id
   * @param {"user" | "assistant"} role
   * @param {Partial<Entry>} [more]
   */
  open(id, role, more = {}) {
    if (this.find(id)) return;
    /** @type {Entry} */
    const entry = {
      id,
      role,
      state: "partial",
      text: "",
      cut: "",
      at: new Date(),
      typed: false,
      answer: "",
      ...more,
    };
    this.entries.push(entry);
    this._onChange(entry, false);
  }

  /** @param {string} id @param {string} delta */
  write(id, delta) {
    const entry = this.find(id);
    if (!entry || entry.state !== "partial") return;
    entry.text += delta;
    this._onChange(entry, false);
  }

  /** The user's turn is understood. @param {string} id @param {string} text */
  understood(id, text) {
    const entry = this.find(id);
    if (!entry) return;
    if (!text.trim()) {
      this.remove(id);
      return;
    }
    entry.text = text;
    entry.state = "final";
    this._onChange(entry, false);
  }

  /** The user's turn could not be understood. @param {string} id */
  failed(id) {
    const entry = this.find(id);
    if (!entry) return;
    entry.state = "failed";
    this._onChange(entry, false);
  }

  /**
   * The answer is over.
   * @param {string} id
   * @param {string | null} heard what was heard of it; null: all of it
   */
  over(id, heard) {
    const entry = this.find(id);
    if (!entry || entry.state !== "partial") return;
    const sent = entry.text;
    const kept = heard === null ? sent.length : shared(sent, heard);
    // a full stop makes no sound
    const whole = !/[\p{L}\p{N}]/u.test(sent.slice(kept));
    entry.text = whole ? sent : sent.slice(0, kept);
    entry.cut = whole ? "" : sent.slice(kept);
    entry.state = whole ? "final" : "cut";
    if (!sent.trim()) this.remove(id);
    else this._onChange(entry, false);
  }

  /** @param {string} id */
  remove(id) {
    const entry = this.find(id);
    if (!entry) return;
    this.entries.splice(this.entries.indexOf(entry), 1);
    this._onChange(entry, true);
  }

  /** The connection is gone: what is open stays as it is. */
  settle() {
    for (const entry of [...this.entries]) {
      if (entry.state !== "partial") continue;
      if (entry.role === "assistant") this.over(entry.id, null);
      else this.understood(entry.id, entry.text);
    }
  }

  /** What a new connection has to be told of. @param {number} most */
  memory(most) {
    return this.entries
      .filter((entry) => entry.state !== "failed" && entry.text.trim())
      .slice(-most)
      .map(({ role, text }) => ({ role, text }));
  }

  /** @param {string} id */
  find(id) {
    return this.entries.find((entry) => entry.id === id);
  }
}

/**
 * How much of `sent` was heard: the daemon tells the text itself, which may differ in white space.
 * @param {string} sent
 * @param {string} heard
 * @returns {number} characters
 */
export function shared(sent, heard) {
  let at = 0;
  let told = 0;
  const blank = (/** @type {string} */ text) => /\s/.test(text);
  while (at < sent.length && told < heard.length) {
    if (sent[at] === heard[told]) {
      at += 1;
      told += 1;
    } else if (blank(sent[at])) at += 1;
    else if (blank(heard[told])) told += 1;
    else break;
  }
  return at;
}
