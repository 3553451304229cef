// @ts-check
/** The bar that says what is wrong, what mends it, and when it is tried again. */

import { t } from "./i18n.js";
import { byId, put } from "./page.js";

/** these mend themselves with time, and these are no trouble: all others are alarms */
const KINDS = new Map([
  ...["full", "warming", "lost", "unreachable"].map((code) => /** @type {const} */ ([code, "wait"])),
  /** @type {const} */ (["cleared", "done"]),
]);

/**
 * @typedef {object} Notice
 * @property {string} code of a text in i18n.js, with "-" for "_"
 * @property {string} [detail]
 * @property {number | null} [retryS] counted down
 * @property {string} [act] key of the button's word
 * @property {() => void} [onAct]
 */

export class Notices {
  constructor() {
    this._bar = byId("notice");
    this._act = byId("notice-act");
    /** @type {Notice | null} */
    this._shown = null;
    this._due = 0;
    /** @type {number | undefined} */
    this._timer = undefined;
    this._act.addEventListener("click", () => this._shown?.onAct?.());
    byId("notice-dismiss").addEventListener("click", () => this.hide());
  }

  /** @param {Notice} notice */
  show(notice) {
    this.hide();
    this._shown = notice;
    this._due = performance.now() + (notice.retryS ?? 0) * 1000;
    this._bar.dataset.code = notice.code;
    this._bar.dataset.kind = KINDS.get(notice.code) ?? "alarm";
    this._act.hidden = !notice.act;
    this.translate();
    this._bar.hidden = false;
    if (notice.retryS) this._timer = setInterval(() => this.translate(), 250);
  }

  /** @param {...string} codes only these; none: whichever is shown */
  hide(...codes) {
    if (codes.length && !codes.includes(this._shown?.code ?? "")) return;
    clearInterval(this._timer);
    this._shown = null;
    this._bar.hidden = true;
    delete this._bar.dataset.code;
  }

  /** Writes the words, and the seconds that are left. */
  translate() {
    const notice = this._shown;
    if (!notice) return;
    const s = Math.max(0, Math.ceil((this._due - performance.now()) / 1000));
    const text = t(`notice_${notice.code.replaceAll("-", "_")}`, { s, detail: notice.detail ?? "" });
    const [what, mend = ""] = text.split("|");
    put("notice-what", what);
    put("notice-mend", mend);
    if (notice.act) put("notice-act", t(notice.act));
  }
}
