// @ts-check
/** Elements of a drawing. */

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 */
export function shape(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}
