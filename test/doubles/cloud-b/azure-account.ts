import { type RoleDefinition, SubscriptionState } from "./arm-state.ts";
import type {
  AzureAccount,
  AzureOptions,
  Change,
  Everything,
  Fault,
  LoggedRequest,
  OperationName,
  Service,
} from "./azure-types.ts";
import { checkAssertion, Issuers } from "./federation.ts";
import {
  type Application,
  DirectoryState,
  type Password,
  type Principal,
  viewApplication,
  viewPrincipal,
} from "./graph-state.ts";
import { type Identity, LoginError, type Proof, type Tenant, wrongSecret } from "./login.ts";

/** The hosts and audiences of one of the provider's separate clouds. */
interface Cloud {
  graph: string;
  arm: string;
  /** Of tokens for the resource manager; any of them. */
  armAudiences: readonly string[];
}

const cloud = (graph: string, arm: string, armResource: string): Cloud => ({
  graph: `https://${graph}`,
  arm: `https://${arm}`,
  armAudiences: [arm, armResource].flatMap((host) => [`https://${host}`, `https://${host}/`]),
});

const clouds: Record<NonNullable<AzureOptions["environment"]>, Cloud> = {
  AzurePublicCloud: cloud("graph.microsoft.com", "management.azure.com", "management.core.windows.net"),
  AzureChinaCloud: cloud(
    "microsoftgraph.chinacloudapi.cn",
    "management.chinacloudapi.cn",
    "management.core.chinacloudapi.cn",
  ),
  AzureUSGovernmentCloud: cloud(
    "graph.microsoft.us",
    "management.usgovcloudapi.net",
    "management.core.usgovcloudapi.net",
  ),
};

const day = 24 * 3600 * 1000;

/** A tenant with a subscription, and everything that a test may ask about it. Nothing in one is seen in another. */
export class Account implements Tenant {
  readonly directory: DirectoryState;
  readonly subscription: SubscriptionState;
  readonly cloud: Cloud;
  readonly log: LoggedRequest[] = [];
  readonly answer: Omit<AzureAccount, "login_url" | "graph_url" | "arm_url">;
  readonly #faults: Fault[] = [];
  readonly #issuers = new Issuers();
  readonly #root: Principal;
  readonly #revokeTokens: () => void;

  constructor(options: AzureOptions, { now, revokeTokens }: { now(): number; revokeTokens(tenantId: string): void }) {
    const { environment = "AzurePublicCloud", armRole = "User Access Administrator" } = options;
    this.cloud = clouds[environment];
    const directory = new DirectoryState(options, now);
    const subscription = new SubscriptionState(directory);
    this.directory = directory;
    this.subscription = subscription;
    this.#revokeTokens = () => revokeTokens(directory.tenantId);

    const rootApplication = directory.createApplication({ displayName: "root" }, null);
    this.#root = directory.createPrincipal(rootApplication, null);
    this.#root.permissions = options.permissions ?? ["Application.ReadWrite.All", "GroupMember.ReadWrite.All"];
    if (options.rootOwnsItself) rootApplication.owners.add(this.#root.id);
    const secret = directory.addPassword(rootApplication, {
      displayName: "first",
      end: now() + Math.min(180, options.maxPasswordDays ?? 180) * day,
    });
    directory.unseen.show("password", secret.keyId);
    directory.unseen.show("passwordInGraph", secret.keyId);
    const existing = directory.createApplication({ displayName: "payroll" }, null);
    const existingPrincipal = directory.createPrincipal(existing, null);
    for (const name of ["developers", "auditors", "O'Brien & Söhne", "twins", "twins"]) directory.createGroup(name);
    directory.createGroup("dynamic", true);
    for (const name of ["Bob's role", "Twin role", "Twin role"]) subscription.define(name);
    this.#giveRole(armRole);

    this.answer = {
      account: directory.tenantId,
      environment,
      tenant_id: directory.tenantId,
      subscription_id: subscription.id,
      client_id: rootApplication.appId,
      client_secret: secret.secretText,
      root: { object_id: rootApplication.id, principal_id: this.#root.id, key_id: secret.keyId },
      existing_application: {
        object_id: existing.id,
        client_id: existing.appId,
        principal_id: existingPrincipal.id,
      },
      groups: [...directory.groups.values()].map(({ id, displayName }) => ({ id, displayName })),
      role_definitions: subscription.definitions.map((definition) => this.#showDefinition(definition)),
      resource_group: subscription.resourceGroup,
    };
  }

  get tenantId(): string {
    return this.directory.tenantId;
  }

  get resources(): readonly string[] {
    return [this.cloud.graph, ...this.cloud.armAudiences];
  }

  /** The token endpoint's question, as it answers for secrets of applications and of principals, and for assertions. */
  async identify(clientId: string, proof: Proof): Promise<Identity> {
    const { unseen, now } = this.directory;
    const application = this.directory.applicationOf(clientId);
    const principal = this.directory.principalOf(clientId);
    if (application === undefined || unseen.hides("application", application.id)) throw this.#unknown(clientId);
    if (principal === undefined) {
      const message = `The client application ${clientId} is missing service principal in the tenant ${this.tenantId}.`;
      throw new LoginError("unauthorized_client", 7000229, message);
    }
    if (unseen.hides("principalInLogin", principal.id)) throw this.#unknown(clientId);
    if (!principal.enabled) {
      throw new LoginError("unauthorized_client", 7000112, `Application '${clientId}' is disabled.`);
    }
    if ("assertion" in proof) {
      const { federated: credentials } = application;
      await checkAssertion(proof.assertion, { credentials, issuers: this.#issuers, now: now() });
    } else {
      this.#checkSecret(application, principal, proof.secret);
    }
    const { permissions } = principal;
    return {
      clientId,
      objectId: principal.id,
      roles: (resource) => (resource === this.cloud.graph ? [...permissions] : []),
    };
  }

  fault(fault: Fault): void {
    this.#faults.push({ ...fault });
  }

  clearFaults(): void {
    this.#faults.length = 0;
  }

  /** The fault that this request meets, if any. */
  takeFault(service: Service, operation: OperationName | ""): Fault | undefined {
    const meets = (fault: Fault) =>
      (fault.service ?? service) === service && (fault.operation ?? operation) === operation;
    for (const fault of this.#faults.filter(meets)) {
      if ((fault.skip ?? 0) > 0) {
        fault.skip = (fault.skip ?? 0) - 1;
        continue;
      }
      fault.count = (fault.count ?? 1) - 1;
      if (fault.count <= 0) this.#faults.splice(this.#faults.indexOf(fault), 1);
      return fault;
    }
    return undefined;
  }

  everything(): Everything {
    const applications = [...this.directory.applications.values()];
    const principals = [...this.directory.principals.values()];
    const groups = [...this.directory.groups.values()];
    return {
      applications: applications.filter(({ deleted }) => !deleted).map(viewApplication),
      deletedApplications: applications.filter(({ deleted }) => deleted).map(viewApplication),
      principals: principals.filter(({ deleted }) => !deleted).map(viewPrincipal),
      deletedPrincipals: principals.filter(({ deleted }) => deleted).map(viewPrincipal),
      groups: groups.map(({ id, displayName }) => ({ id, displayName })),
      memberships: groups.flatMap(({ id: groupId, members }) =>
        [...members].map((memberId) => ({ groupId, memberId })),
      ),
      assignments: [...this.subscription.assignments.values()].map(({ id, scope, definition: name, principalId }) => ({
        id,
        scope,
        principalId,
        roleDefinitionId: this.subscription.definitionId({ name }),
      })),
    };
  }

  /** @throws Error for a missing object, or a change that the state refuses */
  call(change: Change): unknown {
    const { directory, subscription } = this;
    switch (change.change) {
      case "DeleteApplication": {
        const application = this.#application(change.id);
        directory.deleteApplication(application);
        if (change.permanently) directory.deletePermanently(application);
        return null;
      }
      case "DeleteServicePrincipal":
        directory.deletePrincipal(this.#principal(change.id));
        return null;
      case "DisableServicePrincipal":
        this.#principal(change.id).enabled = false;
        return null;
      case "AddPassword": {
        const { displayName, startDateTime, endDateTime } = change;
        const password = directory.addPassword(this.#client(change.id), {
          displayName,
          start: milliseconds(startDateTime),
          end: milliseconds(endDateTime),
        });
        for (const kind of ["password", "passwordInGraph"] as const) directory.unseen.show(kind, password.keyId);
        return { keyId: password.keyId, secretText: password.secretText };
      }
      case "RemovePassword":
        directory.removePassword(this.#client(change.id), change.keyId);
        return null;
      case "AddFederatedCredential": {
        const { issuer, subject, audience } = change;
        this.#application(change.id).federated.push({ issuer, subject, audience });
        return null;
      }
      case "PublishIssuer":
        this.#issuers.publish(change.issuer, change);
        return null;
      case "CreateGroup":
        return { id: directory.createGroup(change.displayName).id };
      case "DeleteGroup":
        return existed(directory.groups.delete(change.id));
      case "RemoveGroupMember":
        return existed(directory.groups.get(change.id)?.members.delete(change.memberId));
      case "DeleteRoleAssignment":
        return existed(subscription.unassign(change.id));
      case "CreateRoleDefinition":
        return { id: this.#showDefinition(subscription.define(change.roleName, change.actions)).id };
      case "DeleteRoleDefinition": {
        const at = subscription.definitions.findIndex((one) => subscription.definitionId(one) === change.id);
        return existed(at >= 0 && subscription.definitions.splice(at, 1));
      }
      case "LockScope":
        subscription.locks.add(change.scope);
        return null;
      case "UnlockScope":
        return existed(subscription.locks.delete(change.scope));
      case "SetPermissions":
        this.#root.permissions = change.permissions;
        return null;
      case "SetLags":
        directory.unseen.lags = change.lags;
        return null;
      case "RevokeTokens":
        this.#revokeTokens();
        return null;
    }
  }

  #giveRole(roleName: string | null): void {
    const definition = this.subscription.definitions.find((one) => one.roleName === roleName);
    if (roleName === null) return;
    if (definition === undefined) throw new Error(`There is no role ${roleName}.`);
    const given = { name: crypto.randomUUID(), scope: this.subscription.root, principalId: this.#root.id };
    this.subscription.assign({ ...given, definition });
  }

  #showDefinition(definition: RoleDefinition) {
    const { name, roleName } = definition;
    return { id: this.subscription.definitionId(definition), name, roleName };
  }

  #checkSecret(application: Application, principal: Principal, secret: string): void {
    const { unseen, now } = this.directory;
    const known = [...application.passwords, ...principal.passwords].find((one: Password) => one.secretText === secret);
    if (known === undefined || known.start > now() || unseen.hides("password", known.keyId)) throw wrongSecret(secret);
    if (known.end <= now()) {
      const message = `The provided client secret keys for app '${application.appId}' are expired.`;
      throw new LoginError("invalid_client", 7000222, message, 401);
    }
  }

  #unknown(clientId: string): LoginError {
    const message = `Application with identifier '${clientId}' was not found in the directory '${this.tenantId}'.`;
    return new LoginError("unauthorized_client", 700016, message);
  }

  #application = (id: string) => existing(this.directory.applications.get(id), id);
  #principal = (id: string) => existing(this.directory.principals.get(id), id);
  #client = (id: string) => existing(this.directory.applications.get(id) ?? this.directory.principals.get(id), id);
}

function existing<T extends { deleted: boolean }>(one: T | undefined, id: string): T {
  if (one === undefined || one.deleted) throw new Error(`There is no ${id}.`);
  return one;
}

function existed(one: unknown): null {
  if (!one) throw new Error("There is no such thing.");
  return null;
}

const milliseconds = (time: string | undefined) => (time === undefined ? undefined : Date.parse(time));
