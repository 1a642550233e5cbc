// Quantities and text as people read them.

const PREFIXES = ["", "k", "M", "G", "T", "P"];

export function number(value, unit = "") {
  if (value === null || value === undefined) return "–";
  let size = Math.abs(value), prefix = 0;
  while (size >= 999.5 && prefix < PREFIXES.length - 1) {
    size /= 1000;
    ++prefix;
  }
  const digits = prefix === 0 && Number.isInteger(value) ? 0 : size >= 100 ? 0 : size >= 10 ? 1 : 2;
  const gap = PREFIXES[prefix] + unit ? " " : "";
  return (value < 0 ? "-" : "") + size.toFixed(digits) + gap + PREFIXES[prefix] + unit;
}

export const bytes = (value) => number(value, "B");
export const bitRate = (bytesPerSecond) =>
  number(bytesPerSecond === null ? null : 8 * bytesPerSecond, "bit/s");

// 0.42 kWh, 12 Wh
export function inThousandths(value, unit, thousandth) {
  return value >= 0.1 ? number(value) + " " + unit : number(1000 * value) + " " + thousandth;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1e-3) return (value * 1e6).toFixed(0) + " µs";
  if (value < 1) return (value * 1e3).toPrecision(value < 0.01 ? 2 : 3) + " ms";
  if (value < 10) return value.toFixed(1) + " s";
  if (value < 60) return value.toFixed(0) + " s";
  const two = (count) => String(Math.floor(count)).padStart(2, "0");
  if (value < 3600) return Math.floor(value / 60) + " min " + two(value % 60) + " s";
  if (value < 172800) return Math.floor(value / 3600) + " h " + two((value % 3600) / 60) + " min";
  return (value / 86400).toFixed(1) + " days";
}

export const loss = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
export const clock = (unix) => new Date(1000 * unix).toLocaleTimeString([], { hour12: false });
export const counted = (count, what) => count + " " + what + (count === 1 ? "" : "s");

// Ascending numbers: "0-3, 5".
export function ranges(numbers) {
  const parts = [];
  for (let i = 0; i < numbers.length; ) {
    let end = i;
    while (end + 1 < numbers.length && numbers[end + 1] === numbers[end] + 1) ++end;
    parts.push(end > i + 1 ? numbers[i] + "-" + numbers[end] : numbers.slice(i, end + 1).join(", "));
    i = end + 1;
  }
  return parts.join(", ") || "–";
}

// Characters that would not show, or would turn around what follows, show as their code.
export function shown(text) {
  const hidden = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
  return String(text).replace(
    hidden, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}
