import { ApiError, bad, type Change, type Creation, checkShape, maxEnvironmentBytes, type Shape } from "./rules.ts";

/** A variable as it is kept. */
export interface Stored extends Shape {
  id: string;
  comment: string | null;
  createdAt: number;
  updatedAt: number;
}

export interface Project {
  id: string;
  name: string;
  /** Null: the personal account's. */
  teamId: string | null;
  variables: Stored[];
}

/** The permissions of a token. Without a team it covers the personal account and every team. */
export interface Token {
  token: string;
  teamId?: string;
  /** The only projects it may touch. */
  projectIds?: string[];
  readOnly?: boolean;
  /** Lists leave out what covers production, and count it. */
  hidesProduction?: boolean;
}

export interface AccountOptions {
  /** How many requests each operation takes per minute; default 1000. */
  perMinute?: number;
  /** How many variables one environment may have; default 1000. */
  maxVariables?: number;
  /** Lists come in pages of this many, newest first, instead of whole. */
  pageSize?: number;
  /** The effect of `upsert` on a record that covers other environments, too: refuse (default), or rewrite it. */
  upsertOverlap?: "conflict" | "take";
  /** How a single creation that collides is answered: 403 (default), or 201 with `failed`. */
  conflictsAs?: "status" | "failed";
  /** The team's policy that variables outside development are sensitive, for any requested type. */
  sensitivePolicy?: boolean;
}

/** One customer of the service, with a personal project and a team with a project. Nothing is shared with another. */
export class Account {
  readonly id: string;
  readonly options: AccountOptions;
  readonly projects: Project[];
  readonly teamId: string;
  readonly tokens = new Map<string, Token>();
  readonly #now: () => number;
  readonly #used = new Map<string, { since: number; count: number }>();
  #lastTime = 0;

  constructor(id: string, token: string, options: AccountOptions, now: () => number) {
    this.id = id;
    this.options = options;
    this.#now = now;
    this.teamId = `team_${id}`;
    this.projects = [
      { id: `prj_${id}`, name: `site-${id}`, teamId: null, variables: [] },
      { id: `prj_${id}team`, name: `team-site-${id}`, teamId: this.teamId, variables: [] },
    ];
    this.addToken({ token });
  }

  addToken(token: Token): void {
    this.tokens.set(token.token, token);
  }

  /** Counts one request. The limit's state, for the headers of every answer; `reset` in milliseconds since 1970. */
  count(operation: string): { total: number; remaining: number; reset: number; exceeded: boolean } {
    const total = this.options.perMinute ?? 1000;
    let used = this.#used.get(operation);
    if (!used || used.since + 60_000 <= this.#now()) {
      used = { since: this.#now(), count: 0 };
      this.#used.set(operation, used);
    }
    used.count++;
    const remaining = Math.max(total - used.count, 0);
    return { total, remaining, reset: used.since + 60_000, exceeded: used.count > total };
  }

  /** The project, if the token reaches it by way of this team (null: of none). Throws `ApiError`. */
  reach(idOrName: string, teamId: string | null, { teamId: only, projectIds }: Token): Project {
    if ((teamId !== null && teamId !== this.teamId) || (only !== undefined && teamId !== only)) {
      throw new ApiError(403, "forbidden", "Not authorized");
    }
    const project = this.projects.find((one) => one.id === idOrName || one.name === idOrName);
    if (!project || project.teamId !== teamId) throw new ApiError(404, "not_found", "Project not found");
    if (projectIds && !projectIds.includes(project.id)) {
      throw new ApiError(403, "forbidden", "You do not have permission to access this project");
    }
    return project;
  }

  /** Throws `ApiError`; nothing is created then. */
  create(project: Project, given: Creation, upsert: boolean): Stored {
    const { gitBranch = null, customEnvironmentIds = [], target = [], comment = null, ...rest } = given;
    const wanted = { ...rest, type: this.#typeFor(given.type, target), target, gitBranch, customEnvironmentIds };
    checkShape(wanted);
    const inTheWay = collisions(project, wanted);
    const [found] = inTheWay;
    if (found) {
      if (!upsert) throw alreadyExists(wanted, found);
      const exact = inTheWay.length === 1 && sameSet(found.target, target);
      if (!exact && this.options.upsertOverlap !== "take") {
        throw new ApiError(400, "ENV_CONFLICT", `A variable ${given.key} exists for other environments`, about(wanted));
      }
      const type = found.type === "sensitive" ? found.type : wanted.type;
      const changed = { ...found, ...wanted, type, ...(comment === null ? {} : { comment }) };
      checkShape(changed);
      this.#checkRoom(project, changed, inTheWay);
      project.variables = project.variables.filter((one) => one === found || !inTheWay.includes(one));
      return Object.assign(found, changed, { updatedAt: this.#time() });
    }
    this.#checkRoom(project, wanted, []);
    const time = this.#time();
    const stored = { id: newId(), ...wanted, comment, createdAt: time, updatedAt: time };
    project.variables.push(stored);
    return stored;
  }

  /** Throws `ApiError`; nothing is changed then. */
  edit(project: Project, id: string, change: Change): Stored {
    const found = findById(project, id);
    if (found.type === "sensitive" && (change.key !== undefined || change.type !== undefined)) {
      throw bad("The name and type of a sensitive variable cannot be changed");
    }
    const given = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
    const changed: Stored = { ...found, ...given };
    changed.type = change.type === undefined ? found.type : this.#typeFor(change.type, changed.target);
    checkShape(changed);
    const [other] = collisions(project, changed).filter((one) => one !== found);
    if (other) throw alreadyExists(changed, other);
    this.#checkRoom(project, changed, [found]);
    return Object.assign(found, changed, { updatedAt: this.#time() });
  }

  remove(project: Project, id: string): Stored {
    const found = findById(project, id);
    project.variables = project.variables.filter((one) => one !== found);
    return found;
  }

  /** The page that begins below `until` (a time of creation), and where the next one begins. */
  page(project: Project, until: number | null): { variables: Stored[]; next: number | null } {
    const all = project.variables.toSorted((a, b) => b.createdAt - a.createdAt);
    const { pageSize } = this.options;
    const rest = until === null ? all : all.filter(({ createdAt }) => createdAt < until);
    if (pageSize === undefined || rest.length <= pageSize) return { variables: rest, next: null };
    const variables = rest.slice(0, pageSize);
    return { variables, next: variables.at(-1)?.createdAt ?? null };
  }

  #typeFor(type: string, target: string[]): string {
    if (!this.options.sensitivePolicy || target.every((one) => one === "development")) return type;
    return "sensitive";
  }

  #checkRoom({ variables }: Project, wanted: Shape, replaced: Shape[]): void {
    for (const environment of wanted.target) {
      const others = variables.filter((one) => one.target.includes(environment) && !replaced.includes(one));
      if (others.length >= (this.options.maxVariables ?? 1000)) {
        throw bad("The environment has as many variables as it may have", "MAX_ENVS_EXCEEDED");
      }
      const bytes = [...others, wanted].reduce((sum, one) => sum + Buffer.byteLength(one.key + one.value), 0);
      if (bytes > maxEnvironmentBytes) throw bad("All values together are too long", "VALUE_INVALID_LENGTH");
    }
  }

  /** Never the same twice, so that every change shows. */
  #time(): number {
    this.#lastTime = Math.max(this.#now(), this.#lastTime + 1);
    return this.#lastTime;
  }
}

function findById({ variables }: Project, id: string): Stored {
  const found = variables.find((one) => one.id === id);
  if (!found) throw new ApiError(404, "not_found", "The environment variable was not found");
  return found;
}

const collisions = ({ variables }: Project, wanted: Shape) =>
  variables.filter(
    (one) =>
      one.key === wanted.key &&
      one.gitBranch === wanted.gitBranch &&
      (one.target.some((target) => wanted.target.includes(target)) ||
        one.customEnvironmentIds.some((id) => wanted.customEnvironmentIds.includes(id))),
  );

const sameSet = (some: string[], others: string[]) =>
  some.length === others.length && some.every((one) => others.includes(one));

/** Like the real service, an error may repeat the value, so that a leak of the text is detected. */
const about = ({ key, value, target, gitBranch }: Shape) => ({
  key,
  value,
  target,
  ...(gitBranch ? { gitBranch } : {}),
});

const alreadyExists = (wanted: Shape, found: Stored) =>
  new ApiError(403, "ENV_ALREADY_EXISTS", `Another variable ${wanted.key}=${wanted.value} exists`, {
    ...about(wanted),
    envVarKey: found.key,
    envVarId: found.id,
  });

const newId = () => crypto.randomUUID().replaceAll("-", "").slice(0, 16);
