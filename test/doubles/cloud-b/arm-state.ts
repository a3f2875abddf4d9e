import type { DirectoryState } from "./graph-state.ts";

/** A refusal as the resource manager words it. */
export class ArmError extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export interface RoleDefinition {
  /** The id's last part, a guid. */
  name: string;
  roleName: string;
  custom: boolean;
  actions: readonly string[];
  notActions: readonly string[];
  assignableScopes: readonly string[];
}

export interface Assignment {
  /** The full one. */
  id: string;
  name: string;
  scope: string;
  /** The last part of the definition's id. */
  definition: string;
  principalId: string;
  created: number;
}

const provider = "/providers/Microsoft.Authorization";

const builtIn: readonly (readonly [name: string, roleName: string, actions: string[], notActions?: string[]])[] = [
  ["8e3af657-a8ff-443c-a75c-2fe8c4bcb635", "Owner", ["*"]],
  [
    "b24988ac-6180-42a0-ab88-20f7382dd24c",
    "Contributor",
    ["*"],
    ["Microsoft.Authorization/*/write", "Microsoft.Authorization/*/delete"],
  ],
  ["acdd72a7-3385-48ef-bd42-f606fba81ae7", "Reader", ["*/read"]],
  ["18d7d88d-d35e-4fb5-a5c3-7773c20a72d9", "User Access Administrator", ["*/read", "Microsoft.Authorization/*"]],
  ["9980e02c-c2be-4d73-94e8-173b1dc7cf3c", "Virtual Machine Contributor", ["Microsoft.Compute/virtualMachines/*"]],
  ["2a2b9908-6ea1-4ae2-8e65-a410df84e7d1", "Storage Blob Data Reader", ["Microsoft.Storage/storageAccounts/read"]],
];

/**
 * One subscription's role definitions and assignments, and what they allow, without the rules for how to ask. Throws
 * `ArmError`.
 */
export class SubscriptionState {
  readonly id = crypto.randomUUID() as string;
  readonly root = `/subscriptions/${this.id}`;
  readonly resourceGroup = `${this.root}/resourceGroups/rg-one`;
  readonly definitions: RoleDefinition[];
  /** By full id in lower case. */
  readonly assignments = new Map<string, Assignment>();
  /** Scopes at and below which nothing can be deleted. */
  readonly locks = new Set<string>();
  readonly #directory: DirectoryState;

  constructor(directory: DirectoryState) {
    this.#directory = directory;
    this.definitions = builtIn.map(([name, roleName, actions, notActions = []]) => ({
      name,
      roleName,
      custom: false,
      actions,
      notActions,
      assignableScopes: ["/"],
    }));
  }

  define(roleName: string, actions: readonly string[] = ["Microsoft.Resources/subscriptions/read"]): RoleDefinition {
    const definition: RoleDefinition = {
      name: crypto.randomUUID(),
      roleName,
      custom: true,
      actions,
      notActions: [],
      assignableScopes: [this.root],
    };
    this.definitions.push(definition);
    return definition;
  }

  /** The definition's full id, as the resource manager writes it for this subscription. */
  definitionId({ name }: Pick<RoleDefinition, "name">): string {
    return `${this.root}${provider}/roleDefinitions/${name}`;
  }

  /** Refuses a scope that is not one, or is another subscription's or a resource group's that does not exist. */
  checkScope(scope: string): void {
    if (scope === "" || /^\/providers\/Microsoft\.Management\/managementGroups\/[\w.()-]+$/i.test(scope)) return;
    const [, subscription = "", rest = ""] = /^\/subscriptions\/([^/]+)(\/.*)?$/i.exec(scope) ?? [];
    if (subscription.toLowerCase() !== this.id) {
      throw new ArmError(404, "SubscriptionNotFound", `The subscription '${subscription}' could not be found.`);
    }
    const group = /^\/resourceGroups\/([^/]+)(\/providers\/[^/]+(\/[^/]+\/[^/]+)+)?$/i.exec(rest)?.[1];
    if (rest !== "" && group?.toLowerCase() !== "rg-one") {
      throw new ArmError(404, "ResourceGroupNotFound", `Resource group '${group ?? rest}' could not be found.`);
    }
  }

  /** Refuses unless an assignment of the principal, or of a group that it is in, allows the action at the scope. */
  authorize({ oid, appid }: { oid: string; appid: string }, action: string, scope: string): void {
    const groups = [...this.#directory.groups.values()].filter(({ members }) => members.has(oid));
    const subjects = new Set([oid, ...groups.map(({ id }) => id)]);
    const allowed = [...this.assignments.values()].some(
      (one) =>
        subjects.has(one.principalId) &&
        within(scope, one.scope) &&
        this.#allows(one.definition, action) &&
        !this.#directory.unseen.hides("assignment", one.id.toLowerCase()),
    );
    if (allowed) return;
    const message = `The client '${appid}' with object id '${oid}' does not have authorization to perform action '${action}' over scope '${scope}' or the scope is invalid. If access was recently granted, please refresh your credentials.`;
    throw new ArmError(403, "AuthorizationFailed", message);
  }

  assign(given: Pick<Assignment, "name" | "scope" | "principalId"> & { definition: RoleDefinition }): Assignment {
    const { name, scope, principalId, definition } = given;
    if (!definition.assignableScopes.some((assignable) => within(scope, assignable))) {
      const message = `The role definition '${definition.name}' cannot be assigned at '${scope}'.`;
      throw new ArmError(400, "RoleAssignmentScopeNotAssignableToRoleDefinition", message);
    }
    const id = `${scope}${provider}/roleAssignments/${name}`;
    const same = (one: Assignment) =>
      one.principalId === principalId &&
      one.definition === definition.name &&
      one.scope.toLowerCase() === scope.toLowerCase();
    const twin = [...this.assignments.values()].find(same);
    if (twin !== undefined) {
      const message = `The role assignment already exists. The ID of the existing role assignment is ${twin.name.replaceAll("-", "")}.`;
      throw new ArmError(409, "RoleAssignmentExists", message);
    }
    if ([...this.assignments.values()].some((one) => one.name === name)) {
      const message = "Tenant ID, application ID, principal ID, and scope are not allowed to be updated.";
      throw new ArmError(400, "RoleAssignmentUpdateNotPermitted", message);
    }
    if (this.assignments.size >= (this.#directory.options.assignmentLimit ?? 4000)) {
      throw new ArmError(400, "RoleAssignmentLimitExceeded", "No more role assignments can be created.");
    }
    const created = this.#directory.now();
    const assignment: Assignment = { id, name, scope, definition: definition.name, principalId, created };
    this.assignments.set(id.toLowerCase(), assignment);
    return assignment;
  }

  /** Undefined when there was none. */
  unassign(id: string): Assignment | undefined {
    const assignment = this.assignments.get(id.toLowerCase());
    const lock = [...this.locks].find((locked) => within(id, locked));
    if (assignment !== undefined && lock !== undefined) {
      const message = `The scope '${id}' cannot perform delete operation because following scope(s) are locked: '${lock}'. Please remove the lock and try again.`;
      throw new ArmError(409, "ScopeLocked", message);
    }
    this.assignments.delete(id.toLowerCase());
    return assignment;
  }

  #allows(definition: string, action: string): boolean {
    const found = this.definitions.find(({ name }) => name === definition);
    const matches = (patterns: readonly string[] = []) => patterns.some((pattern) => wildcard(pattern).test(action));
    return matches(found?.actions) && !matches(found?.notActions);
  }
}

/** Whether `scope` is `outer` or below it. */
export const within = (scope: string, outer: string): boolean =>
  `${scope}/`.toLowerCase().startsWith(`${outer.replace(/\/$/, "")}/`.toLowerCase());

const wildcard = (pattern: string) => new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", ".*")}$`, "i");
