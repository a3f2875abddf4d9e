import { Api } from "../api.ts";
import { command, countOf, flag, InvalidUsage, JSON_OPTION, text } from "../command.ts";
import { contentOf, ENVIRONMENT, serviceOf } from "../environment.ts";
import { forEachLimit } from "../limit.ts";
import { type Dumped, InvalidDump, readDump } from "./dump.ts";
import type { Mount } from "./history.ts";
import { attempt, importSecret, planSecret } from "./importer.ts";
import { Report } from "./report.ts";
import { mountSettings, mountsOf } from "./vault-source.ts";

export const importDump = command({
  words: ["import", "dump"],
  summary: "copy secrets from files of vault kv get -format=json",
  about: `Copies secrets from JSON documents as \`vault kv get -format=json\` prints them, each with a member
"path" such as "secret/app/database"; - is the standard input. The mounts must exist. It only adds,
and may be run again.`,
  args: [{ name: "FILE", help: "JSON documents" }],
  options: {
    path: text("PATH", 'the path of a single document without "path"'),
    "dry-run": flag("print the plan, and write nothing"),
    overwrite: flag("replace secrets of KV version 1 that differ"),
    parallel: text("N", "secrets at once, 1 to 64 (default 8)"),
    retries: text("N", "repetitions of a request that fails with 429, 5xx or without an answer (default 8)"),
    ...JSON_OPTION,
  },
  notes: `${ENVIRONMENT}
Exit codes: 0 everything is there, 1 something is not, 2 invalid usage.`,
  run: async ({ values, args: [file = ""] }, io) => {
    const target = new Api(serviceOf(io.env), countOf("retries", values.retries ?? "8", 0, 100), io);
    const parallel = countOf("parallel", values.parallel ?? "8", 1, 64);
    const secrets = dumpIn(file, values.path);
    const report = new Report(values["dry-run"]);
    const { kv } = await mountsOf(target);
    const limits = new Map(
      await Promise.all(
        kv.map(async (mount) => [mount.path, (await mountSettings(target, mount)).max_versions] as const),
      ),
    );
    await forEachLimit(secrets, parallel, ({ path, history }) =>
      attempt(report, "secret", path, async () => {
        const mount = mountFor(path, kv);
        if (mount === undefined) return report.add("secret", path, "failed", "no KV mount here has this path");
        const name = path.slice(mount.path.length);
        if (history.current === 0) return report.add("secret", path, "skipped", "is deleted");
        if (report.isPlan) return planSecret(target, mount, name, history, report);
        const rules = { overwrite: values.overwrite, maxGap: 0, mountVersions: limits.get(mount.path) ?? 0 };
        await importSecret(target, mount, name, history, report, rules);
      }),
    );
    if (values.json) io.out(JSON.stringify(report, null, 2));
    else for (const line of report.lines()) io.out(line);
    return report.isComplete ? 0 : 1;
  },
});

function dumpIn(file: string, path: string | undefined): Dumped[] {
  try {
    return readDump(contentOf("FILE", file), path);
  } catch (failure) {
    if (failure instanceof InvalidDump) throw new InvalidUsage(`${file}: ${failure.message}`);
    throw failure;
  }
}

/** The mount with the longest path. */
const mountFor = (path: string, mounts: readonly Mount[]): Mount | undefined =>
  mounts
    .filter((mount) => path.startsWith(mount.path) && path.length > mount.path.length)
    .sort((a, b) => b.path.length - a.path.length)[0];
