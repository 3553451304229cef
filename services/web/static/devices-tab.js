// @ts-check
/** The tab of the devices: shows who may connect and who waits, lets them in, and takes it back. */

import { DeviceRows } from "./device-rows.js";
import * as service from "./devices-service.js";
import { t } from "./i18n.js";
import { byId, put } from "./page.js";
import { sure } from "./question.js";
import { ServiceFailure, isOff, tell } from "./service.js";

/** how often the list is looked at while it is shown: a device that boots appears by itself */
const LOOK_MS = 5000;
/** notices of this tab, which the next try makes old */
const TOLD = ["service-unreachable", "failed"];

export class DevicesTab {
  /** @param {{notices: import("./notices.js").Notices}} options */
  constructor({ notices }) {
    this._notices = notices;
    /** @type {service.Listed | null} */
    this._listed = null;
    /** @type {number | undefined} */
    this._timer = undefined;
    this._asked = 0; // lists that were asked for
    this._code = /** @type {HTMLInputElement} */ (byId("admit-code"));
    this._name = /** @type {HTMLInputElement} */ (byId("admit-name"));
    this._go = /** @type {HTMLButtonElement} */ (byId("admit-go"));
    this._rows = new DeviceRows({
      onUse: (device) => this._use(device),
      onRevoke: (device) => void this._revoke(device),
    });
    byId("admit").addEventListener("submit", (event) => {
      event.preventDefault();
      void this._admit();
    });
    this._code.addEventListener("input", () => this._blame(""));
  }

  /** @param {boolean} shown the tab is in front */
  async show(shown) {
    clearInterval(this._timer);
    if (!shown) return;
    this._timer = setInterval(() => document.hidden || void this._load(), LOOK_MS);
    await this._load();
  }

  /** To where one writes. */
  focus() {
    this._code.focus();
  }

  /** In another language. */
  translate() {
    this._blame("");
    this._offer();
  }

  async _load() {
    const asked = ++this._asked;
    try {
      const listed = await service.list();
      if (asked !== this._asked) return; // a newer one was asked for
      this._listed = listed;
      byId("devices-off").hidden = true;
      this._notices.hide(...TOLD);
    } catch (error) {
      if (asked !== this._asked) return;
      byId("devices-off").hidden = !isOff(error);
      if (isOff(error)) clearInterval(this._timer);
      else tell(this._notices, error, () => void this._load());
    }
    this._offer();
  }

  _offer() {
    const { tokens, data } = this._listed ?? { tokens: true, data: [] };
    byId("admit").hidden = this._listed === null || !tokens;
    byId("devices-open").hidden = tokens;
    byId("device-list").hidden = this._listed === null;
    byId("devices-none").hidden = data.length > 0;
    put("devices-none", t("devices_none", { url: `${location.origin}/xiaozhi/ota/` }));
    this._rows.offer(data);
  }

  /** Its code is what is let in next; the name may follow. @param {service.Device} device */
  _use(device) {
    this._blame("");
    this._code.value = device.code ?? "";
    this._name.focus();
  }

  async _admit() {
    const code = this._code.value.trim();
    if (!code) {
      this._blame(t("admit_needs_code"));
      return;
    }
    this._go.disabled = true;
    try {
      const device = await service.approve({ code, name: this._name.value.trim() });
      this._code.value = this._name.value = "";
      this._blame("");
      put("announcer", t("admitted", { name: service.deviceName(device) }));
    } catch (error) {
      const { code: why = "", detail = "" } = error instanceof ServiceFailure ? error : {};
      if (why === "no_such_device") this._blame(t("admit_no_such_device"));
      else if (why === "bad_request") this._blame(detail);
      else tell(this._notices, error, () => void this._admit());
      return;
    } finally {
      this._go.disabled = false;
    }
    await this._load();
  }

  /** @param {service.Device} device */
  async _revoke(device) {
    const name = service.deviceName(device);
    const words = { what: t("revoke_what", { name }), more: t("revoke_more"), act: t("revoke_act") };
    if (!(await sure(words))) return;
    try {
      await service.revoke(device.id);
      put("announcer", t("device_gone", { name }));
    } catch (error) {
      tell(this._notices, error, () => void this._load());
    }
    await this._load();
    if (document.activeElement === document.body) byId("devices-title").focus(); // its row is gone
  }

  /** Says what is wrong with the code. @param {string} text */
  _blame(text) {
    put("admit-error", text);
    this._code.setAttribute("aria-invalid", String(Boolean(text)));
  }
}
