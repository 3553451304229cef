// @ts-check
/** The tab of the voices: lists, makes and deletes them, and has texts spoken in them. */

import { AudioFailure, Sound } from "./audio.js";
import { t } from "./i18n.js";
import { byId, put } from "./page.js";
import { Player } from "./player.js";
import { sure } from "./question.js";
import { Reference } from "./reference.js";
import { SpeakForm } from "./speak-form.js";
import { ServiceFailure, isOff, tell } from "./service.js";
import * as service from "./speech-service.js";
import { RECORDING, VoiceForm } from "./voice-form.js";
import { VoiceRows } from "./voice-rows.js";

/** refusals of a registration that have words of ours; of others, the service's are shown */
const KNOWN = new Set(["voice_exists", "body_too_large", "at_capacity", "not_ready"]);
/** notices of this tab, which the next try makes old */
const TOLD = [
  ...["service-unreachable", "service-broken", "failed"],
  ...["mic-denied", "mic-missing", "mic-busy", "insecure", "old-browser", "unloaded"],
];

export class VoicesTab {
  /**
   * @param {object} options
   * @param {() => string} options.device the microphone that is chosen
   * @param {import("./notices.js").Notices} options.notices
   * @param {() => void} options.onVoices there are others than before
   * @param {(busy: boolean) => void} options.onBusy something is recorded or sounds here
   */
  constructor({ device, notices, onVoices, onBusy }) {
    this._device = device;
    this._notices = notices;
    this._onVoices = onVoices;
    this._onBusy = onBusy;
    this._busy = false;
    /** @type {service.Listed | null} */
    this._listed = null;
    this._sound = new Sound({
      onFrame: (pcm, rms) => this._reference.hear(pcm, rms),
      onPlayed: (event) => this._player.played(event),
      onLevel: () => {},
      onMicrophoneLost: () => this._reference.stop(),
    });
    this._player = new Player({
      sound: this._sound,
      onChange: () => this._show(),
      onFailure: (error) => this._failed(error),
    });
    this._reference = new Reference({ sound: this._sound, onChange: () => this._show() });
    this._rows = new VoiceRows({
      onListen: (voice) => this._listen(voice),
      onDelete: (voice) => void this._delete(voice),
    });
    this._speak = new SpeakForm({
      onSpeak: (voice) => this._say(voice),
      onStop: () => this._player.stop(),
    });
    this._form = new VoiceForm({
      reference: this._reference,
      onRecord: () => void this._record(),
      onPlay: () => this._play(),
      onMake: (wanted) => void this._make(wanted),
    });
    this._form.offer(false, false);
  }

  /** @param {boolean} shown the tab is in front */
  async show(shown) {
    if (shown) {
      await this._load();
      return;
    }
    this.stop();
    await this._sound.end();
  }

  /** To where one writes. */
  focus() {
    this._speak.focus();
  }

  /** Ends what sounds or is recorded. @returns {boolean} there was something */
  stop() {
    const busy = this._busy;
    this._reference.stop();
    this._player.stop();
    return busy;
  }

  /** In another language. */
  translate() {
    this._offer();
    this._form.blame();
  }

  async _load() {
    try {
      this._listed = await service.list();
      byId("voices-off").hidden = true;
      this._notices.hide("service-unreachable");
    } catch (error) {
      byId("voices-off").hidden = !isOff(error);
      if (!isOff(error)) this._failed(error);
    }
    this._offer();
  }

  _offer() {
    const { voices, cloning } = this._listed ?? { voices: [], cloning: false };
    for (const id of ["say", "clone", "list"]) byId(id).hidden = this._listed === null;
    this._speak.offer(voices);
    this._rows.offer(voices);
    this._form.offer(cloning, this._listed !== null);
    this._show();
  }

  _show() {
    const { source, figures } = this._player;
    const voice = source === RECORDING ? null : source;
    this._speak.show(voice !== null, figures);
    this._rows.show(voice);
    this._form.show(source);
    const { state } = this._reference;
    const busy = source !== null || state === "recording" || state === "asking";
    if (busy === this._busy) return;
    this._busy = busy;
    this._onBusy(busy);
  }

  // --- speaking ------------------------------------------------------------------------------------
  /** @param {string} voice */
  _say(voice) {
    this._reference.stop();
    this._notices.hide(...TOLD);
    void this._player.speak(voice, this._speak.text);
  }

  /** From the list. @param {string} voice */
  _listen(voice) {
    if (this._player.source === voice) {
      this._player.stop();
      return;
    }
    this._speak.voice = voice;
    this._say(voice);
  }

  // --- voices --------------------------------------------------------------------------------------
  async _record() {
    if (this._reference.state === "recording") {
      this._reference.stop();
      return;
    }
    this._player.stop();
    this._notices.hide(...TOLD);
    this._form.blame();
    await this._reference.record(this._device()).catch((error) => this._failed(error));
  }

  /** The recording, or no more. */
  _play() {
    const { pcm } = this._reference.taken ?? {};
    if (this._player.source === RECORDING) this._player.stop();
    else if (pcm) void this._player.play(RECORDING, pcm);
  }

  /** @param {import("./voice-form.js").Wanted} wanted */
  async _make(wanted) {
    this._player.stop();
    this._form.busy = true;
    const made = await service.register(wanted).catch((error) => error);
    this._form.busy = false;
    if (made instanceof Error) {
      this._refused(made);
      return;
    }
    this._form.clear();
    this._said("voice_made", made.id);
    await this._load();
    this._speak.voice = made.id;
    this._rows.focus(made.id);
    this._onVoices();
  }

  /** What the service says of a registration belongs to the form. @param {unknown} error */
  _refused(error) {
    const { code = "", detail = "", param = "" } =
      error instanceof ServiceFailure ? error : {};
    if (KNOWN.has(code)) this._form.blame(param, t(`clone_${code}`));
    else if (detail) this._form.blame(param || (code === "bad_audio" ? "audio" : ""), detail);
    else this._failed(error);
  }

  /** @param {string} voice */
  async _delete(voice) {
    const what = t("delete_what", { name: voice });
    if (!(await sure({ what, more: t("delete_more"), act: t("delete_act") }))) return;
    if (this._player.source === voice) this._player.stop();
    try {
      await service.remove(voice);
      this._said("voice_gone", voice);
    } catch (error) {
      this._failed(error);
    }
    await this._load();
    if (document.activeElement === document.body) byId("list-title").focus(); // its row is gone
    this._onVoices();
  }

  /** Says what was done. @param {string} key @param {string} name */
  _said(key, name) {
    put("announcer", t(key, { name }));
  }

  /** @param {unknown} error */
  _failed(error) {
    if (error instanceof AudioFailure) this._notices.show({ code: error.code });
    else tell(this._notices, error, () => void this._load());
  }
}
