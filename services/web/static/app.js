// @ts-check
/** The talk page: puts the parts together, and decides what a click means. */

import { dress } from "./appearance.js";
import { AudioFailure, Sound, unable } from "./audio.js";
import { Awake } from "./awake.js";
import { Choices } from "./choices.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { Disc } from "./disc.js";
import { loudness } from "./energy.js";
import { t } from "./i18n.js";
import { asData, asText, toClipboard, toFile } from "./keep.js";
import { listen } from "./keyboard.js";
import { v2v } from "./latency.js";
import { Link } from "./link.js";
import { saveMenu } from "./menu.js";
import { Notices } from "./notices.js";
import { byId, yes } from "./page.js";
import { load, save } from "./settings.js";
import { stateOf } from "./state.js";
import { TimingView } from "./timing-view.js";
import { TranscriptView } from "./transcript-view.js";
import { append, cancel, message, respond, update } from "./wire.js";

/** turns that a new connection is told of */
const REMEMBERED = 20;
/** refusals that only say that the daemon was faster */
const HARMLESS = new Set(["response_cancel_not_active", "item_not_found"]);

class App {
  constructor() {
    this.settings = load();
    /** @type {"idle" | "connecting" | "open" | "waiting" | "failed"} */
    this.link = "idle";
    /** @type {"off" | "on" | "muted"} */
    this.microphone = "off";
    /** the answer whose waterfall is shown; "" follows the newest once one was chosen */
    this.chosen = "";
    /** text waits for the connection */
    this.waiting = false;

    this.disc = new Disc(byId("disc"));
    this.notices = new Notices();
    this.awake = new Awake();
    this.transcriptView = new TranscriptView({ onChip: (answer) => this.choose(answer, true) });
    this.timingView = new TimingView({
      onChoose: (answer) => this.choose(answer, false),
      onClose: () => this.choose("", false),
    });
    this.composer = new Composer({ onSend: () => void this.write() });
    this.choices = new Choices({
      settings: this.settings,
      onChoice: () => this.chose(),
      onDevice: () => void this.changeDevice(),
    });
    this.sound = new Sound({
      onFrame: (pcm, rms) => this.hear(pcm, rms),
      onPlayed: (event) => this.conversation.played(event),
      onLevel: (rms) => this.disc.answer(loudness(rms)),
      onMicrophoneLost: () => this.microphoneLost(),
    });
    this.conversation = this.newConversation();
    this.socket = new Link({
      onOpen: () => this.opened(),
      onEvent: (event) => this.conversation.take(event),
      onTrouble: (trouble) => this.trouble(trouble),
    });
    dress({
      settings: this.settings,
      onChange: () => save(this.settings),
      onLang: () => this.translate(),
      onTheme: () => this.disc.recolour(),
    });
    this.disc.recolour();
    this.bind();
    this.show();
    this.showTimings();
    void this.choices.load();
  }

  newConversation() {
    return new Conversation({
      send: (event) => this.socket.send(event),
      speaker: this.sound,
      clocks: {
        now: () => this.now,
        voicedAt: () => this.sound.voicedAt,
      },
      onChange: () => this.show(),
      onEntry: (entry, gone) => this.transcriptView.show(entry, gone),
      onTiming: (timing) => this.timed(timing),
      onError: ({ code, message: detail }) => {
        if (!HARMLESS.has(code)) this.notices.show({ code: "failed", detail });
      },
    });
  }

  /** Seconds on the clock of the audio, or on the page's where there is none. */
  get now() {
    return this.sound.now ?? performance.now() / 1000;
  }

  bind() {
    byId("start").addEventListener("click", () => void this.start());
    byId("stop").addEventListener("click", () => void this.stop());
    byId("mute").addEventListener("click", () => void this.toggleMicrophone());
    byId("interrupt").addEventListener("click", () => this.interrupt());
    byId("clear").addEventListener("click", () => this.clear());
    byId("copy").addEventListener("click", () => void this.copy());
    saveMenu({
      onData: () => toFile(this.data(), "application/json", "json"),
      onText: () => toFile(asText(this.conversation), "text/markdown", "md"),
    });
    for (const button of document.querySelectorAll(".try")) {
      button.addEventListener("click", () => {
        this.composer.text = button.textContent ?? "";
        void this.write();
      });
    }
    listen({
      onSpace: () => {
        if (this.microphone === "off") return false;
        void this.toggleMicrophone();
        return true;
      },
      onEscape: () => this.escape(),
      onText: () => this.composer.focus(),
    });
    window.addEventListener("pagehide", () => this.socket.end());
    window.addEventListener("pageshow", (event) => {
      if (event.persisted && this.link === "open") this.connect();
    });
    window.addEventListener("online", () => {
      if (this.link === "waiting") this.connect();
    });
  }

  // --- talking -------------------------------------------------------------------------------------
  /** Microphone and connection, from a click. */
  async start() {
    this.notices.hide();
    if (this.link === "open") {
      await this.record();
      return;
    }
    this.link = "connecting";
    this.show();
    if (!(await this.record())) {
      if (this.link === "connecting") await this.stop();
      return;
    }
    if (this.link === "connecting") this.connect();
  }

  /** @returns {Promise<boolean>} the microphone is on */
  async record() {
    try {
      await this.sound.open();
      await this.sound.record(this.settings.device);
    } catch (error) {
      if (!this.sound.recording) this.microphone = "off";
      this.show();
      const code = error instanceof AudioFailure ? error.code : "mic-busy";
      const retry = code.startsWith("mic-");
      this.notices.show({
        code,
        act: retry ? "act_retry" : undefined,
        onAct: () => {
          this.notices.hide();
          void this.start();
        },
      });
      return false;
    }
    const focused = document.activeElement?.id === "start";
    if (!this.sound.recording) return false; // it was ended meanwhile
    if (this.microphone === "off") this.microphone = "on";
    this.sound.mute(this.microphone === "muted");
    this.notices.hide("mic-denied", "mic-missing", "mic-busy", "mic-lost");
    void this.choices.devices();
    this.show();
    if (focused) byId("mute").focus(); // what was clicked is gone
    return true;
  }

  connect() {
    this.link = "connecting";
    this.show();
    this.socket.connect();
  }

  opened() {
    this.link = "open";
    this.notices.hide("full", "warming", "lost", "unreachable", "engine-failed", "key");
    this.configure();
    for (const { role, text } of this.conversation.transcript.memory(REMEMBERED)) {
      this.socket.send(message(role, text));
    }
    this.show();
    if (this.waiting) void this.write();
  }

  /** Tells the daemon what was chosen. */
  configure() {
    const speak = this.settings.speak && !unable();
    this.socket.send(update({ ...this.choices.session(), speak }));
  }

  chose() {
    save(this.settings);
    this.configure();
  }

  async changeDevice() {
    save(this.settings);
    if (this.microphone !== "off") await this.record();
  }

  /** @param {import("./link.js").Trouble} trouble */
  trouble({ code, retryS, detail }) {
    this.conversation.lost();
    this.link = retryS === null ? "failed" : "waiting";
    if (code === "key" && this.reloadForKey()) return;
    const now = () => {
      this.notices.hide();
      this.connect();
    };
    const reload = code === "key";
    this.notices.show({
      code,
      retryS,
      detail,
      act: reload ? "act_reload" : retryS === null ? "act_retry" : "act_now",
      onAct: reload ? () => location.reload() : now,
    });
    this.show();
  }

  /** The page that asks for the key takes this one's place, unless something would be lost. */
  reloadForKey() {
    const before = Number(sessionStorage.getItem("duplexd-key") ?? 0);
    if (this.conversation.transcript.entries.length || Date.now() - before < 10_000) return false;
    sessionStorage.setItem("duplexd-key", String(Date.now()));
    location.reload();
    return true;
  }

  /** Everything is closed. */
  async stop() {
    this.socket.end();
    this.conversation.lost();
    this.link = "idle";
    this.microphone = "off";
    this.waiting = false;
    this.notices.hide("full", "warming", "lost", "unreachable", "engine-failed");
    const focused = document.activeElement?.id === "stop";
    this.show();
    if (focused) byId("start").focus();
    await this.sound.end();
  }

  /** @param {Int16Array} pcm @param {number} rms */
  hear(pcm, rms) {
    if (this.microphone !== "on") return;
    this.disc.microphone(loudness(rms));
    if (this.link === "open" && !this.socket.congested) this.socket.send(append(pcm));
  }

  async toggleMicrophone() {
    if (this.microphone === "off") return;
    this.microphone = this.microphone === "on" ? "muted" : "on";
    this.sound.mute(this.microphone === "muted");
    this.show();
  }

  microphoneLost() {
    this.microphone = "off";
    this.notices.show({
      code: "mic-lost",
      act: "act_retry",
      onAct: () => void this.start(),
    });
    this.show();
  }

  interrupt() {
    if (!this.conversation.answering) return;
    this.socket.send(cancel());
    this.conversation.stopped();
  }

  escape() {
    if (this.timingView.isOpen) this.timingView.open(false);
    else if (this.conversation.answering) this.interrupt();
    else if (this.composer.focused) this.composer.blur();
  }

  /** Sends what was typed; without a connection, as soon as there is one. */
  async write() {
    const { text } = this.composer;
    if (!text) return;
    if (this.link !== "open") {
      this.waiting = true;
      if (this.link === "connecting") return;
      this.notices.hide();
      await this.sound.open().catch(() => {}); // then answers are read
      this.connect();
      return;
    }
    this.waiting = false;
    this.composer.text = "";
    this.conversation.silence();
    this.conversation.wrote(text);
    this.socket.send(message("user", text));
    this.socket.send(respond());
  }

  // --- the page ------------------------------------------------------------------------------------
  show() {
    const { hearing, thinking, playing, paused } = this.conversation;
    const { link, microphone } = this;
    const state = stateOf({ link, microphone, hearing, thinking, playing, paused });
    const { dataset } = document.body;
    this.disc.show(state);
    dataset.state = state;
    dataset.live = yes(link !== "idle");
    dataset.microphone = microphone;
    byId("start-word").textContent = t(link === "idle" ? "start" : "microphone_on");
    this.awake.want(link === "open");
    const word = t(`state_${state}`);
    const status = byId("status");
    if (status.textContent !== word) status.textContent = word;
    const silent = state === "speaking" && microphone !== "on";
    byId("hint").textContent = t(silent ? "hint_speaking_silent" : `hint_${state}`);
    const mute = byId("mute");
    const off = microphone !== "on";
    mute.setAttribute("aria-pressed", String(off));
    mute.setAttribute("aria-label", t(off ? "unmute" : "mute_label"));
    byId("mute-word").textContent = t(off ? "unmute" : "mute");
    /** @type {HTMLButtonElement} */ (byId("interrupt")).disabled = !this.conversation.answering;
  }

  /** @param {import("./latency.js").Timing} timing */
  timed(timing) {
    this.transcriptView.chip(timing.id, v2v(timing), timing.number);
    this.showTimings();
  }

  /** @param {string} answer @param {boolean} sheet */
  choose(answer, sheet) {
    this.chosen = this.chosen === answer && !this.timingView.isSheet ? "" : answer;
    if (sheet) this.timingView.open(true);
    this.showTimings();
  }

  showTimings() {
    this.timingView.show(this.conversation.timings, this.chosen);
    this.transcriptView.press(this.chosen);
    document.body.dataset.detail = yes(Boolean(this.chosen));
  }

  translate() {
    this.notices.translate();
    this.choices.show();
    this.transcriptView.translate(this.conversation.transcript.entries);
    this.show();
    this.showTimings();
    if (this.link === "open") this.configure();
  }

  clear() {
    const live = this.link === "open";
    this.conversation.lost();
    this.conversation = this.newConversation();
    this.chosen = "";
    this.transcriptView.clear();
    this.showTimings();
    if (live) this.connect();
    else this.show();
  }

  data() {
    const { voice } = this.choices.session();
    const { version } = this.choices.about;
    return asData(this.conversation, { duplexd: version, voice, persona: this.settings.persona });
  }

  async copy() {
    await toClipboard(asText(this.conversation));
    const button = byId("copy");
    button.textContent = t("copied");
    byId("announcer").textContent = t("copied");
    setTimeout(() => {
      button.textContent = t("copy");
    }, 1500);
  }
}

new App();
