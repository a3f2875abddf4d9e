import { setTimeout as sleep } from "node:timers/promises";
import { type Client, isSuccess } from "./client.ts";
import { Tally } from "./counts.ts";
import type { EngineProvider } from "./engine-providers.ts";
import { Doubt, pick, type Random, type RandomFor, repeatedly, type Workload } from "./workload.ts";

interface Lease {
  readonly id: string;
  readonly issue: string;
  readonly data: Readonly<Record<string, string>>;
  readonly fate: Doubt<"lives" | "ended">;
  busy: boolean;
}

/** More than the minute after which the work of a dead Worker is retried: credentials of many calls, such as Google's, are issued, too. */
const PATIENCE_MS = 90_000;
/** Keys that IAM and Azure permit during a rotation. */
const MOST_STATIC_KEYS = 2;

/** Credentials of one engine are issued and revoked, its static role rotates: nothing else stays at its provider. */
export class Engine implements Workload {
  readonly name: string;
  readonly wrong: string[] = [];
  readonly #client: Client;
  readonly #randomFor: RandomFor;
  readonly #provider: EngineProvider;
  readonly #mount: string;
  readonly #leases: Lease[] = [];
  readonly #done = new Tally();

  constructor(client: Client, randomFor: RandomFor, provider: EngineProvider) {
    this.#client = client;
    this.#randomFor = randomFor;
    this.#provider = provider;
    this.#mount = `engine-${provider.name}`;
    this.name = provider.name;
  }

  async begin(): Promise<void> {
    const { type, documents, roles, staticRole } = this.#provider;
    await this.#client.must("POST", `/v1/sys/mounts/${this.#mount}`, { type });
    const bodies = [...documents, ...roles.map(({ path, body }) => [path, body] as const)];
    for (const [path, body] of bodies) await this.#client.must("POST", `/v1/${this.#mount}/${path}`, body);
    if (staticRole) await this.#client.must("POST", `/v1/${this.#mount}/static-roles/own`, staticRole.body);
  }

  async run(going: () => boolean): Promise<void> {
    const { roles, rotate, staticRole } = this.#provider;
    const acting = (who: string, pauseMs: number, act: (random: Random) => Promise<void>) => {
      const random = this.#randomFor(`${this.name} ${who}`);
      return repeatedly(going, random, pauseMs, () => act(random));
    };
    await Promise.all([
      ...roles.flatMap(({ issue }) => [
        acting(`issue ${issue}`, 500, (random) => this.#issue(issue, random)),
        acting(`visit ${issue}`, 500, (random) => this.#visit(issue, random)),
      ]),
      ...(rotate ? [acting("root", 8_000, () => this.#rotate(rotate))] : []),
      ...(staticRole ? [acting("static", 400, (random) => this.#visitStatic(random))] : []),
    ]);
  }

  async #issue(path: string, random: Random): Promise<void> {
    if (!this.#client.isServed) return;
    // Some callers leave while their credentials are being made.
    const patience = random() < 0.15 ? 50 + random() * 1_500 : PATIENCE_MS;
    const answer = await this.#client.call("GET", `/v1/${this.#mount}/${path}`, undefined, {}, patience);
    this.#done.add(isSuccess(answer) ? "issued" : answer ? `refused ${answer.status}` : "not answered");
    if (!isSuccess(answer)) return;
    const { lease_id: id, data } = answer.body;
    this.#leases.push({ id, issue: path, data, fate: new Doubt<"lives" | "ended">("lives"), busy: false });
    if (!(await this.#provider.accepts(data))) this.wrong.push(`${id} was issued, and its credentials do not work`);
  }

  /** Renews a lease, or ends it. */
  async #visit(issue: string, random: Random): Promise<void> {
    const living = this.#leases.filter((each) => each.issue === issue && each.fate.certain === "lives" && !each.busy);
    const [dice, lease] = [random(), pick(random, living.slice(-20))];
    if (!lease || !this.#client.isServed) return;
    lease.busy = true;
    const ends = dice < 0.6;
    const body = { lease_id: lease.id, ...(ends && { sync: true }) };
    const path = `/v1/sys/leases/${ends ? "revoke" : "renew"}`;
    const answer = await this.#client.call("POST", path, body, {}, PATIENCE_MS);
    if (ends && isSuccess(answer)) lease.fate.answered("ended");
    else if (ends) lease.fate.unanswered("ended");
    else if (answer !== null && answer.status >= 400 && answer.status < 500)
      this.wrong.push(`${lease.id} was issued, and its renewal is answered ${answer.status} ${answer.text}`);
    this.#done.add(`${isSuccess(answer) ? "" : "not "}${ends ? "revoked" : "renewed"}`);
    lease.busy = false;
  }

  async #rotate(path: string): Promise<void> {
    const answer = await this.#client.call("POST", `/v1/${this.#mount}/${path}`, {}, {}, PATIENCE_MS);
    this.#done.add(isSuccess(answer) ? "rotated" : `not rotated ${answer?.status ?? ""}`);
  }

  /** Reads credentials, which work from before the request to its answer, or rotates them. */
  async #visitStatic(random: Random): Promise<void> {
    const { staticRole } = this.#provider;
    if (!staticRole || !this.#client.isServed) return;
    if (staticRole.hasRotation && random() < 0.08) {
      const rotated = await this.#client.call("POST", `/v1/${this.#mount}/rotate-role/own`, {}, {}, PATIENCE_MS);
      this.#done.add(isSuccess(rotated) ? "static rotated" : `static not rotated ${rotated?.status ?? ""}`);
      return;
    }
    const before = staticRole.ids();
    const answer = await this.#client.call("GET", `/v1/${this.#mount}/static-creds/own`);
    if (!isSuccess(answer)) return void this.#done.add(answer ? `static ${answer.status}` : "static not answered");
    this.#done.add("static read");
    const id = staticRole.idOf(answer.body.data);
    const ids = staticRole.ids();
    if (![...before, ...ids].includes(id)) this.wrong.push(`static-creds answered ${id}, which is not there`);
    if (ids.length > MOST_STATIC_KEYS) this.wrong.push(`the static role has ${ids.length} credentials`);
  }

  async unsettled(): Promise<string[]> {
    const { roles, staticRole } = this.#provider;
    const faults = (await this.#provider.strange()).map((fault) => `${this.#mount}: ${fault}`);
    const listed = new Set<string>();
    for (const { issue } of roles) {
      const answer = await this.#client.call("GET", `/v1/sys/leases/lookup/${this.#mount}/${issue}?list=true`);
      if (answer?.status !== 200 && answer?.status !== 404) return [`leases cannot be listed: ${answer?.status}`];
      for (const key of (answer.body?.data?.keys ?? []) as string[]) listed.add(`${this.#mount}/${issue}/${key}`);
    }
    if (roles.length > 0) {
      const issued = await this.#provider.issued();
      if (issued !== listed.size) faults.push(`${issued} resources at ${this.name}, and ${listed.size} leases`);
      for (const { id, data, fate } of this.#leases) {
        const works = await this.#provider.accepts(data);
        if (works !== listed.has(id)) faults.push(`${id} ${works ? "works" : "does not work"}, against its lease`);
        if (!fate.may(works ? "lives" : "ended")) faults.push(`${id} ${works ? "works after its end" : "is gone"}`);
      }
    }
    if (staticRole) {
      const answer = await this.#client.call("GET", `/v1/${this.#mount}/static-creds/own`);
      const ids = staticRole.ids();
      const id = isSuccess(answer) ? staticRole.idOf(answer.body.data) : `none (${answer?.status})`;
      if (!ids.includes(id)) faults.push(`the static credentials ${id} are not there`);
      if (ids.length > MOST_STATIC_KEYS) faults.push(`the static role has ${ids.length} credentials`);
    }
    return faults;
  }

  /** When all is revoked and the roles are gone, nothing of them is left. */
  async verify(): Promise<string[]> {
    const { roles, staticRole } = this.#provider;
    if (staticRole) await this.#client.must("DELETE", `/v1/${this.#mount}/static-roles/own`);
    let left: string[] = [];
    for (const until = Date.now() + 120_000; Date.now() < until; await sleep(500)) {
      if (roles.length > 0) await this.#client.call("PUT", `/v1/sys/leases/revoke-prefix/${this.#mount}`);
      const [issued, kept] = [await this.#provider.issued(), staticRole?.ids().length ?? 0];
      left = [
        ...(issued === 0 ? [] : [`${issued} resources are left when everything was revoked`]),
        ...(kept === 0 ? [] : [`${kept} credentials of the deleted static role are left`]),
      ];
      if (left.length === 0) break;
    }
    for (const { path } of roles) await this.#client.must("DELETE", `/v1/${this.#mount}/${path}`);
    return left;
  }

  told(): string {
    return `${this.#done}`;
  }
}
