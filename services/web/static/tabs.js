// @ts-check
/** What the page shows: the conversation, the voices, or the devices. Arrow keys go from one tab to the other. */

import { byId } from "./page.js";

const NAMES = /** @type {const} */ (["talk", "voices", "devices"]);

/** @typedef {(typeof NAMES)[number]} Tab */

export class Tabs {
  /** @param {{onShow: (tab: Tab) => void}} options */
  constructor({ onShow }) {
    this._onShow = onShow;
    /** @type {Tab} */
    this.shown = "talk";
    for (const name of NAMES) {
      byId(`tab-${name}`).addEventListener("click", () => this.show(name));
    }
    byId("tabs").addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, Home: 0, End: 0 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const count = NAMES.length;
      const ends = event.key === "Home" ? 0 : count - 1;
      this.show(NAMES[step ? (NAMES.indexOf(this.shown) + step + count) % count : ends]);
      byId(`tab-${this.shown}`).focus();
    });
    this._mark();
  }

  /** The one that the address names. */
  begin() {
    const named = NAMES.find((name) => location.hash === `#${name}`);
    if (named) this.show(named);
  }

  /** @param {Tab} name */
  show(name) {
    if (name === this.shown) return;
    this.shown = name;
    history.replaceState(null, "", name === "talk" ? location.pathname : `#${name}`);
    this._mark();
    this._onShow(name);
  }

  _mark() {
    document.body.dataset.tab = this.shown;
    for (const name of NAMES) {
      const chosen = name === this.shown;
      const tab = byId(`tab-${name}`);
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      byId(name).hidden = !chosen;
    }
  }
}
