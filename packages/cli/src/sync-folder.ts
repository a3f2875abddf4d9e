import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { type Api, ApiError, encoded } from "./api.ts";
import { Failure, InvalidUsage, type Io } from "./command.ts";
import { type Place, shown } from "./kv/store.ts";

/** A write at a destination. @throws Failure without the destination, ApiError */
export async function writeAt(
  api: Api,
  destination: string,
  path: string,
  body: object,
  query: Readonly<Record<string, string>> = {},
): Promise<unknown> {
  const sent = { query, body: JSON.stringify(body) };
  const { text } = await api
    .call("POST", `sys/sync/destinations/${encoded(destination)}/${path}`, sent)
    .catch((failure: unknown) => {
      if (!(failure instanceof ApiError && failure.status === 404 && failure.reason === "")) throw failure;
      throw new Failure(`${destination}: no such destination: \`sallyport sync status\` shows them`);
    });
  return text === "" ? null : (JSON.parse(text) as { data: unknown }).data;
}

/** Copies of a folder: a rule of the destination, which also covers secrets that are written later. */

const ruleSchema = z.object({
  mount: z.string(),
  path_prefix: z.string(),
  status: z.string(),
  progress: z.object({ matched: z.number(), applied: z.number(), pending_removals: z.number() }),
  problems: z.array(z.string()),
  sync_operation_counters: z.record(z.string(), z.number()),
});
type Rule = z.infer<typeof ruleSchema>;

const planSchema = z.object({
  summary: z.record(z.string(), z.number()),
  planned: z.array(z.object({ external_name: z.string().optional(), action: z.string() }).loose()),
  next: z.string(),
});

/** The rule of one folder at one destination; both are in its name. */
export class FolderRule {
  readonly #api: Api;
  readonly #folder: Place;
  readonly #destination: string;
  readonly #name: string;
  readonly #path: string;

  /** @param destination `TYPE/NAME` @throws InvalidUsage for version 1 of KV */
  constructor(api: Api, folder: Place, destination: string) {
    if (folder.version === 1) throw new InvalidUsage("PATH: rules need KV version 2");
    this.#api = api;
    this.#folder = folder;
    this.#destination = destination;
    this.#name = ruleNameOf(folder);
    this.#path = `sys/sync/destinations/${encoded(destination)}/rules/${this.#name}`;
  }

  get #body(): { readonly mount: string; readonly path_prefix?: string; readonly match_all?: boolean } {
    const prefix = this.#folder.name.replace(/\/+$/, "");
    const mount = this.#folder.mount.replace(/\/$/, "");
    return { mount, ...(prefix === "" ? { match_all: true } : { path_prefix: prefix }) };
  }

  #write(query: Readonly<Record<string, string>> = {}): Promise<unknown> {
    return writeAt(this.#api, this.#destination, `rules/${this.#name}`, this.#body, query);
  }

  /** The objects that the rule would create, change or remove. @returns the exit code */
  async plan(asJson: boolean, io: Io): Promise<number> {
    await this.#own();
    const all: z.infer<typeof planSchema>["planned"] = [];
    for (let after = ""; ; ) {
      const query = { dry_run: "true", ...(after !== "" && { after }) };
      const { summary, planned, next } = planSchema.parse(await this.#write(query));
      all.push(...planned);
      if (next !== "" && next !== after) {
        after = next;
        continue;
      }
      if (asJson) io.out(JSON.stringify({ rule: this.#name, summary, planned: all }, null, 2));
      else {
        for (const { action, external_name = "" } of all) io.out(`${action} ${external_name}`);
        const { matched = 0, ...counts } = summary;
        io.note(`rule ${this.#name}: ${secretsOf(matched)}${countsOf(counts)}`);
      }
      return (summary["refused"] ?? 0) > 0 ? 1 : 0;
    }
  }

  /** Stores the rule unless it exists. @returns the exit code */
  async set(waitMs: number, asJson: boolean, io: Io): Promise<number> {
    if ((await this.#own()) === null) await this.#write();
    const end = Date.now() + waitMs;
    for (;;) {
      const rule = await this.#own();
      if (rule === null) throw new Failure(`rule ${this.#name} was deleted meanwhile`);
      if (!isSettled(rule) && Date.now() < end) {
        await sleep(INTERVAL_MS);
        continue;
      }
      const { status, progress, sync_operation_counters: counts, problems } = rule;
      if (asJson) io.out(JSON.stringify({ rule: this.#name, ...rule }, null, 2));
      else {
        io.out(`${shown(this.#folder)} ${status}: ${secretsOf(progress.matched)}${countsOf(counts)}`);
        for (const problem of problems) io.note(problem);
        io.note(`rule ${this.#name} of ${this.#destination}`);
      }
      const hasFailed = problems.length > 0 || Object.keys(counts).some((word) => /ERROR$/.test(word));
      return hasFailed || (waitMs > 0 && !isSettled(rule)) ? 1 : 0;
    }
  }

  /** @throws Failure without the rule */
  async remove(): Promise<void> {
    if ((await this.#own()) === null) throw new Failure(`${this.#destination} has no rule ${this.#name}`);
    await this.#api.call("DELETE", this.#path);
  }

  /** The rule as it is stored; null without one. @throws Failure for the rule of another folder, ApiError */
  async #own(): Promise<Rule | null> {
    const fields = await this.#api.fields(this.#path);
    if (fields === null) return null;
    const rule = ruleSchema.parse(fields);
    const { mount, path_prefix: prefix = "" } = this.#body;
    if (rule.mount.replace(/\/$/, "") === mount && rule.path_prefix === prefix) return rule;
    throw new Failure(`rule ${this.#name} of ${this.#destination} is for ${rule.mount}/${rule.path_prefix}`);
  }
}

const INTERVAL_MS = 500;

const isSettled = ({ status, progress, sync_operation_counters: counts }: Rule): boolean =>
  status !== "scanning" && progress.applied >= progress.matched && (counts["PENDING"] ?? 0) === 0;

/** Mount and folder in the letters of rules' names. */
const ruleNameOf = (folder: Place): string =>
  shown(folder)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 63) || "all";

const secretsOf = (count: number): string => `${count} secret${count === 1 ? "" : "s"}`;

function countsOf(counts: Readonly<Record<string, number>>): string {
  const some = Object.entries(counts).filter(([, count]) => count > 0);
  return some.length === 0 ? "" : `, ${some.map(([word, count]) => `${count} ${word}`).join(", ")}`;
}
