// @ts-check
/** Language and theme: the browser's, until another is chosen. */

import { fill, lang, setLang, t } from "./i18n.js";
import { byId, label } from "./page.js";

const dark = matchMedia("(prefers-color-scheme: dark)");

/**
 * @param {object} options
 * @param {import("./settings.js").Settings} options.settings
 * @param {() => void} options.onChange the settings are to be kept
 * @param {() => void} options.onLang
 * @param {() => void} options.onTheme
 */
export function dress({ settings, onChange, onLang, onTheme }) {
  const root = document.documentElement;
  const shown = () => settings.theme || (dark.matches ? "dark" : "light");

  const theme = () => {
    root.dataset.theme = shown();
    const background = getComputedStyle(root).getPropertyValue("--bg").trim();
    for (const meta of document.querySelectorAll("meta[name=theme-color]")) {
      meta.setAttribute("content", background); // of the bars that the browser puts around the page
    }
    label(byId("theme"), t(shown() === "dark" ? "theme_light" : "theme_dark"));
  };
  const words = () => {
    root.lang = setLang(settings.lang) === "zh" ? "zh-CN" : "en";
    fill(document);
    theme();
  };

  words();
  byId("lang").addEventListener("click", () => {
    settings.lang = lang() === "zh" ? "en" : "zh";
    onChange();
    words();
    onLang();
  });
  byId("theme").addEventListener("click", () => {
    const other = shown() === "dark" ? "light" : "dark";
    // what the system has anyway is followed from then on
    settings.theme = other === (dark.matches ? "dark" : "light") ? "" : other;
    onChange();
    theme();
    onTheme();
  });
  dark.addEventListener("change", () => {
    theme();
    onTheme();
  });
}
