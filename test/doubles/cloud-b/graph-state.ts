import { randomBytes } from "node:crypto";
import type { ApplicationView, AzureOptions, PasswordView, PrincipalView } from "./azure-types.ts";
import type { FederatedCredential } from "./federation.ts";
import { Unseen } from "./lags.ts";

/** A refusal as Microsoft Graph words it. */
export class GraphError extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export interface Password {
  keyId: string;
  secretText: string;
  displayName: string | null;
  /** Milliseconds since the epoch. */
  start: number;
  end: number;
}

/** The common fields of applications and principals. */
interface Client {
  id: string;
  appId: string;
  displayName: string;
  passwords: Password[];
  /** Ids of the principals that own it. */
  owners: Set<string>;
  created: number;
  deleted: boolean;
}

export interface Application extends Client {
  tags: string[];
  signInAudience: string;
  federated: FederatedCredential[];
}

export interface Principal extends Client {
  enabled: boolean;
  /** Application permissions that were granted to it. */
  permissions: readonly string[];
}

export interface Group {
  id: string;
  displayName: string;
  /** Its members follow from a rule, so a member cannot be added. */
  dynamic: boolean;
  members: Set<string>;
}

const day = 24 * 3600 * 1000;

/**
 * One tenant's applications, principals and groups: what the operations of Graph do to them, without the rules for who may
 * and how to ask. Ids in lower case. Throws `GraphError`.
 */
export class DirectoryState {
  readonly tenantId = crypto.randomUUID() as string;
  readonly applications = new Map<string, Application>();
  readonly principals = new Map<string, Principal>();
  readonly groups = new Map<string, Group>();
  readonly unseen: Unseen;
  readonly options: AzureOptions;
  readonly now: () => number;

  constructor(options: AzureOptions, now: () => number) {
    this.options = options;
    this.now = now;
    this.unseen = new Unseen(options.lags ?? {}, now);
  }

  /** `owner` is the calling principal; null for initial objects, which are visible at once and count for no quota. */
  createApplication(
    { displayName, tags = [], signInAudience = "AzureADMyOrg" }: Partial<ApplicationView>,
    owner: string | null,
  ): Application {
    this.#checkQuota(owner);
    const application: Application = {
      id: crypto.randomUUID(),
      appId: crypto.randomUUID(),
      displayName: displayName ?? "",
      tags,
      signInAudience,
      passwords: [],
      federated: [],
      owners: new Set(owner === null ? [] : [owner]),
      created: this.now(),
      deleted: false,
    };
    this.applications.set(application.id, application);
    if (owner !== null) this.unseen.hide("application", application.id);
    return application;
  }

  createPrincipal({ appId, displayName }: Application, owner: string | null): Principal {
    const taken = [...this.principals.values()].some((one) => one.appId === appId && !one.deleted);
    if (taken || (owner !== null && this.unseen.hides("principalName", appId))) {
      const message = `The service principal cannot be created, updated, or restored because the service principal name ${appId} is already in use.`;
      throw new GraphError(409, "Request_MultipleObjectsWithSameKeyValue", message);
    }
    this.#checkQuota(owner);
    const principal: Principal = {
      id: crypto.randomUUID(),
      appId,
      displayName,
      passwords: [],
      owners: new Set(owner === null ? [] : [owner]),
      created: this.now(),
      deleted: false,
      enabled: true,
      permissions: [],
    };
    this.principals.set(principal.id, principal);
    if (owner !== null) {
      for (const kind of ["principal", "principalInArm", "principalInLogin"] as const) {
        this.unseen.hide(kind, principal.id);
      }
    }
    return principal;
  }

  createGroup(displayName: string, dynamic = false): Group {
    const group = { id: crypto.randomUUID() as string, displayName, dynamic, members: new Set<string>() };
    this.groups.set(group.id, group);
    return group;
  }

  /** The application's principal goes with it; the role assignments of that do not. */
  deleteApplication(application: Application): void {
    this.#delete(application);
    const principal = this.principalOf(application.appId);
    if (principal !== undefined) this.deletePrincipal(principal);
  }

  deletePrincipal(principal: Principal): void {
    this.#delete(principal);
    this.unseen.hide("principalName", principal.appId);
    for (const { members } of this.groups.values()) members.delete(principal.id);
  }

  deletePermanently({ id }: Client): void {
    this.applications.delete(id);
    this.principals.delete(id);
  }

  /** `start` and `end` are milliseconds since the epoch; from now and for two years when they are not given. */
  addPassword(
    client: Client,
    given: { displayName?: string | null | undefined; start?: number | undefined; end?: number | undefined },
  ): Password {
    const { maxPasswords = 300, maxPasswordDays } = this.options;
    const { displayName = null, start = this.now(), end = start + 730 * day } = given;
    if (end <= start) throw bad("Invalid value specified for property 'endDateTime' of resource 'PasswordCredential'.");
    if (maxPasswordDays !== undefined && end - start > maxPasswordDays * day) {
      const message = "Credential lifetime exceeds the max value allowed as per assigned policy 'lifetimes'.";
      throw new GraphError(400, "CredentialInvalidLifetimeAsPerAppPolicy", message);
    }
    if (client.passwords.length >= maxPasswords) {
      const message =
        "The size of the object has exceeded its limit. Please reduce the number of values and retry your request.";
      throw new GraphError(403, "Directory_ResourceSizeExceeded", message);
    }
    const secretText = `${randomBytes(2).toString("hex").slice(0, 3)}8Q~${randomBytes(25).toString("base64url")}`;
    const password: Password = { keyId: crypto.randomUUID(), secretText, displayName, start, end };
    client.passwords.push(password);
    this.unseen.hide("password", password.keyId);
    this.unseen.hide("passwordInGraph", password.keyId);
    return password;
  }

  removePassword(client: Client, keyId: string): void {
    const index = client.passwords.findIndex((password) => password.keyId === keyId.toLowerCase());
    if (index < 0 || this.unseen.hides("passwordInGraph", keyId.toLowerCase())) {
      throw bad("No password credential found with keyId.");
    }
    client.passwords.splice(index, 1);
  }

  /** The live one. */
  principalOf(appId: string): Principal | undefined {
    return [...this.principals.values()].find((principal) => principal.appId === appId && !principal.deleted);
  }

  applicationOf(appId: string): Application | undefined {
    return [...this.applications.values()].find((application) => application.appId === appId && !application.deleted);
  }

  #delete(client: Client): void {
    client.deleted = true;
    this.unseen.hide("deletedItem", client.id);
  }

  #checkQuota(owner: string | null): void {
    if (owner === null) return;
    const objects = [...this.applications.values(), ...this.principals.values()];
    const owned = objects.filter(({ owners }) => owners.size > 0).length;
    if (owned >= (this.options.objectQuota ?? Number.POSITIVE_INFINITY)) {
      const message =
        "The directory object quota limit for the Principal has been exceeded. Please ask your administrator to increase the quota limit or delete objects to reduce the used quota.";
      throw new GraphError(403, "Directory_QuotaExceeded", message);
    }
  }
}

export const bad = (message: string) => new GraphError(400, "Request_BadRequest", message);

/** A time as Graph writes it: more digits than a Date has. */
export const timeOf = (milliseconds: number) => new Date(milliseconds).toISOString().replace("Z", "0000Z");

export const viewPassword = ({ keyId, displayName, start, end }: Password): PasswordView => ({
  keyId,
  displayName,
  startDateTime: timeOf(start),
  endDateTime: timeOf(end),
});

export const viewApplication = (application: Application): ApplicationView => {
  const { tags, signInAudience } = application;
  return { ...viewPrincipal(application), tags, signInAudience };
};

export const viewPrincipal = ({ id, appId, displayName, passwords }: Client): PrincipalView => ({
  id,
  appId,
  displayName,
  passwords: passwords.map(viewPassword),
});
