// Before the first paint: the theme, and word to browsers without modules.
(function () {
  var root = document.documentElement;
  var kept = {};
  try {
    kept = JSON.parse(localStorage.getItem("duplexd") || "{}");
  } catch (error) {
    kept = {};
  }
  var dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = kept.theme || (dark ? "dark" : "light");
  if (!("noModule" in document.createElement("script"))) root.className = "old";
})();
