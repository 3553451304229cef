// @ts-check
/** The list of devices: those that wait first. */

import { deviceName } from "./devices-service.js";
import { lang, t } from "./i18n.js";
import { byId, label, make } from "./page.js";
import { shape } from "./shapes.js";

/** @typedef {import("./devices-service.js").Device} Device */

const BIN = "M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7M10.5 10.5v5.5M13.5 10.5v5.5";

export class DeviceRows {
  /** @param {{onUse: (device: Device) => void, onRevoke: (device: Device) => void}} options */
  constructor({ onUse, onRevoke }) {
    this._onUse = onUse;
    this._onRevoke = onRevoke;
    this._rows = byId("device-rows");
    this._shown = "";
  }

  /** @param {Device[]} devices */
  offer(devices) {
    const shown = JSON.stringify([lang(), devices]);
    if (shown === this._shown) return; // what is focused stays so
    this._shown = shown;
    const focused = document.activeElement;
    const { act = "", device = "" } = focused instanceof HTMLElement ? focused.dataset : {};
    const waiting = devices.filter(({ state }) => state === "waiting");
    const others = devices.filter(({ state }) => state !== "waiting");
    this._rows.replaceChildren(...[...waiting, ...others].map((each) => this._row(each)));
    const same = `[data-act="${act}"][data-device="${CSS.escape(device)}"]`;
    if (act) /** @type {HTMLElement | null} */ (this._rows.querySelector(same))?.focus();
  }

  /** @param {Device} device */
  _row(device) {
    const row = make("li", "voice-row");
    row.dataset.testid = "device-row";
    row.dataset.device = device.id;
    const words = make("div");
    const name = make("p", "name");
    name.append(make("b", "", deviceName(device)));
    if (device.state === "waiting") name.append(make("span", "tag", t("device_waits")));
    if (device.connected) name.append(make("span", "tag", t("device_connected")));
    words.append(name, make("p", "note", about(device)));
    row.append(words);
    if (device.code) {
      const use = make("button", "pill", t("device_code", { code: device.code }));
      use.type = "button";
      Object.assign(use.dataset, { testid: "device-use", act: "use", device: device.id });
      use.title = t("device_use", { name: deviceName(device) });
      use.addEventListener("click", () => this._onUse(device));
      row.append(use);
    }
    if (device.state !== "guest") row.append(this._bin(device));
    return row;
  }

  /** @param {Device} device */
  _bin(device) {
    const button = make("button", "icon-button");
    button.type = "button";
    Object.assign(button.dataset, { testid: "device-revoke", act: "revoke", device: device.id });
    label(button, t("device_revoke", { name: deviceName(device) }));
    const svg = shape("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" });
    svg.append(shape("path", { d: BIN }));
    button.append(svg);
    button.addEventListener("click", () => this._onRevoke(device));
    return button;
  }
}

/** What it is, and where it was. @param {Device} device */
function about({ id, name, board, firmware, address, replaces, seen }) {
  const locale = lang() === "zh" ? "zh-CN" : "en-GB";
  const day = seen ? new Date(seen).toLocaleDateString(locale, { dateStyle: "medium" }) : "";
  const parts = [
    name ? id : "",
    [board, firmware].filter(Boolean).join(" "),
    address ? t("device_from", { address }) : "",
    replaces ? t("device_replaces") : "",
    day ? t("device_seen", { day }) : "",
  ];
  return parts.filter(Boolean).join(" · ");
}
