import type { TokenRole, TokenRoleBody, TokenRolesApi } from "../../contracts/tokens.ts";
import type { Result } from "../../lib/result.ts";
import type { TokenRoles } from "../tokens/token-roles.ts";

/** RPC methods about roles of tokens of the secrets API. */
export class TokenRoleMethods implements TokenRolesApi {
  readonly #roles: TokenRoles;

  constructor(roles: TokenRoles) {
    this.#roles = roles;
  }

  tokenRoleNames(namespace: string): string[] {
    return this.#roles.names(namespace);
  }

  readTokenRole(namespace: string, name: string): TokenRole | null {
    return this.#roles.get(namespace, name);
  }

  putTokenRole(namespace: string, name: string, body: TokenRoleBody): Result<string[]> {
    return this.#roles.put(namespace, name, body);
  }

  deleteTokenRole(namespace: string, name: string): void {
    this.#roles.delete(namespace, name);
  }
}
