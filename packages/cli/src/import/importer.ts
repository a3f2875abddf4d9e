import { type Api, ApiError, EmptyApi, encoded, Unreachable } from "../api.ts";
import { textOf } from "../command.ts";
import { forEachLimit } from "../limit.ts";
import type { History, Mount } from "./history.ts";
import type { Kind, Report } from "./report.ts";
import {
  credentialEngine,
  historyOf,
  type MountAtSource,
  mountSettings,
  mountsOf,
  namesIn,
  policyNames,
  policyText,
} from "./vault-source.ts";
import { type Rules, writeSecret } from "./write-secret.ts";

export interface Choices {
  readonly overwrite: boolean;
  readonly maxGap: number;
  readonly parallel: number;
  /** Paths of mounts with a final slash; null for all. */
  readonly mounts: ReadonlySet<string> | null;
  /** Gets the paths of mounts that the source has. */
  readonly found: Set<string>;
}

/** Runs one step; a refusal or a failure of it is reported, and the import continues. @throws Unreachable */
export async function attempt(report: Report, kind: Kind, name: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (failure) {
    if (failure instanceof Unreachable) throw failure;
    report.add(kind, name, "failed", failure instanceof ApiError ? failure.message : textOf(failure));
  }
}

const shownIn = (api: Api, path: string): string => [api.namespace, path].filter((part) => part !== "").join("/");

/** Makes a mount here as it is at the source. @returns null when another one is there */
async function makeMount(source: Api, target: Api, mount: MountAtSource, report: Report): Promise<Mount | null> {
  const name = shownIn(target, mount.path);
  const there = await mountsOf(target);
  const found = there.kv.find(({ path }) => path === mount.path);
  const other = there.others.find(({ path }) => path === mount.path);
  if (other || (found && found.version !== mount.version)) {
    const is = other ? `of type ${other.type}` : `of version ${found?.version}`;
    report.add("mount", name, "differs", `is ${is} here, and kv version ${mount.version} at the source`);
    return null;
  }
  const wanted = await mountSettings(source, mount);
  const settings = found ? await mountSettings(target, mount) : null;
  const isSame = JSON.stringify(settings) === JSON.stringify(wanted);
  const isUnset = settings === null || JSON.stringify(settings) === JSON.stringify(UNSET);
  if (!found && !report.isPlan) {
    await createMount(target, mount);
  }
  const sets = mount.version === 2 && !isSame && isUnset && JSON.stringify(wanted) !== JSON.stringify(UNSET);
  if (sets && !report.isPlan) await target.write(`${encoded(mount.path)}config`, wanted);
  if (found && !isSame && !isUnset)
    report.add("mount", name, "differs", "has another configuration here, which is kept");
  else report.add("mount", name, found && !sets ? "unchanged" : "written", `kv version ${mount.version}`);
  return mount;
}

/** @throws ApiError */
async function createMount(target: Api, { path, version, description }: MountAtSource): Promise<void> {
  const options = version === 2 ? { version: "2" } : {};
  try {
    await target.write(`sys/mounts/${encoded(path.replace(/\/$/, ""))}`, { type: "kv", options, description });
  } catch (failure) {
    // A repeated request whose first answer was lost: the path is in use.
    const { kv } = await mountsOf(target);
    if (!kv.some((each) => each.path === path && each.version === version)) throw failure;
  }
}

const UNSET = { max_versions: 0, cas_required: false, delete_version_after: "0s" };

/** Mounts of one namespace with their secrets. @throws ApiError when the mounts cannot be listed */
export async function importMounts(source: Api, target: Api, report: Report, choices: Choices): Promise<void> {
  const { kv, others } = await mountsOf(source);
  for (const path of [...kv.map((mount) => mount.path), ...others.map(({ path }) => path)]) choices.found.add(path);
  for (const { path, type } of others)
    if (!credentialEngine(type) && (choices.mounts === null || choices.mounts.has(path)))
      report.addSource(shownIn(source, path), "skipped", `mounts of type ${type} are not imported`);
  for (const mount of kv) {
    if (choices.mounts !== null && !choices.mounts.has(mount.path)) continue;
    await attempt(report, "mount", shownIn(target, mount.path), async () => {
      if ((await makeMount(source, target, mount, report)) !== null)
        await importSecrets(source, target, mount, report, choices);
    });
  }
}

async function importSecrets(source: Api, target: Api, mount: Mount, report: Report, choices: Choices): Promise<void> {
  const exists = !report.isPlan || (await mountsOf(target)).kv.some(({ path }) => path === mount.path);
  const here = exists ? target : new EmptyApi(target.namespace);
  const rules = { ...choices, mountVersions: (await mountSettings(here, mount)).max_versions };
  const names = namesIn(source, mount, (folder, failure) =>
    report.addSource(shownIn(source, mount.path + folder), "failed", failure.message),
  );
  await forEachLimit(names, choices.parallel, (name) =>
    attempt(report, "secret", shownIn(target, mount.path + name), async () => {
      const history = await historyOf(source, mount, name);
      if (history === null)
        return report.add("secret", shownIn(target, mount.path + name), "differs", "deleted meanwhile");
      if (report.isPlan) await planSecret(here, mount, name, history, report);
      else await importSecret(here, mount, name, history, report, rules);
    }),
  );
}

export async function importSecret(
  target: Api,
  mount: Mount,
  name: string,
  history: History,
  report: Report,
  rules: Rules,
): Promise<void> {
  const outcome = await writeSecret(target, mount, name, history, rules);
  const shown = shownIn(target, mount.path + name);
  if (outcome.kind === "differs") return report.add("secret", shown, "differs", outcome.reason);
  report.add("secret", shown, outcome.kind);
  if (outcome.kind !== "written") return;
  report.versions += outcome.versions;
  report.blank += outcome.blank;
}

/** Compares the numbers of versions, without reading a value of a secret of version 2. */
export async function planSecret(
  target: Api,
  mount: Mount,
  name: string,
  history: History,
  report: Report,
): Promise<void> {
  const shown = shownIn(target, mount.path + name);
  const here = await historyOf(target, mount, name);
  const exists = here !== null && (mount.version === 2 || (await here.value(1)) !== null);
  const current = exists ? here.current : 0;
  if (current > history.current) return report.add("secret", shown, "differs", "has more versions here");
  report.add("secret", shown, exists && current === history.current ? "unchanged" : "written");
  report.versions += history.current - current;
  for (let version = current + 1; version <= history.current; version++)
    if (history.states.get(version) !== "live") report.blank += 1;
}

/** Policies of one namespace. A policy with another text here is kept unless `overwrite`. */
export async function importPolicies(source: Api, target: Api, report: Report, choices: Choices): Promise<void> {
  await forEachLimit(await policyNames(source), choices.parallel, (name) =>
    attempt(report, "policy", shownIn(target, name), async () => {
      const text = await policyText(source, name);
      if (text === null || text.trim() === "")
        return report.add("policy", shownIn(target, name), "skipped", "is empty");
      const here = await policyText(target, name);
      if (here === text) return report.add("policy", shownIn(target, name), "unchanged");
      // Every server has its own text of this one.
      if (name === "default" && !choices.overwrite)
        return report.add(
          "policy",
          shownIn(target, name),
          "skipped",
          "every server has its own; --overwrite replaces it",
        );
      if (here !== null && !choices.overwrite)
        return report.add("policy", shownIn(target, name), "differs", "has another text here: --overwrite replaces it");
      if (!report.isPlan) await target.write(`sys/policies/acl/${encodeURIComponent(name)}`, { policy: text }, "PUT");
      report.add("policy", shownIn(target, name), "written");
    }),
  );
}
