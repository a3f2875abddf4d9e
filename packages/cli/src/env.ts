import { chmodSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { command, flag, InvalidUsage, oneOf, text } from "./command.ts";
import { connect, SERVICE_OPTIONS } from "./connect.ts";
import { ENVIRONMENT, textIn } from "./environment.ts";
import { canonicalJson } from "./json.ts";
import { FORMATS, type Format, formatOf, formatted, parsed } from "./kv/formats.ts";
import { type Data, Kv, shown } from "./kv/store.ts";
import { report } from "./kv/write.ts";

/** Secrets to and from files of applications. */

const FORMAT = text("FORMAT", `${FORMATS.join(", ")} (default: by the file's name, else dotenv)`);
const PATH = { name: "PATH", help: "the secret, such as secret/app/db" };

const formatIn = (given: string | undefined, file: string): Format =>
  given === undefined ? formatOf(file) : oneOf("--format", given, FORMATS);

export const envPull = command({
  words: ["env", "pull"],
  summary: "print secrets as .env, JSON or YAML, or store them in a file",
  about: "Prints the values of secrets together; of two secrets with one key the later wins. A file gets mode 0600.",
  args: [{ ...PATH, name: "PATH..." }],
  options: {
    format: FORMAT,
    output: text("FILE", "replace this file (default: the standard output)"),
    ...SERVICE_OPTIONS,
  },
  notes: `--json is --format json.\n${ENVIRONMENT}`,
  run: async ({ values, args }, io) => {
    const format = values.json ? "json" : formatIn(values.format, values.output ?? "");
    const kv = new Kv(connect(values, io));
    const data = new Map<string, string>();
    for (const path of args)
      for (const [key, value] of (await kv.mustRead(await kv.secretAt(path))).data) data.set(key, value);
    const content = formatted(format, data);
    if (values.output === undefined) io.write(content);
    else {
      store(values.output, content);
      io.note(`${values.output}: ${data.size} value${data.size === 1 ? "" : "s"}`);
    }
    return 0;
  },
});

/** The file appears whole, and only the current user can read it. */
function store(file: string, content: string): void {
  const part = `${file}.${process.pid}.part`;
  try {
    writeFileSync(part, content, { mode: 0o600, flush: true });
    chmodSync(part, 0o600);
    renameSync(part, file);
  } finally {
    rmSync(part, { force: true });
  }
}

export const envPush = command({
  words: ["env", "push"],
  summary: "write the values of a .env, JSON or YAML file to a secret",
  about: `Adds and changes the values of FILE in a secret, and keeps its other keys unless --prune is given. Says by name
what is added, changed and removed. A version that was written meanwhile is not replaced.`,
  args: [PATH, { name: "FILE", help: "the file; - is the standard input" }],
  options: {
    format: FORMAT,
    prune: flag("remove keys that FILE does not have"),
    "dry-run": flag("print what would be changed"),
    ...SERVICE_OPTIONS,
  },
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = "", file = ""] }, io) => {
    const wanted = parsed(
      formatIn(values.format, file),
      textIn("FILE", file),
      file === "-" ? "the standard input" : file,
    );
    if (wanted.size === 0) throw new InvalidUsage("FILE: has no value");
    const kv = new Kv(connect(values, io));
    const place = await kv.secretAt(path);
    const secret = await kv.read(place);
    const before: Data = secret?.data ?? new Map();
    const after: Data = values.prune ? wanted : new Map([...before, ...wanted]);
    const changes = changesOf(before, after);
    const noteChanges = () => {
      if (!values.json) for (const change of changes) io.note(change);
    };
    if (changes.length === 0 || values["dry-run"]) {
      noteChanges();
      if (values.json) io.out(JSON.stringify({ path: shown(place), changes }));
      else io.out(`${shown(place)}: ${changes.length === 0 ? "nothing to change" : "nothing was written (--dry-run)"}`);
      return 0;
    }
    const current =
      secret?.version ?? (place.version === 2 ? ((await kv.history(place))?.current_version ?? 0) : undefined);
    const written = await kv.write(place, after, place.version === 1 ? undefined : current);
    noteChanges();
    report(io, values.json, place, written);
    return 0;
  },
});

/** A line a key: `+ KEY` is added, `- KEY` removed, `~ KEY` changed. */
function changesOf(before: Data, after: Data): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].sort().flatMap((key) => {
    const [one, two] = [before.get(key), after.get(key)];
    if (one === undefined) return [`+ ${key}`];
    if (two === undefined) return [`- ${key}`];
    return canonicalJson(one) === canonicalJson(two) ? [] : [`~ ${key}`];
  });
}
