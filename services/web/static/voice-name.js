// @ts-check
/** What people call a voice. */

/** names of the embedded engine: language, sex, name */
const CODED = /^[abefhijpz][fm]_(.+)$/;

/** `zf_xiaobei` as people say it; names that people gave stay as they are. @param {string} voice */
export function voiceName(voice) {
  const name = CODED.exec(voice)?.[1];
  return name ? name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ") : voice;
}
