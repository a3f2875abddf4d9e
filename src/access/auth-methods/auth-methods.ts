import type { AuthMount, AuthMountBody, AuthPlace, AuthTuneBody } from "../../contracts/auth.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { clusterEvent } from "../cluster-acl/cluster-acl.ts";
import type { AccessPublisher } from "../event-publisher.ts";
import { refusedTtls, untuned } from "../mounts/mount-admin.ts";
import { tuned } from "../mounts/mount-fields.ts";
import { type NamespaceTree, namespacePath } from "../namespaces/namespaces.ts";
import type { AuthMountContent } from "./auth-mount-content.ts";
import { type AuthMountTable, authConfigWith, authPath, knownAuthType, newAuthConfig } from "./auth-mounts.ts";

/** Enables, tunes and disables auth methods. */
export class AuthMethods {
  constructor(
    private readonly mounts: AuthMountTable,
    private readonly content: AuthMountContent,
    private readonly namespaces: NamespaceTree,
    private readonly publisher: AccessPublisher,
    private readonly commit: ObjectContext["commit"],
  ) {}

  read(namespace: string, path: string): Result<AuthMount> {
    const named = authPath(path);
    const mount = named.ok ? this.mounts.get(namespace, named.value) : null;
    return mount ? ok(mount) : refuse("invalid", `No auth engine at ${path.replace(/\/*$/, "/")}`);
  }

  enable(namespace: string, path: string, body: AuthMountBody): Result<AuthMount> {
    const admitted = this.namespaces.admit(namespace);
    if (!admitted.ok) return admitted;
    const named = authPath(path);
    if (!named.ok) return named;
    const type = knownAuthType(body.type);
    if (!type) return refuse("invalid", `plugin not found in the catalog: ${body.type.slice(0, 64)}`);
    const config = newAuthConfig(body.config ?? {});
    const refused = refusedTtls(config);
    if (refused) return refused;
    const taken = this.mounts.overlapping(namespace, named.value);
    if (taken) return refuse("invalid", `path is already in use at ${taken.path}`);
    const { description, local, seal_wrap, options } = body;
    const mount = { namespace, path: named.value, type, description, local, seal_wrap, options: options ?? {}, config };
    return ok(this.commit(() => this.mounts.insert(mount, Date.now())));
  }

  tune(namespace: string, path: string, body: AuthTuneBody): Result<AuthMount> {
    const { description: _description, options: _options, force_no_cache: _, ...config } = body;
    const mount = this.read(namespace, path);
    if (!mount.ok) return untuned(`auth/${path}`);
    const changed = tuned(mount.value, body, authConfigWith(mount.value.config, config));
    if (changed.ok) this.commit(() => this.mounts.update(changed.value));
    return changed;
  }

  /**
   * Removes a mount with its entries and aliases, and ends the tokens of its logins. Batch tokens have no rows, so the
   * event names the mount: it makes the event log confirm the rights of open streams.
   */
  disable(namespace: string, path: string): void {
    const mount = this.read(namespace, path);
    if (!mount.ok) return;
    const Name = `${namespace}auth/${mount.value.path}`;
    this.commit(() => {
      this.mounts.delete(mount.value.uuid);
      this.content.delete(mount.value);
      this.publisher.emit([
        {
          ...clusterEvent("ACLAuthMethod", "ACLAuthMethodDeleted", Name, namespace, {}),
          Payload: { AuthMethod: { Name, Type: mount.value.type } },
        },
      ]);
    });
    this.content.forget(mount.value);
  }

  /** The auth mount of a request's path; null for other paths. */
  locate(header: string, path: string): AuthPlace | null {
    const asked = namespacePath(header);
    if (!asked.ok || !this.namespaces.has(asked.value)) return null;
    const at = this.namespaces.split(asked.value, path);
    return this.mounts.resolve(at.namespace, at.path);
  }
}
