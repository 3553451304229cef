// The pure modules of the voices tab; test_models.py runs them from a copy that node takes for modules.

import assert from "node:assert/strict";
import { test } from "node:test";

const from = (name) => import(`./${name}.js`);
const { isForeign, mixed, wavOf } = await from("wav");
const service = await from("speech-service");
const { Player } = await from("player");
const { LONGEST_S, Reference } = await from("reference");
const { Microphone } = await from("microphone");
const { voiceName } = await from("voice-name");
const { AudioFailure } = await from("audio");

const RATE = 24000;
const bytes = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
const turn = () => new Promise((done) => setTimeout(done));

/** Answers every request with `reply(path, options)`. */
function answering(reply) {
  globalThis.fetch = async (path, options) => reply(path, options);
}

/** A stream that is cut at these places, and breaks at its end if there is an error. */
function stream(pieces, error) {
  return new ReadableStream({
    pull(controller) {
      const piece = pieces.shift();
      if (piece) controller.enqueue(piece);
      else if (error) controller.error(error);
      else controller.close();
    },
  });
}

/** A loudspeaker and a microphone that write down what is done with them. */
function makeSound({ refuses = null } = {}) {
  const done = [];
  const note =
    (name) =>
    (...args) =>
      done.push([name, ...args]);
  return {
    done,
    open: async () => {
      if (refuses) throw refuses;
      done.push(["open"]);
    },
    record: async (wish) => void done.push(["record", wish]),
    play: note("play"),
    close: note("close"),
    flush: note("flush"),
    mute: note("mute"),
    stopRecording: note("stopRecording"),
    recording: true,
  };
}

// --- sound files ---------------------------------------------------------------------------------------
test("a WAV file says what it holds", () => {
  const file = wavOf(Int16Array.of(1, -2, 32767));
  const view = new DataView(file.buffer);
  const text = (at) => String.fromCharCode(...file.subarray(at, at + 4));
  assert.deepEqual([0, 8, 12, 36].map(text), ["RIFF", "WAVE", "fmt ", "data"]);
  assert.equal(file.length, 44 + 6);
  assert.equal(view.getUint32(4, true), file.length - 8);
  assert.deepEqual([20, 22, 32, 34].map((at) => view.getUint16(at, true)), [1, 1, 2, 16]);
  assert.deepEqual([16, 24, 28, 40].map((at) => view.getUint32(at, true)), [16, RATE, 2 * RATE, 6]);
  assert.deepEqual([44, 46, 48].map((at) => view.getInt16(at, true)), [1, -2, 32767]);
});

test("files that the service cannot read are known by how they begin", () => {
  const foreign = [bytes("\0\0\0 ftypM4A "), [0x1a, 0x45, 0xdf, 0xa3], [0xff, 0xf1], [0xff, 0xf9]];
  const read = ["RIFF....WAVE", "fLaC", "OggS", "ID3", "FORM", "", "f"].map(bytes);
  read.push(Uint8Array.of(0xff, 0xfb), Uint8Array.of(0xff, 0xf3)); // MP3
  assert.deepEqual(foreign.map((file) => isForeign(Uint8Array.from(file))), [true, true, true, true]);
  assert.ok(read.every((file) => !isForeign(file)));
});

test("channels are mixed, and none overflows", () => {
  const stereo = [Float32Array.of(1, 0.5, -1.5), Float32Array.of(0, -0.5, -1.5)];
  assert.deepEqual([...mixed(stereo)], [16384, 0, -32768]);
});

// --- the service ---------------------------------------------------------------------------------------
test("samples come whole, however their bytes are cut", async () => {
  const all = new Uint8Array(Int16Array.of(1, 2, -3, 400).buffer);
  const pieces = [all.slice(0, 1), all.slice(1, 2), all.slice(2, 7), all.slice(7)];
  const got = [];
  for await (const pcm of service.samples(stream(pieces))) got.push(...pcm);
  assert.deepEqual(got, [1, 2, -3, 400]);
});

test("a stream that breaks off is told from one that is over", async () => {
  const read = async () => {
    for await (const _ of service.samples(stream([new Uint8Array(2)], new TypeError("network"))));
  };
  await assert.rejects(read(), { code: "broken" });
});

test("failures say what the page can do about them", async () => {
  const error = { message: "There is one", code: "voice_exists", param: "name" };
  const replies = [
    [Response.json({ error }, { status: 409 }), "voice_exists", "There is one", "name"],
    [Response.json({ error: { code: "unknown_url" } }, { status: 404 }), "off", "", ""],
    [Response.json({ error: { code: "missing_api_key" } }, { status: 401 }), "key", "", ""],
    [new Response("Bad gateway", { status: 502 }), "failed", "502", ""],
  ];
  for (const [reply, code, detail, param] of replies) {
    answering(() => reply);
    await assert.rejects(service.list(), { code, detail, param });
  }
  answering(() => Promise.reject(new TypeError("network")));
  await assert.rejects(service.list(), { code: "unreachable" });
});

test("a voice is registered as a form, and removed by its name", async () => {
  const asked = [];
  answering((path, options) => {
    asked.push([path, options]);
    return Response.json({ id: "小明" });
  });
  const audio = new Blob(["sound"]);
  const made = await service.register({ name: "小明", text: "你好", consent: "yes", audio });
  assert.equal(made.id, "小明");
  const [[path, { method, body }]] = asked;
  assert.deepEqual([path, method], ["/register-voice", "POST"]);
  assert.deepEqual([...body.keys()], ["name", "text", "consent", "audio"]);
  assert.equal(await body.get("audio").text(), "sound");
  await service.remove("小明");
  assert.deepEqual([asked[1][0], asked[1][1].method], [`/voices/${encodeURIComponent("小明")}`, "DELETE"]);
});

// --- playing -------------------------------------------------------------------------------------------
function makePlayer(sound) {
  const failures = [];
  const player = new Player({ sound, onChange: () => {}, onFailure: (error) => failures.push(error) });
  return { player, failures };
}

const spoken = (pieces, error) =>
  new Response(stream(pieces, error), { headers: { "X-First-Audio-Ms": "12" } });

test("a text is played as it comes, and is over when it was heard", async () => {
  const sound = makeSound();
  const { player, failures } = makePlayer(sound);
  answering((path, { body }) => {
    assert.deepEqual([path, JSON.parse(body)], ["/tts", { text: "Hi", voice: "one", format: "pcm" }]);
    return spoken([new Uint8Array(RATE), new Uint8Array(RATE)]);
  });
  await player.speak("one", "Hi");
  const [, first, second, close] = sound.done;
  assert.deepEqual([first[0], second[0], close[0]], ["play", "play", "close"]);
  assert.equal(first[2].length, RATE / 2);
  assert.ok(player.figures.firstMs >= 0);
  assert.deepEqual([player.figures.serverMs, player.figures.seconds], [12, 1]);
  assert.equal(player.source, "one");
  player.played({ type: "drained", id: "another" });
  assert.equal(player.source, "one");
  player.played({ type: "drained", id: close[1] });
  assert.equal(player.source, null);
  assert.deepEqual(failures, []);
});

test("who stops it hears no more of it, whatever still comes", async () => {
  const sound = makeSound();
  const { player, failures } = makePlayer(sound);
  let more;
  answering((_, { signal }) => {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new Uint8Array(4));
        more = () => controller.enqueue(new Uint8Array(4));
        signal.addEventListener("abort", () => controller.error(signal.reason));
      },
    });
    return new Response(body);
  });
  const speaking = player.speak("one", "Hi");
  while (!sound.done.some(([what]) => what === "play")) await turn();
  player.stop();
  assert.throws(more);
  await speaking;
  assert.equal(player.source, null);
  assert.equal(sound.done.at(-1)[0], "flush");
  assert.equal(player.figures.serverMs, null); // this service did not say
  assert.deepEqual(failures, []);
});

test("another text takes the place of the one before, even while it waits for the loudspeaker", async () => {
  const sound = makeSound();
  const { player, failures } = makePlayer(sound);
  answering((_, { body }) => spoken([new Uint8Array(2 * JSON.parse(body).text.length)]));
  await Promise.all([player.speak("one", "a"), player.speak("two", "bb")]);
  const played = sound.done.filter(([what]) => what === "play").map(([, , pcm]) => pcm.length);
  assert.deepEqual(played, [2]);
  assert.equal(player.source, "two");
  assert.deepEqual(failures, []);
});

test("a failure is told; what came before it is heard to its end", async () => {
  const sound = makeSound();
  const { player, failures } = makePlayer(sound);
  answering(() => Response.json({ error: { code: "at_capacity", message: "Full" } }, { status: 429 }));
  await player.speak("one", "Hi");
  assert.equal(player.source, null);
  answering(() => spoken([new Uint8Array(2)], new TypeError("network")));
  await player.speak("one", "Hi");
  assert.equal(player.source, "one");
  player.played({ type: "drained", id: sound.done.at(-1)[1] });
  assert.equal(player.source, null);
  answering(() => spoken([]));
  await player.speak("one", "Hi");
  assert.equal(player.source, null);
  assert.deepEqual(failures.map(({ code }) => code), ["at_capacity", "broken"]);
});

test("a recording is played, unless there is no loudspeaker", async () => {
  const sound = makeSound();
  const { player } = makePlayer(sound);
  const pcm = Int16Array.of(1, 2);
  await player.play("mine", pcm);
  assert.deepEqual(sound.done.slice(1).map(([what]) => what), ["play", "close"]);
  assert.notEqual(sound.done[1][2], pcm);
  assert.equal(player.source, "mine");
  const mute = makePlayer(makeSound({ refuses: new AudioFailure("insecure") }));
  await mute.player.play("mine", pcm);
  assert.deepEqual(mute.failures.map(({ code }) => code), ["insecure"]);
  assert.equal(mute.player.source, null);
});

// --- recording -----------------------------------------------------------------------------------------
const frame = (value) => new Int16Array(480).fill(value);

test("what the microphone hears becomes a WAV file", async () => {
  const sound = makeSound();
  const reference = new Reference({ sound, onChange: () => {} });
  assert.equal(reference.seconds, null);
  reference.hear(frame(9), 0.1); // nobody records
  await reference.record("usb");
  const plain = { device: "usb", cancelEcho: false, plain: true };
  assert.deepEqual(sound.done, [["open"], ["record", plain]]);
  for (let count = 0; count < 100; count += 1) reference.hear(frame(count), 0.1);
  assert.equal(reference.seconds, 2);
  reference.stop();
  reference.stop();
  assert.deepEqual(sound.done.slice(2), [["stopRecording"]]);
  const { audio, pcm, name } = reference.taken;
  assert.deepEqual([reference.state, reference.seconds, name, pcm[480]], ["there", 2, "", 1]);
  assert.deepEqual(new Uint8Array(await audio.arrayBuffer()), wavOf(pcm));
  reference.clear();
  assert.deepEqual([reference.state, reference.taken], ["none", null]);
});

test("a recording ends before it is too long, and one that is dropped is nothing", async () => {
  const sound = makeSound();
  const reference = new Reference({ sound, onChange: () => {} });
  await reference.record("");
  while (reference.state === "recording") reference.hear(frame(1), 0.1);
  assert.ok(reference.seconds > LONGEST_S - 1 && reference.seconds < LONGEST_S);
  await reference.record("");
  reference.hear(frame(1), 0.1);
  reference.clear();
  assert.deepEqual([reference.state, reference.seconds], ["none", null]);
});

test("who goes away while the browser asks leaves no microphone on", async () => {
  const sound = makeSound();
  const reference = new Reference({ sound, onChange: () => {} });
  const asking = reference.record("");
  assert.equal(reference.state, "asking");
  reference.stop();
  await asking;
  assert.equal(reference.state, "none");
  assert.equal(sound.done.at(-1)[0], "stopRecording");
});

test("a microphone that is refused is told", async () => {
  for (const [refuses, code] of [
    [new AudioFailure("mic-denied"), "mic-denied"],
    [new TypeError("?"), "mic-busy"],
  ]) {
    const reference = new Reference({ sound: makeSound({ refuses }), onChange: () => {} });
    await assert.rejects(reference.record(""), { code });
    assert.equal(reference.state, "none");
  }
});

test("files go as they are, but for those that only browsers read", async () => {
  const reference = new Reference({ sound: makeSound(), onChange: () => {} });
  globalThis.OfflineAudioContext = class {
    async decodeAudioData() {
      return { numberOfChannels: 1, getChannelData: () => new Float32Array(RATE) };
    }
  };
  const wav = new File(["RIFF....WAVE"], "a.wav");
  assert.ok(await reference.choose(wav));
  assert.deepEqual([reference.taken.audio, reference.seconds], [wav, 1]);
  const m4a = new File(["\0\0\0 ftypM4A "], "b.m4a");
  assert.ok(await reference.choose(m4a));
  const made = new Uint8Array(await reference.taken.audio.arrayBuffer());
  assert.deepEqual(made, wavOf(new Int16Array(RATE)));
  assert.equal(reference.taken.name, "b.m4a");
  globalThis.OfflineAudioContext = class {
    decodeAudioData = () => Promise.reject(new Error("what is this"));
  };
  assert.ok(await reference.choose(wav)); // the service may know better
  assert.deepEqual([reference.taken.pcm, reference.seconds], [null, null]);
  assert.ok(!(await reference.choose(m4a)));
  assert.equal(reference.state, "none");
  const huge = Object.defineProperty(new File([""], "c.wav"), "size", { value: 1e9 });
  assert.ok(await reference.choose(huge));
  assert.deepEqual([reference.taken.audio, reference.taken.pcm], [huge, null]);
  await Promise.all([reference.choose(m4a), reference.choose(wav)]);
  assert.equal(reference.taken.audio, wav);
});

// --- beside the conversation ---------------------------------------------------------------------------
test("a microphone that was held is again what it was", async () => {
  const microphone = new Microphone({ sound: makeSound(), onChange: () => {}, onPermitted: () => {} });
  microphone.hold(true);
  microphone.hold(false);
  assert.equal(microphone.state, "off");
  await microphone.start({ device: "", cancelEcho: true });
  const states = [];
  for (const step of ["hold", "free", "toggle", "hold", "free", "toggle", "hold", "toggle", "free"]) {
    if (step === "toggle") microphone.toggle();
    else microphone.hold(step === "hold");
    states.push(microphone.state);
  }
  const expected = ["muted", "on", "muted", "muted", "muted", "on", "muted", "on", "on"];
  assert.deepEqual(states, expected);
});

test("names of the embedded engine are read as people say them, others as they are", () => {
  const names = ["zf_xiaobei", "af_new_york", "my_voice", "小明", "one", "xx_y"];
  const shown = ["Xiaobei", "New york", "my_voice", "小明", "one", "xx_y"];
  assert.deepEqual(names.map(voiceName), shown);
});
