// @ts-check
/**
 * The picture of a full-duplex conversation: two half discs, the assistant above and the user
 * below. Sound starts at the middle and travels outwards as rings, as loud as it was: both at once,
 * when both speak. A pause holds the rings of the answer still.
 */

const RINGS = 22;
/** rings move on by one in so many seconds */
const STEP_S = 0.034;
/** share of the radius that stays free at the middle, and between the halves */
const CORE = 0.07;
const GAP = 0.035;

/** how strong each ring is in silence: a wave that stands still */
const GRAIN = Float32Array.from({ length: RINGS }, (_, ring) => {
  const place = ring / (RINGS - 1);
  return (0.15 + 0.85 * place) * Math.sin(place * Math.PI * 2.5) ** 2;
});

/** states in which the rings of an answer are there to be seen */
const SOUNDING = new Set(["speaking", "paused"]);
/** states in which there is no conversation: both halves are grey */
const ASLEEP = new Set(["idle", "blocked", "error"]);
/** states in which what the microphone hears is sent */
const HEARS = new Set(["listening", "hearing", "thinking", "speaking", "paused"]);

/** @typedef {{level: number, rings: Float32Array, glow: number}} Half */

/** @returns {Half} */
const half = () => ({ level: 0, rings: new Float32Array(RINGS), glow: 0 });

export class Disc {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this._canvas = canvas;
    this._draw = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this._its = half();
    this._mine = half();
    /** @type {import("./state.js").State} */
    this._state = "idle";
    /** @type {import("./state.js").Microphone} */
    this._microphone = "off";
    this._calm = matchMedia("(prefers-reduced-motion: reduce)");
    this._last = 0;
    this._phase = 0;
    this._asked = false;
    this.recolour();
    new ResizeObserver(() => this._wake()).observe(canvas);
    document.addEventListener("visibilitychange", () => this._wake());
    this._wake();
  }

  /** The theme changed. */
  recolour() {
    const style = getComputedStyle(document.documentElement);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    this._colours = { its: colour("--its"), mine: colour("--mine"), away: colour("--away") };
    this._wake();
  }

  /**
   * @param {import("./state.js").State} state
   * @param {import("./state.js").Microphone} microphone
   */
  show(state, microphone) {
    // an answer that is over, or cut off, leaves nothing behind
    if (SOUNDING.has(this._state) && !SOUNDING.has(state)) this._its = half();
    this._state = state;
    this._microphone = microphone;
    this._wake();
  }

  /** Loudness of the answer, 0 to 1. @param {number} level */
  answer(level) {
    if (this._state !== "speaking") return; // the last of it is told after its end
    this._its.level = Math.max(level, this._its.level);
    this._wake();
  }

  /** Loudness of the microphone, 0 to 1. @param {number} level */
  microphone(level) {
    this._mine.level = Math.max(level, this._mine.level);
    this._wake();
  }

  _wake() {
    if (this._asked || document.hidden) return;
    this._asked = true;
    requestAnimationFrame((now) => this._frame(now / 1000));
  }

  /** @param {number} now */
  _frame(now) {
    this._asked = false;
    const due = this._calm.matches ? 0.25 : STEP_S;
    if (now - this._last >= due) {
      const missed = Math.min(RINGS, Math.floor((now - this._last) / due));
      this._last = now;
      for (let step = 0; step < missed; step += 1) this._step();
    }
    this._paint(this._calm.matches ? 0 : Math.min(1, (now - this._last) / STEP_S));
    if (this._moves()) this._wake();
  }

  /** Something is still to be seen moving. */
  _moves() {
    const waits = ["thinking", "asking", "connecting", "reconnecting"].includes(this._state);
    if (waits) return !this._calm.matches;
    return [this._its, this._mine].some(
      ({ level, rings, glow }) => level > 0.01 || glow > 0.01 || rings.some((ring) => ring > 0.01),
    );
  }

  _step() {
    this._phase += 1;
    const idle = this._invented();
    const still = this._state === "paused";
    if (!still) this._push(this._its, Math.max(this._its.level, idle.its));
    this._push(this._mine, Math.max(this._mine.level, idle.mine));
  }

  /**
   * @param {Half} side
   * @param {number} level
   */
  _push(side, level) {
    if (this._calm.matches) side.rings.fill(level);
    else {
      side.rings.copyWithin(1, 0);
      side.rings[0] = level;
    }
    side.glow += (Math.max(0, level - 0.15) - side.glow) * 0.2;
    side.level = 0;
  }

  /** Movement that stands for waiting. */
  _invented() {
    const wave = (/** @type {number} */ turn) =>
      this._calm.matches ? 0.3 : 0.34 * Math.max(0, Math.sin(this._phase * 0.3 + turn)) ** 2;
    if (this._state === "thinking") return { its: wave(0), mine: 0 };
    if (this._state === "asking") return { its: 0, mine: wave(0) };
    if (this._state === "connecting" || this._state === "reconnecting") {
      return { its: wave(0), mine: wave(Math.PI / 2) };
    }
    return { its: 0, mine: 0 };
  }

  /** @param {number} between how far the rings are on their way to the next step */
  _paint(between) {
    const { clientWidth: width, clientHeight: height } = this._canvas;
    const scale = devicePixelRatio || 1;
    if (!width || !height) return;
    const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
    if (this._canvas.width !== wide || this._canvas.height !== high) {
      this._canvas.width = wide;
      this._canvas.height = high;
    }
    const draw = this._draw;
    draw.setTransform(scale, 0, 0, scale, 0, 0);
    draw.clearRect(0, 0, width, height);
    draw.translate(width / 2, height / 2);
    const radius = (Math.min(width, height) / 2) * 0.94;
    const { its, mine, away } = /** @type {{its: string, mine: string, away: string}} */ (
      this._colours
    );
    const asleep = ASLEEP.has(this._state);
    const held = this._state === "paused" ? 0 : between;
    this._half(this._its, -1, radius, { colour: asleep ? away : its, between: held });
    const given = this._microphone === "on" || this._microphone === "asking";
    this._half(this._mine, 1, radius, {
      colour: given && !asleep ? mine : away,
      between,
      open: this._microphone === "on" && HEARS.has(this._state),
      dashed: this._microphone === "muted",
    });
  }

  /**
   * @param {Half} side
   * @param {1 | -1} down
   * @param {number} radius
   * @param {object} look
   * @param {string} look.colour
   * @param {number} look.between
   * @param {boolean} [look.open] it hears, also when all is silent
   * @param {boolean} [look.dashed]
   */
  _half(side, down, radius, { colour, between, open = false, dashed = false }) {
    const draw = this._draw;
    const gap = radius * GAP;
    draw.save();
    draw.translate(0, down * gap);
    const [from, to] = down === 1 ? [0, Math.PI] : [Math.PI, 2 * Math.PI];
    draw.fillStyle = colour;
    const glow = Math.min(1, side.glow);
    draw.globalAlpha = open ? 0.34 + 0.14 * glow : 0.12 + 0.2 * glow;
    draw.beginPath();
    draw.arc(0, 0, radius - gap, from, to);
    draw.closePath();
    draw.fill();
    draw.beginPath();
    draw.rect(-radius, down === 1 ? 0 : -radius, 2 * radius, radius);
    draw.clip();
    draw.strokeStyle = colour;
    const space = (radius - gap) * (1 - CORE);
    const pitch = space / RINGS;
    if (dashed) draw.setLineDash([pitch * 0.6, pitch * 1.4]);
    for (let ring = 0; ring < RINGS; ring += 1) {
      const level = side.rings[ring];
      const place = (ring + 0.5 + (level > 0.01 ? between : 0)) * pitch;
      if (place > space - pitch * 0.35) continue;
      const age = 1 - (ring / RINGS) * 0.5;
      const rest = GRAIN[ring];
      draw.globalAlpha = Math.min(1, (open ? 0.4 : 0.24) + 0.5 * rest + 0.76 * level * age);
      draw.lineWidth = pitch * Math.min(0.86, 0.14 + 0.4 * rest + 0.7 * level * age);
      draw.beginPath();
      draw.arc(0, 0, radius * CORE + place, from, to);
      draw.stroke();
    }
    draw.restore();
  }
}
