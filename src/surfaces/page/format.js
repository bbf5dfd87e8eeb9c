// How things are said: numbers, ages, commands. No element is made here.

/** A number short enough to read at a glance; unknown is a dash, never 0. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
  return String(Math.round(value * 100) / 100);
}

/** A length of time: 45 s, 3 min, 2 h, 4 d. */
export function age(seconds) {
  if (seconds === null || seconds === undefined) return "never";
  if (seconds < 0) return `in ${age(-seconds)}`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

/** camelCase as words: backlogRecords becomes "backlog records". */
export function words(name) {
  return name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
}

/** 1 replica, 2 replicas; "taskManagers" as people write it. */
export function unit(name, count) {
  const plural = { replicas: "replicas", taskManagers: "TaskManagers", slots: "slots" }[name] ?? name;
  return count === 1 ? plural.slice(0, -1) : plural;
}

/** Text as one word of a shell command. */
export function quoted(text) {
  return `'${String(text).replaceAll("'", "'\\''")}'`;
}

/** The command that performs an action. The source's address is the reader's to fill in. */
export function curl(request) {
  const parts = ["curl", "-X", request.method];
  if (request.body !== null && request.body !== undefined) {
    parts.push("-H", quoted("Content-Type: application/json"), "--data", quoted(JSON.stringify(request.body)));
  }
  parts.push(`"$SOURCE_URL"${quoted(request.path)}`);
  return parts.join(" ");
}
