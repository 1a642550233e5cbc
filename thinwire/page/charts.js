// Elements, the loss chart and the members' time lines. All text goes in as text, never as HTML.

import { loss as lossText, number, shown } from "./format.js";

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : shown(child))));
  return made;
}

function drawing(tag, properties = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

export const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue("--" + name.replace(" ", "-")).trim();

export function swatch(name) {
  const made = element("span", { class: "swatch" });
  made.style.background = `var(--${name.replace(" ", "-")})`;
  return made;
}

// Round numbers that divide a range into about `count` parts.
function ticks(low, high, count) {
  const raw = (high - low) / count;
  const base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * base >= raw) * base;
  const all = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) all.push(at);
  return { all, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

// The highest losses, those of the very beginning, may leave the picture, so that the rest shows.
function range(series) {
  const values = series.flatMap((one) => one.value).filter((value) => value !== null);
  values.sort((a, b) => a - b);
  const high = values[Math.floor((values.length - 1) * 0.985)];
  const low = values[0];
  const room = Math.max((high - low) * 0.06, 1e-3);
  return [low - room, high + room];
}

const MARGIN = { left: 44, right: 12, top: 8, bottom: 24 };

// series: [{name, colour, step: [], value: [], dots}]
export class LossChart {
  constructor(host) {
    this.host = host;
    this.series = [];
    host.addEventListener("pointermove", (event) => this.read(event));
    host.addEventListener("pointerleave", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(host);
  }

  show(series) {
    this.series = series.filter((one) => one.step.length > 0);
    if (!this.reading) this.draw();
  }

  draw() {
    this.reading = null;
    this.host.replaceChildren();
    if (this.series.length === 0) return;
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
    const steps = this.series.flatMap((one) => one.step);
    this.first = Math.min(...steps);
    this.last = Math.max(...steps, this.first + 1);
    [this.low, this.high] = range(this.series);
    const svg = drawing("svg", { role: "img", "aria-label": "Loss by step",
                                 viewBox: `0 0 ${this.width} ${this.height}` });
    this.axes(svg);
    for (const one of this.series) this.curve(svg, one);
    this.host.append(svg);
    this.svg = svg;
  }

  x(step) {
    const width = this.width - MARGIN.left - MARGIN.right;
    return MARGIN.left + (width * (step - this.first)) / (this.last - this.first);
  }
  y(value) {
    const height = this.height - MARGIN.top - MARGIN.bottom;
    const share = (value - this.low) / (this.high - this.low);
    return MARGIN.top + height * (1 - Math.min(share, 1.02));
  }

  axes(svg) {
    const bottom = this.height - MARGIN.bottom;
    const vertical = ticks(this.low, this.high, 5);
    for (const value of vertical.all) {
      const y = this.y(value);
      svg.append(drawing("line", { class: "grid", x1: MARGIN.left, x2: this.width - MARGIN.right, y1: y, y2: y }),
                 drawing("text", { x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" },
                         value.toFixed(vertical.digits)));
    }
    for (const step of ticks(this.first, this.last, this.width < 500 ? 4 : 8).all) {
      if (!Number.isInteger(step)) continue;
      const x = this.x(step);
      const anchor = x > this.width - 30 ? "end" : "middle";
      const text = number(step).replace(/\.?0+(?= )/, "");
      svg.append(drawing("text", { x: anchor === "end" ? this.width : x, y: bottom + 18, "text-anchor": anchor }, text));
    }
  }

  curve(svg, one) {
    const at = one.step.map((step, i) => [this.x(step), this.y(one.value[i])]);
    svg.append(drawing("polyline", { points: at.map(([x, y]) => x.toFixed(1) + "," + y.toFixed(1)).join(" "),
                                     fill: "none", stroke: one.colour, "stroke-width": one.dots ? 2 : 1.5,
                                     "stroke-linejoin": "round" }));
    if (!one.dots || at.length > 60) return;
    for (const [x, y] of at) svg.append(drawing("circle", { cx: x, cy: y, r: 3, fill: one.colour }));
  }

  // What the curves are at the pointer.
  read(event) {
    if (this.series.length === 0) return;
    const box = this.host.getBoundingClientRect();
    this.draw();
    const share = (event.clientX - box.left - MARGIN.left) / (this.width - MARGIN.left - MARGIN.right);
    const wanted = this.first + Math.min(Math.max(share, 0), 1) * (this.last - this.first);
    const nearest = (one) =>
      one.step.reduce((best, step, i) => (Math.abs(step - wanted) < Math.abs(one.step[best] - wanted) ? i : best), 0);
    const step = this.series[0].step[nearest(this.series[0])];
    const x = this.x(step);
    this.svg.append(drawing("line", { class: "cross", x1: x, x2: x, y1: MARGIN.top, y2: this.height - MARGIN.bottom }));
    this.reading = element("div", { id: "reading" }, element("div", {}, "step " + step),
      ...this.series.map((one) => element("div", {}, one.name + " " + lossText(one.value[nearest(one)]))));
    this.host.append(this.reading);
    const left = x > this.width / 2 ? x - this.reading.offsetWidth - 8 : x + 8;
    this.reading.style.left = left + "px";
  }
}

// line: percent of each bucket, by doing; `end`: where now is, in buckets.
export function drawTimeLine(canvas, line, doings, end) {
  const scale = window.devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * scale), height = Math.round(canvas.clientHeight * scale);
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const buckets = Math.max(end, 1);
  for (let i = 0; i < buckets; ++i) {
    const from = Math.floor((i * width) / buckets), to = Math.floor(((i + 1) * width) / buckets);
    // The last bucket is not over yet.
    const full = Math.min(end - i, 1);
    let top = height;
    for (const doing of doings) {
      const percent = line[doing] && line[doing][i];
      if (!percent) continue;
      const part = Math.min((height * percent) / (100 * full), top);
      context.fillStyle = colour(doing);
      context.fillRect(from, top - part, Math.max(to - from, 1), part);
      top -= part;
    }
  }
}

export function describeTimeLine(line, doings) {
  const sums = doings.map((doing) => (line[doing] || []).reduce((sum, percent) => sum + percent, 0));
  const all = sums.reduce((sum, one) => sum + one, 0);
  const parts = doings.map((doing, i) => [doing, sums[i]]).filter(([, sum]) => sum > 0);
  return parts.map(([doing, sum]) => doing + " " + Math.round((100 * sum) / all) + " %").join(", ");
}
