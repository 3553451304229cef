// @ts-check
/** The talk page: puts the parts together, and decides what a click means. */

import { dress } from "./appearance.js";
import { Sound, unable } from "./audio.js";
import { Awake } from "./awake.js";
import { Choices } from "./choices.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { DevicesTab } from "./devices-tab.js";
import { loudness } from "./energy.js";
import { t } from "./i18n.js";
import { asData, asText, toFile } from "./keep.js";
import { listen } from "./keyboard.js";
import { v2v } from "./latency.js";
import { Link, reloadForKey } from "./link.js";
import { copyButton, saveMenu } from "./menu.js";
import { Microphone } from "./microphone.js";
import { Notices } from "./notices.js";
import { byId } from "./page.js";
import { load, save } from "./settings.js";
import { StageView } from "./stage-view.js";
import { Tabs } from "./tabs.js";
import { TimingView } from "./timing-view.js";
import { TranscriptView } from "./transcript-view.js";
import { VoicesTab } from "./voices-tab.js";
import { append, cancel, message, respond, update } from "./wire.js";

/** turns that a new connection is told of */
const REMEMBERED = 20;
/** refusals that only say that the daemon was faster */
const HARMLESS = new Set(["response_cancel_not_active", "item_not_found"]);
/** notices of a connection that there is not, or not yet */
const OFFLINE = ["full", "warming", "lost", "unreachable", "engine-failed"];

class App {
  constructor() {
    this.settings = load();
    /** @type {"idle" | "connecting" | "open" | "waiting" | "failed"} */
    this.link = "idle";
    /** the answer whose waterfall is shown; empty: none */
    this.chosen = "";
    /** the conversation before this one, while it can be brought back @type {Conversation | null} */
    this.before = null;
    /** text waits for the connection */
    this.waiting = false;

    this.stage = new StageView();
    this.notices = new Notices();
    this.awake = new Awake();
    this.transcriptView = new TranscriptView({
      onChip: (answer) => this.choose(answer),
      onTry: (text) => {
        this.composer.text = text;
        void this.write();
      },
    });
    this.timingView = new TimingView({
      onChoose: (answer) => this.choose(answer),
      onClose: () => this.fold(),
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
      onLevel: (rms) => this.stage.disc.answer(loudness(rms)),
      onMicrophoneLost: () => this.microphoneLost(),
    });
    this.microphone = new Microphone({
      sound: this.sound,
      onChange: () => this.show(),
      onPermitted: () => this.notices.hide("mic-denied"),
    });
    this.voices = new VoicesTab({
      device: () => this.settings.device,
      notices: this.notices,
      onVoices: () => void this.choices.load().then(() => this.configure()),
      onBusy: (busy) => this.yield(busy),
    });
    this.devices = new DevicesTab({ notices: this.notices });
    this.tabs = new Tabs({
      onShow: (tab) => {
        void this.voices.show(tab === "voices");
        void this.devices.show(tab === "devices");
      },
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
      onTheme: () => this.stage.disc.recolour(),
    });
    this.bind();
    this.show();
    this.showTimings();
    void this.choices.load();
    this.tabs.begin();
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
      onEntry: (entry, gone) => {
        this.forget();
        this.transcriptView.show(entry, gone);
      },
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
    byId("mute").addEventListener("click", () => this.microphone.toggle());
    byId("interrupt").addEventListener("click", () => this.interrupt());
    byId("clear").addEventListener("click", () => this.clear());
    copyButton(() => asText(this.conversation));
    saveMenu({
      onData: () => toFile(this.data(), "application/json", "json"),
      onText: () => toFile(asText(this.conversation), "text/markdown", "md"),
    });
    listen({
      onSpace: () => this.microphone.toggle(),
      onEscape: () => this.escape(),
      onText: () => this.toText(),
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
    const anew = this.link === "idle" || this.link === "failed";
    if (anew) this.link = "connecting";
    this.show();
    const outcome = await this.record();
    if (!anew || outcome === "ended" || this.link !== "connecting") return;
    if (outcome === "there" || this.waiting) {
      this.connect();
      return;
    }
    this.link = "idle";
    this.show();
    await this.sound.end();
  }

  async record() {
    const focused = document.activeElement?.id === "start";
    const outcome = await this.microphone.start(this.settings);
    if (outcome === "there") {
      // another one may hear the loudspeaker
      if (this.link === "open") this.configure();
      this.notices.hide("mic-denied", "mic-missing", "mic-busy", "mic-lost");
      void this.choices.devices();
    } else if (outcome === "refused") this.notices.show({ code: this.microphone.obstacle });
    // what was clicked is gone while the browser asks, and for good once it is there
    if (focused) byId(this.microphone.there ? "mute" : "start").focus();
    return outcome;
  }

  connect() {
    this.link = "connecting";
    this.show();
    this.socket.connect();
  }

  opened() {
    this.link = "open";
    if (!this.choices.loaded) void this.choices.load().then(() => this.configure());
    this.notices.hide(...OFFLINE, "key");
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
    const { echoCancelled } = this.sound;
    this.socket.send(update({ ...this.choices.session(), speak, echoCancelled }));
  }

  chose() {
    save(this.settings);
    this.configure();
  }

  async changeDevice() {
    save(this.settings);
    if (this.microphone.there) await this.record();
  }

  /** @param {import("./link.js").Trouble} trouble */
  trouble({ code, retryS, detail, waitingFor }) {
    this.conversation.lost();
    this.link = retryS === null ? "failed" : "waiting";
    const empty = !this.conversation.transcript.entries.length; // or it would be lost
    if (code === "key" && empty && reloadForKey()) return;
    const now = () => {
      this.notices.hide();
      this.connect();
    };
    const reload = code === "key";
    this.notices.show({
      code,
      retryS,
      detail: waitingFor?.join(t("comma")) ?? detail,
      act: reload ? "act_reload" : retryS === null ? "act_retry" : "act_now",
      onAct: reload ? () => location.reload() : now,
    });
    this.show();
  }

  /** Everything is closed. */
  async stop() {
    this.socket.end();
    this.conversation.lost();
    this.link = "idle";
    this.microphone.end();
    this.waiting = false;
    this.notices.hide(...OFFLINE);
    const focused = document.activeElement?.id === "stop";
    this.show();
    if (focused) byId("start").focus();
    await this.sound.end();
  }

  /** @param {Int16Array} pcm @param {number} rms */
  hear(pcm, rms) {
    if (this.microphone.state !== "on") return;
    this.stage.disc.microphone(loudness(rms));
    if (this.link === "open" && !this.socket.congested) this.socket.send(append(pcm));
  }

  microphoneLost() {
    this.microphone.end();
    this.notices.show({ code: "mic-lost" });
  }

  /** The other tab records or plays something: the conversation keeps still. @param {boolean} wanted */
  yield(wanted) {
    if (wanted) this.interrupt();
    this.microphone.hold(wanted);
  }

  interrupt() {
    if (!this.conversation.answering) return;
    this.socket.send(cancel());
    this.conversation.stopped();
  }

  /** To where one writes. */
  toText() {
    const { shown } = this.tabs;
    const where = { talk: this.composer, voices: this.voices, devices: this.devices }[shown];
    where.focus();
  }

  escape() {
    if (this.voices.stop()) return;
    if (this.conversation.answering) this.interrupt();
    else if (this.composer.focused) this.composer.blur();
    else this.fold();
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
    const { hearing, thinking, playing, paused, answering } = this.conversation;
    const { link } = this;
    const { state: microphone, obstacle } = this.microphone;
    const facts = { link, microphone, hearing, thinking, playing, paused };
    this.stage.show(facts, { obstacle, answering });
    this.awake.want(link === "open");
  }

  /** @param {import("./latency.js").Timing} timing */
  timed(timing) {
    this.transcriptView.chip(timing.id, v2v(timing));
    this.showTimings();
  }

  /** Shows the waterfall of an answer, or no more. @param {string} answer */
  choose(answer) {
    this.chosen = this.chosen === answer ? "" : answer;
    this.showTimings();
    if (!this.chosen) return;
    this.transcriptView.reveal(this.chosen);
    // on a phone the bar that was pressed is gone
    if (document.activeElement === document.body) this.transcriptView.focusChip(this.chosen);
  }

  /** Closes the waterfall. */
  fold() {
    if (!this.chosen) return;
    this.transcriptView.focusChip(this.chosen);
    this.chosen = "";
    this.showTimings();
  }

  showTimings() {
    this.timingView.show(this.conversation.timings, this.chosen);
    this.transcriptView.unfold(this.chosen, this.timingView.waterfall);
  }

  translate() {
    this.notices.translate();
    this.choices.show();
    this.voices.translate();
    this.devices.translate();
    this.transcriptView.translate(this.conversation.transcript.entries);
    this.show();
    this.showTimings();
    if (this.link === "open") this.configure();
  }

  /** A new conversation; the one before can be brought back until something is said. */
  clear() {
    this.conversation.lost();
    this.before = this.conversation;
    this.become(this.newConversation());
    this.notices.show({ code: "cleared", act: "act_undo", onAct: () => this.undo() });
    byId("notice-act").focus(); // what was clicked is gone
  }

  undo() {
    const { before } = this;
    if (!before) return;
    this.conversation.lost();
    this.forget();
    this.become(before);
    for (const entry of before.transcript.entries) this.transcriptView.show(entry, false);
    for (const timing of before.timings.turns) this.transcriptView.chip(timing.id, v2v(timing));
  }

  /** What was before cannot be brought back any more. */
  forget() {
    this.before = null;
    this.notices.hide("cleared");
  }

  /** @param {Conversation} conversation takes the place of the one that is shown */
  become(conversation) {
    const live = this.link === "open";
    this.conversation = conversation;
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
}

new App();
