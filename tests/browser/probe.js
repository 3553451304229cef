// Listens in on the page, without its help: everything that any AudioContext sends to its
// destination is measured on the clock of that context, together with every microphone track that
// the page was given. `window.probe.read()` gives, for each render quantum so far, the power of what
// was played, the periods that began in it, and the power of the microphone; `window.probe.now()` is
// the time on the clock of the first context.
//
// With `window.room = {gain, delay}` set before, loudspeaker and microphone stand in one room: what
// the page plays is in the stream that it gets as its microphone, so much weaker and so many seconds
// later, and `probe.say(pcm)` is somebody who speaks there: int16 at 16 kHz as base64; it gives the
// time at which the voice begins. `probe.asked` has the constraints of every microphone.
(() => {
  const recorder = `
    registerProcessor("probe", class extends AudioWorkletProcessor {
      constructor() {
        super();
        this.part = [];
        this.last = 0;
      }
      power(input) {
        if (!input.length) return 0;
        let sum = 0;
        for (const sample of input[0]) sum += sample * sample;
        return sum / input[0].length;
      }
      cycles(input) {
        let count = 0;
        if (input.length) {
          for (const sample of input[0]) {
            if (this.last < 0 && sample >= 0) count += 1;
            this.last = sample;
          }
        }
        return count;
      }
      process([speaker, microphone]) {
        if (!this.part.length) this.start = currentTime;
        this.part.push(this.power(speaker), this.cycles(speaker), this.power(microphone));
        if (this.part.length >= 48) {
          this.port.postMessage([this.start, this.part]);
          this.part = [];
        }
        return true;
      }
    });`;
  const module = URL.createObjectURL(new Blob([recorder], { type: "text/javascript" }));
  const { connect, disconnect } = AudioNode.prototype;
  const contexts = [];
  const microphones = [];
  const asked = [];

  class Tap {
    constructor(context) {
      this.context = context;
      this.rate = context.sampleRate;
      this.parts = [];
      this.speaker = new GainNode(context);
      this.microphone = new GainNode(context);
      microphones.forEach((stream) => this.hear(stream));
      context.audioWorklet.addModule(module).then(() => {
        const node = new AudioWorkletNode(context, "probe", { numberOfInputs: 2 });
        node.port.onmessage = ({ data }) => this.parts.push(data);
        connect.call(this.speaker, node, 0, 0);
        connect.call(this.microphone, node, 0, 1);
        connect.call(node, context.destination); // its output is silent; this keeps it running
      });
    }

    hear(stream) {
      if (this.context.state !== "closed") {
        connect.call(this.context.createMediaStreamSource(stream), this.microphone);
      }
    }
  }

  // A microphone in the room where the page's answers sound, on the context that plays them.
  let air = null;
  const inRoom = (stream) => {
    const { context, speaker } = contexts[0];
    air = context.createMediaStreamDestination();
    const echo = new GainNode(context, { gain: room.gain });
    const way = new DelayNode(context, { delayTime: room.delay, maxDelayTime: room.delay });
    connect.call(connect.call(connect.call(speaker, echo), way), air);
    connect.call(context.createMediaStreamSource(stream), air);
    return air.stream;
  };
  const say = (pcm) => {
    const { context } = contexts[0];
    const bytes = Uint8Array.from(atob(pcm), (letter) => letter.charCodeAt(0));
    const samples = Float32Array.from(new Int16Array(bytes.buffer), (value) => value / 32768);
    const buffer = new AudioBuffer({ length: samples.length, sampleRate: 16000 });
    buffer.copyToChannel(samples, 0);
    const voice = new AudioBufferSourceNode(context, { buffer });
    connect.call(voice, air);
    const at = context.currentTime + 0.1;
    voice.start(at);
    return at;
  };

  const tapOf = (context) => {
    let tap = contexts.find((each) => each.context === context);
    if (!tap) contexts.push((tap = new Tap(context)));
    return tap;
  };
  AudioNode.prototype.connect = function (to, ...rest) {
    const result = connect.call(this, to, ...rest);
    if (to instanceof AudioDestinationNode) connect.call(this, tapOf(this.context).speaker);
    return result;
  };
  AudioNode.prototype.disconnect = function (to, ...rest) {
    const result = disconnect.call(this, ...(to === undefined ? [] : [to, ...rest]));
    if (to instanceof AudioDestinationNode) disconnect.call(this, tapOf(this.context).speaker);
    return result;
  };
  if (navigator.mediaDevices) {
    const devices = navigator.mediaDevices;
    const ask = devices.getUserMedia.bind(devices);
    devices.getUserMedia = async (constraints) => {
      asked.push(constraints);
      const given = await ask(constraints);
      const stream = window.room ? inRoom(given) : given;
      microphones.push(stream);
      contexts.forEach((tap) => tap.hear(stream));
      return stream;
    };
  }
  window.probe = {
    now: () => contexts[0].context.currentTime,
    asked,
    say,
    read: () => contexts.map(({ rate, parts }) => ({ rate, parts })),
  };
})();
