import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { command, Failure, type Io } from "../command.ts";
import { connect, SERVICE_OPTIONS } from "../connect.ts";
import { ENVIRONMENT } from "../environment.ts";
import { canonicalJson } from "../json.ts";
import { beforeEnd } from "../signals.ts";
import { formatted, parsed } from "./formats.ts";
import { type Data, Kv, OtherVersion, objectText, shown } from "./store.ts";
import { report } from "./write.ts";

const MEMORY = "/dev/shm";

export const kvEdit = command({
  words: ["kv", "edit"],
  summary: "change a secret in your editor",
  about: `Opens the newest version of a secret as YAML in $VISUAL or $EDITOR, and writes the saved text as a new version. A
secret that does not exist is created. A version that was written meanwhile is not replaced. The file has
mode 0600, is in memory where the system allows it, and is removed afterwards.`,
  args: [{ name: "PATH", help: "mount and name, such as secret/app/db" }],
  options: SERVICE_OPTIONS,
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = ""] }, io) => {
    const kv = new Kv(connect(values, io));
    const place = await kv.secretAt(path);
    const secret = await kv.read(place);
    const before: Data = secret?.data ?? new Map();
    // As the editor shows it: YAML writes 1.50 as 1.5. Unchanged values keep their text.
    const shownBefore = parsed("yaml", formatted("yaml", before), "the secret");
    const isShown = (key: string, value: string) => canonicalJson(shownBefore.get(key) ?? "") === canonicalJson(value);
    const after: Data = new Map(
      [...(await edited(before, io))].map(([key, value]) => [
        key,
        isShown(key, value) ? (before.get(key) ?? value) : value,
      ]),
    );
    if (canonicalJson(objectText(after)) === canonicalJson(objectText(before))) {
      io.note("Nothing was changed.");
      return 0;
    }
    const cas =
      secret?.version ?? (place.version === 2 ? ((await kv.history(place))?.current_version ?? 0) : undefined);
    const version = await kv.write(place, after, cas).catch((failure: unknown) => {
      if (failure instanceof OtherVersion) throw new Failure(`${shown(place)} was written meanwhile: edit it again`);
      throw failure;
    });
    report(io, values.json, place, version);
    return 0;
  },
});

/**
 * The data after the editor has ended; a text that cannot be read is opened again. The file is gone when this program
 * ends, by a signal, too. @throws Failure
 */
async function edited(before: Data, io: Io): Promise<Data> {
  const editor = io.env["VISUAL"] || io.env["EDITOR"] || "vi";
  const dir = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), "sallyport-edit-"));
  const remove = () => rmSync(dir, { recursive: true, force: true });
  let running: ChildProcess | undefined;
  const release = beforeEnd(
    (signal) => {
      running?.kill(signal);
      remove();
    },
    { hasTerminal: process.stdin.isTTY === true },
  );
  const file = join(dir, "secret.yaml");
  try {
    writeFileSync(file, before.size === 0 ? "# key: value\n" : formatted("yaml", before), { mode: 0o600 });
    for (let attempt = 0; ; attempt++) {
      // Not spawnSync, which handles no signal before the editor ends.
      running = spawn(`${editor} "$SALLYPORT_FILE"`, {
        shell: true,
        stdio: "inherit",
        env: { ...io.env, SALLYPORT_FILE: file },
      });
      if (!(await succeeded(running))) throw new Failure(`the editor ${editor} failed: nothing was written`);
      try {
        return parsed("yaml", readFileSync(file, "utf8"), "the text");
      } catch (failure) {
        if (!process.stdin.isTTY || attempt === 5) throw failure;
        io.note(`${failure instanceof Error ? failure.message : failure}: opened again`);
      }
    }
  } finally {
    remove();
    release();
  }
}

const succeeded = (started: ChildProcess): Promise<boolean> =>
  new Promise((resolve) => {
    started.once("error", () => resolve(false)).once("exit", (code) => resolve(code === 0));
  });
