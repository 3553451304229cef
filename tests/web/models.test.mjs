// The page's pure modules; test_models.py runs them from a copy that node takes for modules.

import assert from "node:assert/strict";
import { test } from "node:test";

const from = (name) => import(`./${name}.js`);
const { SoundTracker, loudness } = await from("energy");
const { Resampler } = await from("resampler");
const { PlayQueue } = await from("queue");
const { Timings, bars, percentile, sums, ticks, v2v } = await from("latency");
const { Transcript, shared } = await from("transcript");
const { Conversation, UNSEEN_MS } = await from("conversation");
const { Backoff } = await from("backoff");
const { stateOf } = await from("state");
const { decodeAudio, encodeAudio, update } = await from("wire");

const tone = (count, rate, hz = 440, level = 0.3) =>
  Float32Array.from({ length: count }, (_, at) => level * Math.sin((2 * Math.PI * hz * at) / rate));
const pcm = (samples) => Int16Array.from(samples, (sample) => Math.round(sample * 32767));

// --- sound -------------------------------------------------------------------------------------------
test("three loud frames in a row are sound, two are a click", () => {
  const tracker = new SoundTracker(24000);
  tracker.push(new Float32Array(240 * 5));
  tracker.push(tone(480, 24000));
  tracker.push(new Float32Array(240));
  assert.equal(tracker.first, null);
  tracker.push(tone(720, 24000));
  assert.equal(tracker.first, 240 * 8);
  tracker.push(new Float32Array(1000));
  assert.equal(tracker.last, 240 * 11);
});

test("how samples are cut into pieces changes nothing", () => {
  const samples = Float32Array.from([...new Float32Array(1234), ...tone(5000, 24000)]);
  const whole = new SoundTracker(24000);
  whole.push(samples);
  const pieces = new SoundTracker(24000);
  for (let at = 0; at < samples.length; at += 37) pieces.push(samples.subarray(at, at + 37));
  assert.deepEqual([pieces.first, pieces.last], [whole.first, whole.last]);
});

test("loudness lies between silence and loud speech", () => {
  assert.equal(loudness(0), 0);
  assert.equal(loudness(1), 1);
  assert.ok(loudness(0.03) > 0.3 && loudness(0.03) < 0.8);
});

for (const [start, end] of [
  [48000, 24000],
  [44100, 24000],
  [24000, 48000],
  [24000, 44100],
  [24000, 24000],
]) {
  test(`a tone keeps its pitch, level and place from ${start} to ${end} Hz`, () => {
    const resampler = new Resampler(start, end);
    const input = tone(start / 2, start);
    const output = [];
    for (let at = 0; at < input.length; at += 128) {
      output.push(...resampler.push(input.subarray(at, at + 128)));
    }
    assert.ok(Math.abs(output.length - end / 2) < 40);
    const expected = tone(output.length, end);
    const worst = Math.max(
      ...output.slice(200, -50).map((sample, at) => Math.abs(sample - expected[at + 200])),
    );
    assert.ok(worst < 0.01, `off by ${worst}`);
    assert.ok(Math.abs(resampler.lag / start - (0.5 - output.length / end)) < 1e-3);
  });
}

test("what the lower rate cannot carry is gone", () => {
  const resampler = new Resampler(48000, 24000);
  const output = resampler.push(tone(24000, 48000, 15000)).slice(200);
  assert.ok(Math.max(...output.map(Math.abs)) < 0.01);
});

test("audio survives the wire", () => {
  const samples = Int16Array.from([0, 1, -1, 32767, -32768, 12345]);
  assert.deepEqual(decodeAudio(encodeAudio(samples)), samples);
});

// --- the play queue ------------------------------------------------------------------------------------
function player(rate = 24000) {
  const events = [];
  const queue = new PlayQueue({ rate, tell: (event) => events.push(event) });
  let time = 10;
  const play = (seconds) => {
    const output = [];
    for (let left = Math.round((seconds * rate) / 128); left > 0; left -= 1) {
      const block = new Float32Array(128);
      queue.pull(block, time);
      time += 128 / rate;
      output.push(...block);
    }
    return output;
  };
  return { queue, events, play, of: (type) => events.filter((event) => event.type === type) };
}

test("an answer is played whole and without a gap, however it arrives", () => {
  const { queue, play, of } = player();
  const samples = tone(24000, 24000);
  for (let at = 0; at < samples.length; at += 480) queue.push("a", pcm(samples.slice(at, at + 480)));
  queue.close("a");
  const output = play(1.1);
  const start = output.findIndex((sample) => sample !== 0);
  assert.ok(output.slice(start, start + 23900).every((_, at) => {
    return Math.abs(output[start + at] - samples[at + 1]) < 1e-3;
  }));
  assert.deepEqual(of("drained"), [{ type: "drained", id: "a", playedMs: 1000 }]);
  assert.deepEqual(of("underrun"), []);
});

test("the first sound is told with its time", () => {
  const { queue, play, of } = player();
  queue.push("a", pcm([...new Float32Array(2400), ...tone(4800, 24000)]));
  queue.close("a");
  play(0.5);
  assert.equal(of("audible").length, 1);
  assert.ok(Math.abs(of("audible")[0].at - 10.1) < 0.011);
});

test("it starts at once with 100 ms in hand", () => {
  const { queue, play } = player();
  queue.push("a", pcm(tone(2400, 24000)));
  assert.ok(play(0.006).some((sample) => sample !== 0));
});

test("with less it starts 40 ms after the first sample came", () => {
  const { queue, play, of } = player();
  queue.push("a", new Int16Array(0));
  play(0.5); // no sample is there yet
  queue.push("a", pcm(tone(480, 24000, 440, 0.5)));
  assert.ok(play(0.03).every((sample) => sample === 0));
  queue.push("a", pcm(tone(480, 24000)));
  const [early, late] = [play(0.01), play(0.02)];
  assert.ok(early.every((sample) => sample === 0));
  assert.ok(late.some((sample) => sample !== 0));
  assert.equal(of("underrun").length, 0);
});

test("an answer that is shorter and complete waits for nothing", () => {
  const { queue, play, of } = player();
  queue.push("a", pcm(tone(480, 24000)));
  queue.close("a");
  assert.ok(play(0.006).some((sample) => sample !== 0));
  play(0.1);
  assert.equal(of("drained")[0].playedMs, 20);
});

test("after it ran dry it waits for a reserve", () => {
  const { queue, play, of } = player();
  queue.push("a", pcm(tone(2400, 24000)));
  play(0.2);
  queue.push("a", pcm(tone(1800, 24000)));
  assert.ok(play(0.5).every((sample) => sample === 0));
  queue.push("a", pcm(tone(240, 24000)));
  assert.ok(play(0.1).some((sample) => sample !== 0));
  assert.equal(of("underrun").length, 1);
});

test("running dry is counted once more audio comes, and not at the end", () => {
  const { queue, play, of } = player();
  queue.push("a", pcm(tone(2400, 24000)));
  play(0.3);
  assert.equal(of("underrun").length, 0);
  queue.push("a", pcm(tone(2400, 24000)));
  queue.push("a", pcm(tone(2400, 24000)));
  assert.equal(of("underrun").length, 1);
  play(0.3);
  queue.close("a");
  play(0.1);
  assert.equal(of("underrun").length, 1);
  assert.equal(of("drained")[0].playedMs, 300);
});

test("a flush silences at once, and tells what was played", () => {
  const { queue, play, of } = player();
  queue.push("a", pcm(tone(24000, 24000)));
  play(0.2);
  queue.flush();
  assert.ok(play(0.1).slice(128).every((sample) => sample === 0));
  const [{ playedMs }] = of("flushed");
  assert.ok(Math.abs(playedMs - 200) <= 6);
  queue.push("b", pcm(tone(4800, 24000)));
  assert.ok(play(0.1).some((sample) => sample !== 0));
});

test("a pause goes on from the exact sample", () => {
  const { queue, play, of } = player();
  const ramp = Int16Array.from({ length: 12000 }, (_, at) => 1000 + at);
  queue.push("a", ramp);
  const before = play(0.1);
  queue.pause();
  queue.pause();
  assert.ok(play(0.2).slice(128).every((sample) => sample === 0));
  queue.resume();
  queue.resume();
  const after = play(0.2).filter((sample) => sample !== 0);
  const last = Math.round(before.at(-1) * 32768);
  assert.equal(Math.round(after[200] * 32768), last + 202);
  queue.close("a");
  play(0.5);
  assert.equal(of("drained")[0].playedMs, 500);
  assert.equal(of("underrun").length, 0);
});

test("a pause that never was ends nothing", () => {
  const { queue, play, of } = player();
  queue.push("a", pcm(tone(2400, 24000)));
  play(0.09);
  queue.resume(); // less is in hand than it takes to start anew
  assert.ok(play(0.005).some((sample) => sample !== 0));
  assert.equal(of("underrun").length, 0);
});

test("what comes in a pause waits behind what was held, sample by sample", () => {
  const { queue, play, of } = player();
  const ramp = Int16Array.from({ length: 9600 }, (_, at) => 1000 + at);
  queue.push("a", ramp.slice(0, 4800));
  let heard = play(0.1);
  for (let pause = 0; pause < 3; pause += 1) {
    const last = Math.round(heard.at(-1) * 32768);
    queue.pause();
    assert.ok(play(0.03).slice(128).every((sample) => sample === 0));
    if (pause === 0) queue.push("a", ramp.slice(4800));
    queue.resume();
    heard = play(0.05);
    // past the fade
    assert.equal(Math.round(heard[200] * 32768), last + 201);
    assert.equal(Math.round(heard.at(-1) * 32768), last + heard.length);
  }
  queue.close("a");
  play(0.5);
  assert.equal(of("drained")[0].playedMs, 400);
  assert.equal(of("underrun").length, 0);
});

test("a flush ends a pause; what waits for another rate is told in true time", () => {
  const { queue, play, of } = player(48000);
  queue.push("a", pcm(tone(24000, 24000)));
  play(0.2);
  queue.pause();
  queue.flush();
  assert.ok(Math.abs(of("flushed")[0].playedMs - 200) <= 6);
  queue.push("b", pcm(tone(24000, 24000)));
  queue.close("b");
  assert.ok(play(0.1).some((sample) => sample !== 0));
});

test("answers follow each other", () => {
  const { queue, play, of } = player();
  queue.push("a", pcm(tone(2400, 24000)));
  queue.close("a");
  queue.push("b", pcm(tone(2400, 24000)));
  queue.close("b");
  queue.close("nobody");
  play(0.3);
  assert.deepEqual(of("drained").map(({ id }) => id), ["a", "b"]);
});

// --- latency -----------------------------------------------------------------------------------------
const PARTS = { vad_lag: 20, endpoint_wait: 200, llm_first_token: 100.4, frame_out: 0 };

test("the bars sum to v2v, and what the daemon cannot explain is the way", () => {
  const timings = new Timings();
  timings.question(1, false);
  timings.answer("r");
  const turn = timings.of("r");
  assert.equal(v2v(turn), null);
  assert.deepEqual(bars(turn), []);
  turn.heard = 1.4;
  assert.deepEqual(bars(turn).map(({ part, group }) => [part, group]), [["whole", "pending"]]);
  assert.deepEqual(sums(turn), []);
  timings.report("r", { parts_ms: PARTS, v2v_server_ms: 320.4, work_ms: {}, outcome: "answered" });
  const all = bars(turn);
  assert.deepEqual(all.map(({ part }) => part), [
    "vad_lag",
    "endpoint_wait",
    "llm_first_token",
    "outside",
  ]);
  assert.ok(Math.abs(all.reduce((sum, { ms }) => sum + ms, 0) - v2v(turn)) < 0.6);
  assert.equal(all[2].start, 220);
  assert.deepEqual(
    sums(turn).map(({ group, ms }) => [group, Math.round(ms * 10) / 10]),
    [["ear", 220], ["mind", 100.4], ["outside", 79.6]],
  );
});

test("a scale has two to five steps of round numbers", () => {
  assert.deepEqual(ticks(921), [0, 200, 400, 600, 800]);
  assert.deepEqual(ticks(1000), [0, 500, 1000]);
  for (let span = 1; span < 60_000; span *= 1.07) {
    const [zero, step, ...rest] = ticks(span);
    const last = rest.at(-1);
    assert.equal(zero, 0);
    assert.ok([1, 2, 5].includes(Number(step.toExponential()[0])), `${span}: ${step}`);
    assert.ok(rest.length >= 1 && rest.length <= 4 && last <= span, `${span}: ${rest}`);
    assert.ok(span - last <= step, `${span}: ${last}`);
  }
});

test("percentiles are numpy's", () => {
  assert.equal(percentile([], 50), null);
  assert.equal(percentile([7], 95), 7);
  assert.equal(percentile([4, 1, 3, 2], 50), 2.5);
  assert.ok(Math.abs(percentile([1, 2, 3, 4], 95) - 3.85) < 1e-9);
});

test("below twenty turns the slowest is told in place of a percentile", () => {
  const timings = new Timings();
  const names = [];
  for (let turn = 1; turn <= 20; turn += 1) {
    timings.question(0, false);
    timings.answer(`r${turn}`);
    timings.of(`r${turn}`).heard = turn / 10;
    names.push(timings.summary().tail.name);
  }
  assert.deepEqual(new Set(names.slice(0, 19)), new Set(["slowest"]));
  const { p95, tail } = timings.summary();
  assert.deepEqual(tail, { name: "p95", ms: p95 });
  assert.ok(tail.ms > 1900 && tail.ms < 2000);
  timings.turns.pop();
  assert.equal(timings.summary().tail.ms, 1900);
});

test("typed turns count only where nobody spoke", () => {
  const timings = new Timings();
  const turn = (id, typed, ms) => {
    timings.question(0, typed);
    timings.answer(id);
    timings.of(id).heard = ms / 1000;
  };
  turn("a", true, 900);
  assert.equal(timings.summary().p50, 900);
  turn("b", false, 500);
  assert.deepEqual([timings.summary().p50, timings.summary().count], [500, 1]);
  timings.answer("unasked");
  timings.report("nobody", {});
  assert.equal(timings.summary().count, 1);
});

// --- the transcript ------------------------------------------------------------------------------------
const transcript = () => new Transcript(() => {});
const states = ({ entries }) => entries.map(({ state, text, cut }) => [state, text, cut]);

test("what was not heard is cut", () => {
  const said = transcript();
  said.open("a", "assistant");
  said.write("a", "天空是蓝色的，");
  said.write("a", "因为阳光。");
  said.over("a", "天空是蓝色");
  assert.deepEqual(states(said), [["cut", "天空是蓝色", "的，因为阳光。"]]);
  said.write("a", "late");
  said.over("a", "");
  assert.deepEqual(states(said), [["cut", "天空是蓝色", "的，因为阳光。"]]);
});

test("a full stop that was not heard is no cut", () => {
  const said = transcript();
  said.open("a", "assistant");
  said.write("a", "到处都是蓝的。");
  said.over("a", "到处都是蓝的");
  assert.deepEqual(states(said), [["final", "到处都是蓝的。", ""]]);
});

test("an answer of which nothing was written leaves no row", () => {
  const said = transcript();
  said.open("a", "assistant");
  said.over("a", "");
  said.open("b", "user");
  said.understood("b", "  ");
  assert.deepEqual(said.entries, []);
});

test("white space makes no difference to what was heard", () => {
  assert.equal(shared("One two  three", "One two three"), 14);
  assert.equal(shared("One  two", "One two"), 8);
  assert.equal(shared("abc", "abx"), 2);
  assert.equal(shared("abc", ""), 0);
  assert.equal(shared("ab c", "a b"), 2);
});

test("a lost connection settles what is open", () => {
  const said = transcript();
  said.open("u", "user");
  said.write("u", "hel");
  said.open("u", "user", { text: "again" });
  said.open("a", "assistant");
  said.write("a", "an answer");
  said.open("x", "user");
  said.settle();
  assert.deepEqual(states(said), [
    ["final", "hel", ""],
    ["final", "an answer", ""],
  ]);
  said.open("f", "user");
  said.failed("f");
  said.failed("nobody");
  said.remove("nobody");
  assert.deepEqual(said.memory(1), [{ role: "assistant", text: "an answer" }]);
});

// --- a conversation ------------------------------------------------------------------------------------
function talk() {
  const log = [];
  const clock = { now: 5, voiced: 4 };
  const speaker = {};
  for (const name of ["play", "close", "flush", "pause", "resume"]) {
    speaker[name] = (id) => log.push(id === undefined ? name : `${name} ${id}`);
  }
  const conversation = new Conversation({
    send: (event) => log.push(event),
    speaker,
    clocks: { now: () => clock.now, voicedAt: () => clock.voiced },
    onChange: () => {},
    onEntry: () => {},
    onTiming: () => {},
    onError: (error) => log.push(`error ${error.code}`),
  });
  const take = (type, more = {}) => conversation.take({ type, ...more });
  const now = () => {
    const { hearing, thinking, playing, paused } = conversation;
    return stateOf({ link: "open", microphone: "on", hearing, thinking, playing, paused });
  };
  return { conversation, take, log, clock, now };
}

function answer(take, { item = "a", response = "r" } = {}) {
  const place = { item_id: item, response_id: response };
  take("response.created", { response: { id: response } });
  take("response.output_item.added", {
    response_id: response,
    item: { id: item, type: "message" },
  });
  take("response.output_audio_transcript.delta", { ...place, delta: "one two" });
  take("response.output_audio.delta", { ...place, delta: encodeAudio(Int16Array.of(1, 2)) });
}

const over = (take, status, heard) => {
  take("response.output_item.done", {
    item: { id: "a", status, content: [{ type: "output_audio", transcript: heard }] },
  });
  take("response.done", { response: { status: status === "completed" ? status : "cancelled" } });
};

test("a spoken turn, from voice to voice", () => {
  const { conversation, take, now } = talk();
  take("input_audio_buffer.speech_started", { item_id: "u" });
  assert.equal(now(), "hearing");
  take("conversation.item.input_audio_transcription.delta", { item_id: "u", delta: "ques" });
  take("input_audio_buffer.speech_stopped");
  take("input_audio_buffer.committed", { item_id: "u" });
  assert.equal(now(), "thinking");
  take("conversation.item.input_audio_transcription.completed", {
    item_id: "u",
    transcript: "question",
  });
  answer(take);
  assert.equal(now(), "thinking");
  conversation.played({ type: "audible", id: "a", at: 4.6 });
  assert.equal(now(), "speaking");
  conversation.played({ type: "underrun", id: "a" });
  take("duplexd.turn", { response_id: "r", report: { parts_ms: PARTS } });
  take("response.output_audio.done", { item_id: "a" });
  over(take, "completed", "one two");
  assert.equal(now(), "speaking");
  conversation.played({ type: "drained", id: "a" });
  assert.equal(now(), "listening");
  assert.deepEqual(states(conversation.transcript), [
    ["final", "question", ""],
    ["final", "one two", ""],
  ]);
  const [turn] = conversation.timings.turns;
  assert.equal(Math.round(v2v(turn)), 600);
  assert.equal(turn.underruns, 1);
});

/** An answer that sounds, and a clock that stands still. @param {import("node:test").TestContext} t */
function speaking(t) {
  t.mock.timers.enable();
  const told = talk();
  answer(told.take);
  told.conversation.played({ type: "audible", id: "a", at: 5 });
  return { ...told, wait: (ms) => t.mock.timers.tick(ms) };
}

test("a cough makes the answer wait, and cuts nothing", (t) => {
  const { conversation, take, log, now, wait } = speaking(t);
  take("duplexd.playback.paused");
  assert.equal(log.at(-1), "pause");
  wait(UNSEEN_MS);
  assert.equal(now(), "paused");
  take("duplexd.playback.resumed");
  assert.equal(log.at(-1), "resume");
  assert.equal(now(), "speaking");
  assert.ok(!log.includes("flush"));
  over(take, "completed", "one two");
  assert.deepEqual(states(conversation.transcript), [["final", "one two", ""]]);
});

test("a pause that is short is heard and not seen", (t) => {
  const { take, log, now, wait } = speaking(t);
  for (let each = 0; each < 3; each += 1) {
    take("duplexd.playback.paused");
    wait(UNSEEN_MS - 1);
    assert.equal(now(), "speaking");
    take("duplexd.playback.resumed");
    wait(UNSEEN_MS);
    assert.equal(now(), "speaking");
  }
  assert.equal(log.filter((each) => each === "pause").length, 3);
});

test("an interruption ends the pause, and cuts what was not heard", (t) => {
  const { conversation, take, log, now, wait } = speaking(t);
  take("duplexd.playback.paused");
  take("input_audio_buffer.speech_started", { item_id: "u" });
  assert.equal(log.at(-1), "flush");
  over(take, "incomplete", "one");
  wait(UNSEEN_MS);
  assert.equal(now(), "hearing");
  assert.ok(!log.includes("resume"));
  assert.deepEqual(states(conversation.transcript)[0], ["cut", "one", " two"]);
});

test("an answer that ends in a pause does not leave the page paused", (t) => {
  const { take, log, now, wait } = speaking(t);
  take("duplexd.playback.paused");
  wait(UNSEEN_MS);
  take("response.done", { response: { status: "failed" } });
  assert.equal(now(), "speaking"); // what it said before it failed
  assert.ok(log.includes("resume"));
  take("duplexd.playback.paused");
  wait(UNSEEN_MS);
  take("response.done", { response: { status: "cancelled" } });
  assert.equal(log.at(-1), "flush");
  assert.equal(now(), "listening");
  take("duplexd.playback.paused");
  take("response.done", { response: { status: "completed" } });
  wait(UNSEEN_MS);
  assert.equal(now(), "listening");
});

test("an interruption silences at once, and the daemon learns what was heard", () => {
  const { conversation, take, log, now } = talk();
  answer(take);
  conversation.played({ type: "audible", id: "a", at: 5 });
  take("input_audio_buffer.speech_started", { item_id: "u" });
  assert.equal(now(), "hearing");
  assert.ok(log.includes("flush"));
  conversation.played({ type: "flushed", id: "a", playedMs: 320 });
  assert.equal(log.at(-1).audio_end_ms, 320);
  const played = log.filter((each) => each === "play a").length;
  take("response.output_audio.delta", { item_id: "a", delta: "AAA=" });
  assert.equal(log.filter((each) => each === "play a").length, played);
  over(take, "incomplete", "one");
  assert.deepEqual(states(conversation.transcript)[0], ["cut", "one", " two"]);
});

test("nothing was said, or it was not understood", () => {
  const { conversation, take, now } = talk();
  take("input_audio_buffer.committed", { item_id: "u" });
  take("conversation.item.input_audio_transcription.completed", { item_id: "u", transcript: "" });
  assert.equal(now(), "listening");
  take("input_audio_buffer.committed", { item_id: "v" });
  take("conversation.item.input_audio_transcription.failed", { item_id: "v" });
  assert.equal(now(), "listening");
  assert.deepEqual(states(conversation.transcript), [["failed", "", ""]]);
});

test("a typed question, answered in text", () => {
  const { conversation, take, clock, now } = talk();
  conversation.wrote("hello");
  assert.equal(now(), "thinking");
  take("response.created", { response: { id: "r" } });
  take("response.output_item.added", { response_id: "r", item: { id: "a", type: "message" } });
  clock.now = 5.5;
  take("response.output_text.delta", { item_id: "a", response_id: "r", delta: "hi" });
  take("response.output_item.done", {
    item: { id: "a", status: "completed", content: [{ type: "output_text", text: "hi" }] },
  });
  take("response.done", { response: { status: "completed" } });
  assert.equal(now(), "listening");
  assert.equal(v2v(conversation.timings.turns[0]), 500);
});

test("failures are told, and a lost connection leaves nothing open", () => {
  const { conversation, take, log, now } = talk();
  take("error", { error: { code: "boom", message: "" } });
  answer(take);
  take("response.done", {
    response: { status: "failed", status_details: { error: { code: "engine", message: "x" } } },
  });
  assert.deepEqual(log.filter((each) => String(each).startsWith("error")), [
    "error boom",
    "error engine",
  ]);
  answer(take, { item: "b", response: "s" });
  take("unknown.event");
  conversation.lost();
  assert.equal(now(), "listening");
  assert.ok(!conversation.answering);
});

// --- the rest ------------------------------------------------------------------------------------------
test("each wait is about twice the one before, and bounded", () => {
  const backoff = new Backoff(() => 0.5);
  const waits = Array.from({ length: 8 }, () => backoff.next());
  assert.deepEqual(waits, [0.5, 1, 2, 4, 8, 16, 20, 20]);
  backoff.reset();
  assert.equal(backoff.next(), 0.5);
});

test("one word for everything", () => {
  const calm = { hearing: false, thinking: false, playing: false, paused: false };
  const word = (link, microphone, more = {}) => stateOf({ link, microphone, ...calm, ...more });
  assert.equal(word("idle", "off"), "idle");
  assert.equal(word("idle", "blocked"), "blocked");
  assert.equal(word("connecting", "asking"), "asking");
  assert.equal(word("open", "asking"), "asking");
  assert.equal(word("open", "blocked"), "ready");
  assert.equal(word("connecting", "on"), "connecting");
  assert.equal(word("waiting", "on"), "reconnecting");
  assert.equal(word("failed", "on"), "error");
  assert.equal(word("open", "off"), "ready");
  assert.equal(word("open", "muted"), "muted");
  assert.equal(word("open", "muted", { playing: true }), "speaking");
});

test("an update names only what was chosen", () => {
  assert.deepEqual(update({ speak: false, echoCancelled: false }).session, {
    type: "realtime",
    output_modalities: ["text"],
    duplexd: { pauses: true, echo_cancelled: false },
  });
  const choice = { voice: "one", instructions: "", speak: true, echoCancelled: true };
  const { session } = update(choice);
  assert.deepEqual(session.audio, { output: { voice: "one" } });
  assert.equal(session.duplexd.echo_cancelled, true);
  assert.equal(session.instructions, "");
});
