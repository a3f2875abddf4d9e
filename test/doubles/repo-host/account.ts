import { randomBytes } from "node:crypto";
import { type CallFault, takeFault } from "../faults.ts";
import {
  addRepository,
  findRepository,
  newVault,
  type Permissions,
  rotateKey,
  type SecretView,
  type State,
  type Token,
  vaultAt,
  view,
} from "./state.ts";

/** `error` is refused with `status` and `message`, `errors` and `headers` as the service would add them. */
export type Fault = CallFault<{ status: number; errors?: { code: string }[] }>;

/** One request as the log keeps it: no value, no credential. */
export interface LoggedRequest {
  operation: string;
  method: string;
  path: string;
  /** The secret, repository or installation. */
  subject: string | null;
  bearer: "app" | Token["kind"] | null;
  userAgent: string;
  apiVersion: string | null;
  /** Names of the body's fields; null without a body. */
  fields: string[] | null;
  /** Null when the connection was dropped before it was performed. */
  status: number | null;
}

/** One account: its state for tests, and changes by another writer. */
export class Account {
  readonly state: State;
  readonly log: LoggedRequest[] = [];
  readonly faults: Fault[] = [];
  readonly #now: () => number;

  constructor(state: State, now: () => number) {
    this.state = state;
    this.#now = now;
  }

  get credentials() {
    return this.state.credentials;
  }

  secrets(): SecretView[] {
    return view(this.state);
  }

  requests(): LoggedRequest[] {
    return structuredClone(this.log);
  }

  fault(fault: Fault): void {
    this.faults.push({ ...fault });
  }

  /** Forgets the faults that have not happened. */
  clearFaults(): void {
    this.faults.length = 0;
  }

  takeFault(operation: string): Fault | undefined {
    return takeFault(this.faults, operation);
  }

  /**
   * Makes a change as another writer: no credentials, no log, no faults. `place` is spelled `owner`, `owner/repository` or
   * `owner/repository:environment`. Throws when there is no such place.
   */
  call(change: Change): Record<string, unknown> {
    const { state } = this;
    switch (change.operation) {
      case "put-secret": {
        const vault = vaultAt(state, change.place);
        const now = this.#now();
        const name = change.name.toUpperCase();
        const createdAt = vault.secrets.get(name)?.createdAt ?? now;
        vault.secrets.set(name, { name, value: change.value, createdAt, updatedAt: now });
        return {};
      }
      case "delete-secret":
        return { deleted: vaultAt(state, change.place).secrets.delete(change.name.toUpperCase()) };
      case "rotate-key":
        rotateKey(vaultAt(state, change.place));
        return {};
      case "add-repository":
        return { id: addRepository(state, change.repository, change.private ?? true).id };
      case "delete-repository":
        return { deleted: state.repositories.delete(change.repository.toLowerCase()) };
      case "archive-repository":
        repository(state, change.repository).archived = true;
        return {};
      case "rename-repository": {
        const renamed = repository(state, change.repository);
        state.repositories.delete(renamed.name.toLowerCase());
        state.renamed.set(renamed.name.toLowerCase(), renamed.id);
        renamed.name = change.name;
        state.repositories.set(change.name.toLowerCase(), renamed);
        return {};
      }
      case "add-environment":
        repository(state, change.repository).environments.set(change.environment.toLowerCase(), newVault(100));
        return {};
      case "delete-environment":
        return { deleted: repository(state, change.repository).environments.delete(change.environment.toLowerCase()) };
      case "add-token":
        return { token: this.#addToken(change) };
      case "set-installation":
        this.#setInstallation(change);
        return {};
      case "revoke-installation-tokens":
        for (const [id, token] of state.tokens) if (token.kind === "installation") state.tokens.delete(id);
        return {};
    }
  }

  #addToken(wanted: Extract<Change, { operation: "add-token" }>): string {
    if (wanted.kind === "classic") {
      const token = `ghp_${randomBytes(18).toString("hex")}`;
      this.state.tokens.set(token, { kind: "classic", scopes: wanted.scopes ?? [], role: wanted.role ?? "admin" });
      return token;
    }
    const token = `github_pat_${randomBytes(30).toString("hex")}`;
    const { permissions = {}, repositories } = wanted;
    this.state.tokens.set(token, { kind: "fine-grained", permissions, repositories: this.#reach(repositories) });
    return token;
  }

  #setInstallation(wanted: Extract<Change, { operation: "set-installation" }>): void {
    const { installations, credentials } = this.state;
    const found = installations.get(credentials.installationId);
    if (found === undefined) throw new Error("the installation was removed");
    if (wanted.permissions) found.permissions = { metadata: "read", ...wanted.permissions };
    if (wanted.repositories) found.repositories = this.#reach(wanted.repositories);
    if (wanted.suspended !== undefined) found.suspended = wanted.suspended;
    if (wanted.removed) installations.delete(found.id);
  }

  #reach(names: "all" | string[] = "all"): "all" | Set<number> {
    return names === "all" ? "all" : new Set(names.map((name) => repository(this.state, name).id));
  }
}

/** `repository` is a bare name; the owner is always the account's own. */
export type Change =
  | { operation: "put-secret"; place: string; name: string; value: string }
  | { operation: "delete-secret"; place: string; name: string }
  | { operation: "rotate-key"; place: string }
  | { operation: "add-repository"; repository: string; private?: boolean }
  | { operation: "delete-repository" | "archive-repository"; repository: string }
  | { operation: "rename-repository"; repository: string; name: string }
  | { operation: "add-environment" | "delete-environment"; repository: string; environment: string }
  | { operation: "add-token"; kind: "classic"; scopes?: string[]; role?: "admin" | "write" | "read" }
  | { operation: "add-token"; kind: "fine-grained"; permissions?: Permissions; repositories?: "all" | string[] }
  | {
      operation: "set-installation";
      permissions?: Permissions;
      repositories?: "all" | string[];
      suspended?: boolean;
      removed?: boolean;
    }
  | { operation: "revoke-installation-tokens" };

function repository(state: State, name: string) {
  const found = findRepository(state, name);
  if (found === undefined) throw new Error(`no repository ${name}`);
  return found;
}
