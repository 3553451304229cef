// @ts-check
/** What this browser remembers. Never a key. */

const PLACE = "duplexd";

/**
 * @typedef {object} Settings
 * @property {string} lang "zh" or "en"; empty follows the browser
 * @property {string} theme "light" or "dark"; empty follows the system
 * @property {string} voice
 * @property {string} persona
 * @property {string} device
 * @property {boolean} speak answers are spoken
 * @property {boolean} cancelEcho the browser takes what is played out of what the microphone hears
 */

/** @type {Settings} */
const DEFAULTS = {
  lang: "",
  theme: "",
  voice: "",
  persona: "",
  device: "",
  speak: true,
  cancelEcho: true,
};

/** @returns {Settings} */
export function load() {
  try {
    const kept = JSON.parse(localStorage.getItem(PLACE) ?? "{}");
    return { ...DEFAULTS, ...kept };
  } catch {
    return { ...DEFAULTS }; // storage is off, or holds something else
  }
}

/** @param {Settings} settings */
export function save(settings) {
  try {
    localStorage.setItem(PLACE, JSON.stringify(settings));
  } catch {
    // storage is off: nothing is remembered
  }
}
