import * as z from "zod";
import type { Step } from "../../../src/contracts/credential-engine.ts";
import { plainName } from "../../../src/credentials/engines/description.ts";
import type { EngineType } from "../../../src/credentials/engines/engine-type.ts";
import { httpResult } from "../../../src/credentials/engines/http-result.ts";
import { NO_SCHEDULE, type RotationSchedule } from "../../../src/credentials/mount/rotation-schedule.ts";
import { type RemovalState, removalSagaOf, searchFrom } from "../../../src/credentials/runner/removal.ts";
import { isTransient, mapDecision, retry, retryUnanswered, type Saga } from "../../../src/credentials/runner/saga.ts";
import { ok, refuse } from "../../../src/lib/result.ts";
import { duration, flag } from "../../../src/platform/http/fields.ts";
import type { Send } from "../../../src/providers/outcome.ts";
import { description } from "./description.ts";

/** An engine over `provider.ts`: the smallest one with an issue, a rotation and a search for orphans. */

interface Config extends RotationSchedule {
  readonly url: string;
  readonly key: string;
  /** Id of `key`, if a rotation made it. */
  readonly key_id: string | null;
  /** Seconds that a session lives; null: not set. */
  readonly session: number | null;
}
interface Role {
  /** Keys of the role are not removed before they end. */
  readonly session: boolean;
  readonly tier: string;
  readonly ttl: number;
  readonly max_ttl: number;
  /** Of a role with a key of its own: its owner, its period in seconds, its id, and when it was made, ms since 1970. */
  readonly owner?: string;
  readonly period?: number;
  readonly id?: string;
  readonly madeAt?: number;
}
/** A role being written. `key`: the one to make for a role that keeps it. */
interface RoleWrite {
  readonly name: string;
  readonly role: Role;
  readonly key?: NewKey;
}
interface Account {
  readonly url: string;
  readonly key: string;
}

/** A key being made. Its name is chosen before the call; the key of a lost answer is removed, because its text is lost. */
interface NewKey {
  readonly name: string;
  readonly kind: "key" | "root";
  readonly tier: string;
  /** End of the key at the provider, which renewals move; and the end of all renewals. */
  readonly expires: number;
  readonly endsAt: number;
  /** The call was sent; its outcome is unknown. */
  readonly sent: boolean;
  readonly lost: readonly string[];
  /** A lost call may have made a key that is not listed yet. */
  readonly strays: boolean;
  readonly unanswered?: number;
  /** Absent: the lease removes the key. */
  readonly lease?: "secret" | "none";
  readonly made: { readonly id: string; readonly secret: string } | null;
}

const newKey = (kind: NewKey["kind"], tier: string, expires: number, endsAt: number): NewKey => ({
  name: `sp-${crypto.randomUUID()}`,
  kind,
  tier,
  expires,
  endsAt,
  sent: false,
  lost: [],
  strays: false,
  made: null,
});

const step = (call: string, ...args: readonly unknown[]): Step => ({ call, args });

const keySaga: Saga<NewKey> = {
  next({ made, lost, sent, name, kind, tier, expires }) {
    if (made) return null;
    if (lost[0] !== undefined) return step("delete", lost[0]);
    if (sent) return step("find", name);
    return step("create", { name, kind, tier, expires: kind === "root" ? null : expires });
  },
  beforeCall: (state, { call }) => (call === "create" ? { ...state, sent: true } : state),
  onSuccess(state, { call, args }, value) {
    if (call === "create") return { ...state, made: value as NonNullable<NewKey["made"]> };
    if (call === "delete") return { ...state, lost: state.lost.filter((id) => id !== args[0]) };
    const lost = value as string[];
    return { ...state, sent: false, lost, strays: state.strays || lost.length === 0 };
  },
  onError(state, { call, args }, failure) {
    if (call === "create" && failure.outcome === "unknown") return retryUnanswered(state, failure);
    if (call === "delete" && failure.code === "not_found") {
      return { kind: "done", state: { ...state, lost: state.lost.filter((id) => id !== args[0]) } };
    }
    const free = call === "create" ? { ...state, sent: false } : state;
    return isTransient(failure) ? retry(failure, free) : { kind: "failed" };
  },
};

interface Item {
  readonly id: string;
  readonly notBefore?: number;
}
interface Search {
  readonly name: string;
  /** The key of that name to keep. */
  readonly except: string | null;
  readonly until: number;
  readonly next: number;
}
type Removal = RemovalState<Item, Search>;

const removalOf = (ids: readonly string[], search: Search | null, madeAt: number): Removal => ({
  items: ids.map((id) => ({ id })),
  stuck: [],
  search,
  madeAt,
});

const undoOfKey = ({ name, made, lost, sent, strays }: NewKey, now: number): Removal =>
  removalOf(
    [...(made ? [made.id] : []), ...lost],
    (sent && !made) || strays ? { name, except: null, ...searchFrom(now) } : null,
    now,
  );

const orphansOfKey = ({ name, made, strays }: NewKey, now: number): Removal | null =>
  strays ? removalOf([], { name, except: made?.id ?? null, ...searchFrom(now) }, now) : null;

interface Rotation {
  readonly account: Account;
  readonly replaces: string | null;
  readonly key: NewKey;
  readonly verified: boolean;
}

const rotationSaga: Saga<Rotation> = {
  next: ({ key, verified }, now) => keySaga.next(key, now) ?? (verified ? null : step("self", key.made?.secret)),
  beforeCall: (state, each) => ({ ...state, key: keySaga.beforeCall?.(state.key, each) ?? state.key }),
  onSuccess: (state, each, value, now) =>
    each.call === "self"
      ? { ...state, verified: true }
      : { ...state, key: keySaga.onSuccess(state.key, each, value, now) },
  onError: (state, each, failure, now, tries) =>
    each.call === "self"
      ? isTransient(failure)
        ? retry(failure)
        : { kind: "failed" }
      : mapDecision(keySaga.onError(state.key, each, failure, now, tries), (key) => ({ ...state, key })),
};

interface Renewal {
  readonly id: string;
  readonly expires: number;
  readonly done: boolean;
}

const renewalSaga: Saga<Renewal> = {
  next: ({ id, expires, done }) => (done ? null : step("renew", id, expires)),
  onSuccess: (state) => ({ ...state, done: true }),
  onError: (_state, _step, failure) => (isTransient(failure) ? retry(failure) : { kind: "failed" }),
};

interface States {
  readonly config: Config;
  readonly role: Role;
  readonly account: Account;
  readonly issue: NewKey;
  readonly write: RoleWrite;
  readonly renewal: Renewal;
  readonly rotation: Rotation;
  readonly removal: Removal;
  /** Null for a key that is not removed. */
  readonly resources: { readonly id: string | null };
  readonly secret: { readonly id: string; readonly key: string };
}

/** Makes the key that a role keeps; other roles need no call. */
const writeSaga: Saga<RoleWrite> = {
  next: ({ key }, now) => (key ? keySaga.next(key, now) : null),
  beforeCall: (state, each) => withKey(state, (key) => keySaga.beforeCall?.(key, each) ?? key),
  onSuccess: (state, each, value, now) => withKey(state, (key) => keySaga.onSuccess(key, each, value, now)),
  onError: (state, each, failure, now, tries) =>
    state.key
      ? mapDecision(keySaga.onError(state.key, each, failure, now, tries), (key) => ({ ...state, key }))
      : { kind: "failed" },
};

const withKey = (state: RoleWrite, change: (key: NewKey) => NewKey): RoleWrite =>
  state.key ? { ...state, key: change(state.key) } : state;

/** Keys of roles have no end of their own that a test reaches. */
const KEPT_UNTIL = 4_102_444_800_000;

const isKept = (name: string): boolean => name.startsWith("kept-role/");

/** The role of a finished write, with the key that it keeps; the key before is removed. */
function outcomeOfWrite({ role, key }: RoleWrite, _before: Role | null, now: number) {
  const warnings = role.tier.endsWith("-rotated") ? ["the tier was rotated"] : [];
  if (role.owner === undefined) return { role, removals: [], warnings };
  const madeAt = key ? now : (role.madeAt ?? now);
  const due = madeAt + (role.period ?? 0) * 1000;
  if (!key?.made) return { role, removals: [], keeps: { subject: role.owner, due } };
  const { id, secret } = key.made;
  const removal = role.id === undefined ? null : removalOf([role.id], null, 0);
  const orphans = orphansOfKey(key, now);
  return {
    role: { ...role, id, madeAt },
    removals: [
      ...(removal ? [{ of: "replaced", removal, because: "replaced key", former: true as const }] : []),
      ...(orphans ? [{ of: "strays", removal: orphans, because: "strays" }] : []),
    ],
    keeps: { subject: role.owner, secret: { id, key: secret }, due },
  };
}

const EMPTY: Config = { ...NO_SCHEDULE, url: "", key: "", key_id: null, session: null };

export const madeUp: EngineType<States> = {
  type: description.type,
  description,
  config: {
    body: z.object({ url: z.string().optional(), key: z.string().optional() }),
    change: (before, body) => ok({ ...EMPTY, ...before, ...body }),
    view: (config) => ({ url: config?.url ?? "" }),
    account: (config) => (config ? ok({ url: config.url, key: config.key }) : refuse("invalid", "url: required")),
    changesIdentity: (before, after) => before.key !== after.key,
    reach: (maker, other) => (maker.url === other.url ? "same" : "never"),
    federationOf: () => null,
    documents: {
      "/config/lives": {
        body: z.object({ session: duration() }),
        change: (before, body) => ok({ ...EMPTY, ...before, ...body }),
        view: (config) => (config?.session == null ? null : { session: config.session }),
      },
    },
  },
  roles: {
    ...writeSaga,
    body: z.object({
      session: flag().optional(),
      tier: z.string().optional(),
      ttl: duration().optional(),
      max_ttl: duration().optional(),
    }),
    kinds: {
      "/static-role": z.object({ tier: z.string() }),
      "/kept-role": z.object({ owner: z.string(), period: duration() }),
    },
    kept: {
      subjectOf: ({ role }) => role.owner ?? null,
      taken: (owner, other) => `owner: ${owner} has the key of the role ${other}`,
      data: (role, { id, key }, now) => {
        const due = (role.madeAt ?? now) + (role.period ?? 0) * 1000;
        return ok({ ...role, key_id: id, key, ttl: Math.ceil((due - now) / 1000) });
      },
    },
    rotate: (name, role) =>
      ok(
        isKept(name)
          ? { name, role, key: newKey("key", "kept", KEPT_UNTIL, KEPT_UNTIL) }
          : { name, role: { ...role, tier: `${role.tier}-rotated` } },
      ),
    nameOf: (text) => (/^[\w-]+$/.test(text) ? text : null),
    view: (role) => ({ ...role }),
    translate: (_dialect, view) => ({ ...view }),
    ttls: ({ session, ttl, max_ttl }, config) => ({
      ttl: session ? (config()?.session ?? ttl) : ttl,
      max_ttl,
      explicit_max_ttl: 0,
    }),
    missing: (name) => `there is no role "${plainName(name)}"`,
    begin: (name, before, body) => {
      const role = { session: false, tier: "basic", ttl: 0, max_ttl: 0, ...before, ...body };
      return ok(
        isKept(name) && !before ? { name, role, key: newKey("key", "kept", KEPT_UNTIL, KEPT_UNTIL) } : { name, role },
      );
    },
    isReplaceable: ({ key }) => !key || (!key.sent && !key.made),
    outcome: outcomeOfWrite,
    undo: ({ key }, _stored, now) => (key ? { removal: undoOfKey(key, now) } : null),
    undoOfRole: ({ id }) => (id === undefined ? null : removalOf([id], null, 0)),
  },
  issue: {
    ...keySaga,
    request: z.object({ ttl: duration().optional() }),
    begin({ session, tier }, { ttlMs, lifeMs, maxTtlMs, at, request }) {
      const now = Date.now();
      const lease = at === "creds" ? (session ? "secret" : null) : "none";
      if (lease === null) return ok(newKey("key", tier, now + ttlMs, now + lifeMs));
      const asked = Number(request["ttl"] ?? 0) * 1000;
      const ends = now + Math.min(asked || ttlMs, maxTtlMs);
      return ok({ ...newKey("key", tier, ends, ends), lease });
    },
    outcome({ made, endsAt, lease }) {
      if (!made) throw new Error("no key was made");
      const outcome = { secret: { id: made.id, key: made.secret }, endsAt };
      return lease
        ? { ...outcome, resources: { id: null }, renewable: false, lease }
        : { ...outcome, resources: { id: made.id } };
    },
    undo: undoOfKey,
    orphans: orphansOfKey,
    data: ({ id, key }, ttl) => ({ key_id: id, key, ttl }),
    verify: ({ key }) => step("self", key),
  },
  renewal: { ...renewalSaga, begin: ({ id }, expires) => ({ id: id ?? "", expires, done: false }) },
  rotation: {
    ...rotationSaga,
    begin(config, account) {
      if (!account.ok) return account;
      const key = newKey("root", "root", 0, 0);
      return ok({ account: account.value, replaces: config?.key_id ?? null, key, verified: false });
    },
    outcome({ key, replaces }, now) {
      const { made } = key;
      if (!made) return { problem: "no key was made" };
      return {
        promote: (config) => ({ ...config, key: made.secret, key_id: made.id }),
        keyId: made.id,
        replaced: replaces,
        removal: replaces === null ? null : removalOf([replaces], null, 0),
        orphans: orphansOfKey(key, now),
        warnings: [],
        data: { key_id: made.id },
      };
    },
    undo: ({ key }, now) => undoOfKey(key, now),
  },
  removal: {
    ...removalSagaOf<Item, Search, Removal>({
      stepOf: ({ id }) => step("delete", id),
      searchStep: ({ name }) => step("find", name),
      found: ({ except }, _step, value) => (value as string[]).filter((id) => id !== except).map((id) => ({ id })),
    }),
    ofLease: ({ id }, issued) => removalOf(id === null ? [] : [id], null, issued),
  },
  calls: { withoutResult: new Set(["delete"]), describe: (call) => `the call ${call} failed` },
  client:
    async (account, { send }) =>
    (each) =>
      perform(account, send, each),
};

const METHODS: Readonly<Record<string, string>> = { create: "POST", renew: "PATCH", delete: "DELETE" };

async function perform({ url, key }: Account, send: Send, { call, args: [arg, expires] }: Step) {
  const method = METHODS[call] ?? "GET";
  const path =
    call === "self"
      ? "/self"
      : call === "delete" || call === "renew"
        ? `/keys/${arg}`
        : call === "find"
          ? `/keys?name=${arg}`
          : "/keys";
  const headers = { Authorization: `Bearer ${call === "self" ? arg : key}` };
  const sent = call === "create" ? arg : call === "renew" ? { expires } : null;
  const body = sent === null ? {} : { body: JSON.stringify(sent) };
  return httpResult(await send([url + path, { method, headers, ...body }]), { name: call, reads: method === "GET" });
}
