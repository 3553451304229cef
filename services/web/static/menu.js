// @ts-check
/** The menu of the save button. */

import { t } from "./i18n.js";
import { toClipboard } from "./keep.js";
import { byId } from "./page.js";

/** how long the button says that it was done, milliseconds */
const COPIED_MS = 1500;

/** The button that copies. @param {() => string} text */
export function copyButton(text) {
  const button = byId("copy");
  button.addEventListener("click", async () => {
    await toClipboard(text());
    button.textContent = t("copied");
    byId("announcer").textContent = t("copied");
    setTimeout(() => {
      button.textContent = t("copy");
    }, COPIED_MS);
  });
}

/** @param {{onData: () => void, onText: () => void}} actions */
export function saveMenu({ onData, onText }) {
  const opener = byId("save");
  const list = byId("save-menu");
  const items = [...list.querySelectorAll("button")];
  const open = (/** @type {boolean} */ wanted) => {
    list.hidden = !wanted;
    opener.setAttribute("aria-expanded", String(wanted));
  };
  opener.addEventListener("click", () => {
    open(list.hidden);
    if (!list.hidden) items[0].focus();
  });
  byId("save-json").addEventListener("click", onData);
  byId("save-md").addEventListener("click", onText);
  list.addEventListener("click", () => open(false));
  list.addEventListener("keydown", (event) => {
    const place = items.findIndex((item) => item === document.activeElement);
    if (event.key === "Escape") {
      event.stopPropagation();
      open(false);
      opener.focus();
    } else if (event.key === "ArrowDown") items[(place + 1) % items.length].focus();
    else if (event.key === "ArrowUp") items.at(place - 1)?.focus();
    else return;
    event.preventDefault();
  });
  document.addEventListener("click", ({ target }) => {
    if (!(target instanceof Node) || !opener.parentElement?.contains(target)) open(false);
  });
}
