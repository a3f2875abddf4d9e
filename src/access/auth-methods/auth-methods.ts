import type { AuthMount, AuthMountBody, AuthPlace, AuthTuneBody } from "../../contracts/auth.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { clusterEvent } from "../cluster-acl/cluster-acl.ts";
import type { AccessPublisher } from "../event-publisher.ts";
import { refusedTtls, untuned } from "../mounts/mount-admin.ts";
import { optionsWith, refusedTuning } from "../mounts/mount-fields.ts";
import { type NamespaceTree, namespacePath } from "../namespaces/namespaces.ts";
import type { AuthMountContent } from "./auth-mount-content.ts";
import { type AuthMountTable, authConfigWith, authPath, knownAuthType, newAuthConfig } from "./auth-mounts.ts";

interface AuthMethodsDependencies {
  readonly mounts: AuthMountTable;
  readonly content: AuthMountContent;
  readonly namespaces: NamespaceTree;
  readonly publisher: AccessPublisher;
  commit<T>(change: () => T): T;
}

/** Enables, tunes and disables auth methods. */
export class AuthMethods {
  constructor(private readonly deps: AuthMethodsDependencies) {}

  list(namespace: string): AuthMount[] {
    return this.deps.mounts.list(namespace);
  }

  read(namespace: string, path: string): Result<AuthMount> {
    const named = authPath(path);
    const mount = named.ok ? this.deps.mounts.get(namespace, named.value) : null;
    return mount ? ok(mount) : refuse("invalid", `No auth engine at ${path.replace(/\/*$/, "/")}`);
  }

  /** The mount of a login; null when it is gone. */
  byUuid(uuid: string): AuthMount | null {
    return this.deps.mounts.byUuid(uuid);
  }

  enable(namespace: string, path: string, body: AuthMountBody): Result<AuthMount> {
    const { mounts, namespaces, commit } = this.deps;
    const admitted = namespaces.admit(namespace);
    if (!admitted.ok) return admitted;
    const named = authPath(path);
    if (!named.ok) return named;
    const type = knownAuthType(body.type);
    if (!type) return refuse("invalid", `plugin not found in the catalog: ${body.type.slice(0, 64)}`);
    const config = newAuthConfig(body.config ?? {});
    const refused = refusedTtls(config);
    if (refused) return refused;
    const taken = mounts.overlapping(namespace, named.value);
    if (taken) return refuse("invalid", `path is already in use at ${taken.path}`);
    const { description, local, seal_wrap, options } = body;
    const mount = { namespace, path: named.value, type, description, local, seal_wrap, options: options ?? {}, config };
    return ok(commit(() => mounts.insert(mount, Date.now())));
  }

  tune(namespace: string, path: string, body: AuthTuneBody): Result<AuthMount> {
    const { description, options, force_no_cache: _, ...config } = body;
    const mount = this.read(namespace, path);
    if (!mount.ok) return untuned(`auth/${path}`);
    const changed: AuthMount = {
      ...mount.value,
      description: description ?? mount.value.description,
      options: optionsWith(mount.value.options, options),
      config: authConfigWith(mount.value.config, config),
    };
    const refused = refusedTuning(changed.config);
    if (refused) return refused;
    this.deps.commit(() => this.deps.mounts.update(changed));
    return ok(changed);
  }

  /**
   * Removes a mount with its entries and aliases, and ends the tokens of its logins. Batch tokens have no rows, so the
   * event names the mount: it makes the event log confirm the rights of open streams.
   */
  disable(namespace: string, path: string): void {
    const { mounts, content, publisher, commit } = this.deps;
    const mount = this.read(namespace, path);
    if (!mount.ok) return;
    const Name = `${namespace}auth/${mount.value.path}`;
    commit(() => {
      mounts.delete(mount.value.uuid);
      content.delete(mount.value);
      publisher.emit([
        {
          ...clusterEvent("ACLAuthMethod", "ACLAuthMethodDeleted", Name, namespace, {}),
          Payload: { AuthMethod: { Name, Type: mount.value.type } },
        },
      ]);
    });
    content.forget(mount.value);
  }

  /** The auth mount of a request's path; null for other paths. */
  locate(header: string, path: string): AuthPlace | null {
    const { namespaces, mounts } = this.deps;
    const asked = namespacePath(header);
    if (!asked.ok || !namespaces.has(asked.value)) return null;
    const at = namespaces.split(asked.value, path);
    return mounts.resolve(at.namespace, at.path);
  }
}
