// One target: what was decided, why, from which numbers, and what to do.
import { age, curl, number, unit, words } from "./format.js";

/** An element with attributes and children; strings become text. */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Draws the target; the scroll position and the focused button stay. */
export function show(place, { name, path, advice, target, history }) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset?.key : null;
  const top = place.dataset.name === name ? place.scrollTop : 0;
  place.dataset.name = name;
  place.replaceChildren(
    head(target, advice),
    section("Why", list(advice.reasons, (reason) => [reason.message, " ", h("code", null, reason.code)])),
    section("From the wish to the answer", limits(advice)),
    section("What to do", list(advice.actions, action)),
    section("Parts", parts(advice.parts)),
    section("Numbers behind it", inputs(advice.inputs)),
    section("What will come of it", forecast(advice.forecast)),
    section("Source", source(target.source)),
    section("Decisions so far", chart(history)),
    links(path),
  );
  place.scrollTop = top;
  if (focused) [...place.querySelectorAll("[data-key]")].find((element) => element.dataset.key === focused)?.focus({ preventScroll: true });
}

/** A headed block; without content there is none. */
function section(title, content) {
  return content ? h("div", null, h("h3", null, title), content) : null;
}

function head(target, advice) {
  const moves = advice.recommended !== advice.current;
  const until = advice.validUntil ? (Date.parse(advice.validUntil) - Date.now()) / 1000 : null;
  const valid = until === null ? "rests on no reading" : until > 0 ? `valid for ${age(until)}` : `expired ${age(-until)} ago`;
  return h("div", null,
    h("div", { class: "head" },
      h("h2", null, target.displayName),
      h("a", { href: "#", "data-key": "close", "aria-label": "Close" }, "Close")),
    h("p", { class: "quiet" }, [target.name, target.kind, target.namespace].filter(Boolean).join(" · ")),
    h("p", { class: "big number" },
      number(advice.current), moves ? h("span", { class: "to" }, ` → ${advice.recommended === null ? "?" : number(advice.recommended)}`) : null,
      h("small", null, ` ${unit(advice.unit, advice.recommended ?? advice.current)}`)),
    h("p", null, h("span", { class: `badge ${advice.outcome}` }, advice.outcome), " ",
      h("span", { class: "quiet" }, `${advice.confidence} confidence · ${valid} · between ${number(advice.bounds.min)} and ${number(advice.bounds.max)}`)));
}

function list(items, draw) {
  return items.length ? h("ul", { class: "list" }, items.map((item, index) => h("li", null, draw(item, index)))) : null;
}

function limits(advice) {
  if (!advice.limits.length) return null;
  const step = (value, text, code) => h("li", { class: "step" }, h("span", { class: "number" }, value), h("span", null, text, code ? h("code", null, ` ${code}`) : null));
  return h("ol", { class: "list" },
    step(number(advice.wanted), "is wished for"),
    advice.limits.map((limit) => step(`${number(limit.from)} → ${number(limit.to)}`, limit.message, limit.code)),
    step(number(advice.recommended), "is the answer"));
}

function copyButton(label, text, key) {
  const button = h("button", { type: "button", "data-key": key }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // the clipboard is closed to pages that came over plain HTTP: show the text to be copied by hand
      button.replaceWith(h("pre", { tabindex: "0" }, text));
    }
  });
  return button;
}

function action(item, index) {
  const call = item.request ? curl(item.request) : null;
  return [
    item.message, " ", h("code", null, item.action),
    call ? [h("pre", null, h("code", null, call)), copyButton("Copy as curl", call, `curl-${index}`)] : null,
    item.overrides ? [h("pre", null, h("code", null, item.overrides)), copyButton("Copy overrides", item.overrides, `overrides-${index}`)] : null,
  ].flat();
}

function table(headings, lines) {
  return h("div", { class: "scroll" }, h("table", null,
    h("thead", null, h("tr", null, headings.map((heading) => h("th", { scope: "col" }, heading)))),
    h("tbody", null, lines)));
}

function row(...cells) {
  return h("tr", null, cells.map((cell) => (cell instanceof Node ? cell : h("td", { class: "number" }, cell))));
}

function parts(items) {
  if (!items.length) return null;
  const share = (value) => (value === null || value === undefined ? "–" : `${Math.round(value * 100)} %`);
  const figures = items.some((part) => "busyRatio" in part);
  const headings = ["Name", "Count", ...(figures ? ["Busy", "Asked /s", "Can /s"] : []), "Why"];
  const shown = items.slice(0, 200);
  return h("div", null,
    table(headings, shown.map((part) => row(
      h("td", { title: part.id }, part.name || part.id),
      part.recommended === part.current ? number(part.current) : `${number(part.current)} → ${number(part.recommended)}`,
      ...(figures ? [share(part.busyRatio), number(part.targetPerSecond), number(part.capacityPerSecond)] : []),
      h("td", null, part.reasons[0]?.message ?? "")))),
    items.length > shown.length ? h("p", { class: "quiet" }, `${items.length - shown.length} more are in the JSON.`) : null);
}

function inputs(items) {
  if (!items.length) return null;
  return table(["Number", "Value", "Age", "State"], items.map((input) => row(
    h("td", null, words(input.name)), number(input.value), input.ageSeconds === null ? "–" : age(input.ageSeconds), h("td", { class: input.state }, input.state))));
}

function forecast(told) {
  const lines = [["Now", "Now"], ["As recommended", "Recommended"], ["At most", "AtMax"]].map(([label, key]) => {
    const ends = told[`catchesUp${key}`];
    const seconds = told[`catchUpSeconds${key}`];
    const busy = told[`utilization${key}`];
    const text = ends === false ? "never catches up" : seconds === null || seconds === undefined ? null : `backlog gone in ${age(seconds)}`;
    const parts = [text, busy === null || busy === undefined ? null : `${Math.round(busy * 100)} % busy`].filter(Boolean);
    return parts.length ? h("li", null, `${label}: ${parts.join(", ")}`) : null;
  }).filter(Boolean);
  return lines.length ? h("ul", { class: "list" }, lines) : null;
}

function source(told) {
  const next = told.nextReadingSeconds === null ? "" : `, next reading in ${age(told.nextReadingSeconds)}`;
  return h("div", null,
    h("p", null, h("span", { class: told.state }, told.state), told.ageSeconds === null ? ", never read" : `, read ${age(told.ageSeconds)} ago`, next,
      told.callsPerReading ? `, ${told.callsPerReading} ${told.callsPerReading === 1 ? "call" : "calls"} a reading` : ""),
    told.lastError ? h("p", { class: "down" }, `${told.lastError} (${told.consecutiveFailures} in a row)`) : null);
}

/** Steps of the present and the recommended count over time. */
function chart(decisions) {
  if (decisions.length < 2) return null;
  const times = decisions.map((past) => Date.parse(past.at));
  const begin = times[0];
  const span = Math.max(times[times.length - 1] - begin, 1);
  const most = Math.max(1, ...decisions.flatMap((past) => [past.current ?? 0, past.recommended ?? 0]));
  const svg = (tag, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const line = (key) => {
    let path = "";
    let pen = false;
    decisions.forEach((past, index) => {
      if (past[key] === null) {
        // unknown is a gap, not a zero
        pen = false;
        return;
      }
      const x = (((times[index] - begin) / span) * 1000).toFixed(1);
      const y = (96 - (past[key] / most) * 90).toFixed(1);
      path += pen ? `H${x}V${y}` : `M${x} ${y}`;
      pen = true;
    });
    return svg("path", { class: key, d: path });
  };
  const drawing = svg("svg", { class: "chart", viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img", "aria-label": `Counts over the last ${age(span / 1000)}, at most ${most}` });
  drawing.append(line("current"), line("recommended"));
  return h("div", null, drawing,
    h("p", { class: "quiet" }, h("span", { class: "key" }, "count"), "  ", h("span", { class: "key recommended" }, "recommended"), ` · last ${age(span / 1000)}, at most ${most}`));
}

function links(path) {
  const link = (rest, text) => h("a", { href: `${path}${rest}` }, text);
  return h("p", { class: "quiet" }, link("/advice", "advice"), " · ", link("/request", "the question behind it"), " · ", link("/history", "history"), " · ", link("", "configuration"));
}
