import type { NewestVersion, ReadVersion } from "../contracts/kv-store.ts";
import type { Leased, ReadLease } from "../contracts/read-lease.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import type { Secrets } from "./secrets.ts";
import { lives, versionView } from "./version.ts";
import type { VersionSealing } from "./version-sealing.ts";

/** Reads of the data of versions. Each costs one statement. */
export class SecretReads {
  constructor(
    private readonly secrets: Secrets,
    private readonly sealing: VersionSealing,
  ) {}

  /** @param version 0 = the newest. @throws Sealed */
  version(path: string, version: number): ReadVersion | Refusal {
    const row = this.secrets.version(path, version);
    if (!row) return refuse("missing");
    const metadata = versionView(row, row.custom_metadata);
    if (row.sealed === null || !lives(row, Date.now())) return { ok: true, state: "gone", metadata };
    return { ok: true, state: "lives", data: this.sealing.open(row.sealed, path, row.version), metadata };
  }

  /** As `version`, with a lease where the answer may be reused. @param grant a lease of the replica that asks */
  versionFor(path: string, version: number, grant: () => ReadLease): Leased<ReadVersion | Refusal> {
    const answer = refuseIfSealed(() => this.version(path, version));
    const reusable = answer.ok || answer.reason === "missing";
    return { answer, lease: reusable ? grant() : null };
  }

  /** The newest live version, which a destination should hold; `value` is null without one. @throws Sealed */
  newest(path: string): Result<NewestVersion | null> {
    const row = this.secrets.newestLiving(path, Date.now());
    if (!row || row.sealed === null) return ok(null);
    return ok({ version: row.version, data: this.sealing.open(row.sealed, path, row.version) });
  }

  /** As `newest`, of several paths. */
  newestOf(paths: readonly string[]): Result<NewestVersion | null>[] {
    return paths.map((path) => refuseIfSealed(() => this.newest(path)));
  }

  /** The newest live version of each path, or null. */
  newestVersions(paths: readonly string[]): (number | null)[] {
    const now = Date.now();
    return paths.map((path) => this.secrets.newestLiving(path, now)?.version ?? null);
  }
}
