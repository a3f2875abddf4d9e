import { randomBytes } from "node:crypto";
import { chmodSync, closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import * as z from "zod";
import { Refusal } from "../settings.ts";

/**
 * The record of a first deployment: the resources that it made and the steps that are done. One writer, this program;
 * read at each start. Nothing secret is in it; secrets are files beside it.
 *
 *   absent -> intended (before the call) -> made (with the id) -> absent (after a deletion)
 */

const Resource = z.strictObject({
  kind: z.enum(["d1", "queue", "r2", "secret", "worker"]),
  name: z.string(),
  /** ISO time before the call that makes it. */
  intended: z.iso.datetime(),
  /** Null until the answer of the provider is recorded. */
  id: z.string().nullable(),
});

const Place = z.strictObject({
  location: z.enum(["weur", "eeur", "apac", "oc", "wnam", "enam"]).nullable(),
  jurisdiction: z.enum(["eu", "us", "fedramp"]).nullable(),
});

const STEPS = ["migrated", "deployed", "token-stored", "checked"] as const;

const State = z.strictObject({
  format: z.literal(1),
  account: z.string().regex(/^[0-9a-f]{32}$/),
  name: z.string(),
  /** Ends the names of resources: one of the name that is recorded before the call can be of this deployment only. */
  suffix: z.string().regex(/^[0-9a-f]{8}$/),
  place: Place,
  /** The custom domain; null below workers.dev, absent in records of older releases. */
  domain: z.string().nullable().optional(),
  resources: z.array(Resource),
  done: z.array(z.enum(STEPS)),
  /** Where the service answers; null before its deployment. */
  address: z.url().nullable(),
});

export type Kind = z.infer<typeof Resource>["kind"];
export type Recorded = z.infer<typeof Resource>;
export type Place = z.infer<typeof Place>;
export type Step = (typeof STEPS)[number];
type Content = z.infer<typeof State>;

/** Writes a file of mode 0600 that is whole on the disk or absent. */
export function writePrivate(path: string, content: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const file = openSync(`${path}.new`, "w", 0o600);
  try {
    chmodSync(`${path}.new`, 0o600);
    writeSync(file, content);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(`${path}.new`, path);
  const folder = openSync(dirname(path), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** The text of a file, or null without one. */
export function readIfThere(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw failure;
  }
}

interface Wanted {
  readonly account: string;
  readonly name: string;
  /** As given by options; a record keeps its own. */
  readonly place: { readonly [Part in keyof Place]?: Place[Part] };
  /** Replaces the recorded one. */
  readonly domain: string | undefined;
}

/** The custom domain of a record without one. */
function domainAt(address: string | null): string | null {
  if (address === null) return null;
  const { hostname } = new URL(address);
  return hostname.endsWith(".workers.dev") ? null : hostname;
}

export class DeploymentState {
  readonly #path: string;
  readonly #isDry: boolean;
  #content: Content;

  private constructor(path: string, content: Content, isDry: boolean) {
    this.#path = path;
    this.#content = content;
    this.#isDry = isDry;
  }

  /**
   * Reads the record in `dir`, or begins one. A dry run changes no file.
   * @throws Refusal for a record of another account, name or place
   */
  static open(dir: string, wanted: Wanted, isDry: boolean): DeploymentState {
    const { account, name, place, domain } = wanted;
    const path = join(dir, "state.json");
    const text = readIfThere(path);
    if (text === null) {
      const suffix = randomBytes(4).toString("hex");
      const shape = { format: 1 as const, account, name, suffix, resources: [], done: [], address: null };
      const at = { place: { location: null, jurisdiction: null, ...place }, domain: domain ?? null };
      return new DeploymentState(path, { ...shape, ...at }, isDry);
    }
    const parsed = State.safeParse(parsedJson(text));
    if (!parsed.success)
      throw new Refusal(`${path}: is not a record of a deployment: ${z.prettifyError(parsed.error)}`);
    const { account: recorded, name: named, place: chosen } = parsed.data;
    if (recorded !== account) throw new Refusal(`${path}: belongs to the account ${recorded}`);
    if (named !== name) throw new Refusal(`${path}: belongs to the deployment ${named}`);
    for (const part of ["location", "jurisdiction"] as const)
      if (place[part] !== undefined && place[part] !== chosen[part])
        throw new Refusal(`--${part}: was ${chosen[part] ?? "none"} when the resources were made, and cannot change`);
    const before = parsed.data.domain === undefined ? domainAt(parsed.data.address) : parsed.data.domain;
    return new DeploymentState(path, { ...parsed.data, domain: domain ?? before }, isDry);
  }

  get suffix(): string {
    return this.#content.suffix;
  }

  get place(): Place {
    return this.#content.place;
  }

  get domain(): string | null {
    return this.#content.domain ?? null;
  }

  get address(): string | null {
    return this.#content.address;
  }

  set address(address: string) {
    this.#change({ address });
  }

  get resources(): readonly Recorded[] {
    return this.#content.resources;
  }

  find(kind: Kind, name: string): Recorded | undefined {
    return this.#content.resources.find((each) => each.kind === kind && each.name === name);
  }

  /** Records that a resource is about to be made. */
  intend(kind: Kind, name: string): Recorded {
    const intended = new Date().toISOString();
    const resource = { kind, name, intended, id: null };
    this.#change({ resources: [...this.#content.resources, resource] });
    return resource;
  }

  made(kind: Kind, name: string, id: string): void {
    this.#change({
      resources: this.#content.resources.map((each) => (isAt(each, kind, name) ? { ...each, id } : each)),
    });
  }

  /** Records that a resource is gone, or was never made. */
  forget(kind: Kind, name: string): void {
    this.#change({ resources: this.#content.resources.filter((each) => !isAt(each, kind, name)) });
  }

  isDone(step: Step): boolean {
    return this.#content.done.includes(step);
  }

  finish(...steps: readonly Step[]): void {
    this.#change({ done: [...new Set([...this.#content.done, ...steps])] });
  }

  reopen(...steps: readonly Step[]): void {
    this.#change({ done: this.#content.done.filter((step) => !steps.includes(step)) });
  }

  #change(part: Partial<Content>): void {
    this.#content = { ...this.#content, ...part };
    if (!this.#isDry) writePrivate(this.#path, `${JSON.stringify(this.#content, null, 2)}\n`);
  }
}

const isAt = (each: Recorded, kind: Kind, name: string): boolean => each.kind === kind && each.name === name;

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
