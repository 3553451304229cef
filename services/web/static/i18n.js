// @ts-check
/** Every word of the page, in both languages. */

/** @typedef {"zh" | "en"} Lang */

/** @type {Record<string, [zh: string, en: string]>} */
const TEXTS = {
  start: ["开始对话", "Start talking"],
  stop: ["结束", "End"],
  stop_label: ["结束对话", "End the conversation"],
  mute: ["静音", "Mute"],
  mute_label: ["关闭麦克风（空格键）", "Mute the microphone (space)"],
  unmute: ["取消静音", "Unmute"],
  interrupt: ["打断", "Stop answer"],
  interrupt_label: ["停止当前回答（Esc）", "Stop the answer (Escape)"],
  microphone_on: ["打开麦克风", "Use microphone"],
  placeholder: ["也可以打字…", "Or type here…"],
  send: ["发送", "Send"],
  persona: ["角色", "Persona"],
  voice: ["声音", "Voice"],
  device: ["麦克风", "Microphone"],
  device_default: ["系统默认", "System default"],
  speak: ["朗读回答", "Speak answers"],
  settings: ["设置", "Settings"],
  copy: ["复制", "Copy"],
  copied: ["已复制", "Copied"],
  save: ["保存", "Save"],
  save_json: ["数据 (.json)", "Data (.json)"],
  save_md: ["文字 (.md)", "Text (.md)"],
  clear: ["新对话", "New"],
  lang: ["Switch to English", "切换到中文"],
  lang_short: ["EN", "中"],
  theme_light: ["切换到浅色", "Light theme"],
  theme_dark: ["切换到深色", "Dark theme"],
  conversation: ["对话", "Conversation"],
  you: ["你", "You"],
  assistant: ["助手", "Assistant"],
  latest: ["回到最新", "Latest"],
  empty_title: ["说点什么，随时可以打断", "Say something. Interrupt any time."],
  empty_text: [
    "它在说话的时候也在听你。你打断时，它只记得你真正听到的部分。",
    "It hears you even while it talks. Cut in, and it remembers only what you heard.",
  ],
  try_1: ["为什么天空是蓝色的？", "Why is the sky blue?"],
  try_2: ["给我讲个三句话的故事", "Tell me a story in three sentences"],
  try_3: ["教我一句英语问候", "Teach me a greeting in Chinese"],
  not_understood: ["没有听清", "Not understood"],
  cut_label: ["没有听到的部分：", "Not heard: "],
  timing: ["响应时间", "Response time"],
  timing_of: ["第 {n} 轮", "Turn {n}"],
  timing_hint: [
    "从你说完最后一个音，到听见回答的第一个音",
    "From your last sound to the first sound of the answer",
  ],
  timing_typed: ["从发送到听见回答的第一个音", "From sending to the first sound of the answer"],
  timing_none: ["还没有数据：说一句话试试", "Nothing measured yet: say something"],
  timing_open: ["这一轮的响应时间：{ms}", "Response time of this turn: {ms}"],
  timing_wait: ["明细会在回答结束后给出", "The parts follow when the answer is over"],
  timing_server: ["服务端 {ms}", "Daemon {ms}"],
  timing_work: ["同时进行，不计入：{list}", "Done meanwhile, not counted: {list}"],
  timing_underruns: ["音频断流 {n} 次", "Audio ran dry {n} times"],
  timing_underruns_1: ["音频断流 1 次", "Audio ran dry once"],
  turns: ["{n} 轮", "{n} turns"],
  turns_1: ["1 轮", "1 turn"],
  close: ["关闭", "Close"],
  p50: ["一半快于", "Median"],
  p95: ["95% 快于", "95 % within"],
  part: ["阶段", "Part"],
  duration: ["用时", "Time"],
  begins: ["开始于", "Begins at"],
  part_frame_in: ["传到服务端", "To the daemon"],
  part_vad_lag: ["检测人声", "Voice detector"],
  part_endpoint_wait: ["确认说完", "Is it over?"],
  part_asr_final: ["识别", "Recognition"],
  part_llm_first_token: ["思考", "Thinking"],
  part_first_clause: ["第一句成形", "First clause"],
  part_tts_first_chunk: ["合成声音", "Voice"],
  part_gate_wait: ["发送", "Sending"],
  part_leading_silence: ["起音前的静音", "Silence before sound"],
  part_frame_out: ["传到扬声器", "To the speaker"],
  part_whole: ["总共", "In all"],
  part_outside: ["网络与浏览器", "Network and browser"],
  work_asr_decode: ["识别", "recognition"],
  state_idle: ["准备好了", "Ready when you are"],
  state_connecting: ["正在连接", "Connecting"],
  state_ready: ["打字聊天", "Type to chat"],
  state_listening: ["在听", "Listening"],
  state_hearing: ["听你说", "Hearing you"],
  state_thinking: ["在想", "Thinking"],
  state_speaking: ["在说", "Speaking"],
  state_paused: ["停一下", "Paused"],
  state_muted: ["麦克风已静音", "Muted"],
  state_reconnecting: ["重新连接", "Reconnecting"],
  state_error: ["出了点问题", "Something is wrong"],
  hint_idle: ["点一下开始，或者直接打字", "Start, or just type"],
  hint_connecting: ["马上就好", "One moment"],
  hint_ready: ["麦克风没有打开", "The microphone is off"],
  hint_listening: ["请说吧", "Go ahead"],
  hint_hearing: ["说完停一下就好", "Pause when you are done"],
  hint_thinking: ["这就回答", "The answer is on its way"],
  hint_speaking: ["直接开口就能打断", "Just talk to interrupt"],
  hint_speaking_silent: ["按 Esc 或点“打断”停下", "Escape stops it"],
  hint_paused: ["好像听到了你的声音", "Was that you?"],
  hint_muted: ["按空格键或点麦克风恢复", "Press space or the microphone to go on"],
  hint_reconnecting: ["对话会接着来", "The conversation will go on"],
  hint_error: ["看看上面的提示", "See the note above"],
  notice_mic_denied: [
    "浏览器没有允许使用麦克风。|点地址栏左边的图标，把麦克风改成“允许”，再试一次。没有麦克风也可以打字。",
    "The browser does not allow the microphone.|Allow it with the icon beside the address, then try again. You can type without one.",
  ],
  notice_mic_missing: [
    "没有找到麦克风。|接上麦克风或耳机，再试一次。没有麦克风也可以打字。",
    "No microphone was found.|Connect one, then try again. You can type without one.",
  ],
  notice_mic_busy: [
    "麦克风打不开。|可能被别的程序占用：关掉它，再试一次。",
    "The microphone cannot be opened.|Another program may hold it: close that, then try again.",
  ],
  notice_mic_lost: [
    "麦克风断开了。|接回去或换一个，再试一次。",
    "The microphone was disconnected.|Connect it again or choose another, then try again.",
  ],
  notice_insecure: [
    "这个地址不安全，浏览器不给麦克风。|用 https:// 打开（启动时加 --tls auto），或在本机用 http://localhost 打开。现在只能打字，回答也只有文字。",
    "This address is not secure, so the browser gives no microphone.|Open it by https:// (start the daemon with --tls auto) or, on its own machine, by http://localhost. Here you can type, and read the answers.",
  ],
  notice_old_browser: [
    "这个浏览器太旧，放不了声音。|请更新浏览器。现在只能打字，回答也只有文字。",
    "This browser is too old for audio.|Please update it. Here you can type, and read the answers.",
  ],
  notice_full: [
    "现在人满了。|{s} 秒后自动再试。",
    "All places are taken.|Trying again in {s} s.",
  ],
  notice_warming: [
    "正在预热：{detail}。|{s} 秒后自动再试。",
    "Still warming up: {detail}.|Trying again in {s} s.",
  ],
  notice_lost: ["连接断开了。|{s} 秒后重新连接。", "The connection was lost.|Reconnecting in {s} s."],
  notice_unreachable: [
    "连不上服务端。|请确认 duplexd 在运行、网络是通的。{s} 秒后再试。",
    "The daemon cannot be reached.|Check that duplexd runs and that you are online. Trying again in {s} s.",
  ],
  notice_engine_failed: [
    "服务端的引擎启动失败：{detail}|在那台机器上运行 run.py doctor 看看缺什么，再重启 duplexd。",
    "An engine of the daemon failed: {detail}|Run `run.py doctor` on its machine to see what is missing, then start duplexd again.",
  ],
  notice_key: [
    "需要访问密钥。|刷新页面后输入。",
    "An access key is needed.|Reload the page to enter it.",
  ],
  notice_failed: [
    "出错了：{detail}|再说一遍试试。",
    "Something failed: {detail}|Please try again.",
  ],
  act_retry: ["再试一次", "Try again"],
  act_now: ["现在就试", "Try now"],
  act_reload: ["刷新", "Reload"],
  act_dismiss: ["知道了", "Dismiss"],
  keys: ["空格 静音 · Esc 停止回答 · / 打字", "Space mutes · Esc stops the answer · / to type"],
};

/** @type {Lang} */
let current = "en";

/** @param {string} chosen @returns {Lang} */
export function setLang(chosen) {
  const wanted = chosen || navigator.language || "en";
  current = wanted.toLowerCase().startsWith("zh") ? "zh" : "en";
  return current;
}

export const lang = () => current;

/**
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function t(key, values = {}) {
  const text = TEXTS[key]?.[current === "zh" ? 0 : 1] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/**
 * Fills the words of an element and of all in it.
 * @param {ParentNode} root
 */
export function fill(root) {
  for (const element of root.querySelectorAll("[data-t]")) {
    element.textContent = t(/** @type {HTMLElement} */ (element).dataset.t ?? "");
  }
  for (const element of root.querySelectorAll("[data-t-label]")) {
    const text = t(/** @type {HTMLElement} */ (element).dataset.tLabel ?? "");
    element.setAttribute("aria-label", text);
    element.setAttribute("title", text);
  }
  for (const element of root.querySelectorAll("[data-t-hint]")) {
    const text = t(/** @type {HTMLElement} */ (element).dataset.tHint ?? "");
    element.setAttribute("placeholder", text);
  }
}

/** @param {number | null} ms @returns {string} */
export function duration(ms) {
  if (ms === null) return "–";
  return ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${Math.round(ms)} ms`;
}
