import type { DestinationKey } from "../../contracts/destination.ts";
import type { Failure } from "../../contracts/failure.ts";
import type { SurveyedSecret } from "../../contracts/kv-store.ts";
import type { Adoption } from "../../contracts/sync-adoption.ts";
import type { RuleMount } from "../../contracts/sync-rules.ts";
import { tryParseObject } from "../../lib/json.ts";
import { mapLimit } from "../../lib/map-limit.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { destinationName } from "../../rpc/destination-name.ts";
import { kvStore, syncDestination } from "../../rpc/stubs.ts";
import { matchesPathGlob } from "../rules/path-glob.ts";
import { secretIn } from "../rules/rule-naming.ts";
import { secretKeyValues } from "../worker/payload.ts";
import { type TargetReader, targetReader } from "./target-reader.ts";

/**
 * Imports objects of a destination's provider as secrets, and adopts them. Runs in the Worker, called by `routes/`; a
 * page at a time, each object on its own:
 *
 *   list ──> mark the path (create only) ──> write version 1 (cas 0) ──> adopt
 *
 * The mark is custom metadata with the object's origin. So a repeat after a crash continues where the last one ended and
 * writes no second version, and a path with another origin is a collision.
 */

/** Custom metadata of an imported secret. */
const FROM = "imported_from";
const NAME = "imported_name";
/** The key of a secret whose object was a plain text. */
const VALUE = "value";
/** Objects of one page. */
export const IMPORTED = 100;
const AT_ONCE = 4;
/** No object is begun after this time; the rest belongs to the next page. */
const PAGE_MS = 20_000;

export interface ImportRequest {
  readonly mount: RuleMount;
  /** Before the name of each object in the path of its secret. */
  readonly pathPrefix: string;
  readonly nameGlob: readonly string[];
  readonly excludeGlob: readonly string[];
  /** `next` of the page before; empty for the first. */
  readonly after: string;
  readonly limit: number;
  readonly dryRun: boolean;
}

/** Why the caller may not do so at a path of the mount; null when it may. */
export type MayDo = (needed: "write" | "read", secretName: string) => Promise<string | null>;

export interface ImportedObject {
  readonly external_name: string;
  readonly secret_name: string;
  /** `import`: the value is written as a secret, and the object adopted. `keep`: it is adopted already. */
  readonly action: "import" | "adopt" | "keep" | "refuse";
  readonly reason?: string;
}

/** Imports a page of objects. `next` is where the next page begins; null on the last one. */
export async function importObjects(
  env: Env,
  key: DestinationKey,
  request: ImportRequest,
  mayDo: MayDo,
): Promise<Result<{ readonly objects: readonly ImportedObject[]; readonly next: string | null }>> {
  const setup = await syncDestination(env, destinationName(key)).setup();
  if (!setup.ok) return setup;
  if (setup.value.updatePolicy !== "replace") {
    return refuse("invalid", "update_policy: an object is adopted by writing it, so it must be replace");
  }
  const reader = await targetReader(env, key, setup.value);
  if (!reader.ok) return reader;
  const page = await reader.value.list(request.after);
  if ("outcome" in page) return unavailable(page);
  const end = Date.now() + PAGE_MS;
  const work = new Import(env, key, request, mayDo, reader.value);
  const matching = page.names.slice(0, request.limit);
  const found = await work.surveyed(matching);
  const objects = await mapLimit(
    matching,
    AT_ONCE,
    (name) => work.object(name, found),
    () => Date.now() < end,
  );
  const next = objects.length < page.names.length ? page.at(objects.length) : page.next;
  return ok({ objects: objects.filter((one) => one !== null), next });
}

const unavailable = ({ outcome, message }: Failure) =>
  refuse(outcome === "client" ? "invalid" : "unavailable", `the destination's objects cannot be listed: ${message}`);

class Import {
  /** The objects of this page by the path of their secret. */
  readonly #paths = new Map<string, string>();

  constructor(
    private readonly env: Env,
    private readonly key: DestinationKey,
    private readonly request: ImportRequest,
    private readonly mayDo: MayDo,
    private readonly reader: TargetReader,
  ) {}

  /** The secrets that exist at the paths of these objects. */
  async surveyed(names: readonly string[]): Promise<ReadonlyMap<string, SurveyedSecret>> {
    const paths = names.map((name) => this.#pathOf(name));
    const found = await this.#store().surveyOf(paths);
    return new Map(found.flatMap((secret) => (secret ? [[secret.path, secret]] : [])));
  }

  /** Imports or adopts one object; in a dry run says so only. Null when the request does not mean it. */
  async object(name: string, found: ReadonlyMap<string, SurveyedSecret>): Promise<ImportedObject | null> {
    const { nameGlob, excludeGlob } = this.request;
    const bare = bareName(name);
    const isMeant = nameGlob.some((glob) => matchesPathGlob(bare, glob));
    if (!isMeant || excludeGlob.some((glob) => matchesPathGlob(bare, glob))) return null;
    const secretName = this.#pathOf(name);
    const shown = { external_name: name, secret_name: secretName };
    const refused = (reason: string): ImportedObject => ({ ...shown, action: "refuse", reason });
    const other = this.#paths.get(secretName);
    this.#paths.set(secretName, other ?? name);
    if (other !== undefined) return refused(`${other} has the same path`);
    if (!isPath(bare) || !isPath(secretName)) return refused("its name is no path of a secret");
    const secret = found.get(secretName);
    const isImported = secret !== undefined && this.#isMarked(secret, name);
    if (!this.reader.read) return this.#adoptOnly(shown, secret, refused);
    if (secret && !isImported) return refused(`a secret exists at ${this.request.mount.path}${secretName}`);
    const denied = await this.mayDo("write", secretName);
    if (denied !== null) return refused(denied);
    // A dry run reads no value.
    const content = this.request.dryRun ? UNREAD : await this.#content(name);
    if (typeof content === "string") return refused(content);
    return this.#take(shown, content, isImported ? "adopt" : "import", refused);
  }

  /** Adopts an object, whose secret is written first if the action is `import`. */
  async #take(
    shown: Shown,
    content: SecretContent,
    action: "import" | "adopt",
    refused: (reason: string) => ImportedObject,
  ): Promise<ImportedObject> {
    const adoption = this.#adoption(shown, content);
    const state = await this.#stateOf(adoption);
    if (state === "held") return { ...shown, action: "keep" };
    if (state !== "free") return refused(state);
    if (this.request.dryRun) return { ...shown, action };
    const problem = action === "import" ? await this.#write(shown, content.data) : null;
    const last = problem ?? (await this.#adopt(adoption));
    return last === null ? { ...shown, action } : refused(last);
  }

  /** An object without a value: the secret must be there. */
  async #adoptOnly(
    shown: Shown,
    secret: SurveyedSecret | undefined,
    refused: (reason: string) => ImportedObject,
  ): Promise<ImportedObject> {
    if (!secret) return refused("the provider shows no values, and there is no secret at this path");
    const denied = await this.mayDo("read", shown.secret_name);
    if (denied !== null) return refused(denied);
    const content = await this.#newest(shown.secret_name);
    if (typeof content === "string") return refused(content);
    if (content.granularity === "secret-key" && content.keys.length !== 1) {
      return refused("the object holds one text, so the secret must have one key");
    }
    return this.#take(shown, content, "adopt", refused);
  }

  async #content(name: string): Promise<SecretContent | string> {
    const read = await this.reader.read?.(name);
    if (read?.outcome !== "ok") return read?.message ?? "the provider shows no values";
    if (read.content === null) return "it has no value any more";
    const { value, data } = read.content;
    if (data) return { data: JSON.stringify(data), granularity: "secret-path", keys: [] };
    if (tryParseObject(value)) return { data: value, granularity: "secret-path", keys: [] };
    return { data: JSON.stringify({ [VALUE]: value }), granularity: "secret-key", keys: [VALUE] };
  }

  async #newest(secretName: string): Promise<SecretContent | string> {
    const newest = await this.#store().newest(secretName);
    if (!newest.ok) return newest.message || newest.reason;
    if (newest.value === null) return "the secret has no living version";
    const { data } = newest.value;
    const parts = secretKeyValues(data);
    const keys = parts.ok ? parts.values.map(({ key }) => key) : [];
    const isText = this.reader.read ? keys.length === 1 && keys[0] === VALUE : this.reader.granularity === "secret-key";
    return isText ? { data, granularity: "secret-key", keys } : { data, granularity: "secret-path", keys: [] };
  }

  /** Marks the path and writes the first version. @returns the problem */
  async #write({ external_name: name, secret_name: path }: Shown, data: string): Promise<string | null> {
    const store = this.#store();
    const mark = { custom_metadata: { [FROM]: this.#from(), [NAME]: name }, metadata_cas: 0 };
    const marked = await store.setMetadata(path, mark, true, { create: true, update: false });
    if (!marked.ok && marked.reason !== "denied") return marked.message || marked.reason;
    const metadata = marked.ok ? null : await store.metadata(path);
    if (
      metadata &&
      !(metadata.ok && this.#isMarked({ path, customMetadata: metadata.value.row.custom_metadata }, name))
    ) {
      return `a secret exists at ${this.request.mount.path}${path}`;
    }
    // A version that an earlier attempt has written stays.
    if (metadata?.ok && metadata.value.row.current_version > 0) return null;
    const written = await store.put(path, data, 0, { create: true, update: true });
    return written.ok ? null : written.message || written.reason;
  }

  async #adopt(adoption: Adoption): Promise<string | null> {
    const adopted = await syncDestination(this.env, destinationName(this.key)).adopt(adoption);
    return adopted.ok ? null : adopted.message || adopted.reason;
  }

  /** `free`, `held`, or the refusal. */
  async #stateOf(adoption: Adoption): Promise<string> {
    const states = await syncDestination(this.env, destinationName(this.key)).previewAdoptions([adoption]);
    if (!states.ok) return states.message || states.reason;
    const [found] = states.value;
    return found?.state === "refused" ? found.reason : (found?.state ?? "missing");
  }

  #adoption({ external_name: externalName, secret_name: secretName }: Shown, content: SecretContent): Adoption {
    const { granularity, keys } = content;
    return { secret: { ...secretIn(this.request.mount), secretName }, externalName, granularity, keys };
  }

  #isMarked({ customMetadata }: SurveyedSecret, name: string): boolean {
    const metadata = customMetadata === null ? {} : (JSON.parse(customMetadata) as Record<string, unknown>);
    return metadata[FROM] === this.#from() && metadata[NAME] === name;
  }

  #from(): string {
    return `${this.key.type}/${this.key.name}`;
  }

  #pathOf(name: string): string {
    return `${this.request.pathPrefix}${bareName(name)}`;
  }

  #store() {
    return kvStore(this.env, this.request.mount.uuid);
  }
}

type Shown = Pick<ImportedObject, "external_name" | "secret_name">;

interface SecretContent extends Pick<Adoption, "granularity" | "keys"> {
  /** JSON text of an object. */
  readonly data: string;
}

const UNREAD: SecretContent = { data: "{}", granularity: "secret-path", keys: [] };

const bareName = (name: string): string => name.replace(/^\/+/, "");

const isPath = (path: string): boolean =>
  path.isWellFormed() &&
  !/\p{Cc}/u.test(path) &&
  path.split("/").every((segment) => !["", ".", ".."].includes(segment));
