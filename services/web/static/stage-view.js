// @ts-check
/** The stage on the page: the disc, the word for what goes on, and the buttons that fit it. */

import { Disc } from "./disc.js";
import { t } from "./i18n.js";
import { byId, put, yes } from "./page.js";
import { stateOf } from "./state.js";

/** microphones that can be muted, and keep their button while the browser asks */
const LIVE = ["on", "muted", "asking"];

export class StageView {
  constructor() {
    this.disc = new Disc(byId("disc"));
    /** a finger is what points: there is no keyboard, by all likelihood */
    this._touch = matchMedia("(pointer: coarse)");
  }

  /**
   * @param {import("./state.js").Facts} facts
   * @param {object} more
   * @param {string} more.obstacle code of why there is no microphone
   * @param {boolean} more.answering an answer is being made or played
   */
  show(facts, { obstacle, answering }) {
    const { link, microphone } = facts;
    const state = stateOf(facts);
    const { dataset } = document.body;
    dataset.state = state;
    dataset.live = yes(link !== "idle");
    dataset.microphone = microphone;
    this.disc.show(state, microphone);
    const denied = obstacle === "mic-denied";
    put("status", t(state === "blocked" && !denied ? "state_blocked_otherwise" : `state_${state}`));
    put("hint", this._hint(state, microphone));
    const again = microphone === "blocked" && obstacle.startsWith("mic-");
    put("start-word", t(link !== "idle" ? "microphone_on" : again ? "act_retry" : "start"));
    this._mute(microphone);
    button("interrupt").disabled = !answering;
  }

  /** @param {import("./state.js").State} state @param {import("./state.js").Microphone} microphone */
  _hint(state, microphone) {
    const keys = this._touch.matches ? "" : "_keys";
    if (state === "speaking" && microphone !== "on") return t(`hint_speaking_silent${keys}`);
    if (state === "muted") return t(`hint_muted${keys}`);
    if (state === "ready" && microphone === "blocked") return t("hint_ready_blocked");
    return t(`hint_${state}`);
  }

  /** @param {import("./state.js").Microphone} microphone */
  _mute(microphone) {
    const mute = button("mute");
    mute.hidden = !LIVE.includes(microphone);
    mute.disabled = microphone === "asking";
    const word = microphone === "muted" ? "unmute" : "mute";
    mute.setAttribute("aria-label", t(`${word}_label`));
    put("mute-word", t(word));
  }
}

/** @param {string} id @returns {HTMLButtonElement} */
const button = (id) => byId(id);
