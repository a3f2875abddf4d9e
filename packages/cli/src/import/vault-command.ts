import { Api, ApiError, EmptyApi, Unreachable } from "../api.ts";
import {
  command,
  countOf,
  Failure,
  flag,
  InvalidUsage,
  type Io,
  JSON_OPTION,
  text,
  textOf,
  texts,
} from "../command.ts";
import { addressOf, contentOf, serverOf, serviceOf } from "../environment.ts";
import { importEngines } from "./engines.ts";
import { attempt, type Choices, importMounts, importPolicies } from "./importer.ts";
import { Report } from "./report.ts";
import { type Credentials, importSync, readCredentials } from "./sync.ts";
import { childrenOf } from "./vault-source.ts";

const PARTS = ["kv", "policies", "sync", "engines"] as const;
type Part = (typeof PARTS)[number];

interface Options extends Choices {
  readonly parts: readonly Part[];
  readonly credentials: Credentials;
}

export const importVault = command({
  words: ["import", "vault"],
  summary: "copy secrets, policies, sync and roles from Vault",
  about: `Copies namespaces, KV mounts with all versions of their secrets, policies, sync destinations and
associations, and engines of AWS, Azure and Google Cloud with their roles from Vault, OpenBao or another Sallyport. It only adds, and may be run again: each run
compares, and continues where the previous one ended.`,
  options: {
    from: text("URL", "the source; its token is VAULT_TOKEN or VAULT_TOKEN_FILE, its namespace VAULT_NAMESPACE"),
    "dry-run": flag("print the plan; no value of a versioned secret is read, and nothing is written"),
    only: texts("PART", `${PARTS.join(", ")}; may be repeated (default: all)`),
    mount: texts("PATH", "import this mount; may be repeated (default: all)"),
    credentials: text(
      "FILE",
      'JSON with the fields that the source hides, by "aws-sm/NAME" or path; - is standard input',
    ),
    overwrite: flag("replace policies, and secrets of KV version 1, that differ"),
    "max-gap": text("N", "versions before the oldest one that may be filled to keep version numbers (default 1000)"),
    parallel: text("N", "secrets at once, 1 to 64 (default 8)"),
    retries: text("N", "repetitions of a request that fails with 429, 5xx or without an answer (default 8)"),
    ...JSON_OPTION,
  },
  notes: `Environment: SALLYPORT_ADDR, SALLYPORT_TOKEN or SALLYPORT_TOKEN_FILE, SALLYPORT_NAMESPACE (where to).
Exit codes: 0 everything is there, 1 something is not, 2 invalid usage.`,
  run: async ({ values }, io) => {
    if (values.from === undefined) throw new InvalidUsage("--from is missing");
    addressOf("--from", values.from);
    const retries = countOf("retries", values.retries ?? "8", 0, 100);
    const source = new Api(serverOf("VAULT", io.env, values.from), retries, io);
    const target = new Api(destinationOf(io), retries, io);
    const options: Options = {
      parts: values.only.length > 0 ? values.only.map(partOf) : PARTS,
      credentials: credentialsIn(values.credentials),
      mounts: values.mount.length > 0 ? new Set(values.mount.map((path) => path.replace(/\/*$/, "/"))) : null,
      found: new Set(),
      overwrite: values.overwrite,
      maxGap: countOf("max-gap", values["max-gap"] ?? "1000", 0, 1_000_000),
      parallel: countOf("parallel", values.parallel ?? "8", 1, 64),
    };
    const report = new Report(values["dry-run"]);
    await importNamespace(source, target, report, options, io);
    for (const path of options.mounts ?? [])
      if (!options.found.has(path)) report.addSource(path, "failed", "the source shows no mount at this path");
    if (report.isEmpty) throw new Failure("the source shows nothing to import: check --only and its token");
    if (values.json) io.out(JSON.stringify(report, null, 2));
    else for (const line of report.lines()) io.out(line);
    return report.isComplete ? 0 : 1;
  },
});

/** `VAULT_…` is the source here. */
const destinationOf = ({ env }: Io) => serviceOf({ ...env, VAULT_ADDR: undefined });

function partOf(name: string): Part {
  const part = PARTS.find((each) => each === name);
  if (!part) throw new InvalidUsage(`--only: must be one of ${PARTS.join(", ")}`);
  return part;
}

function credentialsIn(path: string | undefined): Credentials {
  if (path === undefined) return new Map();
  try {
    return readCredentials(contentOf("--credentials", path));
  } catch (failure) {
    if (failure instanceof InvalidUsage) throw failure;
    // A parser's message quotes the text.
    throw new InvalidUsage("--credentials: must be a JSON object of objects, by type and name");
  }
}

async function importNamespace(source: Api, target: Api, report: Report, options: Options, io: Io): Promise<void> {
  const named = source.namespace === "" ? "the root namespace" : `namespace ${source.namespace}`;
  io.note(`${report.isPlan ? "Comparing" : "Importing"} ${named}`);
  const part = async (name: Part, work: () => Promise<void>) => {
    if (!options.parts.includes(name)) return;
    try {
      await work();
    } catch (failure) {
      if (failure instanceof Unreachable) throw failure;
      report.addSource(`${source.namespace}/`, "failed", textOf(failure));
    }
  };
  await part("kv", () => importMounts(source, target, report, options));
  await part("policies", () => importPolicies(source, target, report, options));
  // Associations name secrets, which exist by now.
  await part("sync", () => importSync(source, target, report, options, options.credentials));
  await part("engines", () => importEngines(source, target, report, options, options.credentials));
  const children = await childrenOf(source).catch((failure: unknown) => {
    if (failure instanceof Unreachable) throw failure;
    // The right may be missing where there are no namespaces.
    const isRefused = failure instanceof ApiError && failure.status === 403;
    report.addSource(`${source.namespace}/`, isRefused ? "skipped" : "failed", `namespaces: ${textOf(failure)}`);
    return [];
  });
  const here = children.length === 0 ? [] : await childrenOf(target);
  for (const name of children) {
    await attempt(report, "namespace", source.below(name).namespace, async () => {
      const exists = here.includes(name);
      if (!exists && !report.isPlan) await target.write(`sys/namespaces/${encodeURIComponent(name)}`, {}, "PUT");
      report.add("namespace", source.below(name).namespace, exists ? "unchanged" : "written");
      const below = target.below(name);
      const child = exists || !report.isPlan ? below : new EmptyApi(below.namespace);
      await importNamespace(source.below(name), child, report, options, io);
    });
  }
}
