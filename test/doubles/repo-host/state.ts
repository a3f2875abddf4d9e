import { randomBytes, randomInt } from "node:crypto";
import sodium from "libsodium-wrappers";

/** An error in the service's words. Texts may quote the request, as the real ones do. */
export class ApiError extends Error {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly errors: readonly { code: string }[];

  constructor(
    status: number,
    message: string,
    {
      headers = {},
      errors = [],
    }: { headers?: Record<string, string>; errors?: readonly { code: string }[] | undefined } = {},
  ) {
    super(message);
    this.status = status;
    this.headers = headers;
    this.errors = errors;
  }
}

export interface Secret {
  name: string;
  value: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  updatedAt: number;
  visibility?: string;
  selected?: number[];
}

export interface Variable {
  name: string;
  value: string;
  createdAt: number;
  updatedAt: number;
  visibility?: string;
  selected?: number[];
}

/** Applications whose secrets and keys are apart from those of Actions. */
export const otherApplications = ["dependabot", "codespaces"] as const;
export type Others = Record<(typeof otherApplications)[number], Vault>;

/** One place that holds secrets, with the key they are sealed for. */
export interface Vault {
  keyId: string;
  key: { publicKey: Uint8Array; privateKey: Uint8Array };
  /** By name, which is always upper-case. */
  secrets: Map<string, Secret>;
  limit: number;
  /** Of Actions only. */
  variables: Map<string, Variable>;
}

export interface Repository {
  id: number;
  name: string;
  private: boolean;
  archived: boolean;
  vault: Vault;
  others: Others;
  /** By lower-case name. */
  environments: Map<string, Vault>;
}

export type Level = "read" | "write";
export type Permissions = Record<string, Level>;

interface Reach {
  permissions: Permissions;
  repositories: "all" | Set<number>;
}

/** `role`: the role of the token's user in every repository. */
export type Token =
  | { kind: "classic"; scopes: string[]; role: "admin" | "write" | "read" }
  | ({ kind: "fine-grained" } & Reach)
  | ({ kind: "installation"; expiresAt: number } & Reach);

export interface Installation extends Reach {
  id: number;
  suspended: boolean;
}

export interface Credentials {
  /** For `?account=` of the double's own paths. */
  account: string;
  /** An organization. Its repositories: `web` and `api` are private, `site` is public; `web` has environments. */
  owner: string;
  repository: string;
  environment: string;
  /** Classic, with the scopes repo and admin:org. */
  accessToken: string;
  /** Fine-grained, with all that secrets of repositories, environments and organizations need. */
  fineGrainedToken: string;
  appId: string;
  /** PKCS#1 PEM, as the real service hands it out. */
  appKey: string;
  installationId: number;
}

/** The state of one account. Accounts are isolated from each other. */
export interface State {
  credentials: Credentials;
  organization: Vault;
  organizationOthers: Others;
  /** By lower-case name. */
  repositories: Map<string, Repository>;
  /** Old lower-case names of renamed repositories. */
  renamed: Map<string, number>;
  installations: Map<number, Installation>;
  tokens: Map<string, Token>;
}

export const limits = { valueBytes: 48 * 1024, perRepository: 100, perOrganization: 1000 };

/** A state with the repositories and credentials of `Credentials`. */
export async function newState(credentials: Credentials): Promise<State> {
  await sodium.ready;
  const state: State = {
    credentials,
    organization: newVault(limits.perOrganization),
    organizationOthers: newOthers(limits.perOrganization),
    repositories: new Map(),
    renamed: new Map(),
    installations: new Map(),
    tokens: new Map(),
  };
  for (const name of ["web", "api", "site"]) addRepository(state, name, name !== "site");
  const web = findRepository(state, "web");
  for (const name of [credentials.environment, "eu/früh"]) web?.environments.set(name.toLowerCase(), newVault(100));

  const permissions: Permissions = {
    metadata: "read",
    secrets: "write",
    environments: "write",
    organization_secrets: "write",
    dependabot_secrets: "write",
    codespaces_secrets: "write",
    organization_dependabot_secrets: "write",
    organization_codespaces_secrets: "write",
    actions_variables: "write",
    organization_actions_variables: "write",
  };
  state.tokens.set(credentials.accessToken, { kind: "classic", scopes: ["admin:org", "repo"], role: "admin" });
  state.tokens.set(credentials.fineGrainedToken, { kind: "fine-grained", permissions, repositories: "all" });
  const { installationId: id } = credentials;
  state.installations.set(id, { id, permissions: { ...permissions }, repositories: "all", suspended: false });
  return state;
}

export function newVault(limit: number): Vault {
  return { keyId: newKeyId(), key: sodium.crypto_box_keypair(), secrets: new Map(), variables: new Map(), limit };
}

const newOthers = (limit: number): Others => ({ dependabot: newVault(limit), codespaces: newVault(limit) });

/** Secrets sealed for the old key are refused from now on. */
export function rotateKey(vault: Vault): void {
  vault.keyId = newKeyId();
  vault.key = sodium.crypto_box_keypair();
}

const newKeyId = () => String(BigInt(`0x1${randomBytes(7).toString("hex")}`));

export function addRepository(state: State, name: string, isPrivate: boolean): Repository {
  const repository: Repository = {
    id: randomInt(1_000_000, 2 ** 40),
    name,
    private: isPrivate,
    archived: false,
    vault: newVault(limits.perRepository),
    others: newOthers(limits.perRepository),
    environments: new Map(),
  };
  state.repositories.set(name.toLowerCase(), repository);
  return repository;
}

/** Names are not case sensitive. */
export const findRepository = (state: State, name: string) => state.repositories.get(name.toLowerCase());

/** The place spelled `owner`, `owner/repository` or `owner/repository:environment`, with `@dependabot` or `@codespaces`. */
export function vaultAt(state: State, spelled: string): Vault {
  const [place = "", application] = spelled.split("@");
  const other = otherApplications.find((one) => one === application);
  if (other !== undefined) {
    const [, repository] = place.split("/");
    const others = repository === undefined ? state.organizationOthers : findRepository(state, repository)?.others;
    if (others === undefined) throw new Error(`no place ${spelled}`);
    return others[other];
  }
  const [, owner, name, environment] = /^([^/]+)(?:\/([^:]+)(?::(.+))?)?$/s.exec(place) ?? [];
  if (owner !== state.credentials.owner) throw new Error(`no owner in ${place}`);
  if (name === undefined) return state.organization;
  const repository = findRepository(state, name);
  const vault = environment === undefined ? repository?.vault : repository?.environments.get(environment.toLowerCase());
  if (vault === undefined) throw new Error(`no place ${place}`);
  return vault;
}

export interface SecretView extends Omit<Secret, "createdAt" | "updatedAt"> {
  place: string;
  createdAt: string;
  updatedAt: string;
}

/** Every secret with its value, place by place. */
export function view(state: State): SecretView[] {
  const { owner } = state.credentials;
  const places: [string, Vault][] = [[owner, state.organization]];
  for (const other of otherApplications) places.push([`${owner}@${other}`, state.organizationOthers[other]]);
  for (const repository of state.repositories.values()) {
    const place = `${owner}/${repository.name}`;
    places.push([place, repository.vault]);
    for (const other of otherApplications) places.push([`${place}@${other}`, repository.others[other]]);
    for (const [name, vault] of repository.environments) places.push([`${owner}/${repository.name}:${name}`, vault]);
  }
  return places.flatMap(([place, vault]) =>
    [...vault.secrets.values()].map((secret) => ({
      ...secret,
      place,
      createdAt: iso(secret.createdAt),
      updatedAt: iso(secret.updatedAt),
    })),
  );
}

/** Seconds are the resolution. */
export const iso = (ms: number) => new Date(ms).toISOString().replace(/\.\d{3}Z$/, "Z");

/** The text in a sealed box, or null when it does not open with the place's key. */
export function openBox(vault: Vault, box: Uint8Array): string | null {
  try {
    const opened = sodium.crypto_box_seal_open(box, vault.key.publicKey, vault.key.privateKey);
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(opened);
  } catch {
    return null;
  }
}
