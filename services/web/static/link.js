// @ts-check
/**
 * The connection to the daemon: opens, says why it cannot, and comes back by itself.
 *
 * A page is not told why a WebSocket was refused, so it asks /talk/status.json.
 */

import { Backoff } from "./backoff.js";

/** a handshake that takes longer has failed, milliseconds */
const HANDSHAKE_MS = 10_000;
/** a page that asks for the key is not loaded again and again, milliseconds */
const RELOAD_MS = 10_000;
/** where this tab keeps when it was */
const RELOADED = "duplexd-key";
/** more than that waits on the socket: audio would come too late to be of use, bytes */
const CONGESTED = 160_000;

/**
 * @typedef {object} Trouble
 * @property {"lost" | "full" | "warming" | "engine-failed" | "key" | "unreachable"} code
 * @property {number | null} retryS seconds until the next try; null: it is not tried again
 * @property {string} [detail]
 * @property {string[]} [waitingFor] engines that are not warm yet
 */

export class Link {
  /**
   * @param {object} options
   * @param {() => void} options.onOpen the session is there
   * @param {(event: Record<string, any>) => void} options.onEvent
   * @param {(trouble: Trouble) => void} options.onTrouble
   */
  constructor({ onOpen, onEvent, onTrouble }) {
    this._onOpen = onOpen;
    this._onEvent = onEvent;
    this._onTrouble = onTrouble;
    this._backoff = new Backoff();
    /** @type {WebSocket | null} */
    this._socket = null;
    this._welcome = false;
    /** @type {number | undefined} */
    this._timer = undefined;
  }

  /** Tries now. */
  connect() {
    this.end();
    const url = new URL("/v1/realtime?model=duplexd", location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url, ["realtime"]);
    this._socket = socket;
    this._timer = setTimeout(() => socket.close(), HANDSHAKE_MS);
    socket.onmessage = ({ data }) => this._take(socket, data);
    socket.onclose = () => {
      if (this._socket === socket) void this._closed();
    };
  }

  /** @param {object} event */
  send(event) {
    if (this._welcome && this._socket?.readyState === WebSocket.OPEN) {
      this._socket.send(JSON.stringify(event));
    }
  }

  /** The network takes less than is sent. */
  get congested() {
    return (this._socket?.bufferedAmount ?? 0) > CONGESTED;
  }

  /** Ends, without coming back. */
  end() {
    clearTimeout(this._timer);
    const socket = this._socket;
    this._socket = null;
    this._welcome = false;
    socket?.close(1000);
  }

  /** @param {WebSocket} socket @param {unknown} data */
  _take(socket, data) {
    if (this._socket !== socket || typeof data !== "string") return;
    const event = JSON.parse(data);
    if (event.type === "session.created") {
      clearTimeout(this._timer);
      this._welcome = true;
      this._backoff.reset();
      this._onOpen();
    }
    if (this._welcome) this._onEvent(event);
  }

  async _closed() {
    const was = this._welcome;
    const mine = this._socket;
    this._welcome = false;
    clearTimeout(this._timer);
    const trouble = await this._reason(was);
    if (this._socket !== mine) return; // somebody has tried anew meanwhile
    this._socket = null;
    if (trouble.retryS !== null) {
      this._timer = setTimeout(() => this.connect(), trouble.retryS * 1000);
    }
    this._onTrouble(trouble);
  }

  /** @param {boolean} was it had been open @returns {Promise<Trouble>} */
  async _reason(was) {
    let response;
    try {
      response = await fetch("/talk/status.json", { cache: "no-store" });
    } catch {
      return { code: was ? "lost" : "unreachable", retryS: this._backoff.next() };
    }
    if (response.status === 401) return { code: "key", retryS: null };
    const status = await response.json().catch(() => ({}));
    const asked = status.retry_after_s ?? Number(response.headers.get("Retry-After"));
    const retryS = Math.max(asked || 0, this._backoff.next());
    if (status.state === "full") return { code: "full", retryS };
    if (status.state === "warming") {
      return { code: "warming", retryS, waitingFor: status.waiting_for ?? [] };
    }
    if (status.state === "failed") {
      return { code: "engine-failed", retryS: null, detail: status.error ?? "" };
    }
    return { code: "lost", retryS };
  }
}

/**
 * The page that asks for the key takes this one's place, unless it just has.
 * @returns {boolean} it does
 */
export function reloadForKey() {
  const before = Number(sessionStorage.getItem(RELOADED) ?? 0);
  if (Date.now() - before < RELOAD_MS) return false;
  sessionStorage.setItem(RELOADED, String(Date.now()));
  location.reload();
  return true;
}
