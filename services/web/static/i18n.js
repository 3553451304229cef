// @ts-check
/** Every word of the page, in both languages. */

import { label } from "./page.js";

/** @typedef {"zh" | "en"} Lang */

/** @type {Record<string, [zh: string, en: string]>} */
const TEXTS = {
  start: ["开始对话", "Start talking"],
  stop: ["结束", "End"],
  stop_label: ["结束对话", "End the conversation"],
  mute: ["静音", "Mute"],
  mute_label: ["静音麦克风", "Mute the microphone"],
  unmute: ["解除静音", "Unmute"],
  unmute_label: ["解除麦克风静音", "Unmute the microphone"],
  interrupt: ["停止回答", "Stop answer"],
  interrupt_label: ["停止回答", "Stop the answer"],
  microphone_on: ["打开麦克风", "Use mic"],
  placeholder: ["也可以打字…", "Or type here…"],
  send: ["发送", "Send"],
  persona: ["角色", "Persona"],
  voice: ["声音", "Voice"],
  device: ["麦克风", "Microphone"],
  device_default: ["系统默认", "System default"],
  speak: ["朗读回答", "Speak answers"],
  cancel_echo: ["消除回声", "Cancel echo"],
  loading: ["加载中…", "Loading…"],
  settings: ["设置", "Settings"],
  copy: ["复制", "Copy"],
  copied: ["已复制", "Copied"],
  save: ["保存", "Save"],
  save_json: ["数据 (.json)", "Data (.json)"],
  save_md: ["文字 (.md)", "Text (.md)"],
  clear: ["新对话", "New chat"],
  colon: ["：", ": "],
  comma: ["、", ", "],
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
  try_2: ["讲个三句话的故事", "Tell me a short story"],
  try_3: ["教我一句英语问候", "Say hello in Chinese"],
  not_understood: ["没有听清", "Not understood"],
  cut_label: ["没有听到的部分：", "Not heard: "],
  timing: ["响应时间", "Response time"],
  timing_of: ["第 {n} 轮", "Turn {n}"],
  timing_hint: [
    "从你说完，到听到回答的第一个音",
    "From your last sound to the first sound of the answer",
  ],
  timing_typed: ["从发送，到听到回答的第一个音", "From sending to the first sound of the answer"],
  timing_none: ["还没有数据：说一句话试试", "Nothing measured yet: say something"],
  timing_open: ["这一轮的响应时间：{ms}", "Response time of this turn: {ms}"],
  timing_wait: ["明细会在回答结束后给出", "The parts follow when the answer is over"],
  timing_server: ["服务端 {ms}", "Daemon {ms}"],
  timing_work: ["并行：{name} {ms}（不另计）", "In parallel: {name} {ms} (not added)"],
  timing_recogniser: ["识别运算共 {ms}（不另计）", "Recogniser busy for {ms} in total (not added)"],
  timing_underruns: ["音频中断 {n} 次", "Audio ran dry {n} times"],
  timing_underruns_1: ["音频中断 1 次", "Audio ran dry once"],
  turns: ["{n} 轮", "{n} turns"],
  turns_1: ["1 轮", "1 turn"],
  close: ["关闭", "Close"],
  p50: ["响应中位数", "Median"],
  p95: ["95 分位", "95th percentile"],
  slowest: ["最慢", "Slowest"],
  group_ear: ["聆听", "Hearing"],
  group_mind: ["思考", "Thinking"],
  group_voice: ["发声", "Voice"],
  group_outside: ["网络", "Network"],
  part: ["阶段", "Part"],
  duration: ["用时", "Time"],
  begins: ["开始于", "Begins at"],
  part_frame_in: ["传到服务端", "To the daemon"],
  part_vad_lag: ["检测人声", "Voice detector"],
  part_endpoint_wait: ["判断是否说完", "End-of-speech wait"],
  part_asr_final: ["识别", "Recognition"],
  part_llm_first_token: ["生成首字", "First word ready"],
  part_first_clause: ["生成首句", "First phrase ready"],
  part_tts_first_chunk: ["合成语音", "Speech synthesis"],
  part_gate_wait: ["发送", "Sending"],
  part_leading_silence: ["起音前的静音", "Silence before sound"],
  part_frame_out: ["传到扬声器", "To the speaker"],
  part_whole: ["合计", "Total"],
  part_outside: ["网络与浏览器", "Network and browser"],
  tab_talk: ["对话", "Talk"],
  tab_voices: ["声音", "Voices"],
  tab_devices: ["设备", "Devices"],
  voices_off: ["这个服务端没有开放语音服务。", "This daemon keeps its speech service off."],
  voices_off_mend: [
    "在配置里设 speech.service: true，再重启 duplexd。",
    "Set speech.service: true in its configuration, and start it again.",
  ],
  say_title: ["文字转语音", "Text to speech"],
  say_text: ["文字", "Text"],
  say_sample: [
    "你好，很高兴认识你。今天天气真好，我们出去走走吧。",
    "Hello, good to meet you. It is such a fine day, shall we go for a walk?",
  ],
  say_go: ["朗读", "Speak"],
  say_stop: ["停止", "Stop"],
  say_first: ["首包", "First packet"],
  say_server: ["其中服务端", "Daemon's part"],
  say_seconds: ["语音时长", "Speech"],
  seconds: ["{s}\u00a0秒", "{s}\u00a0s"],
  clone_title: ["克隆一个声音", "Clone a voice"],
  clone_off: ["当前的语音引擎不能克隆声音。", "This engine cannot clone voices."],
  clone_off_mend: [
    "要克隆声音，请用 --tts cosyvoice 启动 duplexd。其余功能照常可用。",
    "Start duplexd with --tts cosyvoice to clone voices. Everything else here works.",
  ],
  clone_recording: ["参考录音", "Recording"],
  record: ["录音", "Record"],
  record_stop: ["停止录音", "Stop recording"],
  record_again: ["重新录音", "Record again"],
  recording_listen: ["试听录音", "Listen to the recording"],
  recording_stop: ["停止试听", "Stop the recording"],
  clone_file: ["选择文件", "Choose a file"],
  clone_hint: [
    "一个人说话，3 到 10 秒，没有音乐和噪声。",
    "One person who speaks for 3 to 10 seconds, without music or noise.",
  ],
  clone_text: ["录音里说的话", "What is said in it"],
  clone_text_hint: ["一字不差", "Word for word"],
  clone_name: ["名称", "Name"],
  clone_name_hint: ["文字、数字、下划线和连字符", "Letters, digits, _ and -"],
  clone_consent: ["说话人同意克隆这个声音", "The speaker has agreed to be cloned"],
  clone_go: ["克隆", "Clone the voice"],
  clone_busy: ["正在克隆…", "Cloning…"],
  clone_unreadable: [
    "浏览器读不了这个文件。请换成 WAV、FLAC、MP3 或 Ogg。",
    "The browser cannot read this file. Choose a WAV, FLAC, MP3 or Ogg file.",
  ],
  clone_needs_recording: ["请先录一段，或选择一个文件。", "Record something first, or choose a file."],
  clone_too_short: ["录音太短，至少要 {s} 秒。", "The recording is shorter than {s}\u00a0s."],
  clone_too_long: ["录音太长，最多 {s} 秒。", "The recording is longer than {s}\u00a0s."],
  clone_needs_text: ["请写下录音里说的话。", "Write down what is said in the recording."],
  clone_needs_name: ["请给声音起个名称。", "Give the voice a name."],
  clone_bad_name: [
    "名称只能用文字、数字、下划线和连字符，不能以连字符开头。",
    "A name has letters, digits, _ and - only, and does not begin with -.",
  ],
  clone_needs_consent: ["请确认说话人已经同意。", "Confirm that the speaker has agreed."],
  clone_voice_exists: ["已经有这个名称的声音。", "There is a voice of that name already."],
  clone_body_too_large: ["文件太大。", "The file is too large."],
  clone_at_capacity: ["现在太忙，请稍后再试。", "Too busy at the moment. Try again later."],
  clone_not_ready: ["引擎还在预热，请稍后再试。", "The engine is still warming up. Try again later."],
  voices_title: ["全部声音", "All voices"],
  voices_none: ["还没有声音：先克隆一个。", "There is none yet: clone one first."],
  voice_default: ["默认", "Default"],
  voice_own: ["自带", "Built in"],
  voice_listen: ["试听 {name}", "Listen to {name}"],
  voice_stop: ["停止 {name}", "Stop {name}"],
  voice_delete: ["删除 {name}", "Delete {name}"],
  voice_made: ["已克隆：{name}", "Cloned: {name}"],
  voice_gone: ["已删除：{name}", "Deleted: {name}"],
  quoted: ["“{text}”", "“{text}”"],
  delete_what: ["删除“{name}”？", "Delete “{name}”?"],
  delete_more: ["删除后不能恢复，要用就得重新克隆。", "It cannot be brought back, only cloned anew."],
  delete_act: ["删除", "Delete"],
  devices_off: ["这个服务端没有开放小智设备。", "This daemon takes no Xiaozhi devices."],
  devices_off_mend: ["请用 xiaozhi.enabled=true 启动。", "Start it with xiaozhi.enabled=true."],
  devices_open: ["任何设备都可以连接。", "Every device may connect."],
  devices_open_more: ["这个服务端不要求设备出示令牌。", "This daemon asks devices for no token."],
  devices_title: ["设备", "Devices"],
  devices_none: [
    "还没有设备。把设备的 OTA 地址设为 {url}",
    "None yet. Set a device's OTA address to {url}",
  ],
  admit_title: ["添加设备", "Let a device in"],
  admit_hint: [
    "新设备会显示并读出六位数的验证码。",
    "A new device shows and speaks a code of six digits.",
  ],
  admit_code: ["验证码", "Code"],
  admit_name: ["名称（可不填）", "Name, if you like"],
  admit_name_hint: ["厨房", "kitchen"],
  admit_go: ["添加", "Let in"],
  admit_needs_code: ["请输入设备显示的验证码。", "Enter the code that the device shows."],
  admit_no_such_device: [
    "没有设备在等这个验证码。验证码一天内有效。",
    "No device waits with this code. A code is good for a day.",
  ],
  admitted: ["已添加：{name}", "Let in: {name}"],
  device_waits: ["等待添加", "Waiting"],
  device_connected: ["已连接", "Connected"],
  device_code: ["验证码 {code}", "Code {code}"],
  device_from: ["来自 {address}", "from {address}"],
  device_replaces: ["会取代同一地址的旧设备", "would take the place of the one before"],
  device_seen: ["最近启动：{day}", "last started {day}"],
  device_use: ["填入 {name} 的验证码", "Take the code of {name}"],
  device_revoke: ["移除 {name}", "Remove {name}"],
  device_gone: ["已移除：{name}", "Removed: {name}"],
  revoke_what: ["移除“{name}”？", "Remove “{name}”?"],
  revoke_more: [
    "它的令牌立即失效，正在进行的对话会继续到结束。要再用就得重新添加。",
    "Its token is good no more; a conversation that it has open goes on. To use it again, let it in anew.",
  ],
  revoke_act: ["移除", "Remove"],
  act_keep: ["保留", "Keep it"],
  state_idle: ["准备好了", "Ready when you are"],
  state_blocked: ["麦克风被禁用", "Microphone blocked"],
  state_blocked_otherwise: ["没有麦克风", "No microphone"],
  state_asking: ["请允许使用麦克风", "Allow the microphone"],
  state_connecting: ["正在连接", "Connecting"],
  state_ready: ["打字聊天", "Type to chat"],
  state_listening: ["正在听", "Listening"],
  state_hearing: ["听你说", "Hearing you"],
  state_thinking: ["正在想", "Thinking"],
  state_speaking: ["正在回答", "Speaking"],
  state_paused: ["已暂停", "Paused"],
  state_muted: ["麦克风已静音", "Muted"],
  state_reconnecting: ["重新连接", "Reconnecting"],
  state_error: ["出了点问题", "Something is wrong"],
  hint_idle: ["点一下开始，或者直接打字", "Start, or just type"],
  hint_blocked: ["仍可打字对话", "You can still type"],
  hint_asking: ["浏览器正在询问", "The browser is asking you"],
  hint_connecting: ["马上就好", "One moment"],
  hint_ready: ["麦克风没有打开", "The microphone is off"],
  hint_ready_blocked: ["麦克风不可用", "There is no microphone"],
  hint_listening: ["请说吧", "Go ahead"],
  hint_hearing: ["说完停一下就好", "Pause when you are done"],
  hint_thinking: ["这就回答", "The answer is on its way"],
  hint_speaking: ["直接开口就能打断", "Just talk to interrupt"],
  hint_speaking_silent: ["点“停止回答”可停下", "Press Stop answer to end it"],
  hint_speaking_silent_keys: ["按 Esc 停下", "Escape stops it"],
  hint_paused: ["好像听到了你的声音", "Was that you?"],
  hint_muted: ["点“解除静音”继续", "Press Unmute to go on"],
  hint_muted_keys: ["按空格键继续", "Press space to go on"],
  hint_reconnecting: ["对话会接着来", "The conversation will go on"],
  hint_error: ["看看上面的提示", "See the note above"],
  notice_mic_denied: [
    "浏览器未允许使用麦克风。|点地址栏的图标，允许使用麦克风，再试一次。也可以打字。",
    "Microphone blocked.|Allow it with the icon in the address bar, then try again. Or type.",
  ],
  notice_mic_missing: [
    "没有找到麦克风。|接上麦克风或耳机，再试一次。也可以打字。",
    "No microphone found.|Connect one, then try again. Or type.",
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
    "当前人数已满。|{s} 秒后自动再试。",
    "All places are taken.|Trying again in {s}\u00a0s.",
  ],
  notice_warming: [
    "正在预热：{detail}。|{s} 秒后自动再试。",
    "Still warming up: {detail}.|Trying again in {s}\u00a0s.",
  ],
  notice_lost: ["连接断开了。|{s} 秒后重新连接。", "The connection was lost.|Reconnecting in {s}\u00a0s."],
  notice_unreachable: [
    "连不上服务端。|请确认 duplexd 在运行、网络是通的。{s} 秒后再试。",
    "The daemon cannot be reached.|Check that duplexd runs and that you are online. Trying again in {s}\u00a0s.",
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
  notice_unloaded: [
    "页面的音频没有加载成功。|请确认 duplexd 在运行，再试一次。",
    "The page's audio could not be loaded.|Check that duplexd runs, then try again.",
  ],
  notice_service_unreachable: [
    "连不上服务端。|请确认 duplexd 在运行、网络是通的。",
    "The daemon cannot be reached.|Check that duplexd runs and that you are online.",
  ],
  notice_service_broken: ["语音中断了。|请再试一次。", "The speech broke off.|Please try again."],
  notice_cleared: ["已开始新对话。|之前的对话可以恢复。", "New chat started.|The last one can be brought back."],
  act_retry: ["再试一次", "Try again"],
  act_undo: ["撤销", "Undo"],
  act_now: ["现在就试", "Try now"],
  act_reload: ["刷新", "Reload"],
  act_dismiss: ["知道了", "Dismiss"],
  keys_mute: ["空格 静音", "Space mutes"],
  keys_stop: ["Esc 停止回答", "Esc stops the answer"],
  keys_type: ["/ 打字", "/ to type"],
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
    label(element, t(/** @type {HTMLElement} */ (element).dataset.tLabel ?? ""));
  }
  for (const element of root.querySelectorAll("[data-t-hint]")) {
    const text = t(/** @type {HTMLElement} */ (element).dataset.tHint ?? "");
    element.setAttribute("placeholder", text);
  }
}

/** A number and its unit stay on one line. @param {number | null} ms @returns {string} */
export function duration(ms) {
  if (ms === null) return "–";
  return ms >= 1000 ? `${(ms / 1000).toFixed(2)}\u00a0s` : `${Math.round(ms)}\u00a0ms`;
}
