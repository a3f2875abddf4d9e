import type { Dialect } from "../compat/dialect.ts";
import type { Started } from "../contracts/credential-engine.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import type { EngineParts } from "./parts.ts";
import { type Removal, undoOf } from "./removal.ts";
import { draftRole, type Role, type RoleBody } from "./role.ts";
import { newRoleWrite } from "./role-write.ts";
import { REQUEST_MS } from "./saga-runner.ts";

/** What becomes of the application that a role has kept, once the role is no more. Null when it has kept none. */
export const undoOfRole = (role: Role, now: number): Removal | null =>
  role.managed && { ...undoOf(role.managed, now), permanently: role.permanently_delete };

/** Writing and deleting roles. */
export class RoleChanges {
  readonly #parts: EngineParts;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  /** Begins to write a role: what it names is looked up first. */
  write(name: string, body: RoleBody, dialect: Dialect): Result<Started> {
    const { config, roles, jobs, desk, account, commit } = this.#parts;
    const now = Date.now();
    const refused = config.refusesNew(now);
    if (refused) return refused;
    const engine = account();
    if (!engine.ok) return engine;
    const before = roles.find(name);
    const draft = draftRole(before, body, dialect);
    if (!draft.ok) return draft;
    const lock = lockOf(name);
    const other = this.#otherWrite(lock);
    if (!other.ok) return other;
    const role = draft.value;
    const named = role.persist_app ? "" : (body.application_object_id ?? "");
    const asked = {
      application: named !== "" && role.application_object_id !== "" ? named : null,
      roles: body.cloud_roles ?? null,
      groups: body.cloud_groups ?? null,
    };
    const write = newRoleWrite(name, role, asked, engine.value.clientId);
    return ok(
      commit(() => {
        if (other.value !== null) jobs.delete(other.value);
        const job = { id: `${lock} ${crypto.randomUUID()}`, work: { kind: "role", write } as const, lock };
        return desk.start({ ...job, deadline: now + REQUEST_MS }, now);
      }),
    );
  }

  /** Deletes a role. @returns the removal of the application that it kept, if any */
  delete(name: string): Result<Started | null> {
    const { scope, roles, jobs, desk, endings, commit } = this.#parts;
    const role = roles.find(name);
    if (!role) return refuse("missing");
    const other = this.#otherWrite(lockOf(name));
    if (!other.ok) return other;
    const now = Date.now();
    return ok(
      commit(() => {
        if (other.value !== null) jobs.delete(other.value);
        roles.delete(name);
        recordAction("role-deleted", { engine: scope, role: name });
        const removal = undoOfRole(role, now);
        if (!removal) return null;
        const id = `kept ${name} ${crypto.randomUUID()}`;
        endings.remove(id, removal, "application of a role", null, now);
        return desk.claimed({ job: id, kind: "removal" }, now);
      }),
    );
  }

  /** Another write of the role, which only looks things up and may be replaced; a refusal when it does more. */
  #otherWrite(lock: string): Result<string | null> {
    const { jobs } = this.#parts;
    const id = jobs.holder(lock);
    const job = id === null ? null : jobs.find(id);
    if (job?.work.kind !== "role") return ok(null);
    const { provision, role } = job.work.write;
    if (!provision && !role.persist_app) return ok(job.id);
    return refuse("conflict", "the role is being written; try again in a moment");
  }
}

const lockOf = (name: string): string => `role ${name}`;
