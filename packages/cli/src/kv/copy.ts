import { ApiError } from "../api.ts";
import { command, Failure, flag, InvalidUsage, type Io } from "../command.ts";
import { connect, SERVICE_OPTIONS } from "../connect.ts";
import { ENVIRONMENT } from "../environment.ts";
import { canonicalJson } from "../json.ts";
import { inOrder } from "../limit.ts";
import { type History, isFolder, Kv, objectText, type Place, shown } from "./store.ts";

/**
 * Copies and moves secrets and folders, also between mounts and versions of KV. There is no record of the progress: a
 * secret that is there already with the same values counts as done, so that a command that broke off is repeated.
 */

const ARGS = [
  { name: "FROM", help: "a secret, or a folder that ends with a slash" },
  { name: "TO", help: "the new path; a folder when FROM is one" },
];

const OPTIONS = {
  force: flag("replace secrets that are there with other values or metadata"),
  "dry-run": flag("print what would be done"),
  ...SERVICE_OPTIONS,
};

const ABOUT = `The newest version and the custom metadata are taken; earlier versions are not. A secret that is at TO
already with other values or other custom metadata is refused without --force. May be repeated after a failure.`;

export const kvCp = command({
  words: ["kv", "cp"],
  summary: "copy a secret or a folder",
  about: `Copies a secret, or every secret below a folder. ${ABOUT}`,
  args: ARGS,
  options: OPTIONS,
  notes: ENVIRONMENT,
  run: ({ values, args: [from = "", to = ""] }, io) => transfer(from, to, { ...values, isMove: false }, io),
});

export const kvMv = command({
  words: ["kv", "mv"],
  summary: "move or rename a secret or a folder",
  about: `Copies a secret, or every secret below a folder, and then removes the old one with all its versions. ${ABOUT}`,
  args: ARGS,
  options: OPTIONS,
  notes: ENVIRONMENT,
  run: ({ values, args: [from = "", to = ""] }, io) => transfer(from, to, { ...values, isMove: true }, io),
});

interface Choices {
  readonly force: boolean;
  readonly "dry-run": boolean;
  readonly json: boolean;
  readonly namespace: string | undefined;
  readonly isMove: boolean;
}

const AT_ONCE = 8;

type Outcome = "done" | "unchanged" | "deleted" | "differs";

async function transfer(from: string, to: string, choices: Choices, io: Io): Promise<number> {
  if (isFolder(from) && !isFolder(to)) throw new InvalidUsage("TO: must end with a slash, because FROM is a folder");
  const kv = new Kv(connect(choices, io));
  const source = await kv.at(from);
  // Into a folder a secret keeps its own name.
  const target = await kv.at(isFolder(from) || !isFolder(to) ? to : `${to}${from.slice(from.lastIndexOf("/") + 1)}`);
  for (const [name, path, place] of [["FROM", from, source] as const, ["TO", to, target] as const])
    if (place.name === "" && !isFolder(path)) throw new InvalidUsage(`${name}: is a mount: end it with a slash`);
  if (shown(source) === shown(target)) throw new InvalidUsage("TO: is FROM");
  if (isFolder(from) && shown(target).startsWith(shown(source))) throw new InvalidUsage("TO: is below FROM");
  const places = await kv.below(source);
  const results: { from: string; to: string; outcome: Outcome }[] = [];
  const work = async (place: Place) => {
    const into = { ...target, name: `${target.name}${place.name.slice(source.name.length)}` };
    return { from: shown(place), to: shown(into), outcome: await transferOne(kv, place, into, choices, io) };
  };
  for await (const result of inOrder(places, AT_ONCE, work)) {
    results.push(result);
    if (!choices.json && (isFolder(from) || result.outcome !== "deleted"))
      io.out(`${wordOf(result.outcome, choices)} ${result.from} to ${result.to}`);
  }
  if (choices.json) io.out(JSON.stringify(results, null, 2));
  if (results.length === 0) throw new Failure(`${from}: nothing here`);
  const different = results.filter(({ outcome }) => outcome === "differs").length;
  if (different > 0)
    throw new Failure(
      `${different} secret${different === 1 ? " is" : "s are"} there with other values or metadata: --force replaces them`,
    );
  if (!isFolder(from) && results[0]?.outcome === "deleted") throw new Failure(`${from}: ${await kv.whyNot(source)}`);
  return 0;
}

function wordOf(outcome: Outcome, { isMove, "dry-run": isPlan }: Choices): string {
  if (outcome === "deleted") return "left (its newest version is deleted)";
  if (outcome === "differs") return "left (other values or metadata are there)";
  if (outcome === "unchanged" && !isMove) return "already there:";
  return isPlan ? `would ${isMove ? "move" : "copy"}` : isMove ? "moved" : "copied";
}

async function transferOne(
  kv: Kv,
  from: Place,
  to: Place,
  { force, isMove, "dry-run": isPlan }: Choices,
  io: Io,
): Promise<Outcome> {
  const secret = await kv.read(from);
  if (secret === null) return "deleted";
  const there = await kv.read(to);
  const isSame = there !== null && canonicalJson(objectText(there.data)) === canonicalJson(objectText(secret.data));
  // A token without a right on metadata can compare values.
  const isComparison = isSame || isPlan;
  const described = from.version === 2 && to.version === 2 ? await historyOf(kv, from, isComparison) : null;
  const isNeeded = to.version === 2 && !(isComparison && isEmpty(described));
  const found = isNeeded ? await historyOf(kv, to, isComparison) : null;
  // A command that broke off has written the values, perhaps without their description.
  const isDescribed = isEmpty(described) || textOfMetadata(described) === textOfMetadata(found);
  if (there !== null && !force && !(isSame && (isDescribed || isEmpty(found)))) return "differs";
  const isDone = isSame && isDescribed;
  if (isPlan) return isDone ? "unchanged" : "done";
  if (!isSame) await kv.write(to, secret.data, to.version === 1 ? undefined : (found?.current_version ?? 0));
  if (described !== null && !isEmpty(described) && !isDone) await kv.describe(to, described);
  if (isMove) {
    const now = from.version === 2 ? await historyOf(kv, from, true) : null;
    if (now !== null && now.current_version !== secret.version)
      throw new Failure(`${shown(from)} was written meanwhile, and is left: repeat the command with --force`);
    await (from.version === 2 ? kv.removeAll(from) : kv.remove(from)).catch((failure: unknown) => {
      io.note(`copied ${shown(from)} to ${shown(to)}, and the old one is left:`);
      throw failure;
    });
  }
  return isDone ? "unchanged" : "done";
}

/** @param mayBeHidden null without the right to read it */
const historyOf = (kv: Kv, place: Place, mayBeHidden: boolean): Promise<History | null> =>
  kv.history(place).catch((failure: unknown) => {
    if (mayBeHidden && failure instanceof ApiError && failure.status === 403) return null;
    throw failure;
  });

const isEmpty = (history: History | null): boolean => Object.keys(history?.custom_metadata ?? {}).length === 0;

const textOfMetadata = (history: History | null): string =>
  canonicalJson(JSON.stringify(history?.custom_metadata ?? {}));
