import { setTimeout as sleep } from "node:timers/promises";
import type { Everything } from "../doubles/cloud-b/azure-types.ts";
import { type Client, isSuccess } from "./client.ts";
import { Tally } from "./counts.ts";
import type { Directory } from "./providers.ts";
import { Doubt, pick, type Random, type RandomFor, repeatedly, type Workload } from "./workload.ts";

interface Lease {
  readonly id: string;
  readonly role: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Its expiry, ms since 1970. */
  readonly expires: number;
  readonly fate: Doubt<"lives" | "ended">;
  busy: boolean;
  /** False from when it may have come to its longest time. */
  renewable: boolean;
}

const MOUNT = "cloud-b";
/** Tolerance for leases that expire late because the service was being killed. */
const LATE_MS = 20_000;
/** Timeout of these callers: less than the minute after which the work of a dead Worker is retried. */
const PATIENCE_MS = 30_000;
/** Credentials that a role keeps ready. */
const POOL = 6;
interface Role {
  readonly body: Readonly<Record<string, unknown>>;
  /** How many objects one of its leases is. */
  readonly makes: Readonly<Record<"applications" | "assignments" | "memberships", number>>;
}

const isPooled = ({ body }: Role) => "pool_size" in body;
/** A role of each kind. */
const rolesFor = ({ scope, existingApplication }: Directory): Record<string, Role> => ({
  own: {
    body: { cloud_roles: reader(scope), cloud_groups: [{ group_name: "developers" }], permanently_delete: true },
    makes: { applications: 1, assignments: 1, memberships: 1 },
  },
  short: {
    body: { cloud_roles: reader(scope), permanently_delete: true, ttl: "15s", max_ttl: "15s" },
    makes: { applications: 1, assignments: 1, memberships: 0 },
  },
  kept: {
    body: { cloud_roles: reader(scope), cloud_groups: [{ group_name: "auditors" }] },
    makes: { applications: 1, assignments: 1, memberships: 1 },
  },
  existing: {
    body: { application_object_id: existingApplication },
    makes: { applications: 0, assignments: 0, memberships: 0 },
  },
  pooled: {
    body: { cloud_roles: reader(scope), permanently_delete: true, pool_size: POOL },
    makes: { applications: 1, assignments: 1, memberships: 0 },
  },
  grouped: {
    body: {
      cloud_roles: reader(scope),
      cloud_groups: [{ group_name: "developers" }],
      permanently_delete: true,
      pool_size: POOL,
    },
    makes: { applications: 1, assignments: 1, memberships: 1 },
  },
  persistent: {
    body: { cloud_roles: reader(scope), persist_app: true, permanently_delete: true },
    makes: { applications: 0, assignments: 0, memberships: 0 },
  },
});
const reader = (scope: string) => [{ role_name: "Reader", scope }];
/** Objects that a role with a persistent application has, with or without leases. */
const PERSISTENT = { applications: 1, assignments: 1, memberships: 0 };

/** Credentials are issued, renewed, revoked and expire: each that was answered has its lease, and nothing else stays at the cloud. */
export class Credentials implements Workload {
  readonly name = "credentials";
  readonly wrong: string[] = [];
  readonly #client: Client;
  readonly #randomFor: RandomFor;
  readonly #directory: Directory;
  /** Parts of the load that the service does not offer; undefined when it must offer all. */
  readonly #leftOut: string[] | undefined;
  #roles: Readonly<Record<string, Role>>;
  readonly #leases: Lease[] = [];
  readonly #done = new Tally();
  #before: Everything | null = null;
  #keys = 0;

  /** @param onlyPools leaves out the roles without a pool */
  constructor(
    client: Client,
    randomFor: RandomFor,
    directory: Directory,
    onlyPools: boolean,
    leftOut: string[] | undefined,
  ) {
    this.#leftOut = leftOut;
    this.#client = client;
    this.#randomFor = randomFor;
    this.#directory = directory;
    const roles = Object.entries(rolesFor(directory)).filter(([, role]) => !onlyPools || isPooled(role));
    this.#roles = Object.fromEntries(roles);
  }

  async begin(): Promise<void> {
    await this.#client.must("POST", `/v1/sys/mounts/${MOUNT}`, { type: "cloud-b" });
    await this.#client.must("POST", `/v1/${MOUNT}/config`, this.#directory.config);
    this.#before = this.#directory.everything();
    for (const [name, { body }] of Object.entries(this.#roles))
      await this.#client.must("POST", `/v1/${MOUNT}/roles/${name}`, { ttl: "1h", max_ttl: "24h", ...body });
    const [pooled] = Object.entries(this.#roles).find(([, role]) => isPooled(role)) ?? [];
    if (!this.#leftOut || pooled === undefined) return;
    const { body } = await this.#client.must("GET", `/v1/${MOUNT}/roles/${pooled}`);
    if ("pool_size" in body.data) return;
    // A former version ignores the pool of a role.
    this.#leftOut.push("pools");
    this.#roles = Object.fromEntries(Object.entries(this.#roles).filter(([, role]) => !isPooled(role)));
  }

  async run(going: () => boolean): Promise<void> {
    const acting = (who: string, pauseMs: number, act: (random: Random) => Promise<void>) => {
      const random = this.#randomFor(`credentials ${who}`);
      return repeatedly(going, random, pauseMs, () => act(random));
    };
    await Promise.all([
      ...["one", "two", "three", "four"].map((who) => acting(who, 300, (random) => this.#issue(random))),
      ...["five", "six"].map((who) => acting(who, 400, (random) => this.#visit(random))),
      acting("root", 20_000, () => this.#rotate()),
    ]);
  }

  /** Half of them under a key, which is tried again until there is an answer: that makes one lease. */
  async #issue(random: Random): Promise<void> {
    const role = pick(random, Object.keys(this.#roles));
    const key = random() < 0.5 ? { "Idempotency-Key": `key-${++this.#keys}` } : {};
    if (!this.#client.isServed) return;
    let first: Lease | null = null;
    for (let tries = 0; tries < ("Idempotency-Key" in key ? 6 : 1); tries++) {
      while (!this.#client.isServed) await sleep(50);
      const begun = Date.now();
      // Some callers leave while their credentials are being made.
      const patience = random() < 0.15 ? 50 + random() * 1_500 : PATIENCE_MS;
      const answer = await this.#client.call("GET", `/v1/${MOUNT}/creds/${role}`, undefined, key, patience);
      this.#done.add(isSuccess(answer) ? "issued" : answer ? `refused ${answer.status}` : "not answered");
      if (!isSuccess(answer)) continue;
      const { lease_id: id, lease_duration: seconds, data } = answer.body;
      if (first && first.id !== id) this.wrong.push(`one key became the leases ${first.id} and ${id}`);
      if (first) return;
      first = {
        id,
        role,
        clientId: data.client_id,
        clientSecret: data.client_secret,
        busy: false,
        renewable: true,
        expires: begun + seconds * 1_000,
        fate: new Doubt<"lives" | "ended">("lives"),
      };
      this.#leases.push(first);
      if (!this.#directory.accepts(first.clientId, first.clientSecret))
        this.wrong.push(`${id} was issued, and the directory does not know its credentials`);
      // Repeated, as after a lost answer.
      if (random() < 0.7) return;
    }
  }

  /** Looks one up, renews it, or ends it. */
  async #visit(random: Random): Promise<void> {
    const living = this.#leases.filter(({ fate, expires }) => fate.certain === "lives" && expires > Date.now() + 5_000);
    const [dice, lease] = [random(), pick(random, living.slice(-30))];
    if (!lease || lease.busy || !this.#client.isServed) return;
    lease.busy = true;
    const body = { lease_id: lease.id };
    if (dice < 0.5) {
      const answer = await this.#client.call("POST", "/v1/sys/leases/revoke", body, {}, PATIENCE_MS);
      if (isSuccess(answer)) lease.fate.answered("ended");
      else lease.fate.unanswered("ended");
      if (isSuccess(answer) && this.#directory.accepts(lease.clientId, lease.clientSecret))
        this.wrong.push(`${lease.id} was revoked, and its credentials still work`);
      this.#done.add(isSuccess(answer) ? "revoked" : "not answered");
    } else {
      const verb = dice < 0.75 && lease.renewable ? "renew" : "lookup";
      const answer = await this.#client.call("POST", `/v1/sys/leases/${verb}`, body);
      if (verb === "renew") lease.renewable = answer?.body?.renewable === true;
      if (answer !== null && answer.status < 500 && !answer.ok && lease.expires > Date.now())
        this.wrong.push(`${lease.id} was issued, and its ${verb} is answered ${answer.status} ${answer.text}`);
      this.#done.add(isSuccess(answer) ? verb : "not answered");
    }
    lease.busy = false;
  }

  async #rotate(): Promise<void> {
    const answer = await this.#client.call("POST", `/v1/${MOUNT}/rotate-root`, {}, {}, PATIENCE_MS);
    this.#done.add(isSuccess(answer) ? "rotated" : "not answered");
  }

  async unsettled(): Promise<string[]> {
    const faults: string[] = [];
    const listed = new Map<string, Set<string>>();
    for (const role of Object.keys(this.#roles)) {
      const answer = await this.#client.call("GET", `/v1/sys/leases/lookup/${MOUNT}/creds/${role}?list=true`);
      if (answer?.status !== 200 && answer?.status !== 404) return [`leases cannot be listed: ${answer?.status}`];
      const keys: string[] = answer.body?.data?.keys ?? [];
      listed.set(role, new Set(keys.map((key) => `${MOUNT}/creds/${role}/${key}`)));
    }
    const now = Date.now();
    for (const { id, role, clientId, clientSecret, fate, expires } of this.#leases) {
      const [isListed, works] = [listed.get(role)?.has(id), this.#directory.accepts(clientId, clientSecret)];
      const may = (state: "lives" | "ended") =>
        fate.may(state) && !(state === "lives" && role === "short" && expires + LATE_MS < now);
      if (isListed !== works)
        faults.push(`${id} is ${isListed ? "" : "not "}a lease, and ${works ? "works" : "does not work"}`);
      else if (!may(works ? "lives" : "ended") && !(role === "short" && expires < now))
        faults.push(`${id} ${works ? "was ended, and works" : "was issued and never ended, and is gone"}`);
    }
    const should = { applications: 0, assignments: 0, memberships: 0, ...(this.#roles["persistent"] && PERSISTENT) };
    for (const [name, role] of Object.entries(this.#roles)) {
      const read = isPooled(role) ? await this.#client.call("GET", `/v1/${MOUNT}/roles/${name}`) : null;
      const ready = read?.body?.data?.pool_ready;
      if (isPooled(role) && ready !== POOL) faults.push(`the pool of ${name} has ${ready}, not ${POOL}`);
      const count = (listed.get(name)?.size ?? 0) + (isPooled(role) ? POOL : 0);
      for (const kind of Object.keys(should) as (keyof typeof should)[]) should[kind] += count * role.makes[kind];
    }
    const [before, is] = [this.#before as Everything, this.#directory.everything()];
    for (const kind of ["applications", "assignments", "memberships"] as const) {
      const more = is[kind].length - before[kind].length;
      if (more !== should[kind])
        faults.push(`${more} ${kind} at the cloud are ours, and leases are of ${should[kind]}`);
    }
    if (is.principals.length - before.principals.length !== should.applications)
      faults.push(`${is.principals.length - before.principals.length} principals are ours, not ${should.applications}`);
    const passwords = (id: string) => is.applications.find((application) => application.id === id)?.passwords.length;
    const existing = listed.get("existing")?.size ?? 0;
    if (passwords(this.#directory.existingApplication) !== existing)
      faults.push(
        `the existing application has ${passwords(this.#directory.existingApplication)} passwords, not ${existing}`,
      );
    if (passwords(this.#directory.rootApplication) !== 1)
      faults.push(`the root has ${passwords(this.#directory.rootApplication)} passwords, not 1`);
    return faults;
  }

  /** When all is revoked and the roles are gone, the cloud is as it was. */
  async verify(): Promise<string[]> {
    for (const role of Object.keys(this.#roles)) await this.#client.must("DELETE", `/v1/${MOUNT}/roles/${role}`);
    let faults: string[] = [];
    for (const until = Date.now() + 120_000; Date.now() < until; await sleep(500)) {
      await this.#client.call("PUT", `/v1/sys/leases/revoke-prefix/${MOUNT}`);
      faults = this.#left();
      if (faults.length === 0) break;
    }
    return faults;
  }

  #left(): string[] {
    const [before, is] = [this.#before as Everything, this.#directory.everything()];
    const faults: string[] = [];
    for (const kind of ["applications", "principals", "assignments", "memberships"] as const) {
      const left = is[kind].length - before[kind].length;
      if (left !== 0) faults.push(`${left} ${kind} are left when everything was revoked`);
    }
    const existing = is.applications.find(({ id }) => id === this.#directory.existingApplication);
    if (existing?.passwords.length !== 0)
      faults.push(`the existing application keeps ${existing?.passwords.length} passwords`);
    return faults;
  }

  told(): string {
    return `${this.#done}`;
  }
}
