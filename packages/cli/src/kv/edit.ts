import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { command, Failure, type Io } from "../command.ts";
import { connect, SERVICE_OPTIONS } from "../connect.ts";
import { ENVIRONMENT } from "../environment.ts";
import { canonicalJson } from "../json.ts";
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
      [...edited(before, io)].map(([key, value]) => [key, isShown(key, value) ? (before.get(key) ?? value) : value]),
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

/** The data after the editor has ended; a text that cannot be read is opened again. @throws Failure */
function edited(before: Data, io: Io): Data {
  const editor = io.env["VISUAL"] || io.env["EDITOR"] || "vi";
  const dir = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), "sallyport-edit-"));
  const file = join(dir, "secret.yaml");
  try {
    writeFileSync(file, before.size === 0 ? "# key: value\n" : formatted("yaml", before), { mode: 0o600 });
    for (let attempt = 0; ; attempt++) {
      const { status, error } = spawnSync(`${editor} "$SALLYPORT_FILE"`, {
        shell: true,
        stdio: "inherit",
        env: { ...io.env, SALLYPORT_FILE: file },
      });
      if (error !== undefined || status !== 0) throw new Failure(`the editor ${editor} failed: nothing was written`);
      try {
        return parsed("yaml", readFileSync(file, "utf8"), "the text");
      } catch (failure) {
        if (!process.stdin.isTTY || attempt === 5) throw failure;
        io.note(`${failure instanceof Error ? failure.message : failure}: opened again`);
      }
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
