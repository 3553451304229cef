# pyright: strict
"""The page that asks for the key: one document, served to who may not have anything else yet.

Its style and script stand inside of it, and its content security policy allows exactly these.
"""

from __future__ import annotations

import base64
import hashlib

_DARK = (
    "color-scheme:dark;--bg:#101514;--raised:#1c2523;--ink:#e8efec;--soft:#a9b8b1;--edge:#73827b;"
    "--its:#3ec7ae;--mine:#f39b52;--focus:#74ddc9;--alarm:#ffb4a9"
)

_STYLE = (
    """
:root{color-scheme:light;--bg:#fbfcfb;--raised:#fff;--ink:#14201c;--soft:#4f5f58;--edge:#7a8882;
--its:#0f8f7b;--mine:#f0883a;--focus:#0a6b5c;--alarm:#b3261e}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){DARK}}
:root[data-theme=dark]{DARK}
*{box-sizing:border-box}
::selection{background:color-mix(in srgb,var(--its) 30%,transparent)}
body{margin:0;min-height:100vh;min-height:100dvh;display:grid;grid-template-rows:auto 1fr;
background:var(--bg);color:var(--ink);font:400 16px/1.5 -apple-system,BlinkMacSystemFont,
"Segoe UI Variable","Segoe UI",Roboto,"Noto Sans","Source Sans 3","PingFang SC","HarmonyOS Sans SC",
"Microsoft YaHei","Noto Sans SC","Noto Sans CJK SC",sans-serif;-webkit-font-smoothing:antialiased}
header{display:flex;align-items:center;gap:10px;padding:6px 8px 6px 16px}
@media (min-width:900px){header{padding:14px 20px 14px 28px}}
header b{flex:1;font-size:17px;font-weight:650}
svg{display:block}
header svg{width:26px;height:26px}
.top{fill:var(--its)}.low{fill:var(--mine)}
main{align-self:center;justify-self:center;width:100%;max-width:408px;padding:24px 24px 12vh}
h1{margin:0 0 6px;font-size:28px;font-weight:600;line-height:1.25;text-wrap:balance}
:lang(en) h1{letter-spacing:-.02em}
p{margin:0;color:var(--soft);font-size:15px;text-wrap:pretty}
form{margin-top:28px}
label{display:block;margin-bottom:6px;color:var(--soft);font-size:13px}
.field{position:relative}
input,#button{width:100%;height:52px;border-radius:14px}
input{padding:0 56px 0 16px;border:1px solid var(--edge);background:var(--raised);font:inherit;
color:inherit;font-family:ui-monospace,Menlo,Consolas,monospace}
input[aria-invalid=true]{border:2px solid var(--alarm);padding-left:15px;--focus:var(--alarm)}
button{padding:0;border:0;background:none;color:var(--soft);font:inherit;font-size:14px;
font-weight:600;cursor:pointer}
#button{background:var(--ink);color:var(--bg);font-size:16px;font-weight:600}
#button:disabled{opacity:.5;cursor:default}
#lang,#show{display:grid;place-items:center;width:44px;height:44px;border-radius:12px}
#show{position:absolute;top:4px;right:4px}
#show svg{width:22px;height:22px;fill:none;stroke:currentcolor;stroke-width:1.75;
stroke-linecap:round;stroke-linejoin:round}
#show[aria-pressed=false] .slash{display:none}
@media (hover:hover){#lang:hover,#show:hover{
background:color-mix(in srgb,var(--ink) 7%,transparent);color:var(--ink)}}
:focus-visible{outline:2px solid var(--focus);outline-offset:2px}
#said{min-height:40px;padding:7px 0;color:var(--alarm)}
"""
).replace("DARK", _DARK)

_SCRIPT = """
(function () {
  "use strict";
  var root = document.documentElement;
  var kept = {};
  try {
    kept = JSON.parse(localStorage.getItem("duplexd") || "{}");
  } catch (error) {
    // storage is off: what the browser and the system prefer
  }
  if (kept.theme) root.dataset.theme = kept.theme;
  var browser = (navigator.language || "").toLowerCase().indexOf("zh") === 0 ? "zh" : "en";
  var all = {
    zh: {
      title: "输入访问密钥",
      text: "密钥在 duplexd 首次启动时显示。没有的话，请向部署者索取。",
      label: "访问密钥",
      button: "继续",
      show: "显示密钥",
      lang: "EN",
      lang_label: "Switch to English",
      wrong: "密钥不对，请检查后再试。",
      wait: "尝试次数过多，请过 {s} 秒再试。",
      away: "连不上 duplexd，请确认它还在运行。",
    },
    en: {
      title: "Enter the access key",
      text:
        "duplexd printed it at its first start. " +
        "If you don't have it, ask whoever runs duplexd.",
      label: "Access key",
      button: "Continue",
      show: "Show the key",
      lang: "中",
      lang_label: "切换到中文",
      wrong: "That key is wrong. Check it and try again.",
      wait: "Too many tries. Try again in {s}\u00a0s.",
      away: "duplexd cannot be reached. Check that it still runs.",
    },
  };
  var words;
  var byId = function (id) {
    return document.getElementById(id);
  };
  function name(element, text) {
    element.setAttribute("aria-label", text);
    element.title = text;
  }
  function speak() {
    words = all[(kept.lang || browser) === "zh" ? "zh" : "en"];
    root.lang = words === all.zh ? "zh-CN" : "en";
    ["title", "text", "label", "button", "lang"].forEach(function (id) {
      byId(id).textContent = words[id];
    });
    name(byId("lang"), words.lang_label);
    name(byId("show"), words.show);
  }
  function begin() {
    speak();
    var field = byId("key");
    var button = byId("button");
    var said = byId("said");
    var timer;
    function say(text, wrong) {
      said.textContent = text;
      field.setAttribute("aria-invalid", String(Boolean(wrong)));
      button.disabled = false;
    }
    function wait(seconds) {
      say(words.wait.replace("{s}", String(seconds)), false);
      button.disabled = seconds > 0;
      if (seconds > 0) timer = setTimeout(wait, 1000, seconds - 1);
      else said.textContent = "";
    }
    byId("lang").addEventListener("click", function () {
      kept.lang = words === all.zh ? "en" : "zh";
      try {
        localStorage.setItem("duplexd", JSON.stringify(kept));
      } catch (error) {
        // storage is off: it holds for this page
      }
      if (!button.disabled) say("", false);
      speak();
    });
    byId("show").addEventListener("click", function () {
      var shown = field.type === "text";
      field.type = shown ? "password" : "text";
      byId("show").setAttribute("aria-pressed", String(!shown));
    });
    byId("form").addEventListener("submit", function (event) {
      event.preventDefault();
      var key = field.value.trim();
      if (!key || button.disabled) return;
      clearTimeout(timer);
      button.disabled = true;
      fetch("/login", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ key: key }),
      }).then(
        function (response) {
          if (response.ok) {
            field.value = "";
            location.reload();
          } else if (response.status === 429) {
            wait(Math.max(1, parseInt(response.headers.get("Retry-After"), 10) || 5));
          } else if (response.status >= 500) {
            say(words.away, false);
          } else {
            say(words.wrong, true);
            field.select();
          }
        },
        function () {
          say(words.away, false);
        }
      );
    });
    if (/[?&]key=/.test(location.search)) {
      // a link with a key that does not hold brought us here; it is not to stay in the address
      history.replaceState(null, "", location.pathname);
      say(words.wrong, true);
    }
    field.focus();
  }
  document.addEventListener("DOMContentLoaded", begin);
})();
"""

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 64 64'%3E"
    "%3Cpath d='M6 29.5a26 26 0 0 1 52 0z' fill='%230f8f7b'/%3E"
    "%3Cpath d='M6 34.5a26 26 0 0 0 52 0z' fill='%23f0883a'/%3E%3C/svg%3E"
)

#: the page as UTF-8 HTML; it posts `{"key": ...}` to /login and, at 204, loads itself anew
KEY_PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>duplexd</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<link rel="icon" href="{_ICON}">
<style>{_STYLE}</style>
<script>{_SCRIPT}</script>
</head>
<body>
<header>
<svg viewBox="0 0 64 64" aria-hidden="true"><path class="top" d="M6 29.5a26 26 0 0 1 52 0z"/>
<path class="low" d="M6 34.5a26 26 0 0 0 52 0z"/></svg>
<b>duplexd</b>
<button id="lang" type="button"></button>
</header>
<main>
<h1 id="title">Enter the access key</h1>
<p id="text">duplexd printed it at its first start.</p>
<form id="form" method="post">
<label id="label" for="key">Access key</label>
<div class="field">
<input id="key" name="key" type="password" autocomplete="current-password" spellcheck="false"
autocapitalize="off" required aria-describedby="said">
<button id="show" type="button" aria-pressed="false" aria-controls="key">
<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12
18 18.5 12 18.5 2.5 12 2.5 12z"/><circle cx="12" cy="12" r="3"/>
<path class="slash" d="m4 4 16 16"/></svg>
</button>
</div>
<p id="said" role="alert"></p>
<button id="button" type="submit">Continue</button>
</form>
</main>
</body>
</html>
""".encode()


def _source(text: str) -> str:
    """The hash by which a policy names an inline style or script."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


#: the Content-Security-Policy to serve it with
KEY_PAGE_CSP = (
    f"default-src 'none'; style-src {_source(_STYLE)}; script-src {_source(_SCRIPT)}; "
    "img-src data:; connect-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
