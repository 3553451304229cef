// Before the first paint: the theme that was chosen, and word to browsers without modules.
(function () {
  var root = document.documentElement;
  var kept = {};
  try {
    kept = JSON.parse(localStorage.getItem("duplexd") || "{}");
  } catch (error) {
    kept = {};
  }
  if (kept.theme) root.dataset.theme = kept.theme;
  if (!("noModule" in document.createElement("script"))) root.className = "old";
})();
