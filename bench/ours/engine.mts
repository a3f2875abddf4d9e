/** The credentials engine, with a way to create leases without requests: only their expiry and look-up are measured. */
import { LeaseStore } from "../../src/credentials/leases/lease-store.ts";
import { CredentialEngine as Engine } from "../../src/objects/credential-engine.ts";

export interface Fill {
  /** Of the mount. */
  readonly uuid: string;
  /** Prefix of the leases' ids; a key's name follows. */
  readonly prefix: string;
  readonly from: number;
  readonly to: number;
  /** When the first and the last end, ms since 1970; the others evenly in between. */
  readonly firstEnd: number;
  readonly lastEnd: number;
  readonly scope: string;
  readonly group: string;
}

const HOUR_MS = 3_600_000;

export class CredentialEngine extends Engine {
  fill({ prefix, from, to, firstEnd, lastEnd, scope, group }: Fill): void {
    const leases = new LeaseStore(this.sql);
    const issued = Date.now() - HOUR_MS;
    const apart = (lastEnd - firstEnd) / Math.max(1, to - from - 1);
    // The engine's own parts know nothing of these rows.
    this.commit(() => {
      this.onRollback();
      for (let number = from; number < to; number++) {
        const expires = Math.round(firstEnd + (number - from) * apart);
        leases.insert({
          id: `${prefix}app/k${String(number).padStart(6, "0")}`,
          role: "app",
          token: "bench",
          resources: {
            kind: "principal",
            application: crypto.randomUUID(),
            principal: crypto.randomUUID(),
            assignments: [`${scope}/providers/Microsoft.Authorization/roleAssignments/${crypto.randomUUID()}`],
            groups: [group],
            permanently: false,
          },
          issued,
          expires,
          keyEnds: expires + HOUR_MS,
          renewable: true,
          handOverBy: null,
          repeat: null,
          sealed: null,
          account: 0,
        });
      }
    });
  }
}
