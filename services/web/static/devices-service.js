// @ts-check
/** Xiaozhi devices, as the daemon knows them. */

import { ask } from "./service.js";

/**
 * @typedef {object} Device
 * @property {string} id its MAC address
 * @property {"known" | "waiting" | "guest"} state guest: the daemon asks for no tokens
 * @property {string} board empty where it never told
 * @property {string} firmware
 * @property {string} [name] of a known one, as people have named it
 * @property {string | null} [seen] when a known one was started last, ISO 8601
 * @property {boolean} [connected]
 * @property {string} [code] that a waiting one shows
 * @property {string} [address] where a waiting one comes from
 * @property {boolean} [replaces] a waiting one would take a known one's place
 *
 * @typedef {object} Listed
 * @property {boolean} tokens devices have to be let in
 * @property {Device[]} data
 */

/** @returns {Promise<Listed>} */
export async function list() {
  return (await ask("/v1/devices", { cache: "no-store" })).json();
}

/**
 * @param {{code: string, name: string}} wanted
 * @returns {Promise<Device>}
 */
export async function approve(wanted) {
  const response = await ask("/v1/devices/approve", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(wanted),
  });
  return response.json();
}

/** @param {string} id */
export async function revoke(id) {
  await ask(`/v1/devices/${encodeURIComponent(id)}`, { method: "DELETE" });
}

/** What people call a device. @param {Device} device */
export const deviceName = ({ name, id }) => name || id;
