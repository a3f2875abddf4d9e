import { command, countOf, Failure, flag, InvalidUsage, type Io, text, texts } from "../command.ts";
import { connect, SERVICE_OPTIONS } from "../connect.ts";
import { ENVIRONMENT } from "../environment.ts";
import { inOrder } from "../limit.ts";
import { askSecret } from "../prompt.ts";
import { dataIn, PAIRS } from "./pairs.ts";
import { versionIn } from "./read.ts";
import { isFolder, Kv, type Place, shown } from "./store.ts";

/** Commands that write and end versions. */

const PATH = { name: "PATH", help: "mount and name, such as secret/app/db" };
const PAIR = { name: "PAIR...", help: "values; a key alone asks for its value" };
const MOST_VERSIONS = 999_999_999;
const AT_ONCE = 8;

export const kvPut = command({
  words: ["kv", "put"],
  summary: "write a new version of a secret",
  about: `Replaces a secret with the given values.\n\n${PAIRS}`,
  args: [PATH, PAIR],
  options: {
    cas: text("N", "replace version N only; 0 creates a secret that does not exist"),
    ...SERVICE_OPTIONS,
  },
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = "", ...pairs] }, io) => {
    const cas = values.cas === undefined ? undefined : countOf("cas", values.cas, 0, MOST_VERSIONS);
    const data = dataIn(await asked(pairs));
    const kv = new Kv(connect(values, io));
    const place = await kv.secretAt(path);
    if (cas !== undefined && place.version === 1) throw new InvalidUsage("--cas: KV version 1 has no versions");
    report(io, values.json, place, await kv.write(place, data, cas));
    return 0;
  },
});

export const kvPatch = command({
  words: ["kv", "patch"],
  summary: "change some values of a secret, and keep the others",
  about: `Changes the given values of a secret, and keeps the others.\n\n${PAIRS}`,
  args: [PATH, { ...PAIR, isOptional: true }],
  options: { remove: texts("KEY", "remove this key; may be repeated"), ...SERVICE_OPTIONS },
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = "", ...pairs] }, io) => {
    const removed = values.remove.map((key): [string, string] => [key, "null"]);
    const data = new Map([...dataIn(await asked(pairs)), ...removed]);
    if (data.size === 0) throw new InvalidUsage("PAIR is missing, or --remove");
    const kv = new Kv(connect(values, io));
    const place = await kv.secretAt(path);
    report(io, values.json, place, await kv.patch(place, data));
    return 0;
  },
});

/** Asks for the values of keys without one. */
async function asked(pairs: readonly string[]): Promise<string[]> {
  const given: string[] = [];
  for (const pair of pairs)
    given.push(/^[^@=-][^=]*$/.test(pair) ? `${pair}=${literal(await askSecret(`${pair}: `))}` : pair);
  return given;
}

/** An answer is never a file or the standard input. */
const literal = (answer: string): string => {
  if (answer === "-") throw new InvalidUsage("PAIR: a value of one hyphen cannot be asked for: use key=@FILE");
  return answer.startsWith("@") || answer.startsWith("\\@") ? `\\${answer}` : answer;
};

export function report(io: Io, asJson: boolean, place: Place, version: number): void {
  if (asJson) io.out(JSON.stringify({ path: shown(place), ...(version > 0 && { version }) }));
  else io.out(version > 0 ? `${shown(place)}: version ${version}` : `${shown(place)}: written`);
}

export const kvRollback = command({
  words: ["kv", "rollback"],
  summary: "write an earlier version of a secret as its newest",
  about: `Reads an earlier version and writes it as a new one. The versions between stay. A version that was written
meanwhile is not replaced: the command then fails.`,
  args: [PATH],
  options: { version: text("N", "the version to return to (default: the one before the newest)"), ...SERVICE_OPTIONS },
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = ""] }, io) => {
    const kv = new Kv(connect(values, io));
    const place = await kv.secretAt(path);
    const { current_version: current } = await kv.mustHistory(place);
    const version = values.version === undefined ? current - 1 : versionIn(values.version);
    if (version < 1) throw new Failure(`${shown(place)} has no earlier version`);
    const { data } = await kv.mustRead(place, version);
    report(io, values.json, place, await kv.write(place, data, current));
    io.note(`It has the values of version ${version}.`);
    return 0;
  },
});

export const kvRm = command({
  words: ["kv", "rm"],
  summary: "delete a secret, versions of it, or a folder",
  about: `Deletes the newest version of a secret; \`sallyport kv undelete\` brings it back. In KV version 1 the secret is
gone. A folder ends with a slash, and needs --all.`,
  args: [PATH],
  options: {
    version: texts("N", "delete this version; may be repeated"),
    destroy: flag("remove the values of the versions for good"),
    all: flag("remove the secret with all its versions; for a folder every secret below it"),
    "dry-run": flag("print what would be removed"),
    ...SERVICE_OPTIONS,
  },
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = ""] }, io) => {
    const versions = values.version.map(versionIn);
    if (values.all && (values.destroy || versions.length > 0))
      throw new InvalidUsage("--all: removes every version, without --version and --destroy");
    if (values.destroy && versions.length === 0) throw new InvalidUsage("--destroy: needs --version");
    const kv = new Kv(connect(values, io));
    const target = await kv.at(path);
    const isWhole = isFolder(path) || target.name === "";
    if (isWhole && !values.all) throw new InvalidUsage("PATH: is a folder: --all removes every secret below it");
    if (!isWhole) await kv.mustExist(target, versions);
    const places = await kv.below(target);
    const removed: string[] = [];
    const work = async (place: Place) => {
      if (!values["dry-run"]) await removeOne(kv, place, versions, values);
      return shown(place);
    };
    const word = values["dry-run"] ? "would remove" : "removed";
    for await (const each of inOrder(places, AT_ONCE, work)) {
      removed.push(each);
      if (!values.json) io.out(`${word} ${each}${shownVersions(versions)}`);
    }
    if (values.json) io.out(JSON.stringify({ removed, versions }));
    if (places.length === 0) throw new Failure(`${path}: nothing here`);
    return 0;
  },
});

const shownVersions = (versions: readonly number[]): string =>
  versions.length === 0 ? "" : ` version ${versions.join(", ")}`;

async function removeOne(
  kv: Kv,
  place: Place,
  versions: readonly number[],
  { all, destroy }: { readonly all: boolean; readonly destroy: boolean },
): Promise<void> {
  if (all && place.version === 2) return kv.removeAll(place);
  if (versions.length > 0) return kv.act(place, destroy ? "destroy" : "delete", versions);
  return kv.remove(place);
}

export const kvUndelete = command({
  words: ["kv", "undelete"],
  summary: "bring back a deleted version",
  about: "Brings back deleted versions of a secret; destroyed ones are gone.",
  args: [PATH],
  options: { version: texts("N", "this version; may be repeated (default: the newest)"), ...SERVICE_OPTIONS },
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = ""] }, io) => {
    const kv = new Kv(connect(values, io));
    const place = await kv.secretAt(path);
    const { current_version: current, versions } = await kv.mustHistory(place);
    const wanted = values.version.length > 0 ? values.version.map(versionIn) : [current];
    for (const version of wanted)
      if (versions[version]?.destroyed !== false)
        throw new Failure(`${shown(place)}: version ${version} is gone for good`);
    await kv.act(place, "undelete", wanted);
    if (values.json) io.out(JSON.stringify({ path: shown(place), versions: wanted }));
    else io.out(`${shown(place)}: version ${wanted.join(", ")} is back`);
    return 0;
  },
});
