// @ts-check
/** Requests to the daemon, and what comes of them when they fail. */

/** What the daemon refused, or why it could not be asked. */
export class ServiceFailure extends Error {
  /**
   * @param {string} code the daemon's own, or "unreachable", "off", "key", "broken"
   * @param {string} [detail] what happened, for people
   * @param {string} [param] the field at fault
   */
  constructor(code, detail = "", param = "") {
    super(`${code} ${detail}`.trim());
    this.code = code;
    this.detail = detail;
    this.param = param;
  }
}

/**
 * @param {string} path
 * @param {RequestInit} options
 * @returns {Promise<Response>} a good one
 */
export async function ask(path, options) {
  const response = await fetch(path, options).catch(() => {
    throw new ServiceFailure("unreachable");
  });
  if (response.ok) return response;
  const { error = {} } = await response.json().catch(() => ({}));
  const { code, message, param } = error;
  if (response.status === 401) throw new ServiceFailure("key");
  if (code === "unknown_url") throw new ServiceFailure("off");
  throw new ServiceFailure(code ?? "failed", message ?? String(response.status), param ?? "");
}

/** @param {unknown} error @returns {boolean} the daemon does not serve that */
export const isOff = (error) => error instanceof ServiceFailure && error.code === "off";

/**
 * Says what is wrong.
 * @param {import("./notices.js").Notices} notices
 * @param {unknown} error
 * @param {() => void} again tries it again
 */
export function tell(notices, error, again) {
  const { code, detail } =
    error instanceof ServiceFailure ? error : { code: "failed", detail: String(error) };
  if (code === "key") {
    notices.show({ code, act: "act_reload", onAct: () => location.reload() });
  } else if (code === "unreachable") {
    notices.show({ code: "service-unreachable", act: "act_retry", onAct: again });
  } else if (code === "broken") notices.show({ code: "service-broken" });
  else notices.show({ code: "failed", detail: detail || code });
}
