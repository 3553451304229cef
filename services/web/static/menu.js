// @ts-check
/** The menu of the save button. */

import { byId } from "./page.js";

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
