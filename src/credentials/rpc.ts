import type { CredentialEngineApi, Started } from "../contracts/credential-engine.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { refuseIfSealed, sealed } from "../platform/crypto/refuse-if-sealed.ts";
import type { MethodTable } from "../platform/durable/rpc-methods.ts";
import { dialectOfFormerWorker, startedForFormerWorker } from "../rpc/renamed-methods.ts";
import type { EngineParts } from "./engine-parts.ts";
import { addLease, leaseView } from "./leases/lease-store.ts";

const PAGE = 1_000;

/** The methods of an engine of these names. */
type Named<Name extends keyof CredentialEngineApi> = MethodTable<Pick<CredentialEngineApi, Name>, EngineParts>;

/** A job that a request waits for, unless the keys are sealed. */
export function started<S extends Started | null>(begin: () => Result<S>): Result<S> {
  return refuseIfSealed(() => {
    const begun = begin();
    return begun.ok && begun.value ? ok(startedForFormerWorker(begun.value)) : begun;
  });
}

/** Records the type of the mount with the first call that names it. */
export function settleType({ object, stores }: EngineParts, type: string | undefined): void {
  if (type !== undefined && stores.isUnsettled(type)) object.commit(() => stores.settle(type));
}

/** RPC methods about the configuration of an engine. */
export const configMethods: Named<"config" | "setConfig" | "moved" | "deleteConfig" | "account" | "rotateRoot"> = {
  config: (parts, type, document) => {
    settleType(parts, type);
    const { config, type: engine } = parts.stores;
    const { view, documents } = engine.config;
    return refuseIfSealed(() => {
      const part = document === undefined ? undefined : documents?.[document];
      const shown = part ? part.view(config.find()) : view(config.find(), config.rotationDue());
      return shown ? ok(shown) : refuse("missing");
    });
  },
  setConfig: (parts, body, dialect, home, type, document, rights) => {
    settleType(parts, type);
    const { object, accounts, root, pool } = parts;
    const configure = () => root.configure(body, dialectOfFormerWorker(dialect), home, { document, rights });
    return refuseIfSealed(() =>
      object.commit(() => {
        const changed = accounts.change(configure);
        if (changed.ok) pool.refill(Date.now());
        return changed;
      }),
    );
  },
  moved: sealed(({ root }, path, seq) => {
    root.moved(path, seq);
    return ok(null);
  }),
  deleteConfig: sealed(({ object, accounts, root }) =>
    object.commit(() =>
      accounts.change(() => {
        root.forget();
        return ok(null);
      }),
    ),
  ),
  account: sealed(({ accounts }) => accounts.account()),
  rotateRoot: (parts, type) => {
    settleType(parts, type);
    return started(() => parts.root.rotate());
  },
};

type RoleMethod =
  | ("roleNames" | "relistNames" | "role" | "writeRole")
  | ("rotateRole" | "keptCredentials" | "deleteRole");

/** RPC methods about roles. */
export const roleMethods: Named<RoleMethod> = {
  roleNames: ({ stores }, after, prefix) => stores.roles.names(after, PAGE, prefix),
  relistNames: ({ names }, deadline) => names.relist(deadline),
  role: ({ stores: { type, roles, pool } }, name) => {
    const role = roles.find(name);
    if (!role) return refuse("missing");
    const isPooled = (type.pool?.of(role).size ?? 0) > 0;
    return ok({ ...type.roles.view(role), ...(isPooled && { pool_ready: pool.count(name) }) });
  },
  writeRole: (parts, name, body, dialect, type, mount, rights) => {
    settleType(parts, type);
    return started(() => parts.roleChanges.write(name, body, dialect, { mount, rights }));
  },
  rotateRole: ({ roleChanges }, ...given) => started(() => roleChanges.rotate(...given)),
  keptCredentials: sealed(({ roleChanges }, name) => roleChanges.keptOf(name, Date.now())),
  deleteRole: ({ object, roleChanges, pool }, name) =>
    started(() =>
      object.commit(() => {
        const deleted = roleChanges.delete(name);
        if (deleted.ok) pool.roleDeleted(name, Date.now());
        return deleted;
      }),
    ),
};

type LeaseMethod =
  | ("waitInLine" | "handOver" | "releaseShared" | "lookup" | "leaseNames" | "leaseCount" | "countLeases")
  | ("irrevocableLeases" | "leasesUnder" | "renew" | "revoke" | "revokeSoon" | "forget");

/** RPC methods about leases. Ids are relative to the mount. */
export const leaseMethods: Named<LeaseMethod> = {
  waitInLine: ({ stores }, job) => stores.jobs.waitInLine(job, Date.now()),
  handOver: ({ issuer }, lease) => issuer.handOver(lease),
  releaseShared: ({ object, issuer }, lease, token) => object.commit(() => issuer.removeUser(lease, token, Date.now())),
  lookup: ({ stores }, id) => {
    const lease = stores.leases.find(id);
    return lease ? ok(leaseView(lease, Date.now())) : refuse("invalid", "invalid lease");
  },
  leaseNames: ({ stores }, folder, behind) => stores.leases.names(folder, behind, PAGE),
  leaseCount: ({ stores: { leases } }) => ({ total: leases.count(), irrevocable: leases.count("irrevocable") }),
  countLeases: ({ stores: { leases, jobs, unstored }, pending, admission }) => {
    const counts = new Map(leases.countByPath());
    const begun = [...jobs.idsOfKind("issue"), ...unstored.ids()];
    for (const id of begun) if (!pending.has(id)) addLease(counts, id, 1);
    return { counts: Object.fromEntries(counts), pending: [...pending, ...admission.waiting] };
  },
  irrevocableLeases: ({ stores }, after) =>
    stores.leases.under("", after, PAGE, "irrevocable").map(({ id, failure }) => ({ id, error: failure ?? "" })),
  leasesUnder: ({ stores }, prefix, after) => stores.leases.under(prefix, after, PAGE).map(({ id }) => id),
  renew: sealed(({ leaseLifecycle }, ...given) => leaseLifecycle.renew(...given)),
  revoke: ({ leaseLifecycle }, id, trace) => started(() => ok(leaseLifecycle.revoke(id, trace))),
  revokeSoon: sealed(({ object, leaseLifecycle, pool }, ids, trace, prefix) => {
    leaseLifecycle.revokeSoon(ids, trace);
    if (prefix !== undefined) object.commit(() => pool.revoke(prefix, Date.now()));
    return ok(null);
  }),
  forget: ({ leaseLifecycle }, ids) => leaseLifecycle.forget(ids),
};

/** RPC methods about the keys and the end of the mount. */
export const mountMethods: Named<"close" | "reopen" | "destroy" | "rekey"> = {
  close: ({ mountTeardown }, again) => mountTeardown.close(again),
  reopen: ({ mountTeardown }) => mountTeardown.reopen(),
  destroy: ({ mountTeardown }) => mountTeardown.destroy(),
  rekey: ({ object, stores, keys }, term) => {
    if (!stores.config.isDeleted()) object.commit(() => keys.rotate(term, Date.now()));
  },
};
