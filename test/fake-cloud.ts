import type { CloudFailure } from "../src/contracts/cloud-calls.ts";
import type { StepResult } from "../src/contracts/credential-engine.ts";
import type { Directory, Resources } from "../src/credentials/engines/azure/directory.ts";

export type World = Directory & Resources;

export const failure = (
  outcome: CloudFailure["outcome"],
  code: CloudFailure["code"],
  status: number | null,
): StepResult => ({
  ok: false,
  failure: { outcome, code, message: code, status, providerCode: "" },
});

/** An in-memory provider with the calls of these sagas; `things` lists the existing resources. */
export class FakeCloud {
  readonly things = new Set<string>();
  readonly names = new Map<string, string>();
  #next = 0;

  readonly calls = {
    createApplication: async ({ displayName }) => {
      const id = this.#make("application");
      this.names.set(id, displayName);
      return { ok: true, value: { objectId: id, clientId: `client-of ${id}`, displayName, passwords: [] } };
    },
    findApplicationsByName: async (name) => {
      const found = [...this.names].filter(([id, known]) => known === name && this.things.has(id));
      const value = found.map(([id]) => ({
        objectId: id,
        clientId: `client-of ${id}`,
        displayName: name,
        passwords: [],
      }));
      return { ok: true, value };
    },
    createServicePrincipal: async (clientId) => {
      if ([...this.things].some((thing) => thing === `principal of ${clientId}`)) {
        return failure("client", "already_exists", 409) as never;
      }
      this.things.add(`principal of ${clientId}`);
      return { ok: true, value: { objectId: `principal of ${clientId}` } };
    },
    findServicePrincipals: async (clientId) => {
      const value = this.things.has(`principal of ${clientId}`) ? [{ objectId: `principal of ${clientId}` }] : [];
      return { ok: true, value };
    },
    createRoleAssignment: async ({ scope, assignmentId }) => {
      const id = `/${scope}/providers/Microsoft.Authorization/roleAssignments/${assignmentId}`;
      this.things.add(id);
      return { ok: true, value: { id } };
    },
    addGroupMember: async (group, principal) => this.#put(`${group} has ${principal}`),
    addPrincipalPassword: async (_principal, { endsAt }) => ({
      ok: true,
      value: { keyId: "key", secretText: "secret", endsAt },
    }),
    addApplicationPassword: async (application, { displayName, endsAt }) => {
      const keyId = this.#make(`password ${displayName} of ${application}`);
      return { ok: true, value: { keyId, secretText: "secret", endsAt } };
    },
    getApplication: async (objectId) => {
      const passwords = [...this.things]
        .filter((thing) => thing.includes(` of ${objectId}`))
        .map((keyId) => ({ keyId, displayName: keyId.split(" ")[1] ?? "", hint: "" }));
      return { ok: true, value: { objectId, clientId: "", displayName: "", passwords } };
    },
    removeApplicationPassword: async (_application, keyId) => this.#take(keyId),
    deleteRoleAssignment: async (id) => this.#take(id),
    removeGroupMember: async (group, principal) => this.#take(`${group} has ${principal}`),
    deleteServicePrincipal: async (id) => this.#take(id),
    deleteApplication: async (id) => this.#take(id),
    purgeDeleted: async () => ({ ok: true, value: null }),
  } satisfies Partial<World>;

  #make(kind: string): string {
    const id = `${kind} #${++this.#next}`;
    this.things.add(id);
    return id;
  }

  async #put(thing: string): Promise<{ ok: true; value: null }> {
    this.things.add(thing);
    return { ok: true, value: null };
  }

  async #take(thing: string): Promise<{ ok: true; value: null }> {
    return this.things.delete(thing) ? { ok: true, value: null } : (failure("client", "not_found", 404) as never);
  }
}
