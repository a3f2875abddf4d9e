import type { Started, Wanted } from "../contracts/credential-engine.ts";
import type { Home } from "../contracts/federation.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { warn } from "../platform/observability/log.ts";
import { type ConfigBody, changeConfig, changesIdentity } from "./config.ts";
import type { EngineParts } from "./parts.ts";
import { newRotation, undoOfRotation } from "./rotation.ts";

const ROTATION_MS = 10 * 60_000;
const DEFAULT_ROOT_TTL = 182 * 86_400;

/** Whom an engine acts as: how that is configured, and how its secret is rotated. */
export class RootAccount {
  readonly #parts: EngineParts;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  /** Merges a body into the configuration. A rotation under way is given up when it changes who the engine is. */
  configure(body: ConfigBody, idsRequired: boolean, home: Home | null): Result<null> {
    const { config, settings, commit } = this.#parts;
    const before = config.find();
    const changed = changeConfig(before, body, settings(), idsRequired, home);
    if (!changed.ok) return changed;
    const now = Date.now();
    commit(() => {
      if (before && changesIdentity(before, changed.value)) this.stopRotation(now);
      config.put(changed.value, now);
    });
    return ok(null);
  }

  /** Forgets the configuration; roles and leases stay. */
  forget(): void {
    this.#parts.commit(() => {
      this.stopRotation(Date.now());
      this.#parts.config.delete();
    });
  }

  /** Begins to replace the root secret. */
  rotate(): Result<Started> {
    const now = Date.now();
    return this.#parts.commit(() => {
      const begun = this.#begin(now);
      return begun.ok ? ok(this.#parts.desk.claimed(begun.value, now)) : begun;
    });
  }

  /** When the next rotation is to begin; one that is under way comes first. */
  rotationDue(): number | null {
    const due = this.#parts.config.rotationDue();
    return due === null || this.#parts.jobs.count("rotation") > 0 ? null : due;
  }

  /** Begins a rotation that is due, for a Worker that is still to come. Inside a transaction. @returns whether it has begun */
  rotateIfDue(now: number): boolean {
    const due = this.rotationDue();
    if (due === null || due > now) return false;
    const started = this.#begin(now);
    if (!started.ok) {
      warn("rotation-refused", { engine: this.#parts.scope, because: started.message });
      this.#parts.config.rotationFailed(now);
    }
    return started.ok;
  }

  /** Inside a transaction. What it has made is removed as whoever it has begun as. */
  stopRotation(now: number): void {
    const { jobs, endings } = this.#parts;
    for (const { id, work } of jobs.ofKind("rotation")) {
      if (work.kind !== "rotation") continue;
      const undo = undoOfRotation(work.rotation, now);
      if (undo) endings.giveUp(id, undo, "rotation given up", work.rotation.account, now);
      else jobs.delete(id);
    }
  }

  /** Inside a transaction. */
  #begin(now: number): Result<Wanted> {
    const { config, jobs, settings, account } = this.#parts;
    const refused = config.refusesNew(now);
    if (refused) return refused;
    const known = settings();
    if (known.CLOUD_B_CLIENT_ID || known.CLOUD_B_CLIENT_SECRET) {
      const because = "a rotated secret would never be used";
      return refuse(
        "invalid",
        `the settings CLOUD_B_CLIENT_ID and CLOUD_B_CLIENT_SECRET override the configuration: ${because}`,
      );
    }
    const whoever = account();
    if (!whoever.ok) return whoever;
    if (whoever.value.federation) {
      return refuse("invalid", "there is no client_secret to rotate: the engine logs in with identity tokens");
    }
    if (jobs.count("rotation") > 0) return refuse("invalid", "rotation in progress; try again in a moment");
    const stored = config.find();
    const life = (stored?.root_password_ttl || DEFAULT_ROOT_TTL) * 1000;
    const work = { kind: "rotation", rotation: newRotation(whoever.value, stored?.key_id ?? null, life) } as const;
    config.rotationBegun(now);
    const id = `rotation ${crypto.randomUUID()}`;
    jobs.put({ id, work, deadline: now + ROTATION_MS }, now);
    return ok({ job: id, kind: "rotation" });
  }
}
