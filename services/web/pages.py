# pyright: strict
"""The page that asks for the key: one document, served to who may not have anything else yet.

Its style and script stand inside of it, and its content security policy allows exactly these.
"""

from __future__ import annotations

import base64
import hashlib

_STYLE = """
:root{color-scheme:light;--bg:#fbfcfb;--raised:#fff;--ink:#14201c;--soft:#4f5f58;--line:#c9d3ce;
--its:#0f8f7b;--mine:#f0883a;--focus:#0a6b5c;--alarm:#b3261e}
@media (prefers-color-scheme:dark){:root{color-scheme:dark;--bg:#101514;--raised:#1c2523;
--ink:#e8efec;--soft:#a9b8b1;--line:#3b4844;--its:#3ec7ae;--mine:#f39b52;--focus:#74ddc9;
--alarm:#ffb4a9}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;min-height:100dvh;display:grid;place-items:center;padding:24px;
background:var(--bg);color:var(--ink);font:400 16px/1.5 -apple-system,BlinkMacSystemFont,
"Segoe UI Variable","Segoe UI",Roboto,"PingFang SC","HarmonyOS Sans SC","Microsoft YaHei",
"Noto Sans SC","Noto Sans CJK SC",sans-serif;-webkit-font-smoothing:antialiased}
main{width:100%;max-width:360px}
svg{display:block;width:72px;height:72px;margin-left:-7px}
.top{fill:var(--its)}.low{fill:var(--mine)}
h1{margin:20px 0 4px;font-size:28px;font-weight:600;letter-spacing:-.02em;line-height:1.25;
text-wrap:balance}
p{margin:0;color:var(--soft);font-size:15px}
form{margin-top:28px}
label{display:block;margin-bottom:6px;color:var(--soft);font-size:13px}
input,button{width:100%;height:52px;border-radius:14px;font:inherit;color:inherit}
input{padding:0 16px;border:1px solid var(--line);background:var(--raised);
font-family:ui-monospace,Menlo,Consolas,monospace}
input[aria-invalid=true]{border-color:var(--alarm)}
button{margin-top:12px;border:0;background:var(--ink);color:var(--bg);font-weight:600;
cursor:pointer}
button:disabled{opacity:.5;cursor:default}
:focus-visible{outline:2px solid var(--focus);outline-offset:2px}
#said{min-height:48px;padding-top:12px;color:var(--alarm)}
"""

_SCRIPT = """
(function () {
  "use strict";
  var zh = (navigator.language || "").toLowerCase().indexOf("zh") === 0;
  try {
    var kept = JSON.parse(localStorage.getItem("duplexd") || "{}");
    if (kept.lang) zh = kept.lang === "zh";
  } catch (error) {
    // storage is off: the browser's language
  }
  var words = zh
    ? {
        title: "输入访问密钥",
        text: "密钥在 duplexd 第一次启动时显示过，可以问问启动它的人。",
        label: "访问密钥",
        button: "继续",
        wrong: "密钥不对，请检查后再试。",
        wait: "试得太多了，请过 {s} 秒再试。",
        away: "连不上 duplexd，请确认它还在运行。",
      }
    : {
        title: "Enter the access key",
        text: "It was shown when duplexd was first started. Ask whoever runs it.",
        label: "Access key",
        button: "Continue",
        wrong: "That key is wrong. Check it and try again.",
        wait: "Too many tries. Try again in {s} s.",
        away: "duplexd cannot be reached. Check that it still runs.",
      };
  var byId = function (id) {
    return document.getElementById(id);
  };
  document.documentElement.lang = zh ? "zh-CN" : "en";
  ["title", "text", "label", "button"].forEach(function (name) {
    byId(name).textContent = words[name];
  });
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
  field.focus();
})();
"""

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 64 64'%3E"
    "%3Cpath d='M6 29.5a26 26 0 0 1 52 0z' fill='%230f8f7b'/%3E"
    "%3Cpath d='M6 34.5a26 26 0 0 0 52 0z' fill='%23f0883a'/%3E%3C/svg%3E"
)

_PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>duplexd</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<link rel="icon" href="{_ICON}">
<style>{_STYLE}</style>
</head>
<body>
<main>
<svg viewBox="0 0 64 64" aria-hidden="true"><path class="top" d="M6 29.5a26 26 0 0 1 52 0z"/>
<path class="low" d="M6 34.5a26 26 0 0 0 52 0z"/></svg>
<h1 id="title">Enter the access key</h1>
<p id="text">It was shown when duplexd was first started. Ask whoever runs it.</p>
<form id="form" method="post">
<label id="label" for="key">Access key</label>
<input id="key" name="key" type="password" autocomplete="current-password" spellcheck="false"
autocapitalize="off" required aria-describedby="said">
<button id="button" type="submit">Continue</button>
<p id="said" role="alert"></p>
</form>
</main>
<script>{_SCRIPT}</script>
</body>
</html>
"""


def _source(text: str) -> str:
    """The hash by which a policy names an inline style or script."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


#: the Content-Security-Policy to serve `key_page` with
KEY_PAGE_CSP = (
    f"default-src 'none'; style-src {_source(_STYLE)}; script-src {_source(_SCRIPT)}; "
    "img-src data:; connect-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)


def key_page() -> bytes:
    """The page as UTF-8 HTML; it posts `{"key": ...}` to /login and, at 204, loads itself anew."""
    return _PAGE.encode()
