// The list of targets, kept up to date. Every text from the service goes in as text, never as markup.
import { age, number, unit } from "./format.js";
import { show } from "./detail.js";

const MOST_ROWS = 500;
const byId = (id) => document.getElementById(id);
const rows = new Map();
let targets = [];
let fetchedAt = 0;
let total = 0;

/** Reads JSON; problem documents become errors with their sentence. */
async function read(path) {
  const response = await fetch(path, { headers: { accept: "application/json" } });
  if (response.ok) return response.json();
  const problem = await response.json().catch(() => ({}));
  throw new Error(problem.detail ?? `${path} answered ${response.status}`);
}

async function allTargets() {
  const all = [];
  let after = "";
  do {
    const page = await read(`v1/targets?limit=1000${after}`);
    all.push(...page.targets);
    after = page.next === null ? "" : `&after=${encodeURIComponent(page.next)}`;
  } while (after);
  return all;
}

function say(id, text) {
  const element = byId(id);
  element.hidden = !text;
  if (text && element.textContent !== text) element.textContent = text;
}

// one refresh at a time, and at most two a second, however many decisions come in
let refreshing = false;
let again = false;
async function refresh() {
  if (refreshing) {
    again = true;
    return;
  }
  refreshing = true;
  try {
    const [list, status] = await Promise.all([allTargets(), read("v1/status")]);
    targets = list;
    fetchedAt = Date.now();
    total = list.length;
    say("error", "");
    byId("demo").hidden = !status.demo;
    const reload = status.configuration;
    say("configuration", reload.state === "reloadFailed" ? `The newest configuration was refused, the one before is in force: ${reload.problems.join("; ")}` : "");
    byId("version").textContent = `loadline ${status.version}`;
    draw();
    await drawDetail();
  } catch (error) {
    const since = fetchedAt ? ` What you see is ${age((Date.now() - fetchedAt) / 1000)} old.` : "";
    say("error", `The service could not be read: ${error.message}.${since}`);
  }
  setTimeout(() => {
    refreshing = false;
    if (again) {
      again = false;
      refresh();
    }
  }, 500);
}

function draw() {
  const wanted = byId("filter").value.trim().toLowerCase();
  const shown = targets
    .filter((target) => !wanted || [target.name, target.displayName, target.namespace ?? "", target.kind, target.outcome, target.reason ?? ""].join(" ").toLowerCase().includes(wanted))
    .slice(0, MOST_ROWS);
  byId("empty").hidden = total > 0 || fetchedAt === 0;
  byId("list").hidden = shown.length === 0;
  const hiddenOnes = total - shown.length;
  say("note", shown.length === 0 && total > 0 ? `None of ${total} targets fits this filter.` : hiddenOnes > 0 ? `${shown.length} of ${total} targets.` : "");
  const body = byId("rows");
  const names = new Set(shown.map((target) => target.name));
  for (const [name, row] of rows) {
    if (!names.has(name)) {
      row.element.remove();
      rows.delete(name);
    }
  }
  shown.forEach((target, index) => {
    let row = rows.get(target.name);
    if (!row) rows.set(target.name, (row = makeRow(target.name)));
    if (body.children[index] !== row.element) body.insertBefore(row.element, body.children[index] ?? null);
    row.update(target);
  });
}

function makeRow(name) {
  const element = document.createElement("tr");
  const cell = (kind) => {
    const made = document.createElement("td");
    made.className = kind;
    element.append(made);
    return made;
  };
  const part = (parent, tag) => parent.appendChild(document.createElement(tag));
  const nameCell = cell("name");
  const link = part(nameCell, "a");
  link.href = `#${encodeURIComponent(name)}`;
  const about = part(nameCell, "small");
  const count = cell("count number");
  const from = part(count, "span");
  const to = part(count, "span");
  to.className = "to";
  const what = part(count, "small");
  const badge = part(cell("outcome"), "span");
  const why = cell("why");
  const words = part(why, "span");
  const code = part(why, "small");
  const reading = cell("reading");
  const readingAge = part(reading, "span");
  const source = part(reading, "small");
  element.addEventListener("click", (event) => {
    if (event.target !== link) location.hash = link.hash;
  });
  const text = (node, value) => {
    if (node.textContent !== value) node.textContent = value;
  };
  let last = null;
  const tick = (target) => text(readingAge, target.source.ageSeconds === null ? "never" : `${age(target.source.ageSeconds + (Date.now() - fetchedAt) / 1000)} ago`);
  return {
    element,
    tick: () => last && tick(last),
    update(target) {
      text(link, target.displayName);
      text(about, [target.kind, target.namespace, target.name === target.displayName ? null : target.name].filter(Boolean).join(" · "));
      const moves = target.recommended !== target.current;
      text(from, number(target.current));
      text(to, moves ? ` → ${target.recommended === null ? "?" : number(target.recommended)}` : "");
      text(what, unit(target.unit, target.recommended ?? target.current));
      text(badge, target.outcome);
      badge.className = `badge ${target.outcome}`;
      text(words, target.message ?? "");
      text(code, target.reason ?? "");
      tick(target);
      text(source, target.source.state === "up" ? "source up" : target.source.state === "down" ? `source down: ${target.source.lastError ?? "no reason given"}` : "source starting");
      source.className = target.source.state;
      element.classList.toggle("chosen", target.name === chosen());
      if (last && (last.recommended !== target.recommended || last.outcome !== target.outcome)) {
        element.classList.remove("changed");
        void element.offsetWidth;
        element.classList.add("changed");
      }
      last = target;
    },
  };
}

function chosen() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

async function drawDetail() {
  const name = chosen();
  const known = targets.some((target) => target.name === name);
  const detail = byId("detail");
  detail.hidden = !known;
  document.querySelector("main").classList.toggle("open", known);
  for (const [other, row] of rows) row.element.classList.toggle("chosen", other === name);
  document.title = known ? `${name} · Loadline` : "Loadline";
  if (!known) return;
  const path = `v1/targets/${encodeURIComponent(name)}`;
  const [advice, target, history] = await Promise.all([read(`${path}/advice`), read(path), read(`${path}/history`)]);
  // the reader may have moved on meanwhile
  if (chosen() === name) show(detail, { name, path, advice, target, history: history.decisions });
}

addEventListener("hashchange", async () => {
  const before = byId("detail").hidden;
  try {
    await drawDetail();
  } catch (error) {
    say("error", `The target could not be read: ${error.message}.`);
  }
  if (!byId("detail").hidden) byId("detail").focus({ preventScroll: false });
  else if (!before) byId("targets").focus();
});
addEventListener("keydown", (event) => {
  if (event.key === "/" && !(event.target instanceof HTMLInputElement)) {
    event.preventDefault();
    byId("filter").focus();
  } else if (event.key === "Escape" && location.hash) {
    location.hash = "";
  }
});
byId("filter").addEventListener("input", draw);

const example = `curl -s ${new URL("v1/advice", location.href)} --data '{"kind":"backlog","replicas":{"spec":5},"snapshot":{"backlog":4000,"arrivalPerSecond":200,"servedPerSecond":180}}'`;
byId("example").textContent = example;
byId("copy-example").addEventListener("click", () => navigator.clipboard?.writeText(example));

const events = new EventSource("v1/events");
const live = (on) => {
  byId("live").textContent = on ? "live" : "reconnecting";
  byId("live").classList.toggle("on", on);
};
events.onopen = () => {
  live(true);
  refresh();
};
events.onerror = () => live(false);
events.addEventListener("advice", refresh);
events.addEventListener("lagged", refresh);
// sources can fail without a new decision, and ages go on
setInterval(refresh, 15000);
setInterval(() => rows.forEach((row) => row.tick()), 1000);
refresh();
