// @ts-check
/** Keys: space mutes, Escape stops, "/" and Enter go to the text. */

/**
 * @param {object} actions
 * @param {() => boolean} actions.onSpace true: it did something
 * @param {() => void} actions.onEscape
 * @param {() => void} actions.onText
 */
export function listen({ onSpace, onEscape, onText }) {
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      onEscape();
      return;
    }
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.closest("input:not([type=checkbox]), textarea")) return;
    const pressable = target.closest("button, input, select, a") !== null;
    if (event.key === "/" || (event.key === "Enter" && !pressable)) {
      event.preventDefault();
      onText();
    } else if (event.key === " " && !pressable) {
      if (event.repeat || onSpace()) event.preventDefault();
    }
  });
}
