// Asks for state.json every two seconds and shows it. docs/page.md lists its fields.

import { LossChart, colour, describeTimeLine, drawTimeLine, element, swatch } from "./charts.js";
import { bitRate, bytes, clock, counted, inThousandths, loss, number, ranges, seconds, shown } from "./format.js";

const POLL_MS = 2000;
const DOINGS = ["computing", "sending", "waiting", "catching up", "lost"];
const PHASES = { data: "left", compute: "computing", exchange: "waiting", update: "sending" };

const at = (id) => document.getElementById(id);
const chart = new LossChart(at("loss"));

function fillTable(table, head, rows) {
  const row = (cells, tag) => element("tr", {}, ...cells.map((cell) => element(tag, {}, cell)));
  table.replaceChildren(row(head, "th"), ...rows.map((cells) => row(cells, "td")));
}

function showHead(state) {
  const percent = state.steps > 0 ? (100 * state.step) / state.steps : 0;
  at("name").textContent = shown(state.name);
  at("method").textContent = state.method + ", " + counted(state.workers, "worker");
  at("state").textContent = state.state;
  at("state").className = "badge " + state.state;
  at("done").style.width = percent + "%";
  at("bar").setAttribute("aria-valuenow", percent.toFixed(0));
  const round = state.round === null ? "" : `, round ${state.round} of ${state.rounds}`;
  at("place").textContent = `step ${state.step} of ${state.steps}${round}, ${percent.toFixed(percent < 10 ? 1 : 0)} %`;
  document.title = `${percent.toFixed(0)} % ${shown(state.name)}`;
  at("notice").hidden = state.waits_for === "";
  if (state.waits_for) at("notice").textContent = "waits for " + shown(state.waits_for);
}

const last = (list) => list[list.length - 1];

function tile(label, value, more = "") {
  return element("div", { class: "tile" }, element("div", { class: "label" }, label),
                 element("div", { class: "value" }, value), element("div", { class: "more" }, more));
}

function showTiles(state) {
  const tiles = [];
  const ready = new Date(1000 * (state.now + state.left_s));
  const day = { weekday: "short", hour: "2-digit", minute: "2-digit", hour12: false };
  tiles.push(tile("time left", seconds(state.left_s),
                  state.left_s === null ? "" : "ready " + ready.toLocaleString([], day)));
  tiles.push(tile("a step takes", seconds(state.step_s), "running for " + seconds(state.now - state.started)));
  if (state.round !== null) {
    const here = state.members.filter((member) => !["lost", "left"].includes(member.doing));
    tiles.push(tile("members here", String(here.length), "of " + state.members.length + " that ever joined"));
    tiles.push(tile("closed rounds", String(state.closed_rounds), "of " + state.rounds));
  }
  if (state.loss.train.value.length > 0) {
    const learning = state.last_step ? state.last_step.learning_rate : null;
    tiles.push(tile("training loss", loss(last(state.loss.train.value)),
                    learning === null ? "" : "learning rate " + learning.toExponential(2)));
  }
  for (const [name, curve] of Object.entries(state.loss.validation)) {
    tiles.push(tile(name + " loss", loss(last(curve.value)), "after step " + last(curve.step)));
  }
  for (const [name, curve] of Object.entries(state.loss.scores)) {
    tiles.push(tile(name, loss(last(curve.value)), "after step " + last(curve.step)));
  }
  if (state.last_step) tiles.push(tile("tokens a second", number(state.last_step.tokens_per_second)));
  at("tiles").replaceChildren(...tiles);
}

function showLoss(state) {
  const sets = Object.entries(state.loss.validation);
  const series = [["training", state.loss.train], ...sets].map(([name, curve], i) => ({
    name, ...curve, key: "series-" + (i % 5), colour: colour("series-" + (i % 5)), dots: i > 0 }));
  const drawn = series.filter((one) => one.step.length > 0);
  at("legend").replaceChildren(...drawn.map((one) =>
    element("li", {}, swatch(one.key), `${one.name} ${loss(last(one.value))}`)));
  at("no-loss").hidden = drawn.length > 0;
  at("no-loss").textContent = state.command === "serve"
    ? "No member has reported a loss yet."
    : "No step is complete yet.";
  at("loss").hidden = drawn.length === 0;
  chart.show(series);
}

function memberRow(member, state) {
  const name = "member " + member.id + (member.name ? " · " + shown(member.name) : "");
  const facts = [];
  if (member.round !== null && member.doing !== "waiting") facts.push("round " + member.round);
  if (member.step !== null) facts.push("step " + member.step);
  if (member.compute_s !== null) facts.push("computes " + seconds(member.compute_s));
  if (member.exchange_s !== null) facts.push("exchanges " + seconds(member.exchange_s));
  if (member.down_bytes_s !== null) facts.push("link down " + bitRate(member.down_bytes_s));
  if (member.rows > 0) {
    // Members of a private run do not say how long they compute.
    const spent = member.hours > 0 ? " in " + seconds(member.hours * 3600) : "";
    facts.push(counted(member.rows, "row") + spent + ", " + bytes(member.bytes) + " sent");
    if (member.kilowatt_hours > 0) facts.push(inThousandths(member.kilowatt_hours, "kWh", "Wh"));
    if (member.co2_kg > 0) facts.push(inThousandths(member.co2_kg, "kg CO₂", "g CO₂"));
  }
  if (member.offences > 0) facts.push(counted(member.offences, "offence"));
  const doing = element("span", { class: "doing" }, swatch(member.doing), member.doing);
  if (member.doing !== "training") doing.append(" ", seconds(Math.max(state.now - member.since, 0)));
  const row = element("div", { class: "member", "data-member": member.id }, element("div", {}, name), doing);
  if (member.time_line) {
    const canvas = element("canvas", { role: "img", "aria-label": describeTimeLine(member.time_line, DOINGS) });
    row.append(element("div", { class: "track" }, canvas));
  }
  row.append(element("div", { class: "why" }, [member.why, ...facts].filter(Boolean).join(" · ")));
  return row;
}

function showMembers(state) {
  const rows = state.members.map((member) => memberRow(member, state));
  at("members").replaceChildren(...rows);
  const end = (state.now - state.time_line.start) / state.time_line.bucket_s;
  state.members.forEach((member, i) => {
    const canvas = rows[i].querySelector("canvas");
    if (canvas) drawTimeLine(canvas, member.time_line, DOINGS, end);
  });
  const seen = DOINGS.filter((doing) => state.members.some((one) => one.time_line && one.time_line[doing]));
  at("doings").replaceChildren(...seen.map((doing) => element("li", {}, swatch(doing), doing)));
  at("axis").replaceChildren(
    ...(seen.length ? [element("span", {}, clock(state.time_line.start)), element("span", {}, "now")] : []));
  if (rows.length === 0) at("members").append(element("p", { class: "quiet" }, "No member has reported yet."));
}

function showBytes(state) {
  const { sent, received, prediction_is_exact: exact } = state.bytes_per_step;
  const row = (name, one) => {
    const off = one.measured === null || !one.predicted ? "–" : (one.measured / one.predicted).toFixed(3);
    const rate = one.measured === null || !state.step_s ? null : one.measured / state.step_s;
    return [name, bytes(one.measured), (exact ? "" : "≤ ") + bytes(one.predicted), off, bitRate(rate)];
  };
  fillTable(at("bytes"), ["a member, a step", "measured", "planned", "ratio", "mean rate"],
            [row("sent", sent), row("received", received)]);
  at("bytes-note").textContent = state.command === "serve"
    ? "Measured: payloads that rounds counted, by the ledger. Planned: as thinwire plan computes them."
    : "Measured: payloads as the workers count them. Planned: as thinwire plan computes them.";
}

function showPhases(state) {
  const phases = Object.entries(state.seconds_per_step).filter(([name]) => name in PHASES);
  const all = phases.reduce((sum, [, value]) => sum + value, 0);
  at("phases-section").hidden = all === 0;
  at("phases").replaceChildren(...phases.map(([name, value]) => {
    const part = element("div", { title: name });
    part.style.width = (100 * value) / all + "%";
    part.style.background = `var(--${PHASES[name]})`;
    return part;
  }));
  fillTable(at("phase-table"), ["mean over workers", "time", "share"], phases.map(([name, value]) => [
    element("span", {}, swatch(PHASES[name]), name), seconds(value), Math.round((100 * value) / all) + " %"]));
}

function showRounds(state) {
  at("rounds-section").hidden = state.command !== "serve";
  const rows = [...state.latest_rounds].reverse().map((round) => [
    String(round.round), String(round.first_step), seconds(round.seconds), bytes(round.bytes),
    ranges(round.counted), ranges(round.missing)]);
  fillTable(at("rounds"), ["round", "from step", "took", "payloads", "members", "missing"], rows);
}

function showLog(id, entries) {
  at(id + "-section").hidden = entries.length === 0;
  at(id).replaceChildren(...[...entries].reverse().map((entry) =>
    element("li", {}, element("time", {}, clock(entry.time)), element("span", {}, entry.text))));
}

function show(state) {
  showHead(state);
  showTiles(state);
  showLoss(state);
  showMembers(state);
  showBytes(state);
  showPhases(state);
  showRounds(state);
  showLog("faults", state.faults);
  showLog("messages", state.messages);
}

let received = false;

function showSilence() {
  at("state").textContent = "not reached";
  at("state").className = "badge lost";
  at("notice").hidden = false;
  at("notice").textContent = received
    ? "The run has ended or cannot be reached from here; this is its last known state."
    : "The run cannot be reached from here.";
}

async function ask() {
  try {
    const response = await fetch("state.json", { cache: "no-store" });
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}

async function poll() {
  setTimeout(poll, POLL_MS);
  if (document.hidden) return;
  const state = await ask();
  if (state === null) return showSilence();
  received = true;
  show(state);
}

poll();
