// @ts-check
/** The elements of index.html, by their ids. */

/**
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @returns {T}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no #${id}`);
  return /** @type {T} */ (element);
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name
 * @param {string} [className]
 * @param {string} [text]
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(name, className = "", text = "") {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

/** @param {string} id @param {string} text written only when it differs, for screen readers */
export function put(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Names an element, for who sees it and for who does not.
 * @param {Element} element
 * @param {string} text
 */
export function label(element, text) {
  element.setAttribute("aria-label", text);
  element.setAttribute("title", text);
}

/** @param {boolean} value */
export const yes = (value) => (value ? "yes" : "no");
