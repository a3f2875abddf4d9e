import type { Command, Options } from "./command.ts";

/** Suggestions for a command or an option that does not exist. Pure functions over the table of commands. */

/** Commands and groups by the names that other programs have for them. */
const OTHER_NAMES: Readonly<Record<string, readonly string[]>> = {
  add: ["kv put"],
  auth: ["login"],
  backup: ["snapshot save"],
  cat: ["kv get"],
  check: ["doctor"],
  compare: ["kv diff"],
  copy: ["kv cp"],
  create: ["kv put", "snapshot save"],
  credentials: ["creds"],
  delete: ["kv rm", "sync remove"],
  destinations: ["sync status"],
  download: ["env pull"],
  exec: ["run"],
  export: ["env pull", "snapshot save"],
  grep: ["kv find"],
  health: ["doctor"],
  import: ["env push"],
  join: ["agent join"],
  log: ["kv history"],
  ls: ["kv list", "snapshot list"],
  metadata: ["kv history"],
  move: ["kv mv"],
  node: ["agent join"],
  read: ["kv get"],
  remove: ["kv rm", "sync remove"],
  rename: ["kv mv"],
  revert: ["kv rollback"],
  search: ["kv find"],
  secret: ["kv"],
  secrets: ["kv"],
  set: ["kv put", "sync set"],
  show: ["kv get"],
  status: ["sync status", "doctor"],
  subscribe: ["events tail"],
  token: ["login"],
  update: ["kv patch"],
  upload: ["env push"],
  versions: ["kv history"],
  watch: ["events tail"],
  write: ["kv put"],
};

type Words = readonly string[];

/** The error for words that no command has, with the nearest commands. */
export function commandFault(given: Words, commands: readonly Command[]): string {
  const visible = commands.filter(({ summary }) => summary !== "").map(({ words }) => words);
  const [first = "", second] = given;
  const inGroup = visible.filter((words) => words.length > 1 && words[0] === first);
  const group = inGroup.length > 0 ? `${first} ` : "";
  const children = inGroup.map((words) => words[1] ?? "").join(", ");
  if (group !== "" && second === undefined) return `name a command of ${first}: ${children}`;
  const word = group === "" ? first : (second ?? "");
  const found = suggestions(word, group === "" ? visible : inGroup);
  const fault = `no command ${JSON.stringify(`${group}${word}`)}`;
  if (found.length > 0) return `${fault}: did you mean ${orList(found.map((name) => nameOf(name, visible)))}?`;
  const all = [...new Set(visible.map(([name]) => name))].join(", ");
  return `${fault}: ${group === "" ? `the commands are ${all}` : `the commands of ${first} are ${children}`}`;
}

/** Names of commands and groups, such as `kv get` and `kv`. */
function suggestions(word: string, commands: readonly Words[]): string[] {
  const names = commands.map((words) => words.join(" "));
  const groups = new Set(commands.map(([first = ""]) => first));
  const others = (OTHER_NAMES[word.toLowerCase()] ?? []).filter((name) => names.includes(name) || groups.has(name));
  const rated = [
    ...commands.map((words) => ({ name: words.join(" "), distance: distanceOf(word, words.at(-1) ?? "") })),
    ...[...groups].map((name) => ({ name, distance: distanceOf(word, name) })),
    ...others.map((name) => ({ name, distance: 0 })),
  ];
  const best = Math.min(...rated.map(({ distance }) => distance));
  const isNear = (distance: number) => distance === best && distance < Number.POSITIVE_INFINITY;
  return [...new Set(rated.filter(({ distance }) => isNear(distance)).map(({ name }) => name))];
}

/** A group is shown with its commands. */
function nameOf(name: string, commands: readonly Words[]): string {
  const children = commands.filter((words) => words.length > 1 && words[0] === name).map((words) => words[1]);
  return children.length === 0 ? `\`${name}\`` : `\`${name}\` with ${children.join(", ")}`;
}

/** The names that a word may mean; none when no name is like it. */
export function similar(word: string, names: Words): string[] {
  const rated = names.map((name) => ({ name, distance: distanceOf(word, name) }));
  const best = Math.min(...rated.map(({ distance }) => distance));
  return best < Number.POSITIVE_INFINITY
    ? rated.filter(({ distance }) => distance === best).map(({ name }) => name)
    : [];
}

export const orList = (names: Words): string =>
  names.length < 2 ? names.join() : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;

/** Options by the names that other programs have for them. */
const OTHER_OPTIONS: Readonly<Record<string, string>> = {
  format: "json",
  key: "field",
  ns: "namespace",
  o: "json",
  output: "json",
};

/** Where a setting is given that is an option of other programs. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  addr: "SALLYPORT_ADDR is the address",
  address: "SALLYPORT_ADDR is the address",
  r: "a folder ends with a slash",
  recursive: "a folder ends with a slash",
  token: "SALLYPORT_TOKEN is the token, else that of `sallyport login`",
};

/** The error for an option that a command does not have, never with the option's value. */
export function optionFaultOf(given: string, { options, args = [] }: Pick<Command, "options" | "args">): string {
  const [shown = ""] = given.split("=");
  const hint = hintFor(
    shown.replace(/^-+/, ""),
    options,
    args.map(({ name }) => name.replace("...", "")),
  );
  return `${shown}: no such option${hint === "" ? "" : `: ${hint}`}`;
}

/** The hint of the nearest name; options come first. */
function hintFor(name: string, options: Options, args: Words): string {
  const path = args.find((arg) => /^(PATH|FROM)$/.test(arg)) ?? ("path" in options ? "--path" : undefined);
  const hints = [
    ...Object.keys(options).map((option) => [option, option] as const),
    ...Object.entries(OTHER_OPTIONS).filter(([, option]) => option in options),
  ].map(([known, option]) => ({ known, hint: `did you mean \`--${option}\`?` }));
  if (path !== undefined)
    hints.push({ known: "mount", hint: `the mount is the first part of ${path}, such as secret/app/db` });
  hints.push(...Object.entries(ELSEWHERE).map(([known, hint]) => ({ known, hint })));
  const rated = hints.map(({ known, hint }) => ({ hint, distance: distanceOf(name, known) }));
  const best = Math.min(...rated.map(({ distance }) => distance));
  return rated.find(({ distance }) => distance === best && distance < Number.POSITIVE_INFINITY)?.hint ?? "";
}

/** Changes between two words, a swap of neighbours being one; infinite for words that are not alike. */
function distanceOf(word: string, candidate: string): number {
  const [a, b] = [word.toLowerCase(), candidate.toLowerCase()];
  if (a === b) return 0;
  const [shorter, longer] = a.length < b.length ? [a, b] : [b, a];
  if (shorter.length < 3) return Number.POSITIVE_INFINITY;
  if (longer.startsWith(shorter)) return 1;
  const distance = edits(a, b);
  return distance <= Math.floor(longer.length / 3) ? distance : Number.POSITIVE_INFINITY;
}

/** The optimal string alignment distance: https://en.wikipedia.org/wiki/Damerau–Levenshtein_distance. */
function edits(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_none, at) => at)];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const above = rows[i - 1] ?? [];
      const isSwap = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row[j] = Math.min(
        (above[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (above[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1),
        isSwap ? (rows[i - 2]?.[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    rows.push(row);
  }
  return rows[a.length]?.[b.length] ?? 0;
}
