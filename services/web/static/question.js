// @ts-check
/** Asks before something is lost for good. */

import { byId, put } from "./page.js";

/**
 * @param {object} words
 * @param {string} words.what
 * @param {string} words.more
 * @param {string} words.act on the button that says yes
 * @returns {Promise<boolean>}
 */
export function sure({ what, more, act }) {
  /** @type {HTMLDialogElement} */
  const dialog = byId("question");
  put("question-what", what);
  put("question-more", more);
  put("question-yes", act);
  byId("question-yes").onclick = () => dialog.close("yes");
  byId("question-no").onclick = () => dialog.close();
  dialog.onkeydown = (event) => event.stopPropagation(); // keys of the page are not meant
  dialog.returnValue = "";
  dialog.showModal();
  byId("question-no").focus();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
  });
}
