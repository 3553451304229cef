// @ts-check
/**
 * Microphone and loudspeaker on one AudioContext, whose clock both ends of v2v are read from.
 */

import { RATE } from "./wire.js";

/** Failures by what the user can do about them. */
export class AudioFailure extends Error {
  /**
   * @param {"insecure" | "old-browser" | "unloaded" | "mic-denied" | "mic-missing" | "mic-busy"} code
   */
  constructor(code, cause = "") {
    super(`${code} ${cause}`.trim());
    this.code = code;
  }
}

/** Whether this browser can play and record here at all. @returns {"" | "insecure" | "old-browser"} */
export function unable() {
  if (!window.isSecureContext) return "insecure";
  return "AudioWorkletNode" in window && navigator.mediaDevices ? "" : "old-browser";
}

/**
 * @typedef {object} Wish the microphone that is wanted
 * @property {string} device its id; empty is the system's choice
 * @property {boolean} cancelEcho
 * @property {boolean} [plain] as it sounds, for a recording: neither cleaned nor made louder
 */

export class Sound {
  /**
   * @param {object} options
   * @param {(pcm: Int16Array, rms: number) => void} options.onFrame 20 ms of the microphone
   * @param {(event: Record<string, any>) => void} options.onPlayed see queue.js
   * @param {(rms: number) => void} options.onLevel loudness of what plays
   * @param {() => void} options.onMicrophoneLost
   */
  constructor({ onFrame, onPlayed, onLevel, onMicrophoneLost }) {
    this._onFrame = onFrame;
    this._onPlayed = onPlayed;
    this._onLevel = onLevel;
    this._onMicrophoneLost = onMicrophoneLost;
    /** @type {AudioContext | null} */
    this._context = null;
    /** @type {Promise<void> | null} */
    this._opening = null;
    /** @type {AudioWorkletNode | null} */
    this._playback = null;
    /** @type {AudioWorkletNode | null} */
    this._capture = null;
    /** @type {MediaStreamAudioSourceNode | null} */
    this._source = null;
    /** @type {MediaStream | null} */
    this._stream = null;
    this._muted = false;
    /** end of the user's voice, seconds on the context's clock @type {number | null} */
    this.voicedAt = null;
    this._wake = () => {
      if (document.visibilityState === "visible") void this._context?.resume().catch(() => {});
    };
  }

  /** Seconds on the clock of the audio. */
  get now() {
    return this._context ? this._context.currentTime : null;
  }

  get recording() {
    return this._stream !== null;
  }

  /** The microphone does not hear the loudspeaker, as it says itself. */
  get echoCancelled() {
    const [track] = this._stream?.getAudioTracks() ?? [];
    // "all" is the word of newer browsers; "remote-only" leaves in what a page like this one plays
    /** @type {unknown} */
    const said = track?.getSettings().echoCancellation;
    return said === true || said === "all";
  }

  /** Starts the loudspeaker; to be called from a click or a key. */
  async open() {
    const reason = unable();
    if (reason) throw new AudioFailure(reason);
    this._opening ??= this._open();
    await this._opening;
    await this._context?.resume();
  }

  async _open() {
    const context = makeContext();
    this._context = context;
    try {
      await Promise.all(
        ["playback-worklet.js", "microphone-worklet.js"].map((name) =>
          context.audioWorklet.addModule(new URL(name, import.meta.url)),
        ),
      );
    } catch (error) {
      if (this._context === context) await this.end(); // it may be there the next time
      throw new AudioFailure("unloaded", String(error));
    }
    if (this._context !== context) return; // it was ended meanwhile
    const playback = new AudioWorkletNode(context, "playback", {
      numberOfInputs: 0,
      outputChannelCount: [1],
    });
    playback.port.onmessage = ({ data }) => this._hear(data);
    playback.connect(context.destination);
    this._playback = playback;
    context.onstatechange = this._wake;
    document.addEventListener("visibilitychange", this._wake);
  }

  /**
   * Starts the microphone, after `open`.
   * @param {Wish} wish
   */
  async record(wish) {
    const context = this._context;
    this.stopRecording();
    const stream = await capture(wish);
    if (!context || this._context !== context) {
      stream.getTracks().forEach((each) => each.stop());
      return;
    }
    this._stream = stream;
    const [track] = stream.getAudioTracks();
    track.enabled = !this._muted;
    track.onended = () => {
      this.stopRecording();
      this._onMicrophoneLost();
    };
    this._source = context.createMediaStreamSource(stream);
    this._capture = new AudioWorkletNode(context, "microphone", { numberOfOutputs: 0 });
    this._capture.port.onmessage = ({ data }) => {
      if (this._muted || this._stream !== stream) return;
      this.voicedAt = data.voicedAt;
      this._onFrame(data.pcm, data.rms);
    };
    this._source.connect(this._capture);
  }

  /** The microphone ends; the loudspeaker stays. */
  stopRecording() {
    this._stream?.getTracks().forEach((track) => {
      track.onended = null;
      track.stop();
    });
    this._source?.disconnect();
    this._capture?.port.postMessage("end");
    this._stream = null;
    this._source = null;
    this._capture = null;
  }

  /** Muted, nothing is sent: the daemon counts it as silence. @param {boolean} muted */
  mute(muted) {
    this._muted = muted;
    this._stream?.getAudioTracks().forEach((track) => {
      track.enabled = !muted;
    });
  }

  /** @param {string} id @param {Int16Array} pcm */
  play(id, pcm) {
    this._playback?.port.postMessage({ type: "audio", id, pcm }, [pcm.buffer]);
  }

  /** @param {string} id */
  close(id) {
    this._playback?.port.postMessage({ type: "close", id });
  }

  flush() {
    this._playback?.port.postMessage({ type: "flush" });
  }

  pause() {
    this._playback?.port.postMessage({ type: "pause" });
  }

  resume() {
    this._playback?.port.postMessage({ type: "resume" });
  }

  /** Everything ends; `open` starts anew. */
  async end() {
    this.stopRecording();
    document.removeEventListener("visibilitychange", this._wake);
    const context = this._context;
    this._context = null;
    this._opening = null;
    this._playback = null;
    this.voicedAt = null;
    if (context) {
      context.onstatechange = null;
      await context.close();
    }
  }

  /** @param {Record<string, any>} event */
  _hear(event) {
    if (event.type === "level") {
      this._onLevel(event.rms);
      return;
    }
    // What the page hands over is heard so much later.
    const { outputLatency = 0, baseLatency = 0 } = this._context ?? {};
    if (event.type === "audible") event.at += outputLatency || baseLatency || 0;
    this._onPlayed(event);
  }
}

/** At the rate of the wire where the browser lets us; the worklets resample where not. */
function makeContext() {
  /** @type {AudioContextOptions} */
  const options = { latencyHint: "interactive" };
  // Firefox does not connect a microphone to a context of another rate.
  if (!navigator.userAgent.includes("Firefox/")) options.sampleRate = RATE;
  try {
    return new AudioContext(options);
  } catch {
    return new AudioContext();
  }
}

/** @param {Wish} wish */
async function capture({ device, cancelEcho, plain = false }) {
  const audio = {
    channelCount: 1,
    echoCancellation: cancelEcho,
    noiseSuppression: !plain,
    autoGainControl: !plain,
  };
  try {
    return await navigator.mediaDevices.getUserMedia({
      audio: device ? { ...audio, deviceId: { ideal: device } } : audio,
    });
  } catch (error) {
    const name = error instanceof Error ? error.name : "";
    if (name === "NotAllowedError" || name === "SecurityError") throw new AudioFailure("mic-denied");
    if (name === "NotFoundError" || name === "OverconstrainedError") {
      throw new AudioFailure("mic-missing");
    }
    throw new AudioFailure("mic-busy", name);
  }
}

/**
 * What the user has said of the microphone so far; where the browser does not tell, it will ask.
 * @param {() => void} [onChange] they have said something else
 * @returns {Promise<PermissionState>}
 */
export async function permission(onChange) {
  try {
    const name = /** @type {PermissionName} */ ("microphone");
    const status = await navigator.permissions.query({ name });
    if (onChange) status.onchange = onChange;
    return status.state;
  } catch {
    return "prompt";
  }
}

/** Microphones, once one was allowed. @returns {Promise<{id: string, label: string}[]>} */
export async function microphones() {
  const devices = (await navigator.mediaDevices?.enumerateDevices?.()) ?? [];
  return devices
    .filter(({ kind, deviceId, label }) => kind === "audioinput" && deviceId && label)
    .map(({ deviceId, label }) => ({ id: deviceId, label }));
}
