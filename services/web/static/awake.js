// @ts-check
/** Keeps the screen of a phone on while a conversation runs. */

export class Awake {
  constructor() {
    this._wanted = false;
    /** @type {WakeLockSentinel | null} */
    this._lock = null;
    document.addEventListener("visibilitychange", () => void this._take());
  }

  /** @param {boolean} wanted */
  want(wanted) {
    if (wanted === this._wanted) return;
    this._wanted = wanted;
    if (wanted) void this._take();
    else void this._lock?.release().catch(() => {});
  }

  async _take() {
    if (!this._wanted || document.hidden || !navigator.wakeLock) return;
    try {
      this._lock = await navigator.wakeLock.request("screen");
      if (!this._wanted) await this._lock.release();
    } catch {
      // low battery: the screen may sleep
    }
  }
}
