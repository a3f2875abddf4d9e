import { z } from "zod";
import { mapLimit } from "../../../relay/src/wait.ts";
import type { Api } from "../api.ts";
import { command, countOf, Failure, flag, InvalidUsage, table, text, texts } from "../command.ts";
import { connect, SERVICE_OPTIONS } from "../connect.ts";
import { ENVIRONMENT } from "../environment.ts";
import { canonicalJson } from "../json.ts";
import { type Data, type History, isFolder, Kv, objectText, plain, shown } from "./store.ts";

/** Commands that show secrets. */

const PATH = { name: "PATH", help: "mount and name, such as secret/app/db" };
const MOST_VERSIONS = 999_999_999;
const READS_AT_ONCE = 8;

export const versionIn = (value: string): number => countOf("version", value, 1, MOST_VERSIONS);

export const kvGet = command({
  words: ["kv", "get"],
  summary: "print a secret, or one of its values",
  about: "Prints the newest version of a secret, or another one. --field prints one value as it is stored.",
  args: [PATH],
  options: {
    version: text("N", "this version"),
    field: text("KEY", "print the value of this key only, without a line feed unless to a terminal"),
    ...SERVICE_OPTIONS,
  },
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = ""] }, io) => {
    const kv = new Kv(connect(values, io));
    const place = await kv.secretAt(path);
    const version = values.version === undefined ? undefined : versionIn(values.version);
    const { data, metadata } = await kv.mustRead(place, version);
    if (values.field !== undefined) {
      const value = data.get(values.field);
      if (value === undefined) throw new Failure(`${shown(place)} has no key ${values.field}: it has ${keysOf(data)}`);
      io.write(values.json ? `${value}\n` : `${plain(value)}${io.isTerminal ? "\n" : ""}`);
    } else if (values.json)
      io.out(`{"path":${JSON.stringify(shown(place))},"data":${objectText(data)},"metadata":${metadata ?? "null"}}`);
    else for (const line of lines(data)) io.out(line);
    return 0;
  },
});

const keysOf = (data: Data): string => (data.size === 0 ? "none" : [...data.keys()].join(", "));

/** Key and value in columns; the further lines of a value are indented below its first. */
function lines(data: Data): string[] {
  const width = Math.max(0, ...[...data.keys()].map((key) => key.length));
  return [...data].map(([key, value]) => {
    const [first = "", ...more] = plain(value).split("\n");
    return [`${key.padEnd(width)}  ${first}`, ...more.map((line) => `${" ".repeat(width)}  ${line}`)].join("\n");
  });
}

export const kvList = command({
  words: ["kv", "list"],
  summary: "list the secrets of a folder, or the mounts",
  about: "Lists the names in a folder; folders end with a slash. Without PATH it lists the mounts.",
  args: [{ name: "PATH", help: "a folder, such as secret/app", isOptional: true }],
  options: SERVICE_OPTIONS,
  notes: ENVIRONMENT,
  run: async ({ values, args: [path] }, io) => {
    const kv = new Kv(connect(values, io));
    const names = path === undefined ? await kv.mounts() : await kv.list(await kv.at(path));
    if (values.json) io.out(JSON.stringify(names));
    else for (const name of names) io.out(name);
    if (names.length === 0 && !values.json) io.note(path === undefined ? "No mount." : `${path}: nothing here.`);
    return 0;
  },
});

export const kvFind = command({
  words: ["kv", "find"],
  summary: "find secrets by a part of their names",
  about: `Prints the paths of secrets whose path contains TEXT, in all mounts that the token may list. With * or ?
TEXT is a pattern for the end of the path, from the beginning of a name on, such as app/*.pem.`,
  args: [{ name: "TEXT", help: "a part of the path, or a pattern; upper and lower case are equal" }],
  options: {
    path: texts("PATH", "search below this folder; may be repeated (default: every mount)"),
    ...SERVICE_OPTIONS,
  },
  notes: ENVIRONMENT,
  run: async ({ values, args: [wanted = ""] }, io) => {
    const api = connect(values, io);
    const kv = new Kv(api);
    const matches = matcher(wanted);
    const found = new Set<string>();
    let refused = 0;
    const skip = () => {
      refused += 1;
      return true;
    };
    const add = (paths: readonly string[]) => {
      const further = paths.filter((path) => matches(path) && !found.has(path));
      for (const path of further) {
        if (!values.json) io.out(path);
        found.add(path);
      }
    };
    const roots = (values.path.length > 0 ? values.path : await kv.mounts()).map((root) => root.replace(/\/*$/, "/"));
    for (const root of roots) add((await kv.below(await kv.at(root), skip)).map(shown));
    // The index also has folders below one that the token may not list.
    if (refused > 0) add((await indexed(api, wanted)).filter((path) => roots.some((root) => path.startsWith(root))));
    if (refused > 0)
      io.note(
        `The token may not list ${refused} folder${refused === 1 ? "" : "s"}: --path FOLDER searches below one that it may.`,
      );
    if (values.json) io.out(JSON.stringify([...found]));
    if (found.size === 0) io.note("No secret that the token may list matches.");
    return found.size === 0 ? 1 : 0;
  },
});

const MOST_PAGES = 50;

const pageSchema = z.object({
  hits: z.array(z.object({ name: z.string(), namespace: z.string(), mount: z.string() })),
  next: z.string(),
});

/** Paths of secrets by the words of their names from the service's index; none from a server without one. */
async function indexed(api: Api, wanted: string): Promise<string[]> {
  const q = wanted.split(/[*?]+/).join(" ").trim();
  const found: string[] = [];
  for (let page = 0, after = ""; page < MOST_PAGES; page++) {
    const query = { q, type: "secret", limit: "100", ...(after !== "" && { after }) };
    const { hits, next } = pageSchema
      .catch({ hits: [], next: "" })
      .parse(await api.fields("sys/search", query).catch(() => null));
    found.push(...hits.filter(({ namespace }) => namespace === "").map(({ mount, name }) => `${mount}${name}`));
    if (next === "") break;
    after = next;
  }
  return found;
}

function matcher(wanted: string): (path: string) => boolean {
  const lower = wanted.toLowerCase();
  if (!/[*?]/.test(lower)) return (path) => path.toLowerCase().includes(lower);
  const pattern = lower
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replace(/\*+/g, ".*")
    .replace(/\?/g, ".");
  const whole = new RegExp(`(?:^|/)${pattern}$`, "s");
  return (path) => whole.test(path.toLowerCase());
}

export const kvHistory = command({
  words: ["kv", "history"],
  summary: "show the versions of a secret, and who wrote them",
  about: "Lists the versions of a secret with their times, their writers and their states, the newest first.",
  args: [PATH],
  options: SERVICE_OPTIONS,
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = ""] }, io) => {
    const kv = new Kv(connect(values, io));
    const history = await kv.mustHistory(await kv.secretAt(path));
    const rows = versionsOf(history);
    if (values.json) io.out(JSON.stringify({ current_version: history.current_version, versions: rows }, null, 2));
    else
      for (const line of table([
        ["version", "created", "by", "state"],
        ...rows.map(({ version, created_time, by, state }) => [String(version), seconds(created_time), by, state]),
      ]))
        io.out(line);
    return 0;
  },
});

/** The newest first. */
function versionsOf({ versions, current_version }: History) {
  return Object.entries(versions)
    .map(([version, fields]) => {
      const isDeleted = fields.deletion_time !== "" && Date.parse(fields.deletion_time) <= Date.now();
      const ended = fields.deleted_by?.actor ? ` by ${fields.deleted_by.actor}` : "";
      const state = fields.destroyed
        ? `destroyed${ended}`
        : isDeleted
          ? `deleted ${seconds(fields.deletion_time)}${ended}`
          : Number(version) === current_version
            ? "current"
            : "";
      return { version: Number(version), ...fields, by: fields.created_by?.actor ?? "", state };
    })
    .sort((a, b) => b.version - a.version);
}

const seconds = (time: string): string => time.replace(/\.\d+Z$/, "Z");

export const kvDiff = command({
  words: ["kv", "diff"],
  summary: "compare two versions, or two secrets or folders",
  about: `Compares the newest version of a secret with the one before it, with --from and --to two versions, and with
OTHER two secrets or two folders of any mounts. Values stay hidden without --show. Each line begins with
+ for a key or secret of the second side only, - for one of the first side only, ~ for another value.`,
  args: [PATH, { name: "OTHER", help: "the second secret or folder", isOptional: true }],
  options: {
    from: text("N", "the first version (default: the one before --to)"),
    to: text("N", "the second version (default: the newest)"),
    show: flag("print the values"),
    "exit-code": flag("end with 1 when there is a difference"),
    ...SERVICE_OPTIONS,
  },
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = "", other] }, io) => {
    const kv = new Kv(connect(values, io));
    if (other !== undefined && (values.from !== undefined || values.to !== undefined))
      throw new InvalidUsage("--from, --to: are versions of one secret, without OTHER");
    const differences =
      other === undefined
        ? await betweenVersions(kv, path, values.from, values.to)
        : await betweenPaths(kv, path, other);
    const rows = differences.map(({ key, before, after }) => {
      const kind = before === undefined ? "added" : after === undefined ? "removed" : "changed";
      return { kind, key, ...(values.show && { before: before ?? null, after: after ?? null }) };
    });
    if (values.json) io.out(JSON.stringify(rows, null, 2));
    else
      for (const { kind, key, before, after } of rows) {
        io.out(`${{ added: "+", removed: "-", changed: "~" }[kind]} ${key}`);
        if (before !== undefined && before !== null) io.out(indented("-", before));
        if (after !== undefined && after !== null) io.out(indented("+", after));
      }
    if (rows.length === 0) io.note("No difference.");
    return values["exit-code"] && rows.length > 0 ? 1 : 0;
  },
});

const indented = (sign: string, value: string): string =>
  value
    .split("\n")
    .map((line) => `    ${sign} ${line}`)
    .join("\n");

interface Difference {
  readonly key: string;
  /** Undefined: the key is not there. */
  readonly before: string | undefined;
  readonly after: string | undefined;
}

async function betweenVersions(kv: Kv, path: string, from?: string, to?: string): Promise<Difference[]> {
  const place = await kv.secretAt(path);
  const second = to === undefined ? (await kv.mustRead(place)).version : versionIn(to);
  const first = from === undefined ? second - 1 : versionIn(from);
  if (first < 1) throw new Failure(`${shown(place)} has one version: there is nothing to compare`);
  const [before, after] = [await kv.mustRead(place, first), await kv.mustRead(place, second)];
  return differencesOf(before.data, after.data, "");
}

/** Secrets, or folders by the names of their secrets. */
async function betweenPaths(kv: Kv, first: string, second: string): Promise<Difference[]> {
  if (isFolder(first) !== isFolder(second))
    throw new InvalidUsage("OTHER: must be a folder as well: both paths end with a slash, or none");
  const [from, to] = [await kv.at(first), await kv.at(second)];
  if (!isFolder(first)) return differencesOf((await kv.mustRead(from)).data, (await kv.mustRead(to)).data, "");
  const [before, after] = [await below(kv, first), await below(kv, second)];
  return [...new Set([...before.keys(), ...after.keys()])].sort().flatMap((name) => {
    const [one, two] = [before.get(name), after.get(name)];
    if (one === undefined || two === undefined)
      return [{ key: name, before: one && objectText(one), after: two && objectText(two) }];
    return differencesOf(one, two, `${name} `);
  });
}

/** The living secrets below a folder by their names there. */
async function below(kv: Kv, folder: string): Promise<Map<string, Data>> {
  const root = await kv.at(folder);
  const found = new Map<string, Data>();
  await mapLimit(await kv.below(root), READS_AT_ONCE, async (place) => {
    const secret = await kv.read(place);
    if (secret !== null) found.set(place.name.slice(root.name.length), secret.data);
  });
  return found;
}

function differencesOf(before: Data, after: Data, prefix: string): Difference[] {
  return [...new Set([...before.keys(), ...after.keys()])].sort().flatMap((key) => {
    const [one, two] = [before.get(key), after.get(key)];
    if (one !== undefined && two !== undefined && canonicalJson(one) === canonicalJson(two)) return [];
    return [{ key: `${prefix}${key}`, before: one && plain(one), after: two && plain(two) }];
  });
}
