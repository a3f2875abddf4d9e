import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, isSuccess, Refused } from "./client.ts";
import { Tally } from "./counts.ts";
import type { Providers } from "./providers.ts";
import type { Secrets } from "./secrets.ts";
import { Doubt, mapFew, pick, type Random, type RandomFor, repeatedly, type Workload } from "./workload.ts";

type Wish = "set" | "removed";

interface Association {
  readonly destination: string;
  readonly secret: string;
  readonly wish: Doubt<Wish>;
  busy: boolean;
}

interface Shown {
  readonly secret_name: string;
  readonly sub_key?: string;
  readonly external_name: string;
  readonly sync_status: string;
  readonly synced_version?: number;
  readonly error_message?: string;
  readonly next_attempt_at?: string;
}

const AT = "/v1/sys/sync/destinations";
/** A destination whose associations are those of one rule, and how the rule names its objects. */
const RULED = "https/ruled";
const RULE = `${AT}/${RULED}/rules/team`;
const TEAMS = [0, 1, 2];

/** Calls that were allowed before a pause may still be in flight for this long. */
const FENCE_MS = 6_000;

/** Associations are set and removed, destinations purged, syncing paused: the providers have exactly the associated objects. */
export class Syncing implements Workload {
  readonly name = "sync";
  readonly wrong: string[] = [];
  readonly #client: Client;
  readonly #randomFor: RandomFor;
  readonly #providers: Providers;
  readonly #secrets: Secrets;
  readonly #associations = new Map<string, Association>();
  readonly #done = new Tally();
  /** Destinations that were made to be purged. */
  readonly #passing = new Map<string, Doubt<"there" | "gone">>();
  #destinations: readonly string[];
  /** Where types are noted that the service does not offer; undefined when it must offer all. */
  readonly #leftOut: string[] | undefined;
  #isRuled = false;
  /** The team whose secrets the rule matches. */
  readonly #team = new Doubt<number>(0);

  constructor(
    client: Client,
    randomFor: RandomFor,
    providers: Providers,
    secrets: Secrets,
    leftOut: string[] | undefined,
  ) {
    this.#leftOut = leftOut;
    this.#client = client;
    this.#randomFor = randomFor;
    this.#providers = providers;
    this.#secrets = secrets;
    this.#destinations = [...Object.keys(providers.stores).map((type) => `${type}/main`), "in-mem/main"];
  }

  async begin(): Promise<void> {
    for (const destination of this.#destinations) {
      const [type = ""] = destination.split("/");
      if (!(await this.#isOffered(destination, `${AT}/${destination}`, this.#providers.stores[type]?.body ?? {}))) {
        this.#destinations = this.#destinations.filter((each) => each !== destination);
        continue;
      }
      for (const { name } of this.#secrets.all.slice(0, 4)) {
        await this.#client.must("POST", `${AT}/${destination}/associations/set`, { mount: "kv", secret_name: name });
        this.#of(destination, name).wish.answered("set");
      }
    }
    this.#isRuled =
      (await this.#isOffered(RULED, `${AT}/${RULED}`, this.#providers.stores["https"]?.body ?? {})) &&
      (await this.#isOffered(`rules of ${RULED}`, RULE, ruleFor(0)));
  }

  async run(going: () => boolean): Promise<void> {
    const [one, two, purging, pausing, ruling] = ["one", "two", "purging", "pausing", "ruling"].map((who) =>
      this.#randomFor(`sync ${who}`),
    ) as [Random, Random, Random, Random, Random];
    await Promise.all([
      repeatedly(going, one, 150, () => this.#change(one)),
      repeatedly(going, two, 150, () => this.#change(two)),
      repeatedly(going, ruling, 3_000, () => this.#rule(ruling)),
      repeatedly(going, purging, 8_000, () => this.#fillAndPurge(purging)),
      repeatedly(going, pausing, 30_000, () => this.#pause(pausing, going)),
    ]);
  }

  async #isOffered(what: string, path: string, body: object): Promise<boolean> {
    try {
      await this.#client.must("POST", path, body);
      return true;
    } catch (failure) {
      if (!this.#leftOut || !(failure instanceof Refused)) throw failure;
      this.#leftOut.push(what);
      return false;
    }
  }

  #of(destination: string, secret: string): Association {
    const key = `${destination} ${secret}`;
    const found = this.#associations.get(key) ?? {
      destination,
      secret,
      busy: false,
      wish: new Doubt<Wish>("removed"),
    };
    this.#associations.set(key, found);
    return found;
  }

  async #change(random: Random): Promise<void> {
    const association = this.#of(pick(random, this.#destinations), pick(random, this.#secrets.all).name);
    const to: Wish = random() < 0.7 ? "set" : "removed";
    if (association.busy || !this.#client.isServed) return;
    association.busy = true;
    await this.#wish(association, to);
    association.busy = false;
  }

  async #wish({ destination, secret, wish }: Association, to: Wish): Promise<void> {
    const path = `${AT}/${destination}/associations/${to === "set" ? "set" : "remove"}`;
    const answer = await this.#client.call("POST", path, { mount: "kv", secret_name: secret });
    if (isSuccess(answer)) wish.answered(to);
    else if (answer === null || answer.status >= 500) wish.unanswered(to);
    // Refused, and nothing changed, when no version of it lives.
    else if (!answer.text.includes("secret not found"))
      this.wrong.push(`${to} ${destination} ${secret} was refused: ${answer.status} ${answer.text}`);
    this.#done.add(isSuccess(answer) ? to : "not answered");
  }

  /** Changes the rule, or repeats it. */
  async #rule(random: Random): Promise<void> {
    const team = pick(random, TEAMS);
    if (!this.#client.isServed || !this.#isRuled) return;
    const answer = await this.#client.call("POST", RULE, ruleFor(team));
    if (isSuccess(answer)) this.#team.answered(team);
    else if (answer === null || answer.status >= 500) this.#team.unanswered(team);
    else this.wrong.push(`the rule was refused: ${answer.status} ${answer.text}`);
    this.#done.add(isSuccess(answer) ? "ruled" : "not answered");
  }

  /** Purges a separate destination with synced secrets. */
  async #fillAndPurge(random: Random): Promise<void> {
    const [type = ""] = pick(
      random,
      this.#destinations.filter((each) => each !== "in-mem/main"),
    ).split("/");
    const name = `passing-${this.#passing.size}`;
    const destination = `${type}/${name}`;
    const there = new Doubt<"there" | "gone">("gone");
    this.#passing.set(destination, there);
    const { granularity, template } = naming(type, name);
    const body = { ...this.#providers.stores[type]?.body, granularity, secret_name_template: template };
    const made = await this.#client.call("POST", `${AT}/${destination}`, body);
    if (isSuccess(made)) there.answered("there");
    else there.unanswered("there");
    if (made !== null && made.status < 500 && !isSuccess(made))
      this.wrong.push(`${destination} was refused: ${made.status} ${made.text}`);
    for (const { name: secret } of this.#secrets.all.slice(0, 3)) {
      await this.#client.call("POST", `${AT}/${destination}/associations/set`, { mount: "kv", secret_name: secret });
    }
    const purged = await this.#client.call("DELETE", `${AT}/${destination}?purge=true`);
    if (isSuccess(purged)) there.answered("gone");
    else there.unanswered("gone");
    this.#done.add(isSuccess(purged) ? "purged" : "not answered");
  }

  /** Between the response to a pause and its end, no new call is sent to any provider. */
  async #pause(random: Random, going: () => boolean): Promise<void> {
    const type = { "Content-Type": "application/merge-patch+json" };
    const say = (disabled: boolean) => this.#client.call("PATCH", "/v1/sys/sync/config", { disabled }, type);
    const calls = () => Object.values(this.#providers.stores).map((store) => store.calls());
    if (isSuccess(await say(true))) {
      await sleep(FENCE_MS);
      const before = calls();
      await sleep(2_000 + random() * 2_000);
      if (`${calls()}` !== `${before}`)
        this.wrong.push(`syncing was paused, and providers were called: ${before} requests, then ${calls()}`);
      this.#done.add("paused");
    }
    // No other workload lifts this pause.
    for (let answer = await say(false); !isSuccess(answer); answer = await say(false)) {
      if (!going()) await sleep(100);
    }
  }

  async unsettled(): Promise<string[]> {
    const faults: string[] = [];
    const expected = new Map(Object.keys(this.#providers.stores).map((type) => [type, new Map<string, string>()]));
    expected.set("in-mem", new Map());
    const newest = new Map(
      await mapFew(this.#secrets.all, 4, async ({ name }) => [name, await this.#secrets.newest(name)] as const),
    );
    for (const destination of [...this.#destinations, ...(this.#isRuled ? [RULED] : []), ...this.#passing.keys()]) {
      const answer = await this.#client.call("GET", `${AT}/${destination}/associations`);
      const passing = this.#passing.get(destination);
      if (answer?.status === 404 && passing?.may("gone")) continue;
      if (!isSuccess(answer)) {
        faults.push(`${destination} cannot be read: ${answer?.status}`);
        continue;
      }
      // A purge whose answer was lost may have begun and failed.
      if (passing && (!passing.may("there") || (await this.#hasPurgeError(destination)))) {
        faults.push(`${destination} was purged, and is still there`);
        await this.#purgeAgain(destination);
        passing.answered("gone");
        continue;
      }
      const [type = ""] = destination.split("/");
      const shown: Shown[] = Object.values(answer.body.data.associated_secrets);
      for (const one of shown) {
        const should = newest.get(one.secret_name) ?? null;
        const wanted = should === null ? "UNSYNCED" : "SYNCED";
        if (one.sync_status !== wanted)
          faults.push(
            `${destination} ${one.secret_name} ${one.sub_key ?? ""} is ${one.sync_status}, not ${wanted} (${one.error_message ?? "no error"}; next attempt ${one.next_attempt_at ?? "not told"})`,
          );
        if (should === null) continue;
        if (one.synced_version !== should.version)
          faults.push(
            `${destination} ${one.secret_name}: version ${one.synced_version} is there, not ${should.version}`,
          );
        const value = one.sub_key === undefined ? JSON.stringify(should.data) : String(should.data[one.sub_key]);
        expected.get(type)?.set(one.external_name, value);
      }
      for (const [secret, parts] of Map.groupBy(shown, ({ secret_name }) => secret_name)) {
        const keys = Object.keys(newest.get(secret)?.data ?? {});
        const shownKeys = parts.map(({ sub_key }) => sub_key).filter((key) => key !== undefined);
        if (keys.length > 0 && shownKeys.length > 0 && `${shownKeys.sort()}` !== `${keys.sort()}`)
          faults.push(`${destination} ${secret} has the keys ${shownKeys}, not ${keys}`);
      }
      if (passing) continue;
      const names = new Set(shown.map(({ secret_name }) => secret_name));
      if (destination === RULED) faults.push(...this.#ruled(names));
      for (const { destination: where, secret, wish } of this.#associations.values()) {
        if (where !== destination) continue;
        if (!wish.may(names.has(secret) ? "set" : "removed"))
          faults.push(`${destination} ${secret} was ${names.has(secret) ? "removed" : "set"}, and that is not so`);
      }
    }
    for (const [type, objects] of expected) faults.push(...differences(type, await this.#outside(type), objects));
    for (const [name, count] of this.#providers.cloudC.readable())
      if (count > 1) faults.push(`cloud-c-sm: ${count} versions of ${name} can be read`);
    faults.push(...(await this.#listed()));
    return faults;
  }

  /** The rule's associations are those of a team that it was last set to. */
  #ruled(names: ReadonlySet<string>): string[] {
    const secretsOf = (team: number) =>
      this.#secrets.all.map(({ name }) => name).filter((name) => name.startsWith(`team/${team}/`));
    const isRight = (team: number) => `${[...names].sort()}` === `${secretsOf(team).sort()}`;
    return TEAMS.some((team) => this.#team.may(team) && isRight(team))
      ? []
      : [`${RULED} has ${[...names]}, and the rule names team ${this.#team.certain ?? "unknown"}`];
  }

  async #hasPurgeError(destination: string): Promise<boolean> {
    const answer = await this.#client.call("GET", `${AT}/${destination}`);
    return Boolean(answer?.body?.data?.purge_error);
  }

  /** Repeats a purge that failed too often; the destination shows it as failed. */
  async #purgeAgain(destination: string): Promise<void> {
    const read = await this.#client.call("GET", `${AT}/${destination}`);
    if (!isSuccess(read) || !read.body.data.purge_error) return;
    const purged = await this.#client.call("DELETE", `${AT}/${destination}?purge=true`);
    if (isSuccess(purged)) this.#done.add("purged again");
  }

  async #outside(type: string): Promise<Map<string, string>> {
    const store = this.#providers.stores[type];
    if (store) return store.objects();
    const answer = await this.#client.must("GET", `${AT}/in-mem/main/objects`);
    const objects: [string, { value: string }][] = Object.entries(answer.body.data.objects);
    return new Map(objects.map(([name, { value }]) => [name, value]));
  }

  /** Lists say the same as the destinations. */
  async #listed(): Promise<string[]> {
    const faults: string[] = [];
    for (const { name } of this.#secrets.all) {
      const path = `/v1/sys/sync/associations/destinations?mount=kv&secret_name=${encodeURIComponent(name)}`;
      const answer = await this.#client.call("GET", path);
      if (answer?.status !== 200 && answer?.status !== 404) {
        faults.push(`the destinations of ${name} cannot be read: ${answer?.status}`);
        continue;
      }
      const listed = Object.keys(answer.body?.data?.associated_destinations ?? {});
      for (const { destination, secret, wish } of this.#associations.values()) {
        if (secret === name && !wish.may(listed.includes(destination) ? "set" : "removed"))
          faults.push(`the list of ${name}'s destinations is wrong about ${destination}`);
      }
    }
    return faults;
  }

  /** Once at rest, nothing moves any more; and no older value was ever put over a newer one. */
  async verify(): Promise<string[]> {
    const faults: string[] = [];
    const stores = Object.entries(this.#providers.stores);
    const before = stores.map(([type, store]) => [type, store.objects()] as const);
    await sleep(3_000);
    for (const [type, objects] of before)
      faults.push(...differences(`${type}, at rest`, this.#providers.stores[type]?.objects() ?? new Map(), objects));
    for (const secret of this.#secrets.all.filter(({ onlyWritten }) => onlyWritten))
      faults.push(...(await this.#order(secret.name)));
    return faults;
  }

  async #order(secret: string): Promise<string[]> {
    const { data } = (await this.#client.must("GET", `/v1/kv/metadata/${secret}`)).body;
    const versionOf = new Map<string, number>();
    for (const number of Object.keys(data.versions).map(Number)) {
      const read = await this.#client.must("GET", `/v1/kv/data/${secret}?version=${number}`);
      versionOf.set(createHash("sha256").update(JSON.stringify(read.body.data.data)).digest("hex"), number);
    }
    const answer = await this.#client.must("GET", `${AT}/cloud-a-sm/main/associations`);
    const shown: Shown[] = Object.values(answer.body.data.associated_secrets);
    const name = shown.find(({ secret_name }) => secret_name === secret)?.external_name ?? "";
    const pushed = this.#providers.cloudA.versions(name).map((digest) => versionOf.get(digest) ?? 0);
    const sorted = [...pushed].sort((a, b) => a - b);
    return `${pushed}` === `${sorted}` ? [] : [`${secret} was pushed to cloud-a-sm in the order ${pushed}`];
  }

  told(): string {
    return `${this.#done}`;
  }
}

const ruleFor = (team: number) => ({
  mount: "kv",
  path_prefix: `team/${team}`,
  name_template: "ruled-{{ .SecretPath }}",
  max_removals: 100_000,
});

/** Separate names, so that two destinations never share an object. */
function naming(type: string, name: string): { granularity: string; template: string } {
  const isUpper = type.startsWith("repo-host");
  const upper = isUpper ? " | uppercase" : "";
  const prefix = isUpper ? name.toUpperCase() : name;
  return { granularity: "secret-path", template: `${prefix}-{{ .SecretPath${upper} }}` };
}

function differences(what: string, is: Map<string, string>, should: Map<string, string>): string[] {
  const faults: string[] = [];
  for (const [name, value] of should) {
    if (!is.has(name)) faults.push(`${what}: ${name} is missing`);
    else if (is.get(name) !== value) faults.push(`${what}: ${name} is ${is.get(name)}, not ${value}`);
  }
  for (const name of is.keys()) if (!should.has(name)) faults.push(`${what}: ${name} is there, and nobody wants it`);
  return faults;
}
